//! A zone of a few pageblocks that is engine and owner at once and does what a test tells it, small enough that the
//! test says by hand what must be looked at, in what order.

use pageyard_core::compaction::{Busy, FrameState, Migrate, MigrateError, Mode};
use pageyard_core::watermark::Watermarks;
use pageyard_core::{
    BlockId, CompactorId, Counter, Cx, Frames, Migratetype, NR_ORDERS, NodeId, Order, PageblockId, Pfn,
    RequestFlags, ZoneId, ZoneKind, ZoneSpan,
};
use pageyard_linux::compaction::{
    CompactionView, Deferral, Direct, FreeScan, Goal, HeldFrees, Holder, Knobs, Lease, Leases, ListEnd,
    Moves, PageblockInfo, Plan, Role, ZoneState, ZoneView,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Mutex;

/// An event of a compaction as a test sees it, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The migrate scanner looked at a frame.
    Visit(u64),
    /// A frame was isolated.
    Isolate(u64),
    /// A frame was put back.
    Putback(u64),
    /// A frame was moved to another.
    Move(u64, u64),
    /// The owner was asked to move a frame, and did not.
    Refuse(u64),
    /// The free scanner looked at this part of a pageblock.
    FreeScan(u64, u64),
    /// A search looked at a block of a free list.
    See(u64),
    /// A free list was turned at a block.
    Turn(u64, ListEnd),
    /// A block of a free list was taken whole.
    Take(u64, u8),
    /// A free frame went back to the zone.
    GiveBack(u64),
    /// The CPU's lists were emptied.
    Drain,
}

/// The state of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame {
    Free,
    Used,
    /// In use, and cannot be isolated.
    Pinned,
    /// Part of a compound block; its first frame says how large.
    Compound(u8),
    Inner,
    Hole,
}

/// The plainest compaction: frames one by one, in the order in which they lie, and nothing kept for later.
pub fn plainest() -> Knobs {
    Knobs {
        extfrag_threshold: 0,
        deferral: Deferral::Shared,
        whole_blocks: false,
        moves: Moves::Upwards,
        leftovers_listed: false,
        spare_next: false,
        ..Knobs::linux_4_6()
    }
}

/// Memory of a few pageblocks, all free and all movable at the start.
pub struct ScriptedZone {
    pub frames: Mutex<Vec<Frame>>,
    pub log: Mutex<Vec<Event>>,
    pub types: Mutex<HashMap<u64, Migratetype>>,
    pub skips: Mutex<HashSet<u64>>,
    pub leases: Mutex<HashMap<u64, Holder>>,
    pub knobs: Knobs,
    pub state: ZoneState,
    pub low: u64,
    /// Free frames that no scanner finds, so that a compaction of these few pageblocks is worth beginning.
    pub elsewhere: u64,
    pub tallies: Mutex<HashMap<Counter, u64>>,
    /// Whether no block can leave any more.
    pub at_floor: Mutex<bool>,
    /// Free lists by order, head first. A block that is not free as this order says is not seen.
    pub lists: Mutex<BTreeMap<u8, Vec<u64>>>,
    /// Frames that are handed out directly, in this order.
    pub direct: Mutex<Vec<u64>>,
    /// Whether another compactor uses the zone.
    pub in_use: Mutex<bool>,
    /// Whether another CPU holds the lock of the owner's lists.
    pub lists_in_use: Mutex<bool>,
    /// Frames that the owner is asked to refuse to move, and how often.
    pub stubborn: Mutex<BTreeMap<u64, MigrateError>>,
    /// When it is to panic: at the move of this frame.
    pub panics_at: Mutex<Option<u64>>,
}

impl ScriptedZone {
    pub fn new(pageblocks: usize, knobs: Knobs) -> ScriptedZone {
        ScriptedZone {
            frames: Mutex::new((0..pageblocks * 512).map(|_| Frame::Free).collect()),
            log: Mutex::default(),
            types: Mutex::default(),
            skips: Mutex::default(),
            leases: Mutex::default(),
            knobs,
            state: ZoneState::new(),
            low: 0,
            elsewhere: 1 << 16,
            tallies: Mutex::default(),
            at_floor: Mutex::default(),
            lists: Mutex::default(),
            direct: Mutex::default(),
            in_use: Mutex::new(false),
            lists_in_use: Mutex::new(false),
            stubborn: Mutex::default(),
            panics_at: Mutex::default(),
        }
    }

    fn set(&self, at: impl IntoIterator<Item = u64>, frame: Frame) {
        let mut frames = self.frames.lock().unwrap();
        at.into_iter().for_each(|pfn| frames[pfn as usize] = frame);
    }

    fn get(&self, pfn: u64) -> Frame {
        self.frames.lock().unwrap()[pfn as usize]
    }

