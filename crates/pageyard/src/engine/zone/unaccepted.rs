//! Memory of a zone that is accepted when it is needed: which of its pageblocks comes next.

use crate::engine::geometry::BlockIdx;
// Not `pageyard-sync`'s atomics: both words are hints, and the descriptors decide.
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many pageblocks are yet to be accepted, and where the search for one begins.
// ORDER: Relaxed: a call that sees an old count does what it would have done a moment earlier.
#[derive(Default)]
pub(crate) struct Unaccepted {
    left: AtomicU64,
    next: AtomicU64,
}

impl Unaccepted {
    /// Returns how many pageblocks are left.
    #[inline(always)]
    pub(crate) fn left(&self) -> u64 {
        self.left.load(Relaxed)
    }

    /// Adds one: before its descriptor says so, so that the count is never too low.
    pub(crate) fn add(&self, block: BlockIdx) {
        self.left.fetch_add(1, Relaxed);
        self.next.fetch_min(block.get() as u64, Relaxed);
    }

    /// Takes one away.
    pub(crate) fn remove(&self) {
        self.left.fetch_sub(1, Relaxed);
    }

    /// Sets the count while nothing else runs, and searches from the start.
    pub(crate) fn set(&self, left: u64) {
        self.left.store(left, Relaxed);
        self.next.store(0, Relaxed);
    }

    /// Returns the first of the zone's `blocks` pageblocks for which `is` holds. Starts where the last search ended and
    /// wraps around.
    pub(crate) fn search(&self, blocks: usize, is: impl Fn(BlockIdx) -> bool) -> Option<BlockIdx> {
        let from = (self.next.load(Relaxed) as usize).min(blocks);
        let found = (from..blocks).chain(0..from).map(BlockIdx::new).find(|block| is(*block))?;
        self.next.store(found.get() as u64, Relaxed);
        Some(found)
    }
}
