//! An engine's reports: counters, zones, per-CPU lists, and the census of an audit.

use crate::memmap::{NR_ZONE_KINDS, ZoneSpan};
use crate::migratetype::Migratetype;
use crate::units::{Frames, NR_ORDERS};
use crate::watermark::Watermarks;
use core::ops::{Index, IndexMut};

macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A counter, named as `/proc/vmstat` names it where Linux has it.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum Counter { $($(#[$doc])* $variant,)* }

        impl Counter {
            /// Every counter.
            pub const ALL: &'static [Counter] = &[$(Counter::$variant,)*];

            /// Returns the name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Counter::$variant => $name,)* }
            }
        }
    };
}

counters! {
    /// Frames allocated.
    Pgalloc = "pgalloc",
    /// Frames freed.
    Pgfree = "pgfree",
    /// Requests that found every allowed zone below its low watermark.
    AllocSlow = "allocslow",
    /// Requests that woke the background reclaimer.
    KswapdWake = "kswapd_wake",
    /// Requests that were refused.
    AllocFail = "allocfail",
    /// Blocks taken from a pageblock of another type.
    Extfrag = "extfrag",
    /// Of those, the ones taken from a pageblock too little free to be converted.
    ExtfragSteal = "extfrag_steal",
    /// Pageblocks converted to the type of the request that took from them.
    ExtfragClaim = "extfrag_claim",
    /// Pageblocks set aside for high-order requests that cannot wait.
    HighatomicReserve = "highatomic_reserve",
    /// Such pageblocks given back.
    HighatomicUnreserve = "highatomic_unreserve",
    /// Times fragmentation raised a zone's watermarks.
    WatermarkBoost = "watermark_boost",
    /// Times a per-CPU list was filled from its zone.
    PcpRefill = "pcp_refill",
    /// Frames that came that way.
    PcpRefillPages = "pcp_refill_pages",
    /// Times frames went from a per-CPU list to their zone.
    PcpDrain = "pcp_drain",
    /// Frames that went that way.
    PcpDrainPages = "pcp_drain_pages",
    /// Requests served by a node of their choice.
    NumaHit = "numa_hit",
    /// Requests served by another node.
    NumaMiss = "numa_miss",
    /// Requests that were meant for one node and served by another.
    NumaForeign = "numa_foreign",
    /// Requests served by the node of the CPU that made them.
    NumaLocal = "numa_local",
    /// Requests served by any other node.
    NumaOther = "numa_other",
    /// Requests served by the node whose turn it was.
    NumaInterleave = "numa_interleave",
    /// Requests that waited for reclaim.
    Allocstall = "allocstall",
    /// Frames that reclaim looked at for requests that wait.
    PgscanDirect = "pgscan_direct",
    /// Frames that it freed for them.
    PgstealDirect = "pgsteal_direct",
    /// Frames that the background reclaimer looked at.
    PgscanKswapd = "pgscan_kswapd",
    /// Frames that it freed.
    PgstealKswapd = "pgsteal_kswapd",
    /// Frames moved.
    PgmigrateSuccess = "pgmigrate_success",
    /// Frames that could not be moved.
    PgmigrateFail = "pgmigrate_fail",
    /// Frames that the migrate scanner examined.
    CompactMigrateScanned = "compact_migrate_scanned",
    /// Frames that the free scanner examined.
    CompactFreeScanned = "compact_free_scanned",
    /// Frames isolated by either.
    CompactIsolated = "compact_isolated",
    /// Requests that waited for compaction.
    CompactStall = "compact_stall",
    /// Of those, the ones that it did not help.
    CompactFail = "compact_fail",
    /// Of those, the ones that it did.
    CompactSuccess = "compact_success",
    /// Free frames that compaction took without a scan.
    CompactFreeDirectAlloc = "compact_free_direct_alloc",
    /// Of those, the ones in the block that it was emptying.
    CompactFreeDirectMiss = "compact_free_direct_miss",
    /// Of those, the ones in a pageblock that the migrate scanner has passed already.
    CompactFreeDirectBehind = "compact_free_direct_behind",
    /// Runs of the background compactor.
    CompactDaemonWake = "compact_daemon_wake",
    /// Zones that a request's compaction left alone because it had failed there lately.
    CompactDeferred = "compact_deferred",
    /// Times that compaction emptied a CPU's lists.
    CompactDrain = "compact_drain",
    /// Pageblocks that compaction found in another compactor's use for the opposite end.
    CompactConflict = "compact_conflict",
    /// Isolated frames put back because their block could not be emptied.
    CompactAbandoned = "compact_abandoned",
    /// Pageblocks that a scanner passed over.
    CompactSkipped = "compact_skipped",
    /// Compactions that gave way because a lock was held.
    CompactLockContended = "compact_lock_contended",
    /// Compactions that gave way because the CPU was wanted.
    CompactYield = "compact_yield",
    /// Blocks that compaction handed to its request before others could take them.
    CompactCapture = "compact_capture",
    /// Times the zone lock was taken.
    ZoneLock = "zone_lock",
    /// Times it was already held.
    ZoneLockContended = "zone_lock_contended",
    /// Nanoseconds spent waiting for it.
    ZoneLockWaitNs = "zone_lock_wait_ns",
}

