//! The owners of memory: they allocate and free as page cache, processes and the kernel do, and give frames up.

use super::ends;
use super::frame_table::{Doubles, FrameTable};
use super::lru::CLUSTER;
use super::object::{Role, flag};
use crate::bitmap::FrameSet;
use crate::engine::ReplayEngine;
use pageyard::CpuId;
use pageyard::reclaim::{Reclaimed, Shortage};
use pageyard::{
    AllocError, Cx, Failure, Frames, FreeError, Order, Pfn, PressureAllocator, Reclaim, Request, ZoneId,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Shares of movable frames that are in a state in which they cannot be moved, or are not given up.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shares {
    /// Of page cache and anonymous frames: pinned. Kept at this share while frames come and go.
    pub pins: f64,
    /// Of page cache frames: being written to disk, each for a tenth of its life. Asynchronous compaction leaves them
    /// alone, and only fully synchronous compaction waits for the disk.
    pub writeback: f64,
    /// Of page cache frames: used again, and so active from the start.
    pub reused: f64,
    /// Of asynchronous migrations: fail because the page is locked.
    pub locked: f64,
}

impl Shares {
    /// Every frame can be moved and given up.
    pub const NONE: Shares = Shares { pins: 0.0, writeback: 0.0, reused: 0.0, locked: 0.0 };

    /// The defaults of the study: with 0.135 % of its frames pinned at random, about half of the pageblocks hold a pin.
    pub const STUDY: Shares = Shares { pins: 0.00135, writeback: 0.002, reused: 0.1, locked: 0.01 };
}

/// The owners of memory on one engine.
///
/// # Concurrency
/// Every method may be called from several threads. None holds the table while it calls the engine.
pub struct Owners<'e, E: ?Sized> {
    engine: &'e E,
    table: Mutex<FrameTable>,
    shares: Shares,
    /// Nanoseconds that reclaim took on behalf of requests.
    reclaim_ns: AtomicU64,
    /// Whether page cache is given up when memory is short.
    gives_up: bool,
    /// Frees that the engine refused, where they are counted.
    refused: Option<AtomicU64>,
    /// After how much time another task wants a caller's CPU; never if none.
    cpu_wanted_after: Option<Duration>,
}

impl<'e, E: PressureAllocator + ReplayEngine> Owners<'e, E> {
    /// Makes owners that hold nothing yet. `seed` decides which frames are pinned, busy and used again.
    pub fn new(engine: &'e E, shares: Shares, seed: u64) -> Self {
        let zones = (0..).map(ZoneId).map_while(|z| engine.zone_stats(z));
        let zones = zones.map(|z| (z.span.start.0 as u32, z.span.end().0 as u32)).collect();
        Owners {
            engine,
            table: Mutex::new(FrameTable::new(zones, shares, seed)),
            shares,
            reclaim_ns: AtomicU64::new(0),
            gives_up: true,
            refused: None,
            cpu_wanted_after: None,
        }
    }

    /// Makes owners that give nothing up: reclaim finds nothing to free.
    #[must_use]
    pub fn keeping_all(self) -> Self {
        Owners { gives_up: false, ..self }
    }

    /// Makes owners whose callers share their CPUs: another task wants a CPU so long after its caller last gave it up.
    #[must_use]
    pub fn sharing_cpus(self, after: Option<Duration>) -> Self {
        Owners { cpu_wanted_after: after, ..self }
    }

    /// Returns whether another task wants the caller's CPU.
    pub(super) fn is_cpu_wanted(&self) -> bool {
        self.cpu_wanted_after.is_some_and(ends::is_wanted)
    }

