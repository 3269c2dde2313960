//! Requests for a block by its frame number: split one that is held, claim one that is free. Layer: taking and giving,
//! above `frees`.

use crate::allocator::LinuxAllocator;
use crate::tag::{Holding, MAX_PAGE_ORDER, Tag};
use pageyard_core::{BlockId, ClaimError, Cx, FreeError, Migratetype, Order, PAGEBLOCK_ORDER, Pfn, block};

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
