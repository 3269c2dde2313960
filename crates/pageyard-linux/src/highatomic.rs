//! The reserve for high-order requests that cannot wait. Layer: on the zone, above `buddy`.

use crate::config::{Config, HighatomicLimit};
use crate::freelist::End;
use crate::tag::MAX_PAGE_ORDER;
use crate::zone::{Locked, Zone};
use pageyard_core::{Migratetype, Order, PAGEBLOCK_ORDER, Pfn, block};

const PAGEBLOCK: u64 = PAGEBLOCK_ORDER.frames().0;

impl Zone {
    /// Sets aside the pageblock that has just served such a request.
    ///
    /// # Linux
    /// `reserve_highatomic_pageblock`. A block larger than a pageblock takes all of its pageblocks along from 6.10 on,
    /// and the first one until then.
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
        if self.reserved_highatomic.get() >= most || !self.pageblocks.type_of(pfn).is_mergeable() {
            return;
        }
        if self.pure && order >= PAGEBLOCK_ORDER {
            locked.retype(pfn, order, Migratetype::HighAtomic);
        } else if self.pure && locked.whole_pageblock(pfn).is_none() {
            return;
        } else {
            locked.convert(pfn, Migratetype::HighAtomic, End::Tail);
        }
        let set_aside = if self.pure { order.frames().0.max(PAGEBLOCK) } else { PAGEBLOCK };
        self.reserved_highatomic.set(self.reserved_highatomic.get() + set_aside);
        locked.inner.counts.highatomic_reserve += 1;
    }

    /// Gives a reserved pageblock that has free frames to type `m`, with them; the last one only when `force` says so.
    ///
    /// # Linux
    /// `unreserve_highatomic_pageblock`, for one zone.
    pub fn unreserve_highatomic(&self, m: Migratetype, force: bool) -> bool {
        if !force && self.reserved_highatomic.get() <= PAGEBLOCK {
            return false;
        }
        let mut locked = self.lock();
        Order::ZERO.up_to(MAX_PAGE_ORDER).any(|order| locked.unreserve(order, m))
    }
}

impl Locked<'_> {
    /// Gives the pageblock of the first reserved block of an order to type `m`; returns whether any block came along.
    fn unreserve(&mut self, order: Order, m: Migratetype) -> bool {
        let Some(pfn) = self.first(order, Migratetype::HighAtomic) else { return false };
        let zone = self.zone;
        if zone.pageblocks.type_of(pfn) == Migratetype::HighAtomic {
            let size = if zone.pure { order.frames().0.max(PAGEBLOCK) } else { PAGEBLOCK };
            zone.reserved_highatomic.set(zone.reserved_highatomic.get().saturating_sub(size));
        }
        if zone.pure && order >= PAGEBLOCK_ORDER {
            self.take_off(pfn, order, Migratetype::HighAtomic);
            self.insert(pfn, order, m, End::Tail);
            self.retype(pfn, order, m);
        } else if self.convert(pfn, m, End::Tail).0 == 0 {
            return false;
        }
        self.inner.counts.highatomic_unreserve += 1;
        true
    }

    /// Gives every pageblock of a large block a type. The block itself stays where it is.
    ///
    /// # Linux
    /// `change_pageblock_range`.
    pub(crate) fn retype(&mut self, pfn: Pfn, order: Order, m: Migratetype) {
        for part in block::blocks(pfn, order.frames(), PAGEBLOCK_ORDER) {
            self.zone.pageblocks.set_type(part.pfn, m);
        }
    }
}
