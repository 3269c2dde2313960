//! The reserve for high-order requests that cannot wait. Layer: on the zone, above `buddy`.

use crate::config::{Config, HighatomicLimit};
use crate::freelist::End;
use crate::tag::MAX_PAGE_ORDER;
use crate::zone::Zone;
use pageyard_core::{Migratetype, Order, PAGEBLOCK_ORDER, Pfn, block};

const PAGEBLOCK: u64 = PAGEBLOCK_ORDER.frames().0;

impl Zone {
    /// Sets aside the pageblock that has just served such a request.
    ///
    /// # Linux
    /// `reserve_highatomic_pageblock`.
    pub fn reserve_highatomic(&self, pfn: Pfn, order: Order, config: &Config) {
        let percent = self.span.managed.0 / 100;
        let most = match config.highatomic_limit {
            HighatomicLimit::PercentPlusOne => percent + PAGEBLOCK,
            HighatomicLimit::PercentRounded if percent < PAGEBLOCK => return,
            HighatomicLimit::PercentRounded => percent.next_multiple_of(PAGEBLOCK),
        };
        if self.reserved_highatomic.get() >= most {
            return;
        }
        let mut locked = self.lock();
        let reserved = self.reserved_highatomic.get();
        if reserved >= most
            || !self.pageblocks.type_of(pfn).is_mergeable()
            || locked.whole_pageblock(pfn).is_none()
        {
            return;
        }
        // A block larger than a pageblock takes all of its pageblocks along; otherwise a part of it would be freed to a
        // list that no pageblock belongs to.
        let all = order.max(PAGEBLOCK_ORDER);
        for part in block::blocks(pfn.align_down(all), all.frames(), PAGEBLOCK_ORDER) {
            self.reserved_highatomic.set(self.reserved_highatomic.get() + PAGEBLOCK);
            locked.convert(part.pfn, Migratetype::HighAtomic, End::Tail);
        }
        locked.inner.counts.highatomic_reserve += 1;
    }

    /// Gives a reserved pageblock that has free frames to type `m`; the last one only when `force` says so.
    ///
    /// # Linux
    /// `unreserve_highatomic_pageblock`.
    pub fn unreserve_highatomic(&self, m: Migratetype, force: bool) -> bool {
        if !force && self.reserved_highatomic.get() <= PAGEBLOCK {
            return false;
        }
        let mut locked = self.lock();
        let first =
            Order::ZERO.up_to(MAX_PAGE_ORDER).find_map(|order| locked.first(order, Migratetype::HighAtomic));
        let Some(pfn) = first else { return false };
        if self.pageblocks.type_of(pfn) == Migratetype::HighAtomic {
            self.reserved_highatomic.set(self.reserved_highatomic.get().saturating_sub(PAGEBLOCK));
        }
        locked.convert(pfn, m, End::Tail);
        locked.inner.counts.highatomic_unreserve += 1;
        true
    }
}
