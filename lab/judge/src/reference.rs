//! The reference, opened in a kernel's state, carries out a stream.

use crate::kernel_state::{Computed, KernelState};
use crate::operation::{Answer, Kind, Move, Operation, PINNED, STUCK};
use crate::steps::TakenStep;
use pageyard_core::compaction::{Busy, Migrate, MigrateError, Mode, Step};
use pageyard_core::reclaim::{PressureAllocator, Priority, Reclaim, Reclaimed, Shortage};
use pageyard_core::{
    BlockId, Counter, CpuId, CpuSet, Cx, Frames, FreeError, MapError, MemoryMap, NodeId, Order,
    PageAllocator, Pfn, Topology, ZoneId,
};
use pageyard_guest::request::COMPOUND;
use pageyard_linux::{Config, LinuxAllocator, OpeningError};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::fmt;

/// The CPUs that take part, and the node of each.
const CPUS: [NodeId; 2] = [NodeId(0), NodeId(1)];

/// So many frames and compound pages can be isolated in one operation: `MOST_ISOLATED` of `exchange.h`.
const MOST_ISOLATED: u32 = 8192;

/// Why the reference cannot be opened in a kernel's state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// The zones make no map.
    Map(MapError),
    /// The lists contradict one another.
    Opening(OpeningError),
    /// The reference computes other values from the settings than the kernel did: the zone, and both.
    Computed(ZoneId, Box<Computed>, Box<Computed>),
    /// A zone spans other frames.
    Span(ZoneId),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Map(e) => write!(f, "the kernel's zones make no map: {e}"),
            OpenError::Opening(e) => write!(f, "the kernel's lists contradict one another: {e}"),
            OpenError::Computed(zone, ours, theirs) => {
                write!(f, "of zone {} the reference computes {ours:?}, the kernel {theirs:?}", zone.0)
            }
            OpenError::Span(zone) => write!(f, "zone {} spans other frames in the kernel", zone.0),
        }
    }
}

impl std::error::Error for OpenError {}

/// The reference, and what the operations hold of it.
pub struct Reference {
    allocator: LinuxAllocator,
    owners: Owners,
}

/// The blocks that operations hold, where compaction moves them, and what reclaim may free.
struct Owners {
    /// By operation: the blocks that it got and still holds.
    held: RefCell<Vec<Vec<Option<Pfn>>>>,
    orders: RefCell<Vec<Order>>,
    /// Of single frames and compound pages that can be isolated: the operation, which of its blocks, and whether it is
    /// stuck.
    movable: RefCell<HashMap<Pfn, Owner>>,
    moves: RefCell<Vec<Move>>,
    /// How many of them were of compound pages.
    blocks: Cell<u64>,
    steps: RefCell<Vec<TakenStep>>,
    /// Frames and compound pages that were isolated for the present operation.
    isolated: Cell<u32>,
    /// Operations whose blocks can be reclaimed: first come, first freed.
    offered: RefCell<VecDeque<u32>>,
    /// How many the present request frees each time that it reclaims.
    gives: Cell<u16>,
    /// How often the present request reclaimed, and how often all requests had when it began.
    rounds: Cell<u64>,
    before: Cell<u64>,
    reclaimable: Vec<Frames>,
}

/// Whose a frame is.
#[derive(Clone, Copy)]
struct Owner {
    operation: u32,
    sub: usize,
    stuck: bool,
}

