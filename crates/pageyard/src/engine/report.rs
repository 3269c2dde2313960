//! An instance's reports: counters, zones, lists.

use super::geometry::{BLOCK_ORDER, LINE_WORDS, MAX_ORDER, PAGEBLOCK, WORD_ORDER, WORDS};
use super::pcp::percpu::PerCpu;
use super::pcp::tuning::ListIdx;
use super::words::runs;
use super::yard::Pageyard;
use super::zone::Zone;
use super::zone::pageblocks::Pageblocks;
use pageyard_core::allocator::Drained;
use pageyard_core::clear::Clear;
use pageyard_core::memmap::ZoneSpan;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::observer::Observer;
use pageyard_core::stats::{Counter, PcpStats, Stats, ZoneStats};
use pageyard_core::units::{CpuId, CpuSet, Frames, NR_ORDERS, Order, PageblockId, ZoneId};
use pageyard_sync::Relaxed;

impl<P: PerCpu, O: Observer, C: Clear> Pageyard<'_, P, O, C> {
    /// Returns the frames in the lists of `cpus` to their zones. As
    /// [`PageAllocator::drain`](crate::PageAllocator::drain).
    pub fn drain(&self, cpus: CpuSet) -> Drained {
        let mut drained = Drained::default();
        if !self.percpu.barrier() {
            drained.busy += self.config.cpus;
        }
        for cpu in (0..self.config.cpus).map(CpuId).filter(|c| cpus.contains(*c)) {
            self.zones.iter().for_each(|zone| drained += self.drain_lists(zone, cpu));
        }
        drained
    }

    /// Returns the frames to their zones that a call on a CPU can reach: those of all lists, or, where what protects
    /// them keeps other CPUs out, of its own, and then the others count as in use.
    pub fn drain_reached(&self, cpu: CpuId) -> Drained {
        if self.percpu.reaches_others() {
            return self.drain(CpuSet::All);
        }
        let mut drained = self.drain(CpuSet::One(cpu));
        drained.busy += self.config.cpus.saturating_sub(1);
        drained
    }

    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let spanned = self.zones.iter().map(|p| p.pageblocks.span.spanned).sum();
        let cpus = self.config.cpus as usize;
        let mut stats = Stats::new(self.zones.len(), cpus, self.frames_bytes as u64, spanned);
        for counter in Counter::ALL {
            stats[*counter] = self.counted(*counter);
        }
        for zone in self.zones {
            for (cpu, list) in (0..self.config.cpus).flat_map(|c| ListIdx::all().map(move |l| (CpuId(c), l)))
            {
                let (popped, pushed) = zone.lists.get(cpu, list).traffic();
                stats[Counter::Pgalloc] += popped << list.order().get();
                stats[Counter::Pgfree] += pushed << list.order().get();
            }
        }
        self.add_origins(&mut stats);
        stats
    }

    /// Returns one zone's state, or `None` where there is no such zone.
    #[must_use]
    pub fn zone_stats(&self, zone: ZoneId) -> Option<ZoneStats> {
        let zone = self.zones.get(zone.index())?;
        let z = &zone.pageblocks;
        let mut pageblocks = [0; Migratetype::COUNT];
        for state in z.frames.all().map(|b| z.frames.state(b)).filter(|s| !s.is_hole()) {
            let ty = if state.is_isolated() { Migratetype::Isolate } else { state.migratetype() };
            pageblocks[ty.index()] += 1;
        }
        // ORDER: Relaxed, here and below: what is reported orders nothing.
        let reserved = z.highatomic_blocks().load(Relaxed);
        Some(ZoneStats {
            span: ZoneSpan { managed: zone.online.managed(), ..z.span },
            free: Frames(z.free()),
            cached: Frames((0..self.config.cpus).map(|cpu| cached(zone, CpuId(cpu))).sum()),
            watermarks: zone.online.marks(),
            boost: Frames(z.boost().load(Relaxed)),
            protection: zone.protection,
            highatomic: Frames(reserved << BLOCK_ORDER),
            free_blocks: free_blocks(z),
            pageblocks,
        })
    }

    /// Returns the state of one CPU's lists of one zone, or `None` where there is no such zone or CPU.
    #[must_use]
    pub fn pcp_stats(&self, zone: ZoneId, cpu: CpuId) -> Option<PcpStats> {
        let zone = self.zones.get(zone.index()).filter(|_| self.has_cpu(cpu))?;
        let (high, batch) = (u64::from(zone.lists.tuning.high), u64::from(zone.lists.tuning.batch));
        Some(PcpStats { count: cached(zone, cpu), high, batch, high_min: high, high_max: high })
    }

    /// [`Internals::free_and_cached`](super::internals::Internals::free_and_cached).
    pub(crate) fn free_and_cached(&self) -> (Frames, Frames) {
        let cpus = || (0..self.config.cpus).map(CpuId);
        let free = self.zones.iter().map(|zone| Frames(zone.pageblocks.free())).sum();
        (free, Frames(self.zones.iter().map(|zone| cpus().map(|cpu| cached(zone, cpu)).sum::<u64>()).sum()))
    }

    /// [`Internals::pageblock_migratetype`](super::internals::Internals::pageblock_migratetype).
    pub(crate) fn pageblock_migratetype(&self, block: PageblockId) -> Option<Migratetype> {
        let mut states = self.parts_of(block).map(|(zone, at)| zone.pageblocks.frames.state(at));
        let state = states.find(|state| !state.is_hole())?;
        Some(if state.is_isolated() { Migratetype::Isolate } else { state.migratetype() })
    }

    /// [`Internals::take_search_steps`](super::internals::Internals::take_search_steps).
    pub(crate) fn take_search_steps(&self, cpu: CpuId) -> Option<u64> {
        let words = self.efforts.get(cpu.index() * LINE_WORDS..)?;
        // ORDER: Relaxed: a measure orders nothing.
        self.has_cpu(cpu).then(|| words[0].swap(0, Relaxed))
    }

    /// Lowers a zone's watermarks to what they were before fragmentation raised them: a background reclaimer calls this
    /// when it has reached the high watermark.
    ///
    /// # Linux
    /// The end of `balance_pgdat`.
    pub fn reclaimed(&self, zone: ZoneId) {
        if let Some(zone) = self.zones.get(zone.index()) {
            // ORDER: Relaxed: a boost orders nothing.
            zone.pageblocks.boost().store(0, Relaxed);
        }
    }
}

