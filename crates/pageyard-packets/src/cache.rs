//! The state of a pool's consumer side: it stays with the pool when the consumer changes.

use crate::carve::Carve;
use crate::stats::{Own, PoolStats};
use core::cell::UnsafeCell;
use pageyard_core::units::Order;
use pageyard_sync::{A32, Release};

/// Pages that a consumer keeps for itself.
///
/// # Linux
/// `PP_ALLOC_CACHE_SIZE`.
pub(crate) const CACHE: usize = 128;

/// A consumer's pages, and the one that it carves.
pub(crate) struct Cache {
    pub numbers: [u32; CACHE],
    pub len: usize,
    /// How many it takes: none once the pool is closed.
    pub room: usize,
    pub carve: Carve,
}

/// The state of a pool's consumer side. It stays when the consumer changes.
#[repr(align(128))]
pub(crate) struct Consumer {
    pub cache: UnsafeCell<Cache>,
    /// Not 0 while there is one.
    pub held: A32,
    pub fast: Own,
    pub slow: Own,
    pub empty: Own,
    pub refill: Own,
    pub cached: Own,
    pub cache_full: Own,
    pub from_ring: Own,
}

// SAFETY: the cache is used by the one `PoolConsumer` that holds `held`; all else is atomic.
unsafe impl Sync for Consumer {}

impl Consumer {
    pub fn new() -> Consumer {
        let cache = Cache { numbers: [0; CACHE], len: 0, room: CACHE, carve: Carve::none() };
        let [fast, slow, empty, refill, cached, cache_full, from_ring] = Default::default();
        let (cache, held) = (UnsafeCell::new(cache), A32::new(0));
        Consumer { cache, held, fast, slow, empty, refill, cached, cache_full, from_ring }
    }

    /// Ends the consumer: there may be another.
    pub fn leave(&self) {
        // ORDER: Release pairs with the Acquire in `PoolConsumer::enter`: the cache is as it was left.
        self.held.store(0, Release);
    }

    /// Returns what it has counted.
    pub fn stats(&self, order: Order) -> PoolStats {
        let (small, large) = if order == Order::ZERO { (1, 0) } else { (0, 1) };
        PoolStats {
            alloc_fast: self.fast.get(),
            alloc_slow: small * self.slow.get(),
            alloc_slow_high_order: large * self.slow.get(),
            alloc_empty: self.empty.get(),
            alloc_refill: self.refill.get(),
            recycle_cached: self.cached.get(),
            recycle_cache_full: self.cache_full.get(),
            recycle_ring: self.from_ring.get(),
            ..PoolStats::default()
        }
    }
}