impl Reference {
    /// Makes a reference with the settings of `config`, in the state of a kernel.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(state: &KernelState, config: &Config) -> Result<Reference, OpenError> {
        let regions = state.regions();
        let map = MemoryMap::new(&regions).map_err(OpenError::Map)?;
        let map = map.with_topology(Topology { cpus: &CPUS, distances: &[] });
        let allocator = LinuxAllocator::new(&map, config).map_err(OpenError::Map)?;
        for ((id, span), zone) in map.zones().zip(&state.zones) {
            if (span.start, span.spanned) != (zone.start, zone.spanned) {
                return Err(OpenError::Span(id));
            }
        }
        compare_computed(&allocator, state)?;
        allocator.open(&state.opening()).map_err(OpenError::Opening)?;
        let owners = Owners {
            held: RefCell::default(),
            orders: RefCell::default(),
            movable: RefCell::default(),
            moves: RefCell::default(),
            blocks: Cell::new(0),
            steps: RefCell::default(),
            isolated: Cell::new(0),
            offered: RefCell::default(),
            gives: Cell::new(0),
            rounds: Cell::new(0),
            before: Cell::new(0),
            reclaimable: state.zones.iter().map(|z| Frames(z.reclaimable)).collect(),
        };
        Ok(Reference { allocator, owners })
    }

    /// Returns what compaction has moved so far, in order.
    pub fn moves(&self) -> std::cell::Ref<'_, [Move]> {
        std::cell::Ref::map(self.owners.moves.borrow(), Vec::as_slice)
    }

    /// Returns how many of these moves were of compound pages.
    #[must_use]
    pub fn moved_blocks(&self) -> u64 {
        self.owners.blocks.get()
    }

    /// Returns what compaction has done on its way so far, in order.
    pub fn steps(&self) -> std::cell::Ref<'_, [TakenStep]> {
        std::cell::Ref::map(self.owners.steps.borrow(), Vec::as_slice)
    }

    /// Returns the allocator.
    #[must_use]
    pub fn allocator(&self) -> &LinuxAllocator {
        &self.allocator
    }

    /// Says in which zone the kernel's watermarks, reserves or limits of lists are others now, if they are.
    #[must_use]
    pub fn computed_difference(&self, state: &KernelState) -> Option<OpenError> {
        compare_computed(&self.allocator, state).err()
    }

    /// Returns how often an operation reclaimed, the one that was carried out last.
    #[must_use]
    pub fn reclaims(&self, op: &Operation) -> u64 {
        let all = || PageAllocator::stats(&self.allocator)[Counter::Allocstall];
        if op.kind.asks() { all() - self.owners.before.get() } else { 0 }
    }

    /// Returns what zones and lists count now, folded into a number.
    #[must_use]
    pub fn counts(&self) -> u32 {
        let mut sum = 0u32;
        self.allocator.counts(|n| sum = (sum ^ n as u32).wrapping_mul(0x9e37_79b1).wrapping_add(1));
        sum
    }

    /// Carries out the next operation of the stream.
    pub fn carry_out(&mut self, op: &Operation) -> Answer {
        let cx = Cx::on(op.cpu());
        self.owners.isolated.set(0);
        let mut got = Vec::new();
        let answer = match op.kind {
            Kind::Alloc => {
                let block = self.allocator.alloc_with(&cx, &op.request(), &self.helpers(op)).ok();
                got.push(block);
                Answer::Block(block.map(|pfn| pfn.0))
            }
            Kind::AllocBulk => {
                let mut out = vec![Pfn(0); op.arg.min(512) as usize];
                let helpers = self.helpers(op);
                let n = self.allocator.alloc_pages_bulk_with(&cx, &op.request(), &helpers, &mut out);
                got.extend(out[..n].iter().copied().map(Some));
                Answer::Bulk(out[..n].iter().map(|pfn| pfn.0).collect())
            }
            Kind::AllocExact => {
                let (frames, helpers) = (Frames(u64::from(op.arg)), self.helpers(op));
                let first =
                    self.allocator.alloc_exact_with(&cx, frames, Order::ZERO, &op.request(), &helpers);
                let frames = first.map_or(0..0, |pfn| pfn.0..pfn.0 + frames.0);
                got.extend(frames.clone().map(|pfn| Some(Pfn(pfn))));
                Answer::Bulk(frames.collect())
            }
            Kind::Free | Kind::FreeFrag | Kind::FreeBulk => self.free(&cx, op),
            Kind::Drain => {
                let cpus = if op.arg == 0 { CpuSet::All } else { CpuSet::One(cx.cpu) };
                PageAllocator::drain(&self.allocator, cpus);
                Answer::Done
            }
            Kind::Tick => {
                self.allocator.vmstat_tick_of(cx.cpu);
                Answer::Done
            }
            Kind::KswapdEnds => {
                self.allocator.reclaim_ends(NodeId(op.arg as _));
                Answer::Done
            }
            Kind::GiveUp => {
                if self.owners.held.borrow()[op.arg as usize][0].is_some() {
                    self.owners.offered.borrow_mut().push_back(op.arg);
                }
                Answer::Done
            }
            Kind::SetWatermarks => {
                self.allocator.set_watermarks(&op.watermarks());
                Answer::Done
            }
        };
        self.owners.receive(op, got);
        answer
    }

    /// Returns what a request can count on.
    fn helpers(&self, op: &Operation) -> Helping<'_> {
        self.owners.gives.set(op.gives);
        self.owners.rounds.set(0);
        self.owners.before.set(PageAllocator::stats(&self.allocator)[Counter::Allocstall]);
        Helping { owners: &self.owners, allocator: &self.allocator }
    }

    fn free(&mut self, cx: &Cx, op: &Operation) -> Answer {
        let order = self.owners.orders.borrow()[op.arg as usize];
        let gone = self.owners.give(op);
        let mut answer = Answer::Done;
        let mut refuse = |pfn: Pfn, why: FreeError| answer = Answer::Refused(format!("frame {pfn}: {why}"));
        match op.kind {
            Kind::FreeBulk => PageAllocator::free_bulk(&self.allocator, cx, &gone, order, &mut refuse),
            kind => {
                for pfn in gone {
                    let freed = match kind {
                        Kind::FreeFrag => self.allocator.free_frag(cx, pfn, order),
                        _ => PageAllocator::free(&self.allocator, cx, pfn, order),
                    };
                    freed.unwrap_or_else(|why| refuse(pfn, why));
                }
            }
        }
        answer
    }
}

