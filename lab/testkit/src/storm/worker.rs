//! A thread of a storm: it picks operations, and keeps what it got.

use super::board::Board;
use super::fault::Rule;
use super::handler::{Handler, Listening};
use super::helper::Planned;
use super::isolation::Isolation;
use super::journal::End;
use super::kinds::Kind;
use super::oracle::{self, Owner};
use super::plan::{Naming, Signals};
use super::shared::{Shared, add};
use super::signals;
use super::spans::Offline;
use super::watched::Way;
use fastrand::Rng;
use pageyard::{
    BlockId, CpuId, CpuSet, Cx, Migratetype, NodeMask, Order, PageblockId, PerCpu, Pfn, Request,
    RequestFlags, ZoneKind,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::Ordering::SeqCst;

/// A thread's part of a round.
pub(super) struct Worker<'a, 'm, P> {
    pub(super) shared: &'a Shared<'m, P>,
    pub(super) me: u32,
    pub(super) rng: Rng,
    pub(super) held: Vec<BlockId>,
    /// Frames of the blocks held.
    pub(super) frames: u64,
    pub(super) isolations: Vec<Isolation>,
    pub(super) leases: Vec<PageblockId>,
    pub(super) offline: Vec<Offline>,
    /// Operations so far.
    pub(super) time: u64,
    /// Whether it grows, shrinks or neither, and until when: lists run empty and over again and again.
    mood: (Mood, u64),
    /// The last request to drain that it saw.
    drained: u64,
    /// The contested block that it tries next.
    pub(super) cursor: usize,
}

/// The operations that a thread prefers for a while.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mood {
    Even,
    Grows,
    Shrinks,
}

/// The blocks and isolations that a thread leaves behind.
#[derive(Default)]
pub(super) struct Left {
    pub(super) held: Vec<(Owner, BlockId)>,
    pub(super) isolated: Vec<PageblockId>,
}

/// Stretches of a round, one after the other.
pub(super) struct Stretches {
    /// For each stretch the operations of a thread, and the contested blocks if it is a stretch where no thread takes
    /// memory.
    pub(super) stretches: Vec<(u32, Option<Board>)>,
    pub(super) barrier: Barrier,
    pub(super) signals: Option<Signals>,
    pub(super) seed: u64,
}

impl<'a, 'm, P: PerCpu> Worker<'a, 'm, P> {
    pub(super) fn new(shared: &'a Shared<'m, P>, me: u32, seed: u64) -> Self {
        Worker {
            shared,
            me,
            rng: Rng::with_seed(seed ^ u64::from(me + 1) << 40),
            held: Vec::new(),
            frames: 0,
            isolations: Vec::new(),
            leases: Vec::new(),
            offline: Vec::new(),
            time: 0,
            mood: (Mood::Even, 0),
            drained: 0,
            cursor: 0,
        }
    }

    /// Runs a round's stretches.
    pub(super) fn run(mut self, plan: &Stretches) -> Left {
        let shared = self.shared;
        let handler = Handler::new(shared, self.me, plan.seed.wrapping_mul(2 * u64::from(self.me) + 3));
        {
            let _interrupted = plan.signals.as_ref().map(|signals| {
                let listening = Listening::new(&handler, signals.enter);
                (signals::start(signals), listening)
            });
            for (calls, board) in &plan.stretches {
                if let Some(board) = board {
                    self.contribute(board);
                }
                if plan.barrier.wait().is_leader() {
                    shared.may_take.store(board.is_none(), SeqCst);
                    self.call(|w| w.shared.look());
                }
                plan.barrier.wait();
                for call in 0..*calls {
                    if shared.faults.any() {
                        break;
                    }
                    self.call(|w| match board {
                        Some(board) if call % 4 != 0 => w.contest(board, call),
                        _ => w.step(board.is_none()),
                    });
                }
                if let Some(board) = board {
                    self.call(|w| w.finish_contest(board));
                    if plan.barrier.wait().is_leader() {
                        board.judge(shared.faults);
                    }
                }
            }
        }
        self.leave(&handler)
    }

