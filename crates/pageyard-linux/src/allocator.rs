//! The allocator: requests walk the zonelist; frees find their zone.

use crate::config::Config;
use crate::fallback::Found;
use crate::lock::LockStats;
use crate::tag::{MAX_PAGE_ORDER, Tag};
use crate::zone::{Effort, Locked, Managed, Mark, Zone};
use crate::zonelist::Zonelists;
use pageyard::memmap::NR_ZONE_KINDS;
use pageyard::watermark::default_min_free_kbytes;
use pageyard::{
    AllocError, AuditError, BadRequest, BlockId, Census, ClaimError, Counter, CpuId, CpuSet, Cx, Frames,
    FreeError, MapError, MemoryMap, Migratetype, NR_ORDERS, Order, PAGEBLOCK_ORDER, PageAllocator, PcpStats,
    Pfn, Request, RequestFlags, Stats, ZoneId, ZoneKind, ZoneSpan, ZoneStats, block,
};
use std::sync::atomic::{AtomicU64, Ordering};

/// Linux's page allocator: a zoned buddy system with per-CPU lists.
///
/// All managed frames are free at the start, and every pageblock is movable.
pub struct LinuxAllocator {
    pub(crate) config: Config,
    pub(crate) zones: Vec<Zone>,
    pub(crate) zonelists: Zonelists,
    pub(crate) counts: Counts,
}

/// Events of the slow path.
#[derive(Default)]
pub(crate) struct Counts {
    pub slow: AtomicU64,
    pub wakes: AtomicU64,
    pub fails: AtomicU64,
}

