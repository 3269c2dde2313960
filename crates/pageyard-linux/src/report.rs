//! Reports on the allocator, its zones and its lists. Layer: top; they change nothing.

use crate::allocator::LinuxAllocator;
use crate::events::{Fallbacks, Taken};
use crate::lock::LockStats;
use crate::zone::Zone;
use pageyard_core::{
    Counter, CpuId, Frames, Migratetype, NR_ORDERS, PageblockId, PcpStats, Pfn, Stats, ZoneId, ZoneStats,
};
use std::sync::atomic::Ordering;

/// Blocks that went between zones and per-CPU lists.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ListedBlocks {
    /// To a list.
    pub refilled: u64,
    /// Back to a zone.
    pub drained: u64,
}

impl LinuxAllocator {
    /// Counts up what all zones and lists have seen.
    pub(crate) fn stats(&self) -> Stats {
        let spanned = self.zones.iter().map(|z| z.span.spanned).sum();
        let bytes = |z: &Zone| (z.tags.len() + z.lock().inner.lists.bytes() + z.tags.len() / 512) as u64;
        let metadata = self.zones.iter().map(bytes).sum();
        let mut s = Stats::new(self.zones.len(), self.config.cpus as usize, metadata, spanned);
        for counter in Counter::ALL {
            s[*counter] += self.counts.pressure.get(*counter);
        }
        // ORDER: Relaxed: counters, which order nothing.
        s[Counter::AllocSlow] = self.counts.slow.load(Ordering::Relaxed);
        s[Counter::KswapdWake] = self.counts.wakes.load(Ordering::Relaxed);
        s[Counter::AllocFail] = self.counts.fails.load(Ordering::Relaxed);
        for zone in &self.zones {
            let c = zone.lock().inner.counts;
            s[Counter::Extfrag] += c.fallbacks.as_flattened().iter().sum::<u64>();
            s[Counter::ExtfragSteal] += c.extfrag_steal;
            s[Counter::ExtfragClaim] += c.extfrag_claim;
            s[Counter::HighatomicReserve] += c.highatomic_reserve;
            s[Counter::HighatomicUnreserve] += c.highatomic_unreserve;
            s[Counter::WatermarkBoost] += c.watermark_boost;
            let mut taken = |c: Taken| {
                s[Counter::Pgalloc] += c.pgalloc;
                s[Counter::Pgfree] += c.pgfree;
                s[Counter::NumaHit] += c.numa_hit;
                s[Counter::NumaMiss] += c.numa_miss;
                s[Counter::NumaLocal] += c.numa_local;
                s[Counter::NumaOther] += c.numa_other;
            };
            taken(c.taken);
            zone.pcps.iter().for_each(|p| taken(p.lock().counts.taken));
            // ORDER: Relaxed: counters, which order nothing.
            s[Counter::NumaForeign] += zone.foreign.load(Ordering::Relaxed);
            s[Counter::NumaInterleave] += zone.interleaved.load(Ordering::Relaxed);
            for pcp in &zone.pcps {
                let c = pcp.lock().counts;
                s[Counter::PcpRefill] += c.refills;
                s[Counter::PcpRefillPages] += c.refilled.frames;
                s[Counter::PcpDrain] += c.drains;
                s[Counter::PcpDrainPages] += c.drained.frames;
            }
        }
        let lock = self.lock_stats();
        s[Counter::ZoneLock] = lock.taken;
        s[Counter::ZoneLockContended] = lock.contended;
        s[Counter::ZoneLockWaitNs] = lock.wait_ns;
        s
    }

    /// Reports a zone.
    pub(crate) fn zone_stats(&self, zone: ZoneId) -> Option<ZoneStats> {
        let z = self.zones.get(zone.index())?;
        let mut free_blocks = [[0; Migratetype::COUNT]; NR_ORDERS];
        free_blocks[..z.free_blocks().len()].copy_from_slice(&z.free_blocks());
        let mut pageblocks = [0; Migratetype::COUNT];
        for b in z.pageblocks.managed() {
            pageblocks[z.pageblocks.type_of(Pfn(b.start().0.max(z.span.start.0))).index()] += 1;
        }
        Some(ZoneStats {
            span: z.span,
            free: Frames(z.free.get()),
            cached: Frames(z.pcps.iter().map(|p| p.lock().lists.held()).sum()),
            watermarks: z.marks.get(),
            boost: Frames(z.boost.get()),
            protection: z.protection.get(),
            highatomic: Frames(z.reserved_highatomic.get()),
            free_blocks,
            pageblocks,
        })
    }

