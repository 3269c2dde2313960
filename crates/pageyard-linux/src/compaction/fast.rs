//! State that the free-list searches of one compaction share.

use pageyard_core::compaction::CLUSTER;
use pageyard_core::units::{Order, Pfn};

/// Pageblocks that the searches of one compaction find at most. In 6.12 nothing keeps a pageblock from being found
/// again if its frames can be isolated and not moved, and leave no hint because they are not on a list for reclaim:
/// there Linux goes on until the task is killed.
const MOST_FINDS: u32 = 1 << 14;

/// Where a scan goes on once no free list names a pageblock to empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Return {
    /// Nowhere: no search has found a pageblock.
    Nowhere,
    /// The lowest frame that a search has found.
    To(Pfn),
    /// It has returned; it does so once.
    Done,
}

/// State that the free-list searches of one compaction share.
#[derive(Debug)]
pub(super) struct FastSearch {
    /// The order that the next search for a target begins with.
    order: Order,
    /// Searches that failed, since the last that did not. Each halves how many blocks the next one looks at.
    failed: u32,
    back: Return,
    /// Searches that found a pageblock.
    finds: u32,
    /// Whether the engine keeps lists that can be searched, as far as is known.
    pub(super) offered: bool,
}

impl FastSearch {
    /// Remembers nothing yet; a compaction for an order begins with the largest that is smaller.
    pub(super) fn new(wanted: Option<Order>) -> FastSearch {
        FastSearch {
            order: wanted.unwrap_or_default(),
            failed: 0,
            back: Return::Nowhere,
            finds: 0,
            offered: true,
        }
    }

    /// Returns how many blocks a search may look at.
    ///
    /// # Linux
    /// `freelist_scan_limit`.
    pub(super) fn limit(&self) -> usize {
        CLUSTER.checked_shr(self.failed).unwrap_or(0) + 1
    }

    /// Notes that a search failed.
    pub(super) fn fail(&mut self) {
        self.failed = self.failed.saturating_add(1);
    }

    /// Notes that a search succeeded.
    pub(super) fn succeed(&mut self) {
        self.failed = 0;
    }

    /// Returns the order that a search for targets begins with, below the wanted order.
    pub(super) fn first_order(&mut self, wanted: Order) -> Order {
        self.order = self.order.min(below(wanted, wanted));
        self.order
    }

    /// Lets the next search begin with an order.
    pub(super) fn begin_with(&mut self, order: Order) {
        self.order = order;
    }

    /// Lets the next search begin with the order below the one that it would have begun with.
    ///
    /// # Linux
    /// `next_search_order`, where it has come round.
    pub(super) fn come_round(&mut self, wanted: Order) {
        self.order = below(self.order, wanted);
    }

    /// Returns whether the order that follows another is the one that the search began with.
    ///
    /// # Linux
    /// `next_search_order`, which is asked once more after a block was found.
    pub(super) fn comes_round_after(&self, order: Order, wanted: Order) -> bool {
        below(order, wanted) == self.order
    }

    /// Notes a frame of a pageblock that a search found.
    ///
    /// # Linux
    /// `update_fast_start_pfn`.
    pub(super) fn found(&mut self, pfn: Pfn) {
        self.finds += 1;
        self.back = match self.back {
            Return::Nowhere => Return::To(pfn),
            Return::To(lowest) => Return::To(lowest.min(pfn)),
            Return::Done => Return::Done,
        };
    }

    /// Returns whether pageblocks were found so often that they must be the same ones again and again.
    pub(super) fn goes_in_circles(&self) -> bool {
        self.finds >= MOST_FINDS
    }

    /// Returns where the migrate scanner goes on now that no search helps; only once.
    ///
    /// # Linux
    /// `reinit_migrate_pfn`.
    pub(super) fn go_back(&mut self) -> Option<Pfn> {
        let Return::To(pfn) = self.back else { return None };
        self.back = Return::Done;
        Some(pfn)
    }
}

/// Iterates over the orders below `wanted`, from `first` down and on from the top.
pub(super) fn round(first: Order, wanted: Order) -> impl Iterator<Item = Order> {
    let n = wanted.get();
    (0..n).map(move |i| Order::of((first.get() + n - i) % n))
}

/// Returns the order below another, and of order 0 the largest below the wanted one.
fn below(order: Order, wanted: Order) -> Order {
    Order::of(order.get().checked_sub(1).unwrap_or(wanted.get().saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn each_failure_halves_the_search_down_to_one_block() {
        let mut fast = FastSearch::new(Some(Order::of(9)));
        let limits: Vec<usize> = (0..8)
            .map(|_| {
                let limit = fast.limit();
                fast.fail();
                limit
            })
            .collect();
        assert_eq!(limits, [33, 17, 9, 5, 3, 2, 1, 1]);
        fast.succeed();
        assert_eq!(fast.limit(), 33);
    }

    #[test]
    fn orders_come_round_and_the_next_search_begins_one_lower() {
        let wanted = Order::of(4);
        let mut fast = FastSearch::new(Some(wanted));
        let orders = |first| round(first, wanted).map(Order::get).collect::<Vec<_>>();
        assert_eq!(orders(fast.first_order(wanted)), [3, 2, 1, 0]);
        fast.come_round(wanted);
        assert_eq!(orders(fast.first_order(wanted)), [2, 1, 0, 3]);
        fast.begin_with(Order::ZERO);
        assert_eq!(orders(fast.first_order(wanted)), [0, 3, 2, 1]);
        fast.come_round(wanted);
        assert_eq!(fast.first_order(wanted).get(), 3);
    }

    #[test]
    fn the_scanner_returns_once_to_the_lowest_frame_that_was_found() {
        let mut fast = FastSearch::new(None);
        assert_eq!(fast.go_back(), None);
        fast.found(Pfn(900));
        fast.found(Pfn(400));
        fast.found(Pfn(600));
        assert_eq!((fast.go_back(), fast.go_back()), (Some(Pfn(400)), None));
        fast.found(Pfn(100));
        assert_eq!(fast.go_back(), None);
    }
}