/// How many counters there are.
pub const NR_COUNTERS: usize = Counter::ALL.len();

/// The counters of an instance, and the size of its metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stats {
    counters: [u64; NR_COUNTERS],
    /// Zones, numbered from 0.
    pub zones: usize,
    /// CPUs, numbered from 0.
    pub cpus: usize,
    /// Bytes of metadata that grow with memory, per-CPU lists apart.
    pub metadata_bytes: u64,
    /// Frames that the zones span, holes included.
    pub spanned: Frames,
}

impl Stats {
    /// Makes counters that are all zero.
    #[must_use]
    pub const fn new(zones: usize, cpus: usize, metadata_bytes: u64, spanned: Frames) -> Stats {
        Stats { counters: [0; NR_COUNTERS], zones, cpus, metadata_bytes, spanned }
    }

    /// Iterates over the counters and their values.
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> + '_ {
        Counter::ALL.iter().map(|c| (*c, self[*c]))
    }
}

impl Index<Counter> for Stats {
    type Output = u64;
    fn index(&self, counter: Counter) -> &u64 {
        &self.counters[counter as usize]
    }
}

impl IndexMut<Counter> for Stats {
    fn index_mut(&mut self, counter: Counter) -> &mut u64 {
        &mut self.counters[counter as usize]
    }
}

/// A zone's state at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneStats {
    /// Where it lies and how large it is.
    pub span: ZoneSpan,
    /// Free frames, those in per-CPU lists not counted. `nr_free_pages`.
    pub free: Frames,
    /// Frames in per-CPU lists.
    pub cached: Frames,
    /// The watermarks, without boost.
    pub watermarks: Watermarks,
    /// The current boost of each watermark after fragmentation.
    pub boost: Frames,
    /// Frames kept back from requests for each kind of zone.
    pub protection: [Frames; NR_ZONE_KINDS],
    /// Frames in pageblocks reserved for high-order requests that cannot wait.
    pub highatomic: Frames,
    /// Free blocks by order and migratetype; huge blocks beyond the engine's largest order are counted as parts.
    pub free_blocks: [[u64; Migratetype::COUNT]; NR_ORDERS],
    /// Pageblocks by migratetype.
    pub pageblocks: [u64; Migratetype::COUNT],
}

impl ZoneStats {
    /// Returns the free blocks of each order, all types together: a row of `/proc/buddyinfo`.
    #[must_use]
    pub fn blocks_by_order(&self) -> [u64; NR_ORDERS] {
        self.free_blocks.map(|by_type| by_type.iter().sum())
    }
}

/// The state of one CPU's lists of one zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PcpStats {
    /// Frames in the lists.
    pub count: u64,
    /// Frames at which they spill.
    pub high: u64,
    /// Frames that move at a time.
    pub batch: u64,
    /// The least that `high` may become.
    pub high_min: u64,
    /// The most that `high` may become.
    pub high_max: u64,
}

/// Every managed frame, by its state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Census {
    /// Frames that the instance manages.
    pub managed: Frames,
    /// Free in a zone.
    pub free: Frames,
    /// Free in a per-CPU list.
    pub cached: Frames,
    /// Held by callers.
    pub allocated: Frames,
    /// Free, and taken out of allocation.
    pub isolated: Frames,
}

impl Census {
    /// Returns whether the parts make up the whole.
    #[must_use]
    pub fn is_conserved(&self) -> bool {
        self.free + self.cached + self.allocated + self.isolated == self.managed
    }
}
