//! The allocator: requests walk the zonelist; frees find their zone.

use crate::config::{Config, PcpProtection};
use crate::fallback::Found;
use crate::frees::To;
use crate::lock::LockStats;
use crate::pcp::Taken;
use crate::slot;
use crate::tag::{MAX_PAGE_ORDER, Tag};
use crate::zone::{Effort, Locked, Managed, Mark, Zone};
use crate::zonelist::{Called, Inlined, Step, Zonelists, Zoneref};
use pageyard_core::memmap::NR_ZONE_KINDS;
use pageyard_core::reclaim::NoHelp;
use pageyard_core::stats::NR_COUNTERS;
use pageyard_core::watermark::default_min_free_kbytes;
use pageyard_core::{
    AllocError, AuditError, BadRequest, BlockId, Census, ClaimError, Counter, CpuId, CpuSet, Cx, Drained,
    Frames, FreeError, MapError, MemoryMap, Migratetype, NR_ORDERS, NodeMask, Order, PAGEBLOCK_ORDER,
    PageAllocator, PcpStats, Pfn, Request, RequestFlags, Stats, ZoneId, ZoneKind, ZoneSpan, ZoneStats, block,
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
    /// Requests tried again because the allowed nodes changed.
    pub retries: AtomicU64,
    /// Whose turn it is among the nodes.
    pub turn: AtomicU64,
    /// What reclaim and compaction count, by counter.
    pub pressure: Tallies,
}

/// Counters of reclaim and compaction, by their numbers.
pub(crate) struct Tallies([AtomicU64; NR_COUNTERS]);

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

    fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize].load(Ordering::Relaxed)
    }
}