impl Owners {
    /// Notes what the next operation got.
    fn receive(&self, op: &Operation, got: Vec<Option<Pfn>>) {
        let (mut held, mut orders) = (self.held.borrow_mut(), self.orders.borrow_mut());
        let one_page = op.order == 0 || op.flags & COMPOUND != 0;
        if op.migratetype == 1 && one_page && op.flags & PINNED == 0 {
            let (operation, stuck) = (held.len() as u32, op.flags & STUCK != 0);
            let frames = got.iter().enumerate().filter_map(|(sub, pfn)| Some((sub, (*pfn)?)));
            let owned = frames.map(|(sub, pfn)| (pfn, Owner { operation, sub, stuck }));
            self.movable.borrow_mut().extend(owned);
        }
        held.push(got);
        orders.push(Order::of(if op.kind.asks_for_frames() { 0 } else { op.order }));
    }

    /// Returns whether a block can be isolated.
    fn has(&self, block: BlockId) -> bool {
        let movable = self.movable.borrow();
        let of = movable.get(&block.pfn).map(|owner| self.orders.borrow()[owner.operation as usize]);
        of == Some(block.order)
    }

    /// Takes from an earlier operation what this one frees.
    fn give(&self, op: &Operation) -> Vec<Pfn> {
        let mut held = self.held.borrow_mut();
        let from = &mut held[op.arg as usize];
        let blocks = match op.kind {
            Kind::FreeBulk => &mut from[..],
            _ => from.get_mut(usize::from(op.sub)).map_or(&mut [][..], std::slice::from_mut),
        };
        let gone: Vec<Pfn> = blocks.iter_mut().filter_map(Option::take).collect();
        let mut movable = self.movable.borrow_mut();
        for pfn in &gone {
            movable.remove(pfn);
        }
        gone
    }

    /// Takes the next block that can be reclaimed.
    fn next_offered(&self) -> Option<(Pfn, Order)> {
        let operation = self.offered.borrow_mut().pop_front()? as usize;
        let pfn = self.held.borrow_mut()[operation][0].take()?;
        self.movable.borrow_mut().remove(&pfn);
        Some((pfn, self.orders.borrow()[operation]))
    }
}

/// Refuses a kernel that computes other values from the settings than the reference does.
fn compare_computed(allocator: &LinuxAllocator, state: &KernelState) -> Result<(), OpenError> {
    for (id, zone) in (0u16..).map(ZoneId).zip(&state.zones) {
        let ours = computed(allocator, id).ok_or(OpenError::Span(id))?;
        if ours != zone.computed {
            return Err(OpenError::Computed(id, Box::new(ours), Box::new(zone.computed.clone())));
        }
    }
    Ok(())
}

