//! The reserve for high-order requests that cannot wait.

use crate::config::{Config, HighatomicLimit};
use crate::freelist::End;
use crate::tag::MAX_PAGE_ORDER;
use crate::zone::Zone;
use pageyard::{Migratetype, Order, PAGEBLOCK_ORDER, Pfn};

const PAGEBLOCK: u64 = PAGEBLOCK_ORDER.frames().0;

impl Zone {
    /// Sets the pageblock aside that has just served such a request.
    ///
    /// # Linux
    /// `reserve_highatomic_pageblock`.
    pub fn reserve_highatomic(&self, pfn: Pfn, config: &Config) {
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
        if reserved >= most || !self.type_of(pfn).is_mergeable() || locked.whole_pageblock(pfn).is_none() {
            return;
        }
        self.reserved_highatomic.set(reserved + PAGEBLOCK);
        locked.convert(pfn, Migratetype::HighAtomic, End::Tail);
        locked.inner.counts.highatomic_reserve += 1;
    }

    /// Gives a reserved pageblock that has free frames to type `m`; the last one only when `force` says so.
    ///
    /// # Linux
    /// `unreserve_highatomic_pageblock`.
    pub fn unreserve_highatomic(&self, m: Migratetype, force: bool) -> bool {
        let reserved = self.reserved_highatomic.get();
        if reserved == 0 || (!force && reserved <= PAGEBLOCK) {
            return false;
        }
        let mut locked = self.lock();
        let first =
            Order::ZERO.up_to(MAX_PAGE_ORDER).find_map(|order| locked.first(order, Migratetype::HighAtomic));
        let Some(pfn) = first else { return false };
        self.reserved_highatomic.set(self.reserved_highatomic.get().saturating_sub(PAGEBLOCK));
        locked.convert(pfn, m, End::Tail);
        locked.inner.counts.highatomic_unreserve += 1;
        true
    }
}
