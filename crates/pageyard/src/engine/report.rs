//! What an instance reports: counters, zones, lists; and the interface that all engines share.

use super::geometry::{BLOCK_ORDER, LINE_WORDS, MAX_ORDER, WORD_ORDER, WORDS};
use super::pageblocks::Pageblocks;
use super::percpu::PerCpu;
use super::state::BlockState;
use super::sync::Relaxed;
use super::tuning::{LISTS, order_of};
use super::words::runs;
use super::yard::{Pageyard, Zone};
use crate::allocator::{Cx, PageAllocator};
use crate::error::{AllocError, AuditError, ClaimError, FreeError};
use crate::migratetype::Migratetype;
use crate::request::Request;
use crate::stats::{Census, Counter, PcpStats, Stats, ZoneStats};
use crate::units::{CompactorId, CpuId, CpuSet, Frames, NR_ORDERS, Order, PageblockId, Pfn, ZoneId};

impl<P: PerCpu> PageAllocator for Pageyard<'_, P> {
    #[inline]
    fn alloc(&self, cx: &Cx, request: &Request) -> Result<Pfn, AllocError> {
        self.allocate(cx, request)
    }

    #[inline]
    fn free(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.release(cx, pfn, order)
    }

    fn alloc_bulk(&self, cx: &Cx, request: &Request, out: &mut [Pfn]) -> usize {
        self.allocate_bulk(cx, request, out)
    }

    fn free_bulk(&self, cx: &Cx, pfns: &[Pfn], wrong: &mut dyn FnMut(Pfn, FreeError)) {
        self.release_bulk(cx, pfns, wrong);
    }

    fn split(&self, pfn: Pfn, from: Order, to: Order) -> Result<(), FreeError> {
        self.split_block(pfn, from, to)
    }

    fn claim_exact(&self, pfn: Pfn, order: Order, migratetype: Migratetype) -> Result<(), ClaimError> {
        self.claim_block(pfn, order, migratetype)
    }

    fn drain(&self, cpus: CpuSet) {
        for cpu in (0..self.config.cpus).map(CpuId).filter(|c| cpus.contains(*c)) {
            self.zones.iter().for_each(|zone| self.drain_lists(zone, cpu));
        }
    }

    fn stats(&self) -> Stats {
        let spanned = self.zones.iter().map(|p| p.pageblocks.span.spanned).sum();
        let cpus = self.config.cpus as usize;
        let mut stats = Stats::new(self.zones.len(), cpus, self.frames_bytes as u64, spanned);
        for counter in Counter::ALL {
            stats[*counter] = self.counted(*counter);
        }
        for zone in self.zones {
            for (cpu, list) in (0..cpus).flat_map(|c| (0..LISTS).map(move |l| (c, l))) {
                let (popped, pushed) = zone.lists.get(cpu, list).traffic();
                stats[Counter::Pgalloc] += popped << order_of(list);
                stats[Counter::Pgfree] += pushed << order_of(list);
            }
        }
        stats
    }

    fn zone_stats(&self, zone: ZoneId) -> Option<ZoneStats> {
        let zone = self.zones.get(zone.index())?;
        let z = &zone.pageblocks;
        let mut pageblocks = [0; Migratetype::COUNT];
        for state in (0..z.frames.len()).map(|b| z.frames.state(b)).filter(|s| !s.is_hole()) {
            let ty = if state.is_isolated() { Migratetype::Isolate } else { state.migratetype() };
            pageblocks[ty.index()] += 1;
        }
        // ORDER: Relaxed, here and below: what is reported orders nothing.
        let reserved = z.highatomic_blocks().load(Relaxed);
        Some(ZoneStats {
            span: z.span,
            free: Frames(z.free()),
            cached: Frames((0..self.config.cpus).map(|cpu| cached(zone, CpuId(cpu))).sum()),
            watermarks: zone.marks,
            boost: Frames(z.boost().load(Relaxed)),
            protection: zone.protection,
            highatomic: Frames(reserved << BLOCK_ORDER),
            free_blocks: free_blocks(z),
            pageblocks,
        })
    }

    fn pcp_stats(&self, zone: ZoneId, cpu: CpuId) -> Option<PcpStats> {
        let zone = self.zones.get(zone.index()).filter(|_| self.has_cpu(cpu))?;
        let (high, batch) = (u64::from(zone.lists.tuning.high), u64::from(zone.lists.tuning.batch));
        Some(PcpStats { count: cached(zone, cpu), high, batch, high_min: high, high_max: high })
    }

    fn audit(&self) -> Result<Census, AuditError> {
        self.recount()
    }
}