/// Returns the values that the reference computed for a zone.
fn computed(allocator: &LinuxAllocator, zone: ZoneId) -> Option<Computed> {
    let stats = PageAllocator::zone_stats(allocator, zone)?;
    let lists =
        (0..CPUS.len() as u32).filter_map(|cpu| PageAllocator::pcp_stats(allocator, zone, CpuId(cpu)));
    Some(Computed {
        managed: stats.span.managed.0,
        marks: [stats.watermarks.min.0, stats.watermarks.low.0, stats.watermarks.high.0],
        protection: std::array::from_fn(|k| stats.protection[k].0),
        lists: lists.map(|l| [l.batch, l.high_min, l.high_max]).collect(),
    })
}

/// Frees offered blocks, as many as the present request says, once each time that it reclaims; and moves what can be
/// moved.
struct Helping<'a> {
    owners: &'a Owners,
    allocator: &'a LinuxAllocator,
}

impl Reclaim for Helping<'_> {
    fn reclaim(&self, cx: &Cx, shortage: &Shortage) -> Reclaimed {
        // Each time it looks at the request's zones one after another, harder and harder: the first look counts.
        let owners = self.owners;
        let rounds = PageAllocator::stats(self.allocator)[Counter::Allocstall] - owners.before.get();
        if shortage.priority != Priority::START || rounds == owners.rounds.get() {
            return Reclaimed::default();
        }
        owners.rounds.set(rounds);
        let mut freed = Frames::ZERO;
        for _ in 0..owners.gives.get() {
            let Some((pfn, order)) = owners.next_offered() else { break };
            if PageAllocator::free(self.allocator, cx, pfn, order).is_ok() {
                freed += order.frames();
            }
        }
        Reclaimed { scanned: freed, freed }
    }

    fn reclaimable(&self, zone: ZoneId) -> Frames {
        self.owners.reclaimable.get(zone.index()).copied().unwrap_or_default()
    }
}

// SAFETY: a frame that was moved is held under its new number from then on, and under the old one no longer.
unsafe impl Migrate for Helping<'_> {
    type Isolated = Pfn;

    fn isolate(&self, pfn: Pfn, mode: Mode) -> Result<Pfn, Busy> {
        self.isolate_block(BlockId { pfn, order: Order::ZERO }, mode)
    }

    fn isolate_block(&self, block: BlockId, _: Mode) -> Result<Pfn, Busy> {
        let isolated = self.owners.isolated.get();
        if !self.owners.has(block) || isolated >= MOST_ISOLATED {
            return Err(Busy::Pinned);
        }
        self.owners.isolated.set(isolated + 1);
        Ok(block.pfn)
    }

    /// The module's frames are on no list for reclaim.
    fn is_reclaimable(&self, _: Pfn) -> bool {
        false
    }

    fn step(&self, step: Step) {
        let operation = self.owners.held.borrow().len() as u32;
        self.owners.steps.borrow_mut().push(TakenStep::new(operation, step));
    }

    fn migrate(&self, from: &mut Pfn, to: Pfn, _: Mode) -> Result<(), MigrateError> {
        let mut movable = self.owners.movable.borrow_mut();
        let Some(owner) = movable.get(from).copied() else { return Err(MigrateError::Gone) };
        if owner.stuck {
            return Err(MigrateError::Again);
        }
        movable.remove(from);
        movable.insert(to, owner);
        let order = self.owners.orders.borrow()[owner.operation as usize];
        self.owners.blocks.set(self.owners.blocks.get() + u64::from(order > Order::ZERO));
        let mut held = self.owners.held.borrow_mut();
        held[owner.operation as usize][owner.sub] = Some(to);
        let operation = held.len() as u32;
        self.owners.moves.borrow_mut().push(Move { operation, from: from.0 as u32, to: to.0 as u32 });
        Ok(())
    }

    fn putback(&self, _: Pfn) {}
}