/// What a request walks: a zonelist, the nodes it may take from (`None`: all), and the first entry that fits.
struct Walk<'a> {
    list: &'a [Zoneref],
    nodes: Option<NodeMask>,
    first: usize,
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
        let zonelists = Zonelists::new(&zones, config);
        Ok(LinuxAllocator { config: config.clone(), zones, zonelists, counts: Counts::default() })
    }

    /// Makes an allocator whose per-CPU lists have no lock of their own, as a kernel's had none until 6.0: turning off
    /// interrupts or preemption was enough. With [`crate::config::PcpProtection::Trylock`] they have one all the same.
    ///
    /// # Errors
    /// As [`LinuxAllocator::new`].
    ///
    /// # Safety
    /// Calls that name the same CPU come from one thread at a time. Calls that name none, or ask about another CPU
    /// (`drain`, `audit`, the statistics), are made while no other call runs. So is a request that may wait and fails: it
    /// drains all lists.
    #[allow(unsafe_code, reason = "the caller's promise stands in for a lock")]
    pub unsafe fn by_cpu(map: &MemoryMap<'_>, config: &Config) -> Result<LinuxAllocator, MapError> {
        let mut allocator = LinuxAllocator::new(map, config)?;
        if config.pcp_protection != PcpProtection::Trylock {
            for zone in &mut allocator.zones {
                let locked = std::mem::take(&mut zone.pcps);
                // SAFETY: the caller promises just that.
                zone.pcps = locked.into_iter().map(|s| unsafe { slot::unlock_for_good(s) }).collect();
            }
        }
        Ok(allocator)
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
        if request.flags.contains(RequestFlags::ZERO) {
            return Err(BadRequest::CannotZero);
        }
        self.check_cpu(cx)
    }

    /// Says whether the instance has the CPU of a call.
    pub(crate) fn check_cpu(&self, cx: &Cx) -> Result<(), BadRequest> {
        if cx.cpu.0 < self.config.cpus { Ok(()) } else { Err(BadRequest::NoSuchCpu) }
    }

    /// What a request tries before the slow path: zones above their low watermark.
    pub(crate) fn first_attempt(&self, cx: &Cx, request: &Request) -> Result<Option<Pfn>, BadRequest> {
        self.check(cx, request)?;
        let walk = self.walk_of::<Inlined>(cx, request)?;
        Ok(self.try_walk::<Inlined>(cx, request, &walk, self.first_effort(request, &walk)))
    }

    /// Returns how a request first tries.
    #[inline(always)]
    fn first_effort(&self, request: &Request, walk: &Walk<'_>) -> Effort {
        let wake = request.flags.contains(RequestFlags::WAKE_RECLAIM);
        let normal = self.zones[walk.list[walk.first].zone].span.kind == ZoneKind::Normal;
        Effort { nofragment: self.config.nofragment && normal, wake, ..Effort::plain(Mark::Low) }
    }

    /// Finds out once what a request walks, and which entry it would rather have.
    ///
    /// # Linux
    /// `prepare_alloc_pages`.
    #[inline(always)]
    fn walk_of<S: Step>(&self, cx: &Cx, request: &Request) -> Result<Walk<'_>, BadRequest> {
        let (list, nodes) = self.zonelists.for_request(cx.cpu.index(), request);
        let highest = request.highest_zone;
        let asked = if S::MASKS_ALL { nodes.or(Some(NodeMask::ALL)) } else { nodes };
        match S::next(list, 0, highest, asked) {
            Some(first) => Ok(Walk { list, nodes, first }),
            None => Err(BadRequest::NoZone),
        }
    }

    /// Compiled apart for each form of the step, and for both alike: what differs between them is the step.
    ///
    /// # Linux
    /// `get_page_from_freelist`.
    #[inline(never)]
    fn try_walk<S: Step>(&self, cx: &Cx, request: &Request, walk: &Walk<'_>, effort: Effort) -> Option<Pfn> {
        let order = request.order;
        let preferred = &walk.list[walk.first];
        let node = self.zones[preferred.zone].span.node;
        let mut from = walk.first;
        while let Some(at) = S::next(walk.list, from, request.highest_zone, walk.nodes) {
            from = at + 1;
            let zone = &self.zones[walk.list[at].zone];
            // Another node costs more than a mixed pageblock.
            if effort.nofragment && zone.span.node != node {
                continue;
            }
            let above = |mark| {
                zone.watermark_ok(order, request.highest_zone, Effort { mark, ..effort }, &self.config)
            };
            // Far from the watermarks one check does; near them the per-CPU lists are told to shrink.
            let roomy = !zone.below_high.get() && above(Mark::High);
            zone.below_high.set(!roomy);
            if !roomy && !above(effort.mark) {
                continue;
            }
            let Some(pfn) = self.take_from(walk.list[at].zone, cx, request, preferred, effort) else {
                continue;
            };
            if effort.wake && zone.boosted.take() {
                self.wake(zone);
            }
            if effort.is_highatomic(order) {
                zone.reserve_highatomic(pfn, order, &self.config);
            }
            return Some(pfn);
        }
        if !effort.nofragment {
            return None;
        }
        self.try_walk::<S>(cx, request, walk, Effort { nofragment: false, ..effort })
    }

    /// Walks the zonelist once more, on the slow path.
    pub(crate) fn try_zones(&self, cx: &Cx, request: &Request, effort: Effort) -> Option<Pfn> {
        let walk = self.walk_of::<Inlined>(cx, request).ok()?;
        self.try_walk::<Inlined>(cx, request, &walk, effort)
    }

    /// # Linux
    /// `rmqueue`.
    fn take_from(
        &self,
        place: usize,
        cx: &Cx,
        request: &Request,
        preferred: &Zoneref,
        effort: Effort,
    ) -> Option<Pfn> {
        let (order, m) = (request.order, request.migratetype);
        let zone = &self.zones[place];
        let taken = Tag::Allocated(order, m == Migratetype::Movable);
        let cold = request.flags.contains(RequestFlags::COLD) && self.config.heeds_cold();
        if self.config.pcp_list(order, m).is_some()
            && self.config.pcp_protection.admits(cx.context)
            && let Some(mut entered) = zone.enter(cx.cpu.index(), &self.config)
            && let Some(pfn) = entered.pcp.alloc(zone, order, m, effort, cold, &self.config)
        {
            zone.set_tag(pfn, taken);
            entered.pcp.counts.taken.count(order, self.origin(cx, preferred, place));
            return Some(pfn);
        }
        let mut locked = zone.lock();
        let reserve = |locked: &mut Locked<'_>, may: bool| {
            may.then(|| locked.take_smallest(order, Migratetype::HighAtomic)).flatten()
        };
        let desperate = RequestFlags::NON_BLOCKING | RequestFlags::OOM_VICTIM;
        let pfn = reserve(&mut locked, effort.is_highatomic(order))
            .or_else(|| locked.rmqueue(order, m, effort, &self.config, &mut Found::default()))
            .or_else(|| reserve(&mut locked, effort.reserves.intersects(desperate)))?;
        zone.set_tag(pfn, taken);
        locked.inner.counts.taken.count(order, self.origin(cx, preferred, place));
        Some(pfn)
    }

    /// Allocates; a request that fails while the allowed nodes change is tried again.
    ///
    /// # Linux
    /// `__alloc_pages`.
    #[inline(always)]
    fn alloc_walking<S: Step>(&self, cx: &Cx, request: &Request) -> Result<Pfn, AllocError> {
        self.check(cx, request)?;
        loop {
            let changes = self.zonelists.allowed.changes();
            let result = self.alloc_once::<S>(cx, request);
            if result.is_ok() || self.zonelists.allowed.changes() == changes {
                return result;
            }
            Counts::add(&self.counts.retries);
        }
    }

    #[inline(always)]
    fn alloc_once<S: Step>(&self, cx: &Cx, request: &Request) -> Result<Pfn, AllocError> {
        let walk = self.walk_of::<S>(cx, request)?;
        match self.try_walk::<S>(cx, request, &walk, self.first_effort(request, &walk)) {
            Some(pfn) => Ok(pfn),
            None => Ok(self.slow_path(cx, request, None::<&NoHelp>)?),
        }
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

// SAFETY: 1. A frame leaves the free lists or a CPU's list under their lock, and is tagged as allocated: it comes back
//            only by a free that won its tag with a compare-and-swap.
//         2. Blocks of the free lists are aligned and merge within their zone; holes are in none.
//         3. Whatever is refused is refused before a tag is written.
#[allow(unsafe_code, reason = "a promise, not an operation")]
unsafe impl PageAllocator for LinuxAllocator {
    fn alloc(&self, cx: &Cx, request: &Request) -> Result<Pfn, AllocError> {
        match self.zonelists.inlined() {
            false => self.alloc_walking::<Called>(cx, request),
            true => self.alloc_walking::<Inlined>(cx, request),
        }
    }

    fn free(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.free_checked(cx, pfn, order, To::Hot)
    }

    fn alloc_bulk(&self, cx: &Cx, request: &Request, out: &mut [Pfn]) -> usize {
        let mut got = self.take_bulk(cx, request, out);
        while got < out.len() {
            match self.alloc(cx, request) {
                Ok(pfn) => out[got] = pfn,
                Err(_) => break,
            }
            got += 1;
        }
        got
    }

    fn free_bulk(&self, cx: &Cx, pfns: &[Pfn], order: Order, wrong: &mut dyn FnMut(Pfn, FreeError)) {
        if order == Order::ZERO {
            return self.give_bulk(cx, pfns, wrong);
        }
        pfns.iter().for_each(|pfn| self.free(cx, *pfn, order).unwrap_or_else(|why| wrong(*pfn, why)));
    }

    fn split(&self, cx: &Cx, pfn: Pfn, from: Order, to: Order) -> Result<(), FreeError> {
        if self.check_cpu(cx).is_err() {
            return Err(FreeError::NoSuchCpu);
        }
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

    fn claim_exact(&self, cx: &Cx, pfn: Pfn, order: Order, m: Migratetype) -> Result<(), ClaimError> {
        if self.check_cpu(cx).is_err() {
            return Err(ClaimError::NoSuchCpu);
        }
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

    fn order_of(&self, pfn: Pfn) -> Option<Order> {
        match self.zone_of(pfn)?.tag(pfn) {
            Tag::Allocated(order, _) => Some(order),
            _ => None,
        }
    }

    fn drain(&self, cpus: CpuSet) -> Drained {
        let free = || self.zones.iter().map(|z| z.free.get()).sum::<u64>();
        let before = free();
        for zone in &self.zones {
            for (cpu, pcp) in zone.pcps.iter().enumerate() {
                if cpus.contains(CpuId(cpu as u32)) {
                    pcp.lock().drain(zone, u64::MAX, 0, &self.config);
                }
            }
        }
        Drained { frames: Frames(free().saturating_sub(before)), busy: 0 }
    }

    fn stats(&self) -> Stats {
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
                s[Counter::PcpDrain] += c.drains;
                s[Counter::PcpDrainPages] += c.drained;
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
