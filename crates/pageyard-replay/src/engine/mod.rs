//! The engines: the catalogue ([`Engine`]), one by name with settings ([`EngineSpec`]), knobs ([`all_knobs`]), and what
//! a replay needs of one beyond allocating and freeing.

mod catalogue;
mod document;
pub(crate) mod kernel;
mod knobs;
mod spec;
pub(crate) mod yard;

pub use catalogue::{AnyEngine, Engine, NotBuilt, Variant, Visit};
pub use document::{KnobDocument, KnobsDocument, LinuxKind, LinuxVersions, PostedDocument};
pub use knobs::{EngineKnob, all_knobs, did_you_mean};
pub use spec::{EngineSpec, JUDGED};

use pageyard::{
    CpuId, CpuSet, Frames, Migratetype, NodeId, Order, PageAllocator, PageblockId, Pfn, ZoneId, ZoneStats,
};
use pageyard_linux::{LinuxAllocator, ListedBlocks};

/// An engine that can be brought into a recorded state and do background work.
pub trait ReplayEngine: PageAllocator {
    /// Gives a pageblock a migratetype, for an opening state.
    fn set_pageblock_migratetype(&self, block: PageblockId, m: Migratetype);

    /// Puts an allocated block into a CPU's list, in front of those already restored; `false` if the caller must free
    /// it instead.
    fn restore_cached(&self, cpu: CpuId, pfn: Pfn, order: Order, m: Migratetype) -> bool;

    /// Puts the free lists in the order of `rank`, lowest first; blocks without a rank were freed later and come before
    /// all others. An engine without lists in an order has nothing to do.
    fn order_free_lists(&self, _rank: &dyn Fn(Pfn) -> Option<u32>) {}

    /// Sets the spill limit of a CPU's lists, in frames.
    fn restore_pcp_high(&self, zone: ZoneId, cpu: CpuId, high: u64);

    /// Lets the background reclaimers that were woken sleep where enough is free, except those that the recorded host's
    /// are at work for.
    fn kswapd_tick(&self, at_work: &dyn Fn(NodeId) -> bool);

    /// Does what background work does once a second.
    fn vmstat_tick(&self);

    /// Empties the lists of all CPUs.
    fn empty_lists(&self) {
        self.drain(CpuSet::All);
    }

    /// Does what the recorded host did for a request whose reclaim was not enough: empties the lists of all CPUs, and
    /// whatever else belongs to that.
    fn reclaim_was_not_enough(&self) {
        self.empty_lists();
    }

    /// Returns how often each requested type (first index) took from each other type; `None` where the engine counts
    /// fallbacks without their types.
    fn fallbacks(&self) -> Option<Fallbacks>;

    /// Returns how many blocks went between zones and per-CPU lists; `None` where the engine counts frames alone.
    fn listed_blocks(&self) -> Option<ListedBlocks> {
        None
    }

    /// Returns the type of a pageblock; `None` where there is no such pageblock, or the engine does not say.
    fn pageblock_migratetype(&self, _: PageblockId) -> Option<Migratetype> {
        None
    }

    /// Returns the free frames of all zones, and beside them those in per-CPU lists: cheaper than a report on every
    /// zone. `None` where the engine does not say.
    fn free_and_cached(&self) -> Option<(Frames, Frames)> {
        None
    }

    /// Returns whether a free of this block by the calling thread, on the CPU that it runs on, would be checked without
    /// a locked instruction; `None` where the engine does not bias pageblocks to CPUs.
    fn is_biased_here(&self, _: Pfn) -> Option<bool> {
        None
    }

    /// Returns how often a pageblock's bias was taken back, likewise.
    fn revocations(&self) -> Option<u64> {
        None
    }
}

/// Fallbacks by the type asked for and the type taken from.
pub type Fallbacks = [[u64; Migratetype::COUNT]; Migratetype::COUNT];

/// Returns the zones of an engine.
pub(crate) fn zones<E: ReplayEngine + ?Sized>(engine: &E) -> Vec<ZoneStats> {
    (0..).map(ZoneId).map_while(|id| engine.zone_stats(id)).collect()
}

/// Returns the free blocks by order of all zones together, as the zones' free lists hold them.
pub(crate) fn blocks(zones: &[ZoneStats]) -> Vec<u64> {
    let mut sum = Vec::new();
    for zone in zones {
        let row = zone.blocks_by_order();
        sum.resize(row.len(), 0);
        sum.iter_mut().zip(row).for_each(|(a, b)| *a += b);
    }
    sum
}

impl ReplayEngine for LinuxAllocator {
    fn set_pageblock_migratetype(&self, block: PageblockId, m: Migratetype) {
        LinuxAllocator::set_pageblock_migratetype(self, block, m);
    }

    fn restore_cached(&self, cpu: CpuId, pfn: Pfn, order: Order, m: Migratetype) -> bool {
        LinuxAllocator::restore_cached(self, cpu, pfn, order, m, true)
    }

    fn order_free_lists(&self, rank: &dyn Fn(Pfn) -> Option<u32>) {
        LinuxAllocator::order_free_lists(self, rank);
    }

    fn restore_pcp_high(&self, zone: ZoneId, cpu: CpuId, high: u64) {
        LinuxAllocator::restore_pcp_high(self, zone, cpu, high);
    }

    fn kswapd_tick(&self, at_work: &dyn Fn(NodeId) -> bool) {
        self.kswapd_follows(at_work);
    }

    fn vmstat_tick(&self) {
        LinuxAllocator::vmstat_tick(self);
    }

    fn reclaim_was_not_enough(&self) {
        // Rows do not say for what type it was; most requests that reclaim are movable.
        LinuxAllocator::reclaim_was_not_enough(self, Migratetype::Movable);
    }

    fn fallbacks(&self) -> Option<Fallbacks> {
        Some(LinuxAllocator::fallbacks(self))
    }

    fn listed_blocks(&self) -> Option<ListedBlocks> {
        Some(LinuxAllocator::listed_blocks(self))
    }

    fn pageblock_migratetype(&self, block: PageblockId) -> Option<Migratetype> {
        LinuxAllocator::pageblock_migratetype(self, block)
    }

    fn free_and_cached(&self) -> Option<(Frames, Frames)> {
        Some(LinuxAllocator::free_and_cached(self))
    }
}