    /// Reports a CPU's lists of a zone.
    pub(crate) fn pcp_stats(&self, zone: ZoneId, cpu: CpuId) -> Option<PcpStats> {
        let pages = self.zones.get(zone.index())?.pcps.get(cpu.index())?.lock();
        Some(pages.policy.stats(pages.lists.held()))
    }

    /// Returns the free frames of all zones, and beside them those in per-CPU lists.
    #[must_use]
    pub fn free_and_cached(&self) -> (Frames, Frames) {
        let cached = |z: &Zone| z.pcps.iter().map(|p| p.lock().lists.held()).sum::<u64>();
        let free = self.zones.iter().map(|z| Frames(z.free.get())).sum();
        (free, Frames(self.zones.iter().map(cached).sum()))
    }

    /// Returns the type of a pageblock, or `None` where there is no such pageblock. Where zones share it, that of the
    /// lowest one's part.
    #[must_use]
    pub fn pageblock_migratetype(&self, block: PageblockId) -> Option<Migratetype> {
        let first = block.start();
        let zone = self.zones.iter().find(|z| z.span.start < Pfn(first.0 + 512) && first < z.span.end())?;
        let at = Pfn(first.0.max(zone.span.start.0));
        Some(zone.pageblocks.type_of(at))
    }

    /// Returns how many superpageblocks of `size` pageblocks hold an unmovable or reclaimable pageblock or one of the
    /// high-order reserve, and how many hold memory at all. One that several zones share counts in each.
    #[must_use]
    pub fn tainted(&self, size: u64) -> (u64, u64) {
        let (mut tainted, mut all) = (0, 0);
        for zone in &self.zones {
            let mut last = None;
            for block in zone.pageblocks.managed() {
                if last.replace(block.0 / size) != Some(block.0 / size) {
                    all += 1;
                    tainted +=
                        u64::from(zone.pageblocks.is_tainted(block.start().max(zone.span.start), size));
                }
            }
        }
        (tainted, all)
    }

    /// Returns how often each type fell back to each other type.
    #[must_use]
    pub fn fallbacks(&self) -> Fallbacks {
        let mut sum = Fallbacks::default();
        for zone in &self.zones {
            let locked = zone.lock();
            for (row, counts) in sum.iter_mut().zip(locked.inner.counts.fallbacks) {
                row.iter_mut().zip(counts).for_each(|(a, b)| *a += b);
            }
        }
        sum
    }

    /// Returns how many blocks went from zones to per-CPU lists, and how many back. [`Counter::PcpRefillPages`] and
    /// [`Counter::PcpDrainPages`] count their frames.
    ///
    /// # Linux
    /// Events `mm_page_alloc_zone_locked`, of which there is one for a block that goes to no list, too, and
    /// `mm_page_pcpu_drain`.
    #[must_use]
    pub fn listed_blocks(&self) -> ListedBlocks {
        let mut sum = ListedBlocks::default();
        for pcp in self.zones.iter().flat_map(|zone| &zone.pcps) {
            let counts = pcp.lock().counts;
            sum.refilled += counts.refilled.blocks;
            sum.drained += counts.drained.blocks;
        }
        sum
    }

    /// Returns what the zone locks have seen, together.
    #[must_use]
    pub fn lock_stats(&self) -> LockStats {
        self.zones.iter().map(|z| z.lock.stats()).fold(LockStats::default(), |a, b| LockStats {
            taken: a.taken + b.taken,
            contended: a.contended + b.contended,
            wait_ns: a.wait_ns + b.wait_ns,
        })
    }
}
