//! An instance from inside: single frames, pageblocks, leases, biases. Tests, benchmarks and other crates of this
//! project look at it this way; an owner of memory need not.

use super::map::bias::BiasState;
use super::map::damage::MetadataPart;
use super::pcp::bias_asks::BiasStats;
use super::pcp::percpu::PerCpu;
use super::yard::Pageyard;
use pageyard_core::allocator::Cx;
use pageyard_core::clear::Clear;
#[cfg(not(pageyard_loom))]
use pageyard_core::compaction::FrameState;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::observer::Observer;
use pageyard_core::units::{CompactorId, CpuId, Frames, PageblockId, Pfn, ZoneId};

/// An instance from inside, for those who test or measure it. It may change in any release.
pub trait Internals {
    /// Describes a frame: a hint, unless the caller owns the block that it is part of.
    #[must_use]
    #[cfg(not(pageyard_loom))]
    fn frame(&self, pfn: Pfn) -> FrameState;

    /// Returns the type of a pageblock, or `None` where there is no such pageblock. Where zones share it, that of the
    /// lowest one's part.
    #[must_use]
    fn pageblock_migratetype(&self, block: PageblockId) -> Option<Migratetype>;

    /// Returns the free frames of all zones, and beside them those in per-CPU lists. It looks at no pageblock, unlike
    /// [`zone_stats`](Pageyard::zone_stats).
    #[must_use]
    fn free_and_cached(&self) -> (Frames, Frames);

    /// Takes a pageblock out of allocation: its free frames leave the zone's count, and what is freed into it stays
    /// there. Returns whether there was any of it and no part was isolated already, and the instance has the CPU.
    ///
    /// Frames in per-CPU lists are not reached. After a [`drain`](Pageyard::drain) of all CPUs that [is
    /// complete](crate::Drained::is_complete), no allocation that begins is served from the pageblock until it is
    /// restored: frames freed while it is isolated go into no list.
    ///
    /// # Linux
    /// `set_migratetype_isolate`, without `zone_pcp_disable`: a push reads isolation again where it commits.
    fn isolate(&self, cx: &Cx, block: PageblockId) -> bool;

    /// Takes an isolated pageblock back into allocation. Returns whether it was isolated and the instance has the CPU.
    fn restore(&self, cx: &Cx, block: PageblockId) -> bool;

    /// Leases a pageblock to a compactor: no other compactor gets it, and it is not allocated as a whole meanwhile.
    /// Returns whether the lease was granted.
    ///
    /// A pageblock that two zones share is leased once, through the lower one. One that goes offline loses its lease.
    fn lease_pageblock(&self, block: PageblockId, by: CompactorId) -> bool;

    /// Ends the lease of a pageblock, whichever compactor has it. Returns whether it was leased.
    fn unlease_pageblock(&self, block: PageblockId) -> bool;

    /// Returns how the tags of a frame's pageblock are won at the moment.
    #[must_use]
    fn bias_of(&self, pfn: Pfn) -> Option<BiasState>;

    /// Returns whether a frame's pageblock is biased to the CPU that the calling thread runs on at this moment.
    #[must_use]
    fn is_biased_here(&self, pfn: Pfn) -> bool;

    /// Returns how often pageblocks were biased to a CPU, and how often a bias was revoked.
    #[must_use]
    fn bias_stats(&self) -> BiasStats;

    /// Returns the most index words, and descriptors found through them, that a successful allocation of this CPU has
    /// looked at since the last call.
    fn take_search_steps(&self, cpu: CpuId) -> Option<u64>;

    /// Returns a word of a zone's metadata, counted round; of a tag its byte. Zero where there is no such zone.
    #[must_use]
    fn word(&self, zone: ZoneId, part: MetadataPart, nth: usize) -> u64;

    /// Flips bits in a word of a zone's metadata, counted round; in a tag's byte the lowest eight. From then on a frame
    /// may have two owners, or be lost. What still holds: every call ends, with a value, and touches no other memory.
    ///
    /// Nothing else may use the instance meanwhile.
    fn damage(&self, zone: ZoneId, part: MetadataPart, nth: usize, flip: u64);
}

impl<P: PerCpu, O: Observer, C: Clear> Internals for Pageyard<'_, P, O, C> {
    #[cfg(not(pageyard_loom))]
    fn frame(&self, pfn: Pfn) -> FrameState {
        self.frame(pfn)
    }

    fn pageblock_migratetype(&self, block: PageblockId) -> Option<Migratetype> {
        self.pageblock_migratetype(block)
    }

    fn free_and_cached(&self) -> (Frames, Frames) {
        self.free_and_cached()
    }

    fn isolate(&self, cx: &Cx, block: PageblockId) -> bool {
        self.isolate(cx, block)
    }

    fn restore(&self, cx: &Cx, block: PageblockId) -> bool {
        self.restore(cx, block)
    }

    fn lease_pageblock(&self, block: PageblockId, by: CompactorId) -> bool {
        self.lease_pageblock(block, by)
    }

    fn unlease_pageblock(&self, block: PageblockId) -> bool {
        self.unlease_pageblock(block)
    }

    fn bias_of(&self, pfn: Pfn) -> Option<BiasState> {
        self.bias_of(pfn)
    }

    fn is_biased_here(&self, pfn: Pfn) -> bool {
        self.is_biased_here(pfn)
    }

    fn bias_stats(&self) -> BiasStats {
        self.bias_stats()
    }

    fn take_search_steps(&self, cpu: CpuId) -> Option<u64> {
        self.take_search_steps(cpu)
    }

    fn word(&self, zone: ZoneId, part: MetadataPart, nth: usize) -> u64 {
        self.zones.get(zone.index()).map_or(0, |zone| match part {
            MetadataPart::Index => zone.pageblocks.index.word(nth),
            _ => zone.pageblocks.frames.word(part, nth),
        })
    }

    fn damage(&self, zone: ZoneId, part: MetadataPart, nth: usize, flip: u64) {
        if let Some(zone) = self.zones.get(zone.index()) {
            match part {
                MetadataPart::Index => zone.pageblocks.index.flip(nth, flip),
                _ => zone.pageblocks.frames.flip(part, nth, flip),
            }
        }
    }
}