/// Returns the frames in one CPU's lists of one zone.
pub(crate) fn cached(zone: &Zone<'_>, cpu: CpuId) -> u64 {
    ListIdx::all().map(|list| (zone.lists.get(cpu, list).len() as u64) << list.order().get()).sum()
}

/// Returns a zone's free blocks by order: a row of `/proc/buddyinfo`.
#[cfg(not(pageyard_loom))]
pub(crate) fn blocks_of(pageblocks: &Pageblocks<'_>) -> [u64; NR_ORDERS] {
    free_blocks(pageblocks).map(|by_type| by_type.iter().sum())
}

/// Returns a zone's free blocks by order and type: what a buddy allocator's lists would hold.
fn free_blocks(pageblocks: &Pageblocks<'_>) -> [[u64; Migratetype::COUNT]; NR_ORDERS] {
    let mut count = [[0; Migratetype::COUNT]; NR_ORDERS];
    let mut runs_of = Runs { order: PAGEBLOCK, first: None };
    let phase = (pageblocks.base >> BLOCK_ORDER) as usize;
    for block in pageblocks.frames.all() {
        let state = pageblocks.frames.state(block);
        let ty = state.migratetype().index();
        let whole = state.is_whole() && !state.is_isolated();
        runs_of.visit(block.get() + phase, whole.then_some(ty), &mut count);
        if whole || state.is_isolated() || state.is_huge() || state.is_hole() {
            continue;
        }
        let mut full = 0u64;
        for w in 0..WORDS {
            let mut free = pageblocks.frames.free_bits(block, w);
            if free == super::geometry::WORD_MASK {
                full |= 1 << w;
                continue;
            }
            for order in (0..WORD_ORDER).rev() {
                let starts = runs(free, order);
                count[usize::from(order)][ty] += u64::from(starts.count_ones());
                free &= !super::words::spread(starts, order);
            }
        }
        for order in (WORD_ORDER..BLOCK_ORDER).rev() {
            let starts = runs(full, order - WORD_ORDER);
            count[usize::from(order)][ty] += u64::from(starts.count_ones());
            full &= !super::words::spread(starts, order - WORD_ORDER);
        }
    }
    runs_of.visit(usize::MAX, None, &mut count);
    count
}

/// Merges free pageblocks into the largest aligned blocks as they are visited.
struct Runs {
    order: Order,
    /// First pageblock, length and type of the run that is being visited.
    first: Option<(usize, usize, usize)>,
}

impl Runs {
    fn visit(
        &mut self,
        block: usize,
        whole: Option<usize>,
        count: &mut [[u64; Migratetype::COUNT]; NR_ORDERS],
    ) {
        let merges = |ty: usize| ty < Migratetype::REQUESTED.len();
        match (&mut self.first, whole) {
            // Types that requests ask for merge with each other; a reserve only with itself.
            (Some((_, length, ty)), Some(next)) if *ty == next || (merges(*ty) && merges(next)) => {
                *length += 1
            }
            _ => {
                if let Some((mut at, mut length, ty)) = self.first.take() {
                    while length > 0 {
                        let by_place = at.trailing_zeros().min(u32::from(MAX_ORDER - self.order.get()));
                        let k = by_place.min(length.ilog2()) as usize;
                        count[self.order.index() + k][ty] += 1;
                        at += 1 << k;
                        length -= 1 << k;
                    }
                }
                self.first = whole.map(|ty| (block, 1, ty));
            }
        }
    }
}
