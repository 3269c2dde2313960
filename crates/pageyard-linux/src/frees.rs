//! Frees, each checked in the one place where one of two frees of a block loses; and drains. Layer: taking and
//! giving.

use crate::allocator::LinuxAllocator;
use crate::config::FragFree;
use crate::pcp;
use crate::place::{FreeObserver, FreeStage};
use crate::tag::{Holding, MAX_PAGE_ORDER, Tag};
use crate::zone::Zone;
use pageyard_core::{CpuId, CpuSet, Cx, Frames, FreeError, Order, Pfn, block};

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

    /// Finds an allocated block to give up: its zone, and how it is held.
    pub(crate) fn held(&self, pfn: Pfn, order: Order) -> Result<(&Zone, Holding), FreeError> {
        if order > MAX_PAGE_ORDER || !pfn.is_aligned(order) {
            return Err(FreeError::Misaligned);
        }
        let zone = self.zone_of(pfn).ok_or(FreeError::OutsideArena)?;
        match zone.tag(pfn) {
            Tag::Allocated(o, held) if o == order => Ok((zone, held)),
            _ => Err(Self::why_not(zone, pfn, order)),
        }
    }

    /// Frees a block to a CPU's list or to its zone.
    ///
    /// # Linux
    /// `free_unref_page`, and `free_one_page` past the lists.
    pub(crate) fn free_checked<W: FreeObserver>(
        &self,
        cx: &Cx,
        pfn: Pfn,
        order: Order,
        to: To,
    ) -> Result<(), FreeError> {
        let (zone, held) = self.held(pfn, order)?;
        if !self.has_cpu(cx.cpu) {
            return Err(FreeError::NoSuchCpu);
        }
        let from = Tag::Allocated(order, held);
        let of = zone.pageblocks.type_of(pfn);
        let listed = match to {
            To::Zone => None,
            To::Hot | To::Cold => pcp::list_for_free(&self.config, cx.context, order, of),
        };
        if let Some(listed) = listed
            && let Some(mut entered) = zone.enter(zone.owners.lists_for(pfn, cx.cpu.index()), &self.config)
        {
            if !zone.tags.swap(zone.number(pfn), from, Tag::Cached(order, of)) {
                return Err(FreeError::NotAllocated);
            }
            entered.pages.counts.taken.pgfree += order.frames().0;
            zone.give_listed::<W>(&mut entered.pages, listed, pfn, to == To::Cold, &self.config);
            return Ok(());
        }
        if !zone.tags.swap(zone.number(pfn), from, Tag::Inside) {
            return Err(FreeError::NotAllocated);
        }
        let _section = W::enter(FreeStage::FreeOnePage);
        let mut locked = zone.lock_watched::<W>();
        locked.free_late(self.config.keeps_lists_pure());
        // The type may have changed before the lock was taken.
        locked.free_by_pageblock(pfn, order, self.config.keeps_lists_pure());
        locked.inner.counts.taken.pgfree += order.frames().0;
        Ok(())
    }

    /// Frees a block whose contents are not in the cache: it is taken last from its list.
    ///
    /// # Errors
    /// As [`pageyard_core::PageAllocator::free`].
    pub fn free_cold(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.free_checked::<()>(cx, pfn, order, To::Cold)
    }

    /// Frees a block whose last fragment was given up, to the place that `frag_free` names: past the lists, or as any
    /// other free, to the lists where they take blocks of this order.
    ///
    /// # Errors
    /// As [`pageyard_core::PageAllocator::free`].
    ///
    /// # Linux
    /// `page_frag_free`, after the last reference: `__free_pages_ok` before the patch; then `free_unref_page` for what
    /// `pcp_allowed_order` allows, which is order 0 until 5.13, and from then on orders up to 3 and a huge page's.
    pub fn free_frag(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.free_frag_watched::<()>(cx, pfn, order)
    }

    /// Frees a fragment's block as [`LinuxAllocator::free_frag`] does; `W` is told where the thread is.
    pub(crate) fn free_frag_watched<W: FreeObserver>(
        &self,
        cx: &Cx,
        pfn: Pfn,
        order: Order,
    ) -> Result<(), FreeError> {
        let (to, place) = match self.config.frag_free {
            FragFree::Buddy => (To::Zone, FreeStage::FreePagesOk),
            FragFree::Pcp => (To::Hot, FreeStage::FreeUnrefPage),
        };
        let _freeing = W::enter(place);
        self.free_checked::<W>(cx, pfn, order, to)
    }

    /// Empties the lists of some CPUs; returns how many frames went back to their zones.
    pub(crate) fn drain(&self, cpus: CpuSet) -> Frames {
        let mut gone = Frames::ZERO;
        for zone in &self.zones {
            for (cpu, pages) in zone.pcps.iter().enumerate() {
                if cpus.contains(CpuId(cpu as u32)) {
                    gone += zone.drain(&mut pages.lock(), &self.config);
                }
            }
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use pageyard_core::{MemoryMap, Migratetype, NodeId, PageAllocator, Region, Request, ZoneKind};

    #[test]
    fn where_the_lists_of_the_owner_are_in_use_a_frame_goes_to_the_zone_and_not_to_other_lists() {
        let regions = [Region::managed(Pfn(0), Frames(1 << 14), NodeId(0), ZoneKind::Normal)];
        let mut config = Config::linux_7_2();
        for (knob, value) in [("pcp_owners", "true"), ("percpu_pagelist_high_fraction", "8")] {
            config.set(knob, value).unwrap();
        }
        let a = LinuxAllocator::new(&MemoryMap::new(&regions).unwrap(), &config).unwrap();
        let (owner, other) = (Cx::on(CpuId(0)), Cx::on(CpuId(1)));
        let take = || a.alloc(&owner, &Request::new(Order::ZERO, Migratetype::Movable)).unwrap();
        let pfns = [(); 3].map(|()| take());
        let held = |cpu: usize| a.zones[0].pcps[cpu].lock().lists.held();
        let before = a.zones[0].free.get();
        let lists = a.zones[0].pcps[0].lock();
        a.free(&other, pfns[0], Order::ZERO).unwrap();
        a.free_bulk(&other, &pfns[1..2], Order::ZERO, &mut |_, why| panic!("{why:?}"));
        a.free_nolock(&other, pfns[2], Order::ZERO).unwrap();
        drop(lists);
        assert_eq!((a.zones[0].free.get() - before, held(1)), (3, 0));
        a.drain(CpuSet::All);
        assert_eq!(a.audit().unwrap().free, Frames(1 << 14));
        assert_eq!(a.zones[0].owners.of(pfns[0]), None);
    }
}
