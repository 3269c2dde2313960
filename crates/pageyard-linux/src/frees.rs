//! Frees: every one is checked, in the one place where of two frees of one block one loses.

use crate::allocator::LinuxAllocator;
use crate::config::FragFree;
use crate::tag::{MAX_PAGE_ORDER, Tag};
use crate::zone::Zone;
use pageyard_core::{Cx, FreeError, Migratetype, Order, Pfn, block};

/// Where a freed block goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum To {
    /// To the near end of the CPU's list, if one takes it.
    Hot,
    /// To the far end.
    Cold,
    /// Past the lists.
    Zone,
}

impl LinuxAllocator {
    /// Says why the block at `pfn` cannot be freed with `order`.
    #[cold]
    fn why_not(zone: &Zone, pfn: Pfn, order: Order) -> FreeError {
        match zone.tag(pfn) {
            Tag::Hole => FreeError::OutsideArena,
            Tag::Allocated(allocated, _) if allocated != order => FreeError::WrongOrder { allocated },
            Tag::Inside => block::holders(pfn, MAX_PAGE_ORDER)
                .find_map(|b| match zone.tag(b.pfn) {
                    Tag::Allocated(o, _) if b.pfn != pfn && o >= b.order && b.pfn + o.frames() > pfn => {
                        Some(FreeError::NotHead { head: b.pfn, allocated: o })
                    }
                    _ => None,
                })
                .unwrap_or(FreeError::NotAllocated),
            _ => FreeError::NotAllocated,
        }
    }

    /// Finds an allocated block to give up: its zone, and whether its contents are movable.
    pub(crate) fn held(&self, pfn: Pfn, order: Order) -> Result<(&Zone, bool), FreeError> {
        if order > MAX_PAGE_ORDER || !pfn.is_aligned(order) {
            return Err(FreeError::Misaligned);
        }
        let zone = self.zone_of(pfn).ok_or(FreeError::OutsideArena)?;
        match zone.tag(pfn) {
            Tag::Allocated(o, movable) if o == order => Ok((zone, movable)),
            _ => Err(Self::why_not(zone, pfn, order)),
        }
    }

    pub(crate) fn free_checked(&self, cx: &Cx, pfn: Pfn, order: Order, to: To) -> Result<(), FreeError> {
        let (zone, movable) = self.held(pfn, order)?;
        if cx.cpu.0 >= self.config.cpus {
            return Err(FreeError::NoSuchCpu);
        }
        let from = Tag::Allocated(order, movable);
        let m = zone.type_of(pfn);
        // Reserved and isolated pageblocks: the first kind's blocks lie in the movable list until it spills.
        let listed = if m.is_requested() { m } else { Migratetype::Movable };
        let may_list = to != To::Zone
            && m != Migratetype::Isolate
            && self.config.pcp_list(order, listed).is_some()
            && self.config.pcp_protection.admits(cx.context);
        if may_list && let Some(mut entered) = zone.enter(cx.cpu.index(), &self.config) {
            let pcp = &mut entered.pcp;
            if !zone.tags.swap(zone.number(pfn), from, Tag::Cached(order)) {
                return Err(FreeError::NotAllocated);
            }
            pcp.counts.taken.pgfree += order.frames().0;
            pcp.free(zone, pfn, order, listed, to == To::Cold, &self.config);
            return Ok(());
        }
        if !zone.tags.swap(zone.number(pfn), from, Tag::Inside) {
            return Err(FreeError::NotAllocated);
        }
        let mut locked = zone.lock();
        // The type may have changed before the lock was taken.
        locked.free_one(pfn, order, zone.type_of(pfn), !self.config.keeps_lists_pure());
        locked.inner.counts.taken.pgfree += order.frames().0;
        Ok(())
    }

    /// Frees a block whose contents are not in the cache: it will be taken last from its list.
    ///
    /// # Errors
    /// As [`PageAllocator::free`].
    pub fn free_cold(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.free_checked(cx, pfn, order, To::Cold)
    }

    /// Frees a block whose last fragment was given up: to where `frag_free` says.
    ///
    /// # Errors
    /// As [`PageAllocator::free`].
    ///
    /// # Linux
    /// `page_frag_free`, after the last reference.
    pub fn free_frag(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let listed = self.config.frag_free == FragFree::Pcp && order == Order::ZERO;
        self.free_checked(cx, pfn, order, if listed { To::Hot } else { To::Zone })
    }
}
