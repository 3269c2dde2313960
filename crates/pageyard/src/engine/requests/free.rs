//! Frees, splits, and claims by number. Every free is checked: of two frees of a block, one loses at the tag.

use crate::engine::geometry::{BLOCK_ORDER, FrameIdx, LARGEST, PAGEBLOCK};
use crate::engine::map::descriptor::BlockState;
use crate::engine::map::tag::Tag;
use crate::engine::map::watch::DescriptorWatch;
use crate::engine::pcp::list::Pushed;
use crate::engine::pcp::percpu::PerCpu;
use crate::engine::pcp::tuning::{ListIdx, has_list, list_of};
use crate::engine::requests::win::Unwon;
use crate::engine::yard::Pageyard;
use crate::engine::zone::Zone;
use crate::engine::zone::current::By;
use crate::engine::zone::pageblocks::Pageblocks;
use pageyard_core::allocator::Cx;
use pageyard_core::block::holders;
use pageyard_core::clear::{Caches, Clear};
use pageyard_core::error::{ClaimError, FreeError};
use pageyard_core::migratetype::Migratetype;
use pageyard_core::observer::Observer;
use pageyard_core::stats::Counter;
use pageyard_core::units::{CpuId, Order, Pfn};
use pageyard_sync::Relaxed;

impl<'m, P: PerCpu, O: Observer, C: Clear> Pageyard<'m, P, O, C> {
    /// Frees one block. As [`PageAllocator::free`](crate::PageAllocator::free).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Concurrency
    /// Lock-free. Two CPUs that free one block at the same time get one `Ok` between them.
    #[inline(always)]
    pub fn free(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if O::ACTIVE || self.clears_on_free() {
            return self.free_observed(cx, pfn, order);
        }
        let Some((zone, frame, (state, watch))) = self.likely_state(pfn) else {
            return self.free_slow(cx.cpu, pfn, order);
        };
        let Some(list) = list_of(order, state.list_code()) else {
            return self.free_slow(cx.cpu, pfn, order);
        };
        match self.win_into_list(zone, frame, watch, (cx.cpu, list), order) {
            Pushed::Kept => Ok(()),
            Pushed::Won => {
                self.free_into_full_list(zone, cx.cpu, FrameIdx::new(frame as usize), order);
                Ok(())
            }
            Pushed::Lost | Pushed::NoRoom => self.free_slow(cx.cpu, pfn, order),
        }
    }