    /// Frames in use that can be moved.
    pub fn used(self, at: impl IntoIterator<Item = u64>) -> ScriptedZone {
        self.set(at, Frame::Used);
        self
    }

    /// Frames in use that cannot be isolated.
    pub fn pinned(self, at: impl IntoIterator<Item = u64>) -> ScriptedZone {
        self.set(at, Frame::Pinned);
        self
    }

    /// A compound block.
    pub fn compound(self, pfn: u64, order: u8) -> ScriptedZone {
        self.set(pfn..pfn + (1 << order), Frame::Inner);
        self.set([pfn], Frame::Compound(order));
        self
    }

    /// Frames that are not managed.
    pub fn hole(self, at: impl IntoIterator<Item = u64>) -> ScriptedZone {
        self.set(at, Frame::Hole);
        self
    }

    /// The type of a pageblock.
    pub fn typed(self, block: u64, m: Migratetype) -> ScriptedZone {
        self.types.lock().unwrap().insert(block, m);
        self
    }

    /// A free list, head first.
    pub fn listed(self, order: u8, blocks: impl IntoIterator<Item = u64>) -> ScriptedZone {
        self.lists.lock().unwrap().entry(order).or_default().extend(blocks);
        self
    }

    /// The frames that are handed out directly.
    pub fn direct(self, frames: impl IntoIterator<Item = u64>) -> ScriptedZone {
        self.direct.lock().unwrap().extend(frames);
        self
    }

    pub fn log(&self) -> Vec<Event> {
        self.log.lock().unwrap().clone()
    }

    pub fn visits(&self) -> Vec<u64> {
        self.log()
            .into_iter()
            .filter_map(|e| if let Event::Visit(pfn) = e { Some(pfn) } else { None })
            .collect()
    }

    /// The blocks of free lists that searches looked at.
    pub fn seen(&self) -> Vec<u64> {
        let seen = |e| if let Event::See(pfn) = e { Some(pfn) } else { None };
        self.log().into_iter().filter_map(seen).collect()
    }

    /// The frames that others were moved to.
    pub fn targets(&self) -> Vec<u64> {
        let to = |e| if let Event::Move(_, to) = e { Some(to) } else { None };
        self.log().into_iter().filter_map(to).collect()
    }

    pub fn isolated(&self) -> Vec<u64> {
        let isolated = |e| if let Event::Isolate(pfn) = e { Some(pfn) } else { None };
        self.log().into_iter().filter_map(isolated).collect()
    }

    /// How many of these events there were.
    pub fn times(&self, event: Event) -> usize {
        self.log().into_iter().filter(|e| *e == event).count()
    }

    /// Free frames, used ones, and all the others.
    pub fn census(&self) -> (usize, usize, usize) {
        let frames = self.frames.lock().unwrap();
        let count = |f: Frame| frames.iter().filter(|k| **k == f).count();
        let (free, used) = (count(Frame::Free), count(Frame::Used));
        (free, used, frames.len() - free - used)
    }

    /// Returns whether a block can leave without the zone going below a floor.
    fn spares(&self, order: Order, floor: Frames) -> bool {
        let free = self.census().0 as u64 + self.elsewhere;
        free > floor.0 + order.frames().0 && !*self.at_floor.lock().unwrap()
    }

    fn note(&self, event: Event) {
        self.log.lock().unwrap().push(event);
    }

    /// The largest free block that starts at a frame.
    fn free_order(&self, pfn: u64) -> Option<u8> {
        let frames = self.frames.lock().unwrap();
        let free = |order: u8| {
            let n = 1u64 << order;
            pfn.is_multiple_of(n)
                && frames
                    .get(pfn as usize..(pfn + n) as usize)
                    .is_some_and(|f| f.iter().all(|k| *k == Frame::Free))
        };
        (0..=10).rev().find(|order| free(*order))
    }
}

impl Leases for ScriptedZone {
    fn release(&self, block: PageblockId, holder: Holder) {
        let held = self.leases.lock().unwrap().remove(&block.0);
        assert_eq!(held, Some(holder), "a compactor ends its own leases only");
    }
}

impl CompactionView for ScriptedZone {
    fn zone(&self, _: ZoneId) -> Option<ZoneView> {
        let all = Frames(self.frames.lock().unwrap().len() as u64);
        let span = ZoneSpan {
            node: NodeId(0),
            kind: ZoneKind::Normal,
            start: Pfn(0),
            spanned: all,
            present: all,
            managed: all,
        };
        let marks = Watermarks { low: Frames(self.low), ..Watermarks::default() };
        Some(ZoneView { span, free: Frames(self.census().0 as u64), marks, boost: Frames::ZERO })
    }

    fn zone_state(&self, _: ZoneId) -> Option<&ZoneState> {
        Some(&self.state)
    }

    fn knobs(&self) -> &Knobs {
        &self.knobs
    }