    fn leave(mut self, handler: &Handler<'_, 'm, P>) -> Left {
        self.call(|w| w.tend_offline(true));
        let mine = self.held.iter().map(|block| (oracle::thread(self.me), *block));
        let kept = handler.kept().map(|block| (oracle::handler(self.me), block));
        for block in self.leases {
            self.shared.ranges.unlease(block);
            self.shared.subject.unlease(block);
        }
        Left { held: mine.chain(kept).collect(), isolated: self.isolations.iter().map(|i| i.block).collect() }
    }

    /// Runs one operation; an engine that panics has a fault.
    fn call(&mut self, operation: impl FnOnce(&mut Self)) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| operation(self))) {
            self.panicked(&*payload);
        }
    }

    pub(super) fn panicked(&self, payload: &(dyn std::any::Any + Send)) {
        let text = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or(if payload.is::<Planned>() {
                "a callback's panic came out of another call"
            } else {
                "?"
            });
        self.shared.faults.say(Rule::Panics, Some(self.me), None, || format!("\"{text}\""));
    }

    /// One operation of the mix.
    fn step(&mut self, taking: bool) {
        self.time += 1;
        self.drain_if_asked();
        if self.time.is_multiple_of(8) {
            self.tend_isolations();
            self.tend_offline(false);
        }
        let shared = self.shared;
        let Some(mut kind) = shared.mix.pick(&mut self.rng, taking) else { return };
        if self.time >= self.mood.1 {
            let mood = [Mood::Even, Mood::Grows, Mood::Shrinks][self.rng.usize(..3)];
            self.mood = (mood, self.time + self.rng.u64(20..300));
        }
        let full = self.frames > shared.cap;
        kind = match (kind, self.mood.0) {
            (k, _) if full && k.takes() && self.rng.u8(..4) != 0 => Kind::Free,
            (Kind::Free, Mood::Grows) if taking && !full && shared.mix.has(Kind::Alloc) => Kind::Alloc,
            (Kind::BulkFree, Mood::Grows) if taking && !full && shared.mix.has(Kind::Bulk) => Kind::Bulk,
            (Kind::Alloc, Mood::Shrinks) => Kind::Free,
            (Kind::Bulk, Mood::Shrinks) if shared.mix.has(Kind::BulkFree) => Kind::BulkFree,
            (k, _) => k,
        };
        add(&shared.tally.kinds[kind as usize], 1);
        match kind {
            Kind::Alloc => self.alloc(),
            Kind::Free => self.free(),
            Kind::Bulk => self.bulk(),
            Kind::BulkFree => self.bulk_free(),
            Kind::Zeroed => self.free_zeroed(),
            Kind::Split => self.split(),
            Kind::Claim => self.claim(),
            Kind::Huge => self.huge(),
            Kind::Movable => self.movable(),
            Kind::Wrong => self.wrong(),
            Kind::NoSuchCpu => self.no_such_cpu(taking),
            Kind::Drain => self.drain(),
            Kind::Isolate => self.isolate(),
            Kind::Lease => self.lease(),
            Kind::Compact => self.compact(),
            Kind::Direct => self.direct(),
            Kind::Background => self.background(),
            Kind::Exact => self.exact(),
            Kind::Contig => self.contig(),
            Kind::Cma => self.cma(),
            Kind::Offline => self.offline(),
            Kind::FreeParts => self.free_parts(),
            Kind::Read => self.read(),
            Kind::Contest | Kind::Refuse | Kind::Panic | Kind::Signals | Kind::Nodes | Kind::Watched => {}
        }
    }

    // What operations have in common.

    pub(super) fn owner(&self) -> Owner {
        oracle::thread(self.me)
    }

    pub(super) fn cx(&mut self) -> Cx {
        match self.shared.naming {
            Naming::Own => Cx::on(CpuId(self.me)),
            Naming::Any => Cx::on(CpuId(self.rng.u32(..self.shared.cpus))),
        }
    }

    pub(super) fn any_type(&mut self) -> Migratetype {
        let others = [Migratetype::Unmovable, Migratetype::Reclaimable];
        match self.shared.apart {
            true => others[self.rng.usize(..2)],
            false => Migratetype::REQUESTED[self.rng.usize(..3)],
        }
    }

    pub(super) fn request(&mut self, order: Order) -> Request {
        let ty = self.any_type();
        let mut request = Request::new(order, ty);
        request.flags |= match self.rng.u8(..16) {
            0..9 => RequestFlags::MEMALLOC,
            9..11 => RequestFlags::HIGH | RequestFlags::NON_BLOCKING,
            11 => RequestFlags::NOFAIL,
            _ => RequestFlags::empty(),
        };
        if !self.shared.waits {
            request.flags = RequestFlags::HIGH | RequestFlags::NON_BLOCKING;
        }
        let clears = self.shared.watched.is_some_and(|w| w.way != Way::Observed);
        if clears && self.rng.u8(..4) == 0 {
            request.flags |= RequestFlags::ZERO;
        }
        if self.shared.mix.has(Kind::Nodes) {
            if self.rng.u8(..8) == 0 {
                let highest = [ZoneKind::Dma, ZoneKind::Dma32, ZoneKind::Normal, ZoneKind::Movable]
                    [self.rng.usize(..4)];
                request.highest_zone = request.highest_zone.min(highest);
            }
            if self.rng.u8(..8) == 0 {
                let zones = &self.shared.machine.zones;
                request.nodes = NodeMask::only(zones[self.rng.usize(..zones.len())].1.node);
                if self.rng.bool() {
                    request.flags |= RequestFlags::THIS_NODE;
                }
            }
        }
        request
    }

    /// Books a block that it was given.
    pub(super) fn keep(&mut self, request: Option<&Request>, block: BlockId, began: u64) {
        if !self.shared.receive(self.owner(), self.me, request, block, began) {
            return;
        }
        if self.shared.mix.has(Kind::Zeroed) && self.rng.u8(..4) == 0 {
            self.look_at_zeros(block);
        }
        self.frames += block.order.frames().0;
        self.held.push(block);
    }

    /// Lets go of one of its blocks, any or the newest.
    pub(super) fn let_go(&mut self) -> Option<BlockId> {
        let n = self.held.len().checked_sub(1)?;
        let at = if self.rng.bool() { n } else { self.rng.usize(..=n) };
        let block = self.held.swap_remove(at);
        self.frames -= block.order.frames().0;
        Some(block)
    }

    /// Returns one of its blocks, which it goes on holding.
    pub(super) fn one_of_mine(&mut self) -> Option<BlockId> {
        (!self.held.is_empty()).then(|| self.held[self.rng.usize(..self.held.len())])
    }

    /// Runs a call and records it, with its result and frame.
    pub(super) fn noted<T>(
        &mut self,
        kind: Kind,
        pfn: Option<Pfn>,
        order: Order,
        call: impl FnOnce(&mut Self) -> (T, Option<Pfn>, bool),
    ) -> T {
        let journal = &self.shared.journals[self.me as usize];
        let at = journal.begin(kind, pfn, order, false);
        let (answer, pfn, done) = call(self);
        journal.end(at, pfn, if done { End::Done } else { End::Refused });
        answer
    }

    /// Drains its own lists where another thread asks for that.
    fn drain_if_asked(&mut self) {
        let asked = self.shared.drains.load(SeqCst);
        if asked != self.drained {
            self.drained = asked;
            if self.shared.naming == Naming::Own {
                self.shared.subject.drain(CpuSet::One(CpuId(self.me)));
            }
            self.shared.drained[self.me as usize].store(asked, SeqCst);
        }
    }

    /// Drains all lists, or its own and asks the others to drain theirs; returns the number of that request.
    pub(super) fn drain_everywhere(&mut self) -> u64 {
        match self.shared.naming {
            Naming::Own => {
                let request = self.shared.drains.fetch_add(1, SeqCst) + 1;
                self.drain_if_asked();
                request
            }
            Naming::Any => {
                self.shared.subject.drain(CpuSet::All);
                0
            }
        }
    }
}