impl<P: PerCpu> Pageyard<'_, P> {
    /// Returns the most words of an index, and descriptors found through it, that a successful allocation of this CPU
    /// looked at since the last call.
    pub fn take_search_steps(&self, cpu: CpuId) -> Option<u64> {
        let words = self.efforts.get(cpu.index() * LINE_WORDS..)?;
        // ORDER: Relaxed: a measure orders nothing.
        self.has_cpu(cpu).then(|| words[0].swap(0, Relaxed))
    }

    /// Lowers a zone's watermarks to what they were before fragmentation raised them: what a background reclaimer
    /// calls when it has reached the high watermark.
    ///
    /// # Linux
    /// The end of `balance_pgdat`.
    pub fn reclaimed(&self, zone: ZoneId) {
        if let Some(zone) = self.zones.get(zone.index()) {
            // ORDER: Relaxed: a boost orders nothing.
            zone.pageblocks.boost().store(0, Relaxed);
        }
    }

    /// Takes a pageblock out of allocation: its free frames leave the zone's count, and what is freed into it stays
    /// there. Says whether it was there to take.
    ///
    /// Frames in per-CPU lists are not reached: drain them.
    ///
    /// # Linux
    /// `set_migratetype_isolate`.
    pub fn isolate(&self, block: PageblockId) -> bool {
        self.block_of(block).is_some_and(|(zone, at)| zone.pageblocks.isolate(at))
    }

    /// Takes an isolated pageblock back into allocation. Says whether it was isolated.
    pub fn restore(&self, block: PageblockId) -> bool {
        self.block_of(block).is_some_and(|(zone, at)| zone.pageblocks.restore(at))
    }

    /// Leases a pageblock to a compactor: nobody else gets it, and it is not allocated as a whole meanwhile. Says
    /// whether it was there to lease.
    pub fn lease_pageblock(&self, block: PageblockId, by: CompactorId) -> bool {
        let Ok(by) = u8::try_from(by.0) else { return false };
        self.block_of(block).is_some_and(|(zone, at)| zone.pageblocks.transit(at, |s| s.lease(by)))
    }

    /// Ends the lease of a pageblock. Says whether it was leased.
    pub fn unlease_pageblock(&self, block: PageblockId) -> bool {
        let end = |s: BlockState| s.owner().map(|_| s.unlease());
        self.block_of(block).is_some_and(|(zone, at)| zone.pageblocks.transit(at, end))
    }

    /// Returns the number that a pageblock is leased to.
    pub(crate) fn lease_of(&self, block: PageblockId) -> Option<u16> {
        let (zone, at) = self.block_of(block)?;
        zone.pageblocks.frames.state(at).owner().map(u16::from)
    }

    /// Returns the zone of a pageblock and its number there. A pageblock that two zones share is the lower one's.
    fn block_of(&self, block: PageblockId) -> Option<(&Zone<'_>, usize)> {
        let first = block.0.checked_mul(1 << BLOCK_ORDER)?;
        self.zones.iter().find_map(|p| {
            let at = first.checked_sub(p.pageblocks.base)? >> BLOCK_ORDER;
            ((at as usize) < p.pageblocks.frames.len()).then_some((p, at as usize))
        })
    }
}

/// Returns the frames in one CPU's lists of one zone.
pub(crate) fn cached(zone: &Zone<'_>, cpu: CpuId) -> u64 {
    (0..LISTS).map(|l| (zone.lists.get(cpu.index(), l).len() as u64) << order_of(l)).sum()
}

/// Returns a zone's free blocks by order: a row of `/proc/buddyinfo`.
pub(crate) fn blocks_of(pageblocks: &Pageblocks<'_>) -> [u64; NR_ORDERS] {
    free_blocks(pageblocks).map(|by_type| by_type.iter().sum())
}

/// Returns a zone's free blocks by order and type: what a buddy allocator's lists would hold.
fn free_blocks(pageblocks: &Pageblocks<'_>) -> [[u64; Migratetype::COUNT]; NR_ORDERS] {
    let mut count = [[0; Migratetype::COUNT]; NR_ORDERS];
    let mut runs_of = Runs { order: BLOCK_ORDER, first: None };
    let phase = (pageblocks.base >> BLOCK_ORDER) as usize;
    for block in 0..pageblocks.frames.len() {
        let state = pageblocks.frames.state(block);
        let ty = state.migratetype().index();
        let whole = state.is_whole() && !state.is_isolated();
        runs_of.visit(block + phase, whole.then_some(ty), &mut count);
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
                count[order as usize][ty] += u64::from(starts.count_ones());
                free &= !super::words::spread(starts, order);
            }
        }
        for order in (WORD_ORDER..BLOCK_ORDER).rev() {
            let starts = runs(full, order - WORD_ORDER);
            count[order as usize][ty] += u64::from(starts.count_ones());
            full &= !super::words::spread(starts, order - WORD_ORDER);
        }
    }
    runs_of.visit(usize::MAX, None, &mut count);
    count
}

/// Merges free pageblocks into the largest aligned blocks as they are visited.
struct Runs {
    order: u8,
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
                        let by_place = at.trailing_zeros().min(u32::from(MAX_ORDER - self.order));
                        let k = by_place.min(length.ilog2()) as u8;
                        count[(self.order + k) as usize][ty] += 1;
                        at += 1 << k;
                        length -= 1 << k;
                    }
                }
                self.first = whole.map(|ty| (block, 1, ty));
            }
        }
    }
}
