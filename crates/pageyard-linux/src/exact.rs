//! Exact requests: split a block that is held, claim one that is free, get a count of frames that is no power of two.
//! Layer: taking and giving, above `requests`.

use crate::allocator::LinuxAllocator;
use crate::frees::To;
use crate::tag::{Holding, MAX_PAGE_ORDER, Tag};
use pageyard_core::reclaim::{Attempts, Failure, Helpers, NoHelp};
use pageyard_core::{
    AllocError, BadRequest, BlockId, ClaimError, Cx, Frames, FreeError, Migratetype, Order, PAGEBLOCK_ORDER,
    Pfn, Request, block,
};

impl LinuxAllocator {
    /// Divides an allocated block into blocks that are freed one by one.
    pub(crate) fn split(&self, cx: &Cx, pfn: Pfn, from: Order, to: Order) -> Result<(), FreeError> {
        if !self.has_cpu(cx.cpu) {
            return Err(FreeError::NoSuchCpu);
        }
        if to > from {
            return Err(FreeError::Misaligned);
        }
        let (zone, held) = self.held(pfn, from)?;
        if to == from {
            return Ok(());
        }
        let part = Tag::Allocated(to, held);
        if !zone.tags.swap(zone.number(pfn), Tag::Allocated(from, held), part) {
            return Err(FreeError::NotAllocated);
        }
        for i in 1..1u64 << (from.get() - to.get()) {
            zone.set_tag(Pfn(pfn.0 + (i << to.get())), part);
        }
        Ok(())
    }

    /// Allocates exactly `frames` frames that follow each other, the first one aligned to `align`; returns the first.
    /// The request's own order is not looked at.
    ///
    /// A block is allocated that is large enough and aligned. What is behind the `frames`th frame goes back to its zone
    /// at once, frame by frame, each to the end of its list. The caller has `frames` live blocks of order 0.
    ///
    /// # Errors
    /// As [`alloc`](pageyard_core::PageAllocator::alloc) for a block that large; [`BadRequest::Size`] where `frames` is
    /// zero or larger than the largest block.
    ///
    /// # Linux
    /// `alloc_pages_exact`. Difference: an alignment apart from the size.
    pub fn alloc_exact(
        &self,
        cx: &Cx,
        frames: Frames,
        align: Order,
        request: &Request,
    ) -> Result<Pfn, AllocError> {
        Ok(self.alloc_exact_helped(cx, frames, align, request, None::<&NoHelp>)?)
    }

    /// Does the same, with help.
    ///
    /// # Errors
    /// As there.
    pub fn alloc_exact_with<H: Helpers>(
        &self,
        cx: &Cx,
        frames: Frames,
        align: Order,
        request: &Request,
        helpers: &H,
    ) -> Result<Pfn, Failure> {
        self.alloc_exact_helped(cx, frames, align, request, Some(helpers))
    }

    fn alloc_exact_helped<H: Helpers>(
        &self,
        cx: &Cx,
        frames: Frames,
        align: Order,
        request: &Request,
        help: Option<&H>,
    ) -> Result<Pfn, Failure> {
        let most = MAX_PAGE_ORDER.frames();
        if frames == Frames::ZERO || frames > most {
            let why = BadRequest::Size { frames, most }.into();
            return Err(Failure { why, tried: Attempts::default() });
        }
        let order = Order::of(frames.0.next_power_of_two().ilog2() as u8).max(align);
        let first = self.alloc_with_helpers(cx, &Request { order, ..*request }, help)?;
        self.free_behind(cx, first, order, frames);
        Ok(first)
    }

    /// Divides an allocated block into single frames, and gives back those behind the `kept`th.
    ///
    /// # Linux
    /// `make_alloc_exact`.
    fn free_behind(&self, cx: &Cx, pfn: Pfn, order: Order, kept: Frames) {
        // Refused only where the block is no longer the caller's, because another call freed it without owning it.
        let Ok((zone, held)) = self.held(pfn, order) else { return };
        let single = Tag::Allocated(Order::ZERO, Holding { loose: false, ..held });
        if order == Order::ZERO || !zone.tags.swap(zone.number(pfn), Tag::Allocated(order, held), single) {
            return;
        }
        (1..kept.0).for_each(|i| zone.set_tag(pfn + Frames(i), single));
        if kept == order.frames() {
            return;
        }
        if self.config.exact_rest_to_lists {
            (kept.0..order.frames().0).for_each(|i| zone.set_tag(pfn + Frames(i), single));
            // Refused only where another call freed it without owning it.
            (kept.0..order.frames().0)
                .for_each(|i| _ = self.free_checked::<()>(cx, pfn + Frames(i), Order::ZERO, To::Hot));
            return;
        }
        let pure = self.config.keeps_lists_pure();
        let mut locked = zone.lock();
        locked.free_late(pure);
        (kept.0..order.frames().0).for_each(|i| locked.free_to_tail(pfn + Frames(i), Order::ZERO, !pure));
        locked.inner.counts.taken.pgfree += (order.frames() - kept).0;
    }

    /// Returns the order of the allocated block that starts at a frame.
    pub(crate) fn order_of(&self, pfn: Pfn) -> Option<Order> {
        match self.zone_of(pfn)?.tag(pfn) {
            Tag::Allocated(order, _) => Some(order),
            _ => None,
        }
    }

    /// Takes exactly the block asked for, if it is free.
    pub(crate) fn claim_exact(
        &self,
        cx: &Cx,
        pfn: Pfn,
        order: Order,
        m: Migratetype,
    ) -> Result<(), ClaimError> {
        if !self.has_cpu(cx.cpu) {
            return Err(ClaimError::NoSuchCpu);
        }
        if order > MAX_PAGE_ORDER || !pfn.is_aligned(order) {
            return Err(ClaimError::Misaligned);
        }
        let zone = self.zone_of(pfn).ok_or(ClaimError::OutsideArena)?;
        let last = Pfn(pfn.0 + (order.frames().0 - 1));
        if !zone.span.spans(last) {
            return Err(ClaimError::OutsideArena);
        }
        let mut locked = zone.lock();
        if !locked.take_exact(BlockId { pfn, order }) {
            let hole = (pfn.0..=last.0).any(|f| zone.tag(Pfn(f)) == Tag::Hole);
            return Err(if hole { ClaimError::OutsideArena } else { ClaimError::NotFree });
        }
        if order >= PAGEBLOCK_ORDER && m.is_requested() {
            for b in block::blocks(pfn, order.frames(), PAGEBLOCK_ORDER) {
                zone.pageblocks.set_type(b.pfn, m);
            }
        }
        zone.set_tag(pfn, Tag::Allocated(order, Holding::of(m)));
        Ok(())
    }
}
