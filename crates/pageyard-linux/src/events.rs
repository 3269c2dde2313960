//! Event counts of a CPU's lists, of a zone, and of the allocator. Layer: values.

use pageyard_core::stats::NR_COUNTERS;
use pageyard_core::{Counter, Migratetype, Order};
use std::sync::atomic::{AtomicU64, Ordering};

/// Fallbacks: how often a request for the first type took from a pageblock of the second.
pub type Fallbacks = [[u64; Migratetype::COUNT]; Migratetype::COUNT];

/// Whether an allocation came from the preferred node, and whether that is the CPU's own.
#[derive(Clone, Copy)]
pub struct Origin {
    pub hit: bool,
    pub local: bool,
}

/// Events of one CPU's lists.
#[derive(Clone, Copy, Default, Debug)]
pub struct PcpCounts {
    pub taken: Taken,
    pub refills: u64,
    pub refilled: Moved,
    pub drains: u64,
    pub drained: Moved,
}

/// Blocks that went from a zone to a CPU's list, or back.
#[derive(Clone, Copy, Default, Debug)]
pub struct Moved {
    pub blocks: u64,
    pub frames: u64,
}

impl Moved {
    /// Counts a block.
    #[inline]
    pub fn count(&mut self, order: Order) {
        self.blocks += 1;
        self.frames += order.frames().0;
    }
}

/// Frames allocated and freed, and where they came from.
#[derive(Clone, Copy, Default, Debug)]
pub struct Taken {
    pub pgalloc: u64,
    pub pgfree: u64,
    pub numa_hit: u64,
    pub numa_miss: u64,
    pub numa_local: u64,
    pub numa_other: u64,
}

impl Taken {
    /// Counts an allocation.
    #[inline]
    pub fn count(&mut self, order: Order, origin: Origin) {
        self.pgalloc += order.frames().0;
        *(if origin.hit { &mut self.numa_hit } else { &mut self.numa_miss }) += 1;
        *(if origin.local { &mut self.numa_local } else { &mut self.numa_other }) += 1;
    }
}

/// Events that happen under the zone lock.
#[derive(Clone, Copy, Default, Debug)]
pub struct ZoneCounts {
    /// Taken from and given to the zone directly, bypassing the per-CPU lists.
    pub taken: Taken,
    pub extfrag_steal: u64,
    pub extfrag_claim: u64,
    pub highatomic_reserve: u64,
    pub highatomic_unreserve: u64,
    pub watermark_boost: u64,
    /// Fallbacks by the type asked for and the type taken from.
    pub fallbacks: Fallbacks,
}

/// Events of the slow path.
#[derive(Default)]
pub struct Counts {
    pub slow: AtomicU64,
    pub wakes: AtomicU64,
    pub fails: AtomicU64,
    /// Requests tried again because the allowed nodes changed.
    pub retries: AtomicU64,
    /// Whose turn it is among the nodes.
    pub turn: AtomicU64,
    /// The counters of reclaim and compaction.
    pub pressure: Tallies,
}

/// Counters of reclaim and compaction, by their numbers.
pub struct Tallies([AtomicU64; NR_COUNTERS]);

impl Default for Tallies {
    fn default() -> Self {
        Tallies([const { AtomicU64::new(0) }; NR_COUNTERS])
    }
}

impl Tallies {
    // ORDER: Relaxed, here and below: counters, which order nothing.
    pub fn add(&self, counter: Counter, n: u64) {
        self.0[counter as usize].fetch_add(n, Ordering::Relaxed);
    }

    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize].load(Ordering::Relaxed)
    }
}

impl Counts {
    pub fn add(counter: &AtomicU64) {
        // ORDER: Relaxed: a counter, which orders nothing.
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
