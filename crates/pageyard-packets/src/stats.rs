//! A pool's counters.

use pageyard_sync::{A64, Relaxed};

/// A pool's counters, under the names that Linux gives them (`struct page_pool_stats`), and what it holds.
///
/// Linux's `waive` (pages that came back to the wrong node) is missing: a pool here has no node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PoolStats {
    /// Pages handed out from the consumer's cache.
    pub alloc_fast: u64,
    /// Times that the allocator gave pages, of order 0.
    pub alloc_slow: u64,
    /// Times that the allocator gave a larger page.
    pub alloc_slow_high_order: u64,
    /// Times that the ring was empty, so that the allocator had to be asked.
    pub alloc_empty: u64,
    /// Pages handed out right after the cache was refilled from the ring.
    pub alloc_refill: u64,
    /// Pages that came back to the consumer's cache.
    pub recycle_cached: u64,
    /// Pages that the consumer gave back and its cache had no room for.
    pub recycle_cache_full: u64,
    /// Pages that came back to the ring.
    pub recycle_ring: u64,
    /// Pages that the ring had no room for: they went to the allocator.
    pub recycle_ring_full: u64,
    /// Pages that left the pool because something else used them, too.
    pub released_refcnt: u64,
    /// Pages that the pool has: handed out, in its cache, or in its ring.
    pub pages: u64,
    /// Of these, those in its ring.
    pub in_ring: u64,
}

/// A counter that one thread at a time writes.
#[derive(Default)]
pub(crate) struct Own(Count);

/// A counter that any thread adds to.
#[derive(Default)]
pub(crate) struct Count(A64Zero);

/// A word that begins at 0.
pub(crate) struct A64Zero(A64);

impl Default for A64Zero {
    fn default() -> Self {
        A64Zero(A64::new(0))
    }
}

impl Own {
    /// Adds to it: no locked instruction.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        let word = &self.0.0.0;
        // ORDER: Relaxed: a count, written by one thread at a time.
        word.store(word.load(Relaxed) + n, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

impl Count {
    pub fn add(&self, n: u64) {
        // ORDER: Relaxed: a count.
        self.0.0.fetch_add(n, Relaxed);
    }

    pub fn get(&self) -> u64 {
        // ORDER: Relaxed: a count.
        self.0.0.load(Relaxed)
    }
}