    /// Returns the zone that probably has a frame, the frame's number there, and its pageblock's state.
    #[inline(always)]
    fn likely_state(&self, pfn: Pfn) -> Option<(&'m Zone<'m>, u64, (BlockState, DescriptorWatch<'m>))> {
        // Most frames are the largest zone's; those of others cost a look at the directory.
        let in_zone = |zone: &'m Zone<'m>| {
            let frame = pfn.0.wrapping_sub(zone.pageblocks.base);
            zone.pageblocks.frames.state_of(frame).map(|seen| (zone, frame, seen))
        };
        in_zone(self.main).or_else(|| in_zone(self.zonelists.likely_zone(pfn)))
    }

    /// Wins a live block of a zone whose contents are unknown, and pushes it onto a list of `cpu`. Fails for a frame of
    /// another zone, which has no such tag here.
    ///
    /// The caller has read the pageblock's descriptor already, because a locked instruction holds back later loads. The
    /// push rereads it.
    #[inline(always)]
    fn win_into_list(
        &self,
        zone: &Zone<'m>,
        frame: u64,
        watch: DescriptorWatch<'m>,
        (cpu, list): (CpuId, ListIdx),
        order: Order,
    ) -> Pushed {
        // SAFETY: it has a state, of which this is the watch.
        let win = || unsafe {
            let frame = FrameIdx::new(frame as usize);
            self.wins(&zone.pageblocks.frames, (frame, watch), Tag::Allocated(order), Tag::Free)
        };
        self.percpu.push(zone.lists.all(), cpu, list, frame as u32, watch, win)
    }

    /// Returns whether every block is cleared when it is freed: not where the observer has written to it.
    #[inline(always)]
    pub(crate) fn clears_on_free(&self) -> bool {
        C::ACTIVE && !O::WRITES && self.config.init_on_free
    }

    /// Frees one block, and calls the observer, or clears it, in between. Both happen outside the list's exclusive
    /// section, because they may take long or panic.
    fn free_observed(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if !self.has_cpu(cx.cpu) {
            return Err(FreeError::NoSuchCpu);
        }
        let Some((zone, frame)) = self.zone_of(pfn) else { return Err(FreeError::OutsideArena) };
        self.win_slow(zone, frame, pfn, order)?;
        self.tell_freed(zone, frame, order);
        if self.clears_on_free() {
            self.free_known_zero(zone, cx, frame, order);
        } else {
            self.free_won(zone, cx.cpu, frame, order);
        }
        Ok(())
    }

    /// Tells the observer of a block whose tag was won, and clears the block if all are cleared, before another caller
    /// can get it. If either panics, the block is live again.
    pub(crate) fn tell_freed(&self, zone: &Zone<'_>, frame: FrameIdx, order: Order) {
        let live = Undo { pageblocks: &zone.pageblocks, frame, order };
        let pfn = zone.pageblocks.pfn(frame);
        self.observer.freed(pfn, order);
        if self.clears_on_free() {
            self.clear_one(pfn, order, Caches::Unknown);
        }
        core::mem::forget(live);
    }

    /// Frees one block of which no list took notice: there is none of its order, it was full or in use, the pageblock
    /// is isolated, or the tag was not the likely one.
    #[cold]
    #[inline(never)]
    fn free_slow(&self, cpu: CpuId, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if !self.has_cpu(cpu) {
            return Err(FreeError::NoSuchCpu);
        }
        let Some((zone, frame, (_, watch))) = self.likely_state(pfn) else {
            return self.free_far(cpu, pfn, order);
        };
        let frame = FrameIdx::new(frame as usize);
        // SAFETY: it has a state, of which this is the watch.
        let won = (order <= PAGEBLOCK || zone.pageblocks.has_room(frame, order))
            && unsafe {
                self.wins(&zone.pageblocks.frames, (frame, watch), Tag::Allocated(order), Tag::Free)
            };
        if !won {
            return self.free_far(cpu, pfn, order);
        }
        if zone.has_list(order) {
            self.free_won(zone, cpu, frame, order);
        } else {
            self.count(cpu, Counter::Pgfree, order.frames().0);
            self.release_one_here(zone, cpu, frame, order);
        }
        Ok(())
    }

    /// The same for a frame of a zone that is yet to be found, or whose tag is yet to be looked at.
    #[inline(never)]
    fn free_far(&self, cpu: CpuId, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let Some((zone, frame)) = self.zone_of(pfn) else { return Err(FreeError::OutsideArena) };
        self.win_slow(zone, frame, pfn, order)?;
        self.free_won(zone, cpu, frame, order);
        Ok(())
    }

    /// Frees one block that the caller has zeroed, and remembers that. With
    /// [`init_on_alloc`](crate::Config::init_on_alloc) or `init_on_free`, the caller is not trusted; and where the
    /// observer [writes](Observer::WRITES) to it, it is zeros no longer.
    ///
    /// # Errors
    /// As [`Pageyard::free`].
    pub fn free_zeroed(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if O::WRITES || !self.trusts_zeros() {
            return self.free(cx, pfn, order);
        }
        if !self.has_cpu(cx.cpu) {
            return Err(FreeError::NoSuchCpu);
        }
        let Some((zone, frame)) = self.zone_of(pfn) else { return Err(FreeError::OutsideArena) };
        self.win_slow(zone, frame, pfn, order)?;
        self.tell_freed(zone, frame, order);
        self.free_known_zero(zone, cx, frame, order);
        Ok(())
    }

    /// Returns whether a caller is believed that says that a block holds zeros.
    pub(crate) fn trusts_zeros(&self) -> bool {
        !(C::ACTIVE && (self.config.init_on_alloc || self.config.init_on_free))
    }

    /// Puts a block whose tag was won, and which holds zeros, into a list, or back into its zone.
    pub(crate) fn free_known_zero(&self, zone: &Zone<'_>, cx: &Cx, frame: FrameIdx, order: Order) {
        // ORDER: Relaxed: it is set before the block is free, and stays.
        self.zero_seen[0].store(1, Relaxed);
        if has_list(order) {
            zone.pageblocks.frames.set_tag(frame, Tag::FreeZero);
            self.free_won(zone, cx.cpu, frame, order);
        } else {
            self.count(cx.cpu, Counter::Pgfree, order.frames().0);
            self.add_free(zone, cx.cpu, zone.pageblocks.release_block(frame, order, true, By::cpu(cx.cpu)));
        }
    }

    /// Returns the order of the live block that starts at a frame. As
    /// [`PageAllocator::order_of`](crate::PageAllocator::order_of).
    #[must_use]
    pub fn order_of(&self, pfn: Pfn) -> Option<Order> {
        self.zone_of(pfn).and_then(|(zone, frame)| zone.pageblocks.frames.tag(frame).allocated())
    }

    /// Returns whether a live block held zeros when it was allocated: the owner need not clear it if it has not written
    /// to it.
    #[must_use]
    pub fn was_zeroed(&self, pfn: Pfn) -> bool {
        let tag = self.zone_of(pfn).map(|(zone, frame)| zone.pageblocks.frames.tag(frame));
        matches!(tag, Some(Tag::AllocatedZero(_)))
    }

    /// Wins a live block's tag after the likely value was not there, or returns why it cannot be freed.
    #[inline]
    fn win_slow(&self, zone: &Zone<'_>, frame: FrameIdx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.win_block(&zone.pageblocks, frame, order, Tag::Free)
            .map_err(|unwon| why_not(&zone.pageblocks, unwon, frame, pfn, order))
    }

    /// Puts a block whose tag was won into a list, or back into its zone.
    #[inline]
    pub(crate) fn free_won(&self, zone: &Zone<'_>, cpu: CpuId, frame: FrameIdx, order: Order) {
        if let Some((state, watch)) = zone.pageblocks.frames.state_of(frame.get() as u64)
            && let Some(list) = zone.list(order, state.list_code())
        {
            if self.percpu.push(zone.lists.all(), cpu, list, frame.item(), watch, || true) != Pushed::Kept {
                self.free_into_full_list(zone, cpu, frame, order);
            }
            return;
        }
        self.free_unlisted(zone, cpu, frame, order);
    }

    /// Puts a block whose tag was won back into its zone.
    pub(crate) fn free_unlisted(&self, zone: &Zone<'_>, cpu: CpuId, frame: FrameIdx, order: Order) {
        self.count(cpu, Counter::Pgfree, order.frames().0);
        self.release_one(zone, cpu, frame, order);
    }

    /// Splits a block. As [`PageAllocator::split`](crate::PageAllocator::split).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Concurrency
    /// While it runs a free of the block is refused as [`FreeError::Busy`], and one of its parts as not allocated.
    pub fn split(&self, cx: &Cx, pfn: Pfn, from: Order, to: Order) -> Result<(), FreeError> {
        if !self.has_cpu(cx.cpu) {
            return Err(FreeError::NoSuchCpu);
        }
        let Some((zone, frame)) = self.zone_of(pfn) else { return Err(FreeError::OutsideArena) };
        let pageblocks = &zone.pageblocks;
        if to > from {
            return Err(if pageblocks.is_managed(frame) {
                FreeError::Misaligned
            } else {
                FreeError::OutsideArena
            });
        }
        self.win_block(pageblocks, frame, from, Tag::Splitting)
            .map_err(|unwon| why_not(pageblocks, unwon, frame, pfn, from))?;
        // Before any of it changes: where this panics, the block is whole again.
        let whole = Undo { pageblocks, frame, order: from };
        self.observer.split(pfn, from, to);
        core::mem::forget(whole);
        if from.get() >= BLOCK_ORDER && to.get() < BLOCK_ORDER {
            for block in frame.block().run(1 << (from.get() - BLOCK_ORDER)) {
                pageblocks.frames.take_huge(block);
                if let Some(change) = pageblocks.frames.update(block, |s| s.shatter()) {
                    pageblocks.changed(block, change);
                }
            }
        }
        let size = to.frames().0 as usize;
        for part in (size..from.frames().0 as usize).step_by(size).map(|at| frame.plus(at)) {
            pageblocks.frames.set_tag(part, Tag::Allocated(to));
        }
        pageblocks.frames.set_tag(frame, Tag::Allocated(to));
        Ok(())
    }

    /// Allocates exactly this block. As [`PageAllocator::claim_exact`](crate::PageAllocator::claim_exact).
    ///
    /// # Errors
    /// As there.
    pub fn claim_exact(
        &self,
        cx: &Cx,
        pfn: Pfn,
        order: Order,
        migratetype: Migratetype,
    ) -> Result<(), ClaimError> {
        if !self.has_cpu(cx.cpu) {
            return Err(ClaimError::NoSuchCpu);
        }
        if order > LARGEST || !pfn.is_aligned(order) {
            return Err(ClaimError::Misaligned);
        }
        let (zone, frame) = self.zone_of(pfn).ok_or(ClaimError::OutsideArena)?;
        let pageblocks = &zone.pageblocks;
        if frame.plus(order.frames().0 as usize - 1).block().get() >= pageblocks.frames.len() {
            return Err(ClaimError::OutsideArena);
        }
        let claimed = if order < PAGEBLOCK {
            pageblocks.claim_exactly(frame, order)
        } else {
            pageblocks.claim_run_at(frame.block(), order, migratetype, true)
        };
        if !claimed {
            let managed = frame.run(order.frames().0 as usize).all(|f| pageblocks.is_managed(f));
            return Err(if managed { ClaimError::NotFree } else { ClaimError::OutsideArena });
        }
        pageblocks.frames.allocate_tag(frame, order);
        self.count(cx.cpu, Counter::Pgalloc, order.frames().0);
        self.observer.allocated(pfn, order, migratetype);
        if C::ACTIVE && self.config.init_on_alloc && !self.was_zeroed(pfn) {
            self.clear_one(pfn, order, Caches::Cold);
        }
        Ok(())
    }
}

/// Makes a block whose tag was won live again when dropped. Its contents count as unknown.
struct Undo<'a, 'm> {
    pageblocks: &'a Pageblocks<'m>,
    frame: FrameIdx,
    order: Order,
}

impl Drop for Undo<'_, '_> {
    fn drop(&mut self) {
        self.pageblocks.frames.set_tag(self.frame, Tag::Allocated(self.order));
    }
}

/// Returns why the block of `order` at a frame whose tag was not won cannot be freed.
#[cold]
pub(crate) fn why_not(
    pageblocks: &Pageblocks<'_>,
    unwon: Unwon,
    frame: FrameIdx,
    pfn: Pfn,
    order: Order,
) -> FreeError {
    if !pageblocks.is_managed(frame) {
        return FreeError::OutsideArena;
    }
    if order > LARGEST || !pfn.is_aligned(order) {
        return FreeError::Misaligned;
    }
    let Unwon::Is(tag) = unwon else { return FreeError::Busy };
    match tag {
        Tag::Allocated(allocated) | Tag::AllocatedZero(allocated) => FreeError::WrongOrder { allocated },
        Tag::Hole => FreeError::OutsideArena,
        Tag::Splitting => FreeError::Busy,
        Tag::Free | Tag::FreeZero => {
            let inside = holders(pfn, LARGEST).skip(1).find_map(|b| {
                let head = pageblocks.frame_of(b.pfn)?;
                let allocated = pageblocks.frames.tag(head).allocated()?;
                (allocated >= b.order).then_some(FreeError::NotHead { head: b.pfn, allocated })
            });
            inside.unwrap_or(FreeError::NotAllocated)
        }
    }
}