impl Counts {
    pub fn add(counter: &AtomicU64) {
        // ORDER: Relaxed: a counter, which orders nothing.
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Fallbacks: how often a request for the first type took from a pageblock of the second.
pub type Fallbacks = [[u64; Migratetype::COUNT]; Migratetype::COUNT];

impl LinuxAllocator {
    /// Makes an allocator over a memory map.
    ///
    /// # Errors
    /// [`MapError::BeyondLimit`] where a zone spans 2^32 frames or more: the lists number frames with 32 bits.
    pub fn new(map: &MemoryMap<'_>, config: &Config) -> Result<LinuxAllocator, MapError> {
        let spans: Vec<(ZoneId, ZoneSpan)> = map.zones().collect();
        if spans.iter().any(|(_, s)| s.spanned.0 >= u64::from(u32::MAX)) {
            let region = map.regions().position(|r| r.end() == map.end()).unwrap_or(0);
            return Err(MapError::BeyondLimit { region });
        }
        let lowmem: Frames =
            spans.iter().filter(|(_, s)| s.kind <= ZoneKind::Normal).map(|(_, s)| s.managed).sum();
        let knobs = &config.watermark;
        let min_free_kbytes = knobs.min_free_kbytes.unwrap_or_else(|| {
            default_min_free_kbytes(spans.iter().map(|(_, s)| s), knobs.transparent_hugepage)
        });
        let mut nodes: Vec<_> = spans.iter().map(|(_, s)| s.node).collect();
        nodes.dedup();
        let cpus_of_node = u64::from(config.cpus).div_ceil(nodes.len() as u64);
        let zones = spans
            .iter()
            .map(|(id, span)| {
                let mut of_node = [Frames::ZERO; NR_ZONE_KINDS];
                for (_, s) in spans.iter().filter(|(_, s)| s.node == span.node) {
                    of_node[s.kind.index()] += s.managed;
                }
                let managed = Managed { of_node, lowmem, min_free_kbytes };
                Zone::new(*id, *span, map, &managed, cpus_of_node, config)
            })
            .collect::<Vec<_>>();
        let zonelists = Zonelists::new(&zones, config.cpus);
        Ok(LinuxAllocator { config: config.clone(), zones, zonelists, counts: Counts::default() })
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the zones.
    pub(crate) fn zones(&self) -> &[Zone] {
        &self.zones
    }

    pub(crate) fn zone_of(&self, pfn: Pfn) -> Option<&Zone> {
        self.zones.iter().find(|z| z.span.spans(pfn))
    }

    fn check(&self, cx: &Cx, request: &Request) -> Result<(), BadRequest> {
        if request.order > MAX_PAGE_ORDER {
            return Err(BadRequest::OrderTooLarge { order: request.order, largest: MAX_PAGE_ORDER });
        }
        if !request.migratetype.is_requested() {
            return Err(BadRequest::Migratetype);
        }
        if cx.cpu.0 >= self.config.cpus {
            return Err(BadRequest::NoSuchCpu);
        }
        let mut zones = self.zonelists.walk(&self.zones, cx.cpu.index(), request);
        if zones.next().is_none() { Err(BadRequest::NoZone) } else { Ok(()) }
    }

    /// # Linux
    /// `get_page_from_freelist`.
    pub(crate) fn try_zones(&self, cx: &Cx, request: &Request, effort: Effort) -> Option<Pfn> {
        let order = request.order;
        let mut walk = self.zonelists.walk(&self.zones, cx.cpu.index(), request);
        let preferred = walk.clone().next()?.span.node;
        let found = walk.find_map(|zone| {
            // Another node costs more than a mixed pageblock.
            if effort.nofragment && zone.span.node != preferred {
                return None;
            }
            let above = |mark| {
                zone.watermark_ok(order, request.highest_zone, Effort { mark, ..effort }, &self.config)
            };
            // Far from the watermarks one check does; near them the per-CPU lists are told to shrink.
            let roomy = !zone.below_high.get() && above(Mark::High);
            zone.below_high.set(!roomy);
            if !roomy && !above(effort.mark) {
                return None;
            }
            Some((self.take_from(zone, cx, request, effort)?, zone))
        });
        if let Some((pfn, zone)) = found {
            if effort.wake && zone.boosted.take() {
                self.wake(zone);
            }
            if effort.is_highatomic(order) {
                zone.reserve_highatomic(pfn, order, &self.config);
            }
            return Some(pfn);
        }
        effort
            .nofragment
            .then(|| self.try_zones(cx, request, Effort { nofragment: false, ..effort }))
            .flatten()
    }

    /// # Linux
    /// `rmqueue`.
    fn take_from(&self, zone: &Zone, cx: &Cx, request: &Request, effort: Effort) -> Option<Pfn> {
        let (order, m) = (request.order, request.migratetype);
        let slot = &zone.pcps[cx.cpu.index()];
        let taken = Tag::Allocated(order, m == Migratetype::Movable);
        let local = zone.span.node == self.zones[self.zonelists.first(cx.cpu.index())].span.node;
        if self.config.pcp_list(order, m).is_some()
            && self.config.pcp_protection.admits(cx.context)
            && let Some(mut pcp) = slot.try_lock()
            && let Some(pfn) = pcp.alloc(zone, order, m, effort, &self.config)
        {
            zone.set_tag(pfn, taken);
            pcp.counts.count_alloc(order, local);
            return Some(pfn);
        }
        let pfn = {
            let mut locked = zone.lock();
            let reserve = |locked: &mut Locked<'_>, may: bool| {
                may.then(|| locked.take_smallest(order, Migratetype::HighAtomic)).flatten()
            };
            let desperate = RequestFlags::NON_BLOCKING | RequestFlags::OOM_VICTIM;
            reserve(&mut locked, effort.is_highatomic(order))
                .or_else(|| locked.rmqueue(order, m, effort, &self.config, &mut Found::default()))
                .or_else(|| reserve(&mut locked, effort.reserves.intersects(desperate)))?
        };
        zone.set_tag(pfn, taken);
        slot.lock().counts.count_alloc(order, local);
        Some(pfn)
    }

    fn wake(&self, zone: &Zone) {
        Counts::add(&self.counts.wakes);
        zone.kswapd_woken.set(true);
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

impl PageAllocator for LinuxAllocator {
    fn alloc(&self, cx: &Cx, request: &Request) -> Result<Pfn, AllocError> {
        self.check(cx, request)?;
        let wake = request.flags.contains(RequestFlags::WAKE_RECLAIM);
        let normal = self.zonelists.walk(&self.zones, cx.cpu.index(), request).next();
        let nofragment = self.config.nofragment && normal.is_some_and(|z| z.span.kind == ZoneKind::Normal);
        let effort = Effort { nofragment, wake, ..Effort::plain(Mark::Low) };
        match self.try_zones(cx, request, effort) {
            Some(pfn) => Ok(pfn),
            None => self.slow_path(cx, request),
        }
    }

    fn free(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.free_checked(cx, pfn, order, false)
    }

    fn split(&self, pfn: Pfn, from: Order, to: Order) -> Result<(), FreeError> {
        if to > from {
            return Err(FreeError::Misaligned);
        }
        let (zone, movable) = self.held(pfn, from)?;
        if to == from {
            return Ok(());
        }
        let part = Tag::Allocated(to, movable);
        if !zone.tags.swap(zone.number(pfn), Tag::Allocated(from, movable), part) {
            return Err(FreeError::NotAllocated);
        }
        for i in 1..1u64 << (from.get() - to.get()) {
            zone.set_tag(Pfn(pfn.0 + (i << to.get())), part);
        }
        Ok(())
    }

    fn claim_exact(&self, pfn: Pfn, order: Order, m: Migratetype) -> Result<(), ClaimError> {
        if order > MAX_PAGE_ORDER || !pfn.is_aligned(order) {
            return Err(ClaimError::Misaligned);
        }
        let zone = self.zone_of(pfn).ok_or(ClaimError::OutsideArena)?;
        let last = Pfn(pfn.0 + (order.frames().0 - 1));
        if !zone.span.spans(last) {
            return Err(ClaimError::OutsideArena);
        }
        let mut locked = zone.lock();
        if !locked.take_exact(BlockId { pfn, order }) {
            let hole = (pfn.0..=last.0).any(|f| zone.tag(Pfn(f)) == Tag::Hole);
            return Err(if hole { ClaimError::OutsideArena } else { ClaimError::NotFree });
        }
        if order >= PAGEBLOCK_ORDER && m.is_requested() {
            for b in block::blocks(pfn, order.frames(), PAGEBLOCK_ORDER) {
                zone.set_type(b.pfn, m);
            }
        }
        zone.set_tag(pfn, Tag::Allocated(order, m == Migratetype::Movable));
        Ok(())
    }

    fn drain(&self, cpus: CpuSet) {
        for zone in &self.zones {
            for (cpu, pcp) in zone.pcps.iter().enumerate() {
                if cpus.contains(CpuId(cpu as u32)) {
                    pcp.lock().drain(zone, u64::MAX, 0, &self.config);
                }
            }
        }
    }

    fn stats(&self) -> Stats {
        let spanned = self.zones.iter().map(|z| z.span.spanned).sum();
        let bytes = |z: &Zone| (z.tags.len() + z.lock().inner.lists.bytes() + z.tags.len() / 512) as u64;
        let metadata = self.zones.iter().map(bytes).sum();
        let mut s = Stats::new(self.zones.len(), self.config.cpus as usize, metadata, spanned);
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
            for pcp in &zone.pcps {
                let c = pcp.lock().counts;
                s[Counter::Pgalloc] += c.pgalloc;
                s[Counter::Pgfree] += c.pgfree;
                s[Counter::PcpRefill] += c.refills;
                s[Counter::PcpDrain] += c.drains;
                s[Counter::PcpDrainPages] += c.drained;
                s[Counter::NumaHit] += c.numa_hit;
                s[Counter::NumaMiss] += c.numa_miss;
            }
        }
        let lock = self.lock_stats();
        s[Counter::ZoneLock] = lock.taken;
        s[Counter::ZoneLockContended] = lock.contended;
        s[Counter::ZoneLockWaitNs] = lock.wait_ns;
        s
    }

    fn zone_stats(&self, zone: ZoneId) -> Option<ZoneStats> {
        let z = self.zones.get(zone.index())?;
        let mut free_blocks = [[0; Migratetype::COUNT]; NR_ORDERS];
        free_blocks[..z.free_blocks().len()].copy_from_slice(&z.free_blocks());
        let mut pageblocks = [0; Migratetype::COUNT];
        for b in z.managed_pageblocks() {
            pageblocks[z.type_of(Pfn(b.start().0.max(z.span.start.0))).index()] += 1;
        }
        Some(ZoneStats {
            span: z.span,
            free: Frames(z.free.get()),
            cached: Frames(z.pcps.iter().map(|p| p.lock().count).sum()),
            watermarks: z.marks,
            boost: Frames(z.boost.get()),
            protection: z.protection,
            highatomic: Frames(z.reserved_highatomic.get()),
            free_blocks,
            pageblocks,
        })
    }

    fn pcp_stats(&self, zone: ZoneId, cpu: CpuId) -> Option<PcpStats> {
        let p = self.zones.get(zone.index())?.pcps.get(cpu.index())?.lock();
        Some(PcpStats {
            count: p.count,
            high: p.high,
            batch: p.batch,
            high_min: p.high_min,
            high_max: p.high_max,
        })
    }

    fn audit(&self) -> Result<Census, AuditError> {
        crate::audit::audit(self.zones())
    }
}