    fn watermark_ok(
        &self,
        _: ZoneId,
        order: Order,
        mark: Frames,
        _: ZoneKind,
        _: RequestFlags,
        _: bool,
    ) -> bool {
        self.census().0 as u64 + self.elsewhere > mark.0 + order.frames().0 - 1
            && (order == Order::ZERO || self.has_suitable(ZoneId(0), order, Migratetype::Movable))
    }

    fn has_suitable(&self, _: ZoneId, order: Order, _: Migratetype) -> bool {
        let all = self.frames.lock().unwrap().len() as u64;
        (0..all).step_by(1 << order.get()).any(|pfn| self.free_order(pfn) >= Some(order.get()))
    }

    fn free_blocks(&self, _: ZoneId) -> [u64; NR_ORDERS] {
        let mut row = [0; NR_ORDERS];
        row[0] = self.census().0 as u64;
        row
    }

    fn pageblock(&self, _: ZoneId, block: PageblockId) -> PageblockInfo {
        let all = block.0 * 512..(block.0 + 1) * 512;
        PageblockInfo {
            populated: all.clone().any(|pfn| self.get(pfn) != Frame::Hole),
            migratetype: self.types.lock().unwrap().get(&block.0).copied().unwrap_or(Migratetype::Movable),
            free_whole: all.clone().all(|pfn| self.get(pfn) == Frame::Free),
            skip: self.skips.lock().unwrap().contains(&block.0),
        }
    }

    fn set_skip(&self, _: ZoneId, block: PageblockId, skip: bool) {
        let mut skips = self.skips.lock().unwrap();
        if skip {
            skips.insert(block.0)
        } else {
            skips.remove(&block.0)
        };
    }

    fn frame(&self, pfn: Pfn) -> FrameState {
        self.note(Event::Visit(pfn.0));
        match self.get(pfn.0) {
            Frame::Free => FrameState::Free(Order::of(self.free_order(pfn.0).unwrap_or(0))),
            Frame::Used | Frame::Pinned => FrameState::Allocated(Order::ZERO),
            Frame::Compound(order) => FrameState::Allocated(Order::of(order)),
            Frame::Inner => FrameState::Tail,
            Frame::Hole => FrameState::Hole,
        }
    }

