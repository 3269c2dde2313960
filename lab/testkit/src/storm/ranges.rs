//! Which pageblocks the storm's threads have isolated and leased.

use pageyard::{BlockId, PAGEBLOCK_ORDER, PageblockId, Pfn};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

/// Pageblocks that a thread has isolated or leased.
pub(super) struct Ranges {
    /// Counts the pageblocks that were closed; what began at an earlier count may still hand one out.
    clock: AtomicU64,
    /// Since when nothing of a pageblock may be handed out; 0 where it may.
    closed: Box<[AtomicU64]>,
    /// The thread that has isolated it, plus one; and the one that has leased it.
    isolated: Box<[AtomicU32]>,
    leased: Box<[AtomicU32]>,
}

impl Ranges {
    pub(super) fn new(pageblocks: usize) -> Ranges {
        let words = || (0..pageblocks).map(|_| AtomicU32::new(0)).collect();
        Ranges {
            clock: AtomicU64::new(1),
            closed: (0..pageblocks).map(|_| AtomicU64::new(0)).collect(),
            isolated: words(),
            leased: words(),
        }
    }

    /// Returns the time, for [`Ranges::broken_by`].
    pub(super) fn now(&self) -> u64 {
        self.clock.load(SeqCst)
    }

    /// Makes a thread the one that isolates a pageblock.
    pub(super) fn reserve(&self, block: PageblockId, me: u32) -> bool {
        self.isolated[block.index()].compare_exchange(0, me + 1, SeqCst, SeqCst).is_ok()
    }

    /// Lets others isolate it.
    pub(super) fn leave(&self, block: PageblockId) {
        self.isolated[block.index()].store(0, SeqCst);
    }

    /// From now on nothing of a pageblock may be handed out.
    pub(super) fn close(&self, block: PageblockId) {
        // The clock is read by what begins: a call that began at the old count may have taken a frame before this.
        self.closed[block.index()].store(self.clock.load(SeqCst) + 1, SeqCst);
        self.clock.fetch_add(1, SeqCst);
    }

    /// From now on frames of it may be handed out.
    pub(super) fn open(&self, block: PageblockId) {
        self.closed[block.index()].store(0, SeqCst);
    }

    /// Returns the first pageblock of a block that was closed before the call began that handed it out.
    pub(super) fn broken_by(
        &self,
        block: BlockId,
        began: u64,
        counts: impl Fn(PageblockId) -> bool,
    ) -> Option<PageblockId> {
        let last = Pfn(block.pfn.0 + block.order.frames().0 - 1).pageblock().0;
        (block.pfn.pageblock().0..=last).map(PageblockId).find(|b| {
            let closed = self.closed[b.index()].load(SeqCst);
            closed != 0 && closed <= began && counts(*b)
        })
    }

    /// Records that a thread has the lease of a pageblock; names a thread that already has it.
    pub(super) fn lease(&self, block: PageblockId, me: u32) -> Result<(), u32> {
        self.leased[block.index()].compare_exchange(0, me + 1, SeqCst, SeqCst).map(|_| ()).map_err(|o| o - 1)
    }

    /// Writes down that it has not.
    pub(super) fn unlease(&self, block: PageblockId) {
        self.leased[block.index()].store(0, SeqCst);
    }
}

/// Returns the frames of a pageblock.
pub(super) fn frames_of(block: PageblockId) -> impl Iterator<Item = Pfn> {
    (block.start().0..block.start().0 + PAGEBLOCK_ORDER.frames().0).map(Pfn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::Order;

    #[test]
    fn only_what_began_after_a_pageblock_was_closed_breaks_it() {
        let ranges = Ranges::new(4);
        let block = BlockId { pfn: Pfn(512), order: Order::of(10) };
        let before = ranges.now();
        ranges.close(PageblockId(2));
        let after = ranges.now();
        assert_eq!(ranges.broken_by(block, before, |_| true), None);
        assert_eq!(ranges.broken_by(block, after, |_| true), Some(PageblockId(2)));
        assert_eq!(ranges.broken_by(block, after, |_| false), None);
        ranges.open(PageblockId(2));
        assert_eq!(ranges.broken_by(block, after, |_| true), None);
    }
}