    /// Returns whether another thread uses the table, as it does when it changes the lists for reclaim.
    pub(super) fn is_table_locked(&self) -> bool {
        matches!(self.table.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// The caller gives its CPU up, if another task wants it.
    fn give_cpu_up(&self) {
        self.cpu_wanted_after.into_iter().for_each(ends::give_up);
    }

    /// Makes owners that look for frames handed out twice, and count frees that the engine refuses instead of
    /// panicking.
    #[must_use]
    pub fn checking(self) -> Self {
        self.frames().look_for_doubles();
        Owners { refused: Some(AtomicU64::new(0)), ..self }
    }

    /// Returns what was handed out while it was held; only [`Owners::checking`] owners look for it.
    pub fn doubles(&self) -> Doubles {
        self.frames().doubles
    }

    /// Calls `with` with the held frames. Only [`Owners::checking`] owners know them.
    pub(crate) fn with_held(&self, with: impl FnOnce(&FrameSet)) {
        if let Some(taken) = self.frames().taken() {
            with(taken);
        }
    }

    /// Returns how many frees the engine refused.
    pub fn refused_frees(&self) -> u64 {
        // ORDER: Relaxed: a count, read when the calls are done.
        self.refused.as_ref().map_or(0, |n| n.load(Ordering::Relaxed))
    }

    /// Returns the engine.
    pub fn engine(&self) -> &'e E {
        self.engine
    }

    /// Allocates a block, with the help of the other owners where memory is short; returns the number of its object.
    ///
    /// # Errors
    /// As [`PressureAllocator::alloc_with`].
    pub fn alloc(&self, cx: &Cx, request: &Request, role: Role) -> Result<u32, Failure> {
        self.give_cpu_up();
        let pfn = self.engine.alloc_with(cx, request, self)?;
        Ok(self.frames().enter(pfn, request.order, role, 0))
    }

    /// The same for a block that outlives the load.
    ///
    /// # Errors
    /// As [`Owners::alloc`].
    pub fn alloc_lasting(&self, cx: &Cx, request: &Request, role: Role) -> Result<u32, Failure> {
        let pfn = self.engine.alloc_with(cx, request, self)?;
        Ok(self.frames().enter(pfn, request.order, role, flag::LASTING | flag::ORPHAN))
    }

    /// Allocates a block as single frames, each of which can be moved and given up on its own; `each` is told the
    /// number and the order of each object, lowest frame first.
    ///
    /// # Errors
    /// As [`Owners::alloc`].
    pub fn alloc_apart(
        &self,
        cx: &Cx,
        request: &Request,
        role: Role,
        mut each: impl FnMut(u32, Order),
    ) -> Result<(), Failure> {
        let pfn = self.engine.alloc_with(cx, request, self)?;
        let order = match self.engine.split(&Cx::on(CpuId(0)), pfn, request.order, Order::ZERO) {
            Ok(()) => Order::ZERO,
            // It was just allocated, so this is the engine's error: an audit would not find it.
            Err(_) => {
                self.count_refusal(pfn, request.order);
                request.order
            }
        };
        let mut table = self.frames();
        for n in (0..request.order.frames().0).step_by(order.frames().0 as usize) {
            each(table.enter(Pfn(pfn.0 + n), order, role, 0), order);
        }
        Ok(())
    }

    /// Takes over a block that was allocated before, and that its caller frees by the number of its object, which is
    /// returned.
    pub fn take_over(&self, pfn: Pfn, order: Order, role: Role) -> u32 {
        self.frames().enter(pfn, order, role, 0)
    }

    /// Takes over a block that was allocated before, as opening states are; returns the number of its object.
    pub fn adopt(&self, pfn: Pfn, order: Order, role: Role, pinned: bool) -> u32 {
        let mut table = self.frames();
        let id = table.enter(pfn, order, role, flag::ORPHAN);
        if pinned && !table.get(id).is(flag::PINNED) {
            // A pin of an opening state is there for good, whatever the share.
            table.set(id, flag::PINNED, true);
            table.pinned += 1;
        }
        id
    }

    /// Frees a block, unless it was given up meanwhile; says whether it was there to be freed. Its number must not be
    /// used afterwards.
    pub fn free(&self, cx: &Cx, id: u32) -> bool {
        let mut table = self.frames();
        if table.get(id).is(flag::GONE) {
            table.forget(id, flag::ORPHAN);
            return false;
        }
        let (pfn, order) = (table.get(id).pfn(), table.get(id).order);
        table.leave(id, false);
        drop(table);
        self.give(cx, pfn, order);
        true
    }

    /// Leaves a block of the page cache to itself; frees any other. Its number must not be used afterwards.
    pub fn abandon(&self, cx: &Cx, id: u32) {
        let mut table = self.frames();
        if table.get(id).role == Role::Cache && !table.get(id).is(flag::GONE) {
            table.set(id, flag::ORPHAN, true);
            return;
        }
        drop(table);
        self.free(cx, id);
    }

    /// Halves a block; returns the number of its upper half. A block that was given up meanwhile has no halves.
    ///
    /// # Errors
    /// As [`pageyard::PageAllocator::split`].
    pub fn halve(&self, id: u32) -> Result<Option<u32>, FreeError> {
        let mut table = self.frames();
        let object = *table.get(id);
        if object.is(flag::GONE) {
            return Ok(None);
        }
        let half = object.order.smaller().ok_or(FreeError::Misaligned)?;
        self.engine.split(&Cx::on(CpuId(0)), object.pfn(), object.order, half)?;
        Ok(table.halve(id))
    }

    /// Frees everything that the load holds, except page cache and blocks that outlive the load: every process has
    /// ended.
    pub fn end_processes(&self, cx: &Cx) {
        self.free_where(cx, |role, flags| {
            role != Role::Cache && role != Role::Test && flags & flag::LASTING == 0
        });
    }

    /// Frees all page cache that is neither pinned nor being written.
    ///
    /// # Linux
    /// A write to `/proc/sys/vm/drop_caches`.
    pub fn drop_caches(&self, cx: &Cx) {
        let kept = flag::PINNED | flag::WRITEBACK;
        self.free_where(cx, |role, flags| role == Role::Cache && flags & kept == 0);
    }

    fn free_where(&self, cx: &Cx, which: impl Fn(Role, u8) -> bool) {
        let mut table = self.frames();
        let ids: Vec<u32> =
            table.ids().filter(|id| which(table.get(*id).role, table.get(*id).flags)).collect();
        let mut blocks = Vec::with_capacity(ids.len());
        for id in ids {
            let object = *table.get(id);
            blocks.push((object.pfn(), object.order));
            table.leave(id, !object.is(flag::ORPHAN));
        }
        drop(table);
        for (pfn, order) in blocks {
            self.give(cx, pfn, order);
        }
    }

    /// Returns the role of an object whose number is in use, also of one that was given up.
    pub(super) fn role(&self, id: u32) -> Role {
        self.frames().get(id).role
    }

    /// Returns the frames held in a role.
    pub fn held(&self, role: Role) -> Frames {
        Frames(self.frames().held[role as usize])
    }

    /// Returns how many frames are pinned.
    pub fn pinned(&self) -> Frames {
        Frames(self.frames().pinned)
    }

    /// Returns the frames held, all roles together.
    pub fn held_frames(&self) -> Frames {
        Frames(self.frames().held.iter().sum())
    }

    /// Calls `each` with every held block: first frame, order, role, and whether it can be moved.
    pub fn for_each(&self, mut each: impl FnMut(Pfn, Order, Role, bool)) {
        let table = self.frames();
        for id in table.ids() {
            let o = table.get(id);
            each(
                o.pfn(),
                o.order,
                o.role,
                o.role.is_movable() && o.order == Order::ZERO && !o.is(flag::PINNED),
            );
        }
    }

    /// Returns the nanoseconds that reclaim has taken since the last call.
    pub fn take_reclaim_ns(&self) -> u64 {
        // ORDER: Relaxed: a sum of durations, which orders nothing.
        self.reclaim_ns.swap(0, Ordering::Relaxed)
    }

    pub(super) fn shares(&self) -> &Shares {
        &self.shares
    }

    /// A table is whole after every call, so one whose user panicked can be used.
    pub(super) fn frames(&self) -> MutexGuard<'_, FrameTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(&self, cx: &Cx, pfn: Pfn, order: Order) {
        if self.engine.free(cx, pfn, order).is_err() {
            self.count_refusal(pfn, order);
        }
    }

