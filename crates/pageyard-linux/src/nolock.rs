//! Calls that wait for no lock: from a handler of an interrupt that no section keeps out, or from a tracer in the
//! middle of this very allocator. Layer: top.
//!
//! # Linux
//! `alloc_pages_nolock` and `free_pages_nolock` (6.15 and later, the first as `try_alloc_pages`).

use crate::allocator::LinuxAllocator;
use crate::effort::{Effort, Mark, Reach};
use crate::events::Counts;
use crate::pcp;
use crate::tag::{MAX_PAGE_ORDER, Tag};
use crate::walk::Walk;
use crate::zone::{Locked, Zone};
use crate::zonelist::{Called, Inlined, Step};
use pageyard_core::{
    AllocError, BadRequest, Context, CpusetId, Cx, FreeError, Migratetype, Order, PAGEBLOCK_ORDER, Pfn,
    Request,
};
use std::fmt;

/// Why a call that waits for no lock got nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NolockError {
    /// Lists or zones that had enough were in use: a moment later the same call may succeed.
    Busy,
    /// No zone has enough above its least watermark, or the request is a bad one.
    Refused(AllocError),
}

impl fmt::Display for NolockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NolockError::Busy => {
                f.write_str("the lists and zones that have enough are in use; try again later")
            }
            NolockError::Refused(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for NolockError {}

/// Returns a place as calls that wait for nothing see it: the CPU's lists are open to all, since they are only tried.
/// A handler is of no task, so it has no cpuset.
fn anywhere(cx: &Cx) -> Cx {
    let cpuset = if cx.context == Context::Task { cx.cpuset } else { CpusetId::default() };
    Cx { context: Context::Task, cpuset, ..*cx }
}

impl LinuxAllocator {
    /// Allocates an unmovable block without waiting for any lock, held to the least watermark: from the CPU's lists
    /// unless they are in use, or from a zone unless its lock is held. It wakes no reclaimer, and never reclaims.
    ///
    /// # Errors
    /// [`NolockError`]. Orders that the CPU's lists do not keep are refused as too large.
    ///
    /// # Linux
    /// `alloc_frozen_pages_nolock_noprof`: `ALLOC_TRYLOCK`, and no `ALLOC_WMARK_LOW`.
    pub fn alloc_nolock(&self, cx: &Cx, order: Order) -> Result<Pfn, NolockError> {
        let request = Request::new(order, Migratetype::Unmovable);
        let refused = |why: BadRequest| NolockError::Refused(why.into());
        let cx = &anywhere(cx);
        self.check(cx, &request).map_err(refused)?;
        let listed = |order: &Order| self.config.pcp_list(*order, request.migratetype).is_some();
        if !listed(&order) {
            let largest = Order::ZERO.up_to(MAX_PAGE_ORDER).filter(listed).last().unwrap_or_default();
            return Err(refused(BadRequest::OrderTooLarge { order, largest }));
        }
        let got = match self.zonelists.inlined() {
            true => self.try_nolock::<Inlined>(cx, &request),
            false => self.try_nolock::<Called>(cx, &request),
        };
        got.map_err(refused)?.inspect_err(|_| Counts::add(&self.counts.fails))
    }

    fn try_nolock<S: Step>(
        &self,
        cx: &Cx,
        request: &Request,
    ) -> Result<Result<Pfn, NolockError>, BadRequest> {
        let walk: Walk<'_> = self.walk_of::<S>(cx, request, Reach::First)?;
        let effort = Effort { trylock: true, reach: Reach::First, ..Effort::plain(Mark::Min) };
        if let Some(pfn) = self.try_walk::<S>(cx, request, &walk, effort, false) {
            return Ok(Ok(pfn));
        }
        let enough =
            |zone: &Zone| zone.watermark_ok(request.order, request.highest_zone, effort, &self.config);
        let busy = self.zones_for(cx, request, Reach::First).any(enough);
        let why =
            if busy { NolockError::Busy } else { NolockError::Refused(self.reason(cx, request, effort)) };
        Ok(Err(why))
    }

    /// Frees a block without waiting for any lock: to the CPU's list, which may become longer than it should; if that
    /// is in use, to the zone; if that is locked too, the next free to the zone takes the block along. Until then it
    /// counts as cached.
    ///
    /// # Errors
    /// As [`pageyard_core::PageAllocator::free`].
    ///
    /// # Linux
    /// `free_pages_nolock`: `FPI_TRYLOCK`. Linux keeps late blocks in a list and frees the latest first; here they are
    /// freed in the order of their addresses.
    pub fn free_nolock(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let (zone, held) = self.held(pfn, order)?;
        if !self.has_cpu(cx.cpu) {
            return Err(FreeError::NoSuchCpu);
        }
        let from = Tag::Allocated(order, held);
        let take = |to| {
            let won = zone.tags.swap(zone.number(pfn), from, to);
            if won { Ok(()) } else { Err(FreeError::NotAllocated) }
        };
        let of = zone.pageblocks.type_of(pfn);
        if let Some(listed) = pcp::list_for_free(&self.config, anywhere(cx).context, order, of)
            && let Some(mut entered) = zone.enter(zone.owners.lists_for(pfn, cx.cpu.index()), &self.config)
        {
            take(Tag::Cached(order, of))?;
            entered.pages.counts.taken.pgfree += order.frames().0;
            zone.give_listed_quietly(&mut entered.pages, listed, pfn);
            return Ok(());
        }
        let Some(mut locked) = zone.try_lock() else {
            take(Tag::Late(order))?;
            zone.late.mark(zone.pageblocks.number(pfn));
            return Ok(());
        };
        take(Tag::Inside)?;
        locked.free_by_pageblock(pfn, order, self.config.keeps_lists_pure());
        locked.inner.counts.taken.pgfree += order.frames().0;
        Ok(())
    }
}

impl Locked<'_> {
    /// Frees the blocks that came while the lock was held, if there are any.
    ///
    /// # Linux
    /// `free_one_page`: `zone->trylock_free_pages`.
    #[inline]
    pub(crate) fn free_late(&mut self, pure: bool) {
        if self.zone.late.any() {
            self.free_all_late(pure);
        }
    }

    #[cold]
    fn free_all_late(&mut self, pure: bool) {
        let zone = self.zone;
        zone.late.take(|n| {
            let start = zone.pageblocks.start_of(n);
            for frame in start.0.max(zone.span.start.0)..(start + PAGEBLOCK_ORDER.frames()).0 {
                let pfn = Pfn(frame);
                let Tag::Late(order) = zone.tag(pfn) else { continue };
                // A late block is changed by who holds the lock alone.
                zone.set_tag(pfn, Tag::Inside);
                self.free_by_pageblock(pfn, order, pure);
                self.inner.counts.taken.pgfree += order.frames().0;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use pageyard_core::{
        CpuId, CpuSet, Frames, MemoryMap, NodeId, PageAllocator, Region, RequestFlags, ZoneKind,
    };
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

    const FRAMES: u64 = 1 << 14;
    const CX: Cx = Cx::on(CpuId(0));
    const O3: Order = Order::of(3);
    const O5: Order = Order::of(5);

    fn machine() -> LinuxAllocator {
        let regions = [Region::managed(Pfn(0), Frames(FRAMES), NodeId(0), ZoneKind::Normal)];
        LinuxAllocator::new(&MemoryMap::new(&regions).unwrap(), &Config::linux_6_18()).unwrap()
    }

    fn conserved(a: &LinuxAllocator) {
        a.drain(CpuSet::All);
        let census = a.audit().unwrap();
        assert_eq!((census.free, census.cached), (Frames(FRAMES), Frames::ZERO));
    }

    #[test]
    fn a_locked_zone_is_busy_and_a_list_that_holds_something_serves_all_the_same() {
        let a = machine();
        let locked = a.zones[0].lock();
        assert_eq!(a.alloc_nolock(&CX, Order::ZERO), Err(NolockError::Busy));
        drop(locked);
        let first = a.alloc_nolock(&CX, Order::ZERO).unwrap();
        let locked = a.zones[0].lock();
        let second = a.alloc_nolock(&CX, Order::ZERO).unwrap();
        drop(locked);
        for pfn in [first, second] {
            a.free_nolock(&CX, pfn, Order::ZERO).unwrap();
        }
        conserved(&a);
    }

    #[test]
    fn where_the_lists_are_in_use_the_zone_serves() {
        let a = machine();
        let lists = a.zones[0].pcps[0].lock();
        let pfn = a.alloc_nolock(&CX, O3).unwrap();
        a.free_nolock(&CX, pfn, O3).unwrap();
        drop(lists);
        conserved(&a);
    }

    #[test]
    fn what_neither_takes_is_freed_by_the_next_free_to_the_zone() {
        let a = machine();
        let fixed = |order| a.alloc(&CX, &Request::new(order, Migratetype::Unmovable)).unwrap();
        let (late, large, next) = (fixed(Order::ZERO), fixed(O5), fixed(O5));
        {
            let (_lists, _zone) = (a.zones[0].pcps[0].lock(), a.zones[0].lock());
            a.free_nolock(&CX, late, Order::ZERO).unwrap();
            a.free_nolock(&CX, large, O5).unwrap();
            assert_eq!(a.free_nolock(&CX, late, Order::ZERO), Err(FreeError::NotAllocated));
        }
        assert_eq!(a.free(&CX, large, O5), Err(FreeError::NotAllocated));
        a.drain(CpuSet::All);
        assert_eq!(a.audit().unwrap().cached, Frames(33), "a drain of the lists leaves them, as in Linux");
        a.free(&CX, next, O5).unwrap();
        assert_eq!(a.audit().unwrap().cached, Frames::ZERO);
        conserved(&a);
    }

    #[test]
    fn a_list_may_become_longer_than_it_should_and_a_later_free_shortens_it() {
        let a = machine();
        let all: Vec<Pfn> = std::iter::from_fn(|| {
            let urgent = Request::new(Order::ZERO, Migratetype::Unmovable).with(RequestFlags::MEMALLOC);
            a.alloc(&CX, &urgent).ok()
        })
        .collect();
        assert_eq!(all.len() as u64, FRAMES);
        assert!(matches!(
            a.alloc_nolock(&CX, Order::ZERO),
            Err(NolockError::Refused(AllocError::OutOfMemory | AllocError::BelowWatermark { .. }))
        ));
        let (last, most) = all.split_last().unwrap();
        for pfn in most {
            a.free_nolock(&CX, *pfn, Order::ZERO).unwrap();
        }
        let held = || a.zones[0].pcps[0].lock().lists.held();
        assert_eq!(held(), FRAMES - 1);
        a.free(&CX, *last, Order::ZERO).unwrap();
        assert!(held() < FRAMES - 1);
        conserved(&a);
    }

    #[test]
    fn below_the_least_watermark_nothing_is_taken_and_larger_orders_than_lists_have_are_refused() {
        let a = machine();
        let urgent = Request::new(O5, Migratetype::Unmovable).with(RequestFlags::MEMALLOC);
        let min = a.zones[0].mark(Mark::Min);
        let mut held = Vec::new();
        while a.zones[0].free.get() > min {
            held.push(a.alloc(&CX, &urgent).unwrap());
        }
        assert!(matches!(
            a.alloc_nolock(&CX, Order::ZERO),
            Err(NolockError::Refused(AllocError::BelowWatermark { .. }))
        ));
        let wrong = BadRequest::OrderTooLarge { order: O5, largest: Order::of(9) };
        assert_eq!(a.alloc_nolock(&CX, O5), Err(NolockError::Refused(wrong.into())));
        held.into_iter().for_each(|pfn| a.free(&CX, pfn, O5).unwrap());
        conserved(&a);
    }

    #[test]
    fn nothing_is_lost_where_calls_that_wait_and_calls_that_do_not_meet() {
        let a = machine();
        let (stop, late) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|s| {
            let (a, stop) = (&a, &stop);
            // It goes past the lists all the time, so the zone lock is often held.
            s.spawn(move || {
                while !stop.load(Relaxed) {
                    let got = a.alloc(&CX, &Request::new(O5, Migratetype::Unmovable)).unwrap();
                    a.free(&CX, got, O5).unwrap();
                }
            });
            s.spawn(move || {
                while !stop.load(Relaxed) {
                    a.drain(CpuSet::All);
                }
            });
            let begun = std::time::Instant::now();
            let mut rounds = 0;
            // Until late blocks were met, however the threads fall.
            while (rounds < 20_000 || late.load(Relaxed) == 0) && begun.elapsed().as_secs() < 60 {
                rounds += 1;
                let Ok(pfn) = a.alloc_nolock(&CX, Order::ZERO) else { continue };
                a.free_nolock(&CX, pfn, Order::ZERO).unwrap();
                late.fetch_add(u64::from(a.zones[0].late.any()), Relaxed);
            }
            stop.store(true, Relaxed);
        });
        assert!(late.load(Relaxed) > 0, "no block was late");
        let last = a.alloc(&CX, &Request::new(O5, Migratetype::Unmovable)).unwrap();
        a.free(&CX, last, O5).unwrap();
        conserved(&a);
    }
}