    fn lease(&self, block: PageblockId, role: Role, by: CompactorId) -> Result<Lease<'_>, Holder> {
        let mut leases = self.leases.lock().unwrap();
        if let Some(holder) = leases.get(&block.0) {
            return Err(*holder);
        }
        leases.insert(block.0, Holder { by, role });
        Ok(Lease::granted(self, block, Holder { by, role }))
    }

    fn isolate_free(
        &self,
        _: ZoneId,
        range: Range<Pfn>,
        want: usize,
        floor: Frames,
        give_up: bool,
        out: &mut HeldFrees,
    ) -> FreeScan {
        let mut scan = FreeScan { scanned: 0, next: range.start, below_floor: false };
        while scan.next < range.end && out.len() < want {
            scan.scanned += 1;
            if self.get(scan.next.0) == Frame::Free {
                if self.census().0 as u64 <= floor.0 + 1 {
                    scan.below_floor = true;
                    if give_up {
                        break;
                    }
                } else {
                    self.set([scan.next.0], Frame::Inner);
                    out.push(scan.next);
                }
            }
            scan.next.0 += 1;
        }
        self.note(Event::FreeScan(range.start.0, scan.next.0));
        scan
    }

    fn isolate_free_blocks(
        &self,
        _: ZoneId,
        range: Range<Pfn>,
        want: usize,
        floor: Frames,
        stride: u64,
        out: &mut HeldFrees,
    ) -> FreeScan {
        let mut scan = FreeScan { scanned: 0, next: range.start, below_floor: false };
        while scan.next < range.end && out.len() < want {
            scan.scanned += 1;
            let Some(order) = self.free_order(scan.next.0) else {
                scan.next.0 += stride;
                continue;
            };
            let block = BlockId { pfn: scan.next, order: Order::of(order) };
            if !self.spares(block.order, floor) {
                scan.below_floor = true;
                break;
            }
            self.set(scan.next.0..scan.next.0 + block.order.frames().0, Frame::Inner);
            out.push_block(block);
            let on = if out.len() < want { stride - 1 } else { 0 };
            scan.next = scan.next + Frames(block.order.frames().0 + on);
        }
        scan.next = scan.next.min(range.end);
        self.note(Event::FreeScan(range.start.0, scan.next.0));
        scan
    }

    fn see_list(&self, _: ZoneId, order: Order, from: ListEnd, mut see: impl FnMut(Pfn) -> bool) -> bool {
        let mut list = self.lists.lock().unwrap().get(&order.get()).cloned().unwrap_or_default();
        list.retain(|pfn| self.free_order(*pfn) == Some(order.get()));
        if from == ListEnd::Tail {
            list.reverse();
        }
        for pfn in list {
            self.note(Event::See(pfn));
            if !see(Pfn(pfn)) {
                break;
            }
        }
        true
    }

    fn turn_list(&self, _: ZoneId, block: BlockId, from: ListEnd) {
        self.note(Event::Turn(block.pfn.0, from));
        let mut lists = self.lists.lock().unwrap();
        let Some(list) = lists.get_mut(&block.order.get()) else { return };
        if let Some(at) = list.iter().position(|pfn| *pfn == block.pfn.0) {
            list.rotate_left(at + usize::from(from == ListEnd::Head));
        }
    }

    fn isolate_block(&self, _: ZoneId, block: BlockId, floor: Frames, out: &mut HeldFrees) -> bool {
        let spare = self.spares(block.order, floor);
        if spare {
            self.note(Event::Take(block.pfn.0, block.order.get()));
            self.set(block.pfn.0..block.pfn.0 + block.order.frames().0, Frame::Inner);
            out.push_block(block);
        }
        spare
    }

    fn is_locked(&self, _: ZoneId) -> bool {
        *self.in_use.lock().unwrap()
    }

    fn take_direct(
        &self,
        _: &Cx,
        _: ZoneId,
        mark: Frames,
        waits: bool,
        _: usize,
        mut offer: impl FnMut(Pfn) -> bool,
    ) -> Direct {
        if *self.in_use.lock().unwrap() && !waits {
            return Direct::Contended;
        }
        while self.census().0 as u64 > mark.0 + 1 {
            let mut direct = self.direct.lock().unwrap();
            let Some(at) = direct.iter().position(|pfn| self.get(*pfn) == Frame::Free) else { break };
            let pfn = direct.remove(at);
            drop(direct);
            self.set([pfn], Frame::Inner);
            if !offer(Pfn(pfn)) {
                break;
            }
        }
        Direct::Done
    }

    fn give_back(&self, block: BlockId) {
        self.note(Event::GiveBack(block.pfn.0));
        self.set(block.pfn.0..block.pfn.0 + block.order.frames().0, Frame::Free);
    }

    fn free_migrated(&self, _: &Cx, block: BlockId) {
        self.set(block.pfn.0..block.pfn.0 + block.order.frames().0, Frame::Free);
    }

    fn drain_local(&self, _: &Cx, _: ZoneId) {
        self.note(Event::Drain);
    }

    fn capture(&self, _: &Cx, block: BlockId, _: Migratetype) -> Option<Pfn> {
        let whole = self.free_order(block.pfn.0) >= Some(block.order.get());
        whole.then(|| self.set(block.pfn.0..block.pfn.0 + block.order.frames().0, Frame::Inner));
        whole.then_some(block.pfn)
    }

    fn tally(&self, _: &Cx, counter: Counter, n: u64) {
        *self.tallies.lock().unwrap().entry(counter).or_default() += n;
    }
}

// SAFETY: it has no references to frames, only a mark on each.
unsafe impl Migrate for ScriptedZone {
    type Isolated = u64;

    fn isolate(&self, pfn: Pfn, _: Mode) -> Result<u64, Busy> {
        if self.get(pfn.0) == Frame::Pinned {
            return Err(Busy::Pinned);
        }
        self.note(Event::Isolate(pfn.0));
        Ok(pfn.0)
    }

    fn migrate(&self, from: &mut u64, to: Pfn, _: Mode) -> Result<(), MigrateError> {
        assert_ne!(Some(*from), *self.panics_at.lock().unwrap(), "as the test asked");
        if let Some(why) = self.stubborn.lock().unwrap().get(from) {
            if *why == MigrateError::Gone {
                self.set([*from], Frame::Free);
            }
            self.note(Event::Refuse(*from));
            return Err(*why);
        }
        self.note(Event::Move(*from, to.0));
        self.set([to.0], Frame::Used);
        Ok(())
    }

    fn lists_are_locked(&self, _: ZoneId) -> bool {
        *self.lists_in_use.lock().unwrap()
    }

    fn putback(&self, from: u64) {
        self.note(Event::Putback(from));
    }
}

/// A plan for a block of an order, on behalf of a request.
pub fn direct(order: u8, mode: Mode) -> Plan {
    Plan {
        zone: ZoneId(0),
        goal: Goal::Block(Order::of(order), Migratetype::Movable),
        mode,
        request: Some(Order::of(order)),
        by: CompactorId(0),
        highest: ZoneKind::Normal,
        flags: RequestFlags::empty(),
        ignore_hints: false,
        thorough: false,
    }
}

/// The same in the background.
pub fn background(order: u8) -> Plan {
    Plan { request: None, ..direct(order, Mode::SyncLight) }
}