    fn count_refusal(&self, pfn: Pfn, order: Order) {
        match &self.refused {
            // ORDER: Relaxed: see `refused_frees`.
            Some(refused) => _ = refused.fetch_add(1, Ordering::Relaxed),
            None => panic!("the engine refuses a block that its owner holds: frame {pfn}, order {order}"),
        }
    }
}

impl<E: PressureAllocator + ReplayEngine> Reclaim for Owners<'_, E> {
    /// Looks at a share of the zones' inactive page cache that grows with the priority, until enough is freed. A small
    /// cache is left alone until the priority is high enough.
    ///
    /// # Linux
    /// `get_scan_count` and `shrink_lruvec`. Pages that are looked at count as scanned, and those that are deactivated
    /// do not (`pgrefill`).
    fn reclaim(&self, cx: &Cx, shortage: &Shortage) -> Reclaimed {
        if !self.gives_up {
            return Reclaimed::default();
        }
        self.give_cpu_up();
        let start = Instant::now();
        let mut table = self.frames();
        table.balance(shortage.zones);
        let budget = table.inactive(shortage.zones) >> shortage.priority.0;
        let mut freed = Vec::new();
        let mut scanned = 0;
        while scanned < budget && (freed.len() as u64) < shortage.want.0 && table.inactive(shortage.zones) > 0
        {
            scanned += 1;
            if let Some(id) = table.look(shortage.zones) {
                let object = *table.get(id);
                freed.push((object.pfn(), object.order));
                table.leave(id, !object.is(flag::ORPHAN));
            }
            if scanned.is_multiple_of(CLUSTER) {
                table.balance(shortage.zones);
            }
        }
        drop(table);
        for (pfn, order) in &freed {
            self.give(cx, *pfn, *order);
        }
        // ORDER: Relaxed: see `take_reclaim_ns`.
        self.reclaim_ns.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        Reclaimed {
            scanned: Frames(scanned),
            freed: Frames(freed.iter().map(|(_, order)| order.frames().0).sum()),
        }
    }

    fn reclaimable(&self, zone: ZoneId) -> Frames {
        if self.gives_up { Frames(self.frames().cached(zone)) } else { Frames::ZERO }
    }
}

/// Returns whether a request was refused although memory was free.
pub(super) fn for_fragmentation(why: &AllocError) -> bool {
    matches!(why, AllocError::Fragmented { .. })
}
