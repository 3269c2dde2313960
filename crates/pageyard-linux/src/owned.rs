//! Lists whose CPU owns the pageblocks that it fills them from, with `pcp_owners`. Layer: on the zone, above `buddy`.
//!
//! A refill takes large blocks from the zone, and the lists split them. A free goes to the lists of the CPU that owns
//! the frame's pageblock, so that its buddies come together there and merge before they go back.

use crate::cpu_pages::CpuPages;
use crate::freelist::End;
use crate::pcp::Listed;
use crate::tag::Tag;
use crate::zone::{Locked, Zone};
use pageyard_core::{Migratetype, Order, PAGEBLOCK_ORDER, Pfn, block};

/// The order of the largest block that is less than a pageblock.
const BELOW_PAGEBLOCK: Order = Order::of(PAGEBLOCK_ORDER.get() - 1);

impl Listed {
    /// Returns the list of the same type for blocks of another order.
    fn of_order(self, order: Order) -> Listed {
        Listed {
            list: self.list % Migratetype::REQUESTED.len() + order.index() * Migratetype::REQUESTED.len(),
            order,
        }
    }
}

impl Zone {
    /// Splits the smallest block of its type that is larger than those of an empty list, down to one that the list
    /// takes. Returns whether there was one.
    #[cold]
    pub fn split_listed(&self, pages: &mut CpuPages, to: Listed) -> bool {
        let larger = to.order.up_to(PAGEBLOCK_ORDER).skip(1).map(|order| to.of_order(order));
        let Some(from) = larger.into_iter().find(|from| !pages.lists.is_empty(*from)) else { return false };
        let Some(pfn) = pages.lists.take(from, End::Head) else { return false };
        let Tag::Cached(_, with) = self.tag(pfn) else { return false };
        let mut put = |pfn: Pfn, order: Order| {
            self.set_tag(pfn, Tag::Cached(order, with));
            pages.lists.put(to.of_order(order), pfn, End::Head);
        };
        to.order.up_to(from.order).rev().skip(1).for_each(|half| put(pfn + half.frames(), half));
        put(pfn, to.order);
        true
    }

    /// Merges buddies of pageblocks that the CPU owns, from single frames up to pageblocks. What was freed before and
    /// after its pageblock changed its type stays apart.
    #[cold]
    pub fn merge_listed(&self, pages: &mut CpuPages) {
        for order in Order::ZERO.up_to(BELOW_PAGEBLOCK) {
            for m in Migratetype::REQUESTED {
                self.merge_list(pages, Listed { list: m.index(), order }.of_order(order));
            }
        }
    }

    fn merge_list(&self, pages: &mut CpuPages, list: Listed) {
        let up = Order::of(list.order.get() + 1);
        let cpu = Some(pages.cpu);
        let mut may: Vec<Pfn> = pages
            .lists
            .list(list.list)
            // A pageblock that a CPU owns lies in the zone as a whole, and so does the buddy.
            .filter(|pfn| self.owners.of(*pfn) == cpu)
            .filter(|pfn| self.tag(block::buddy(*pfn, list.order)) == self.tag(*pfn))
            .collect();
        may.sort_unstable();
        let pairs = may.windows(2).filter(|pair| block::buddy(pair[0], list.order) == pair[1]);
        let merged: Vec<Pfn> = pairs.map(|pair| pair[0]).collect();
        for lower in &merged {
            let Tag::Cached(_, with) = self.tag(*lower) else { continue };
            self.set_tag(*lower + list.order.frames(), Tag::Inside);
            self.set_tag(*lower, Tag::Cached(up, with));
        }
        if merged.is_empty() {
            return;
        }
        pages.lists.keep(list, |pfn| matches!(self.tag(pfn), Tag::Cached(order, _) if order == list.order));
        for lower in merged {
            pages.lists.put(list.of_order(up), lower, End::Tail);
        }
    }
}

impl Locked<'_> {
    /// Fills a CPU's lists with blocks of their own type, each as large as it can be: what the CPU gave back of the
    /// pageblocks that it owns, then whole pageblocks, which it owns from now on, while its lists have room for them,
    /// then smaller blocks. Returns how many of the blocks wanted are still missing.
    ///
    /// # Linux
    /// `rmqueue_bulk` as posted by J. Weiner in April 2026, phases 0 to 2.
    #[cold]
    pub(crate) fn refill_owned(
        &mut self,
        pages: &mut CpuPages,
        to: Listed,
        m: Migratetype,
        blocks: u64,
    ) -> u64 {
        let mut left = blocks * to.order.frames().0;
        left = left.saturating_sub(self.take_back(pages, to, m, left));
        let pageblock = PAGEBLOCK_ORDER.frames().0;
        while left > 0
            && pages.policy.has_room(pages.lists.held(), pageblock)
            && let Some(pfn) = self.take_smallest(PAGEBLOCK_ORDER, m)
        {
            self.zone.owners.own(pfn, pages.cpu);
            pages.returned.retain(|block| *block != pfn);
            self.list(pages, to.of_order(PAGEBLOCK_ORDER), pfn, m);
            left = left.saturating_sub(pageblock);
        }
        for order in to.order.up_to(BELOW_PAGEBLOCK).rev() {
            while left >= order.frames().0
                && let Some(pfn) = self.take_smallest(order, m)
            {
                self.list(pages, to.of_order(order), pfn, m);
                left -= order.frames().0;
            }
        }
        left / to.order.frames().0
    }

    /// Puts a block that has left the zone into a CPU's list.
    fn list(&self, pages: &mut CpuPages, to: Listed, pfn: Pfn, m: Migratetype) {
        self.zone.set_tag(pfn, Tag::Cached(to.order, m));
        pages.lists.put(to, pfn, End::Tail);
        pages.counts.refilled.count(to.order);
    }

    /// Takes back the blocks that are large enough of pageblocks of a type that the CPU owns and gave parts of back,
    /// until there are `wanted` frames. Returns how many frames came.
    fn take_back(&mut self, pages: &mut CpuPages, to: Listed, m: Migratetype, wanted: u64) -> u64 {
        let zone = self.zone;
        let mut got = 0;
        for block in std::mem::take(&mut pages.returned) {
            if !zone.owners.is_returned(block, pages.cpu) {
                continue;
            }
            if got >= wanted || zone.pageblocks.type_of(block) != m {
                pages.returned.push(block);
                continue;
            }
            let mut small = false;
            let mut at = block;
            while at < block + PAGEBLOCK_ORDER.frames() {
                let tag = zone.tag(at);
                match tag {
                    Tag::Buddy(order, _) if order < to.order => small = true,
                    Tag::Buddy(order, listed) => {
                        self.take_off(at, order, listed);
                        self.list(pages, to.of_order(order), at, m);
                        got += order.frames().0;
                    }
                    _ => {}
                }
                at = at + tag.frames();
            }
            if small {
                pages.returned.push(block);
            } else {
                zone.owners.own(block, pages.cpu);
            }
        }
        got
    }
}
