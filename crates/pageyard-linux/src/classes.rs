//! Fallback by LLFree's placement classes. Layer: on the zone, beside `fallback`.
//!
//! There are three: frames that cannot be moved, frames that can, and free pageblocks. Requests of one class share
//! pageblocks, so that few of them hold both kinds, and those that are free stay so for as long as possible.

use crate::effort::Effort;
use crate::freelist::End;
use crate::tag::MAX_PAGE_ORDER;
use crate::zone::Locked;
use pageyard_core::{Migratetype, Order, PAGEBLOCK_ORDER, Pfn};

/// The largest block that is less than a pageblock.
const PART: Order = Order::of(PAGEBLOCK_ORDER.get() - 1);

impl Locked<'_> {
    /// Takes a block for a request whose type has none. In this order: part of a pageblock of its class, a free
    /// pageblock, part of a pageblock of the other class. There a request for what cannot be moved takes over the
    /// whole pageblock, whatever is in it, and one for what can leaves it as it is.
    ///
    /// # Source
    /// LLFree, `Classing::movable`: `Match`, then `Demote` and `Steal`. Its trees are of several pageblocks and the
    /// fullest of a class goes first; here a pageblock is one, and that with the smallest block that fits goes first.
    pub(crate) fn fall_back_by_class(&mut self, order: Order, m: Migratetype, effort: Effort) -> Option<Pfn> {
        let movable = m == Migratetype::Movable;
        // Of both types that cannot be moved, the other one comes first.
        let (like, unlike) = m.fallbacks().split_at(usize::from(!movable));
        if let Some((from, other)) = self.listed(order.up_to(PART), like) {
            return self.steal(from, other, order, m);
        }
        if let Some((from, other)) =
            self.listed(order.max(PAGEBLOCK_ORDER).up_to(MAX_PAGE_ORDER), m.fallbacks())
        {
            let pfn = self.first(from, other)?;
            self.convert_range(pfn, from, m);
            self.take_and_split(pfn, from, other, order, m);
            self.count_fallback(m, other);
            return Some(pfn);
        }
        if effort.nofragment {
            return None;
        }
        self.boost_watermark(effort);
        if movable {
            let (from, other) = self.listed(order.up_to(PART), unlike)?;
            return self.steal(from, other, order, m);
        }
        let (from, other) = self.listed(order.up_to(PART).rev(), unlike)?;
        let pfn = self.first(from, other)?;
        if self.whole_pageblock(pfn).is_none() {
            return self.steal(from, other, order, m);
        }
        self.convert(pfn, m, End::Tail);
        self.inner.counts.extfrag_claim += 1;
        self.count_fallback(m, other);
        self.take_smallest(order, m)
    }

    /// Finds the first of these orders, and of these types, of which a block is listed.
    fn listed(
        &self,
        mut orders: impl Iterator<Item = Order>,
        types: &[Migratetype],
    ) -> Option<(Order, Migratetype)> {
        orders.find_map(|o| Some((o, *types.iter().find(|m| !self.inner.lists.is_empty(o, **m))?)))
    }
}
