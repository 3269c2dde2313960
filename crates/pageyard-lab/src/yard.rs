//! The engine, owning the memory of its metadata: what an embedder's own few lines would be.
#![allow(unsafe_code, reason = "the engine takes memory for its metadata from its caller")]

use crate::engine::{Fallbacks, LabEngine};
use pageyard::compaction::{Outcome, Work};
use pageyard::reclaim::Reclaimed;
use pageyard::{
    AllocError, Alone, AuditError, Census, ClaimError, Config, CpuId, CpuSet, Cx, Exclusive, Failure,
    FreeError, Helpers, MapError, MemoryMap, Metadata, Migratetype, Order, PAGEBLOCK_ORDER, PageAllocator,
    PageblockId, Pageyard, PcpStats, PerCpu, Pfn, PressureAllocator, Request, Stats, ZoneId, ZoneStats,
};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

/// Zeroed memory that the system hands out as it is touched.
struct Memory(*mut u8, Layout);

// SAFETY: it is owned memory, and nobody reaches it but the engine, which is `Sync` itself.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and the engine that used it was dropped before.
        unsafe { dealloc(self.0, self.1) };
    }
}

/// An engine and its metadata.
pub struct Yard<P: PerCpu> {
    // Declared first, so dropped before the memory it lives in.
    engine: Pageyard<'static, P>,
    _memory: Memory,
    zones: u16,
}

impl<P: PerCpu> Yard<P> {
    /// Makes an engine over a memory map, all free.
    ///
    /// # Errors
    /// [`MapError`].
    pub fn new(map: &MemoryMap<'_>, config: Config, percpu: P) -> Result<Yard<P>, MapError> {
        let needed = Pageyard::<P>::layout(map, &config)?.layout;
        // With a larger alignment the system's allocator would clear the memory itself, and so touch all of it.
        let layout = Layout::from_size_align(needed.size() + needed.align(), 16)
            .map_err(|_| MapError::MetadataTooSmall { needed: needed.size() })?;
        // SAFETY: an instance has counters at least, so the layout is not empty.
        let at = unsafe { alloc_zeroed(layout) };
        if at.is_null() {
            handle_alloc_error(layout);
        }
        let memory = Memory(at, layout);
        // SAFETY: 1. It is that large and initialised. 2. Nobody else has it. 3. It outlives the engine, see `Yard`.
        let bytes = unsafe { std::slice::from_raw_parts_mut(at, layout.size()) };
        // SAFETY: it is fresh from `alloc_zeroed`.
        let metadata = unsafe { Metadata::assume_zeroed(bytes) };
        let engine = Pageyard::new(map, config, percpu, metadata)?;
        Ok(Yard { engine, _memory: memory, zones: map.zone_count() as u16 })
    }

    /// Returns the engine.
    pub fn engine(&self) -> &Pageyard<'static, P> {
        &self.engine
    }
}

/// Makes the exclusive variant for a replay on one thread.
///
/// # Errors
/// [`MapError`].
pub(crate) fn exclusive_on_one_thread(
    map: &MemoryMap<'_>,
    config: Config,
) -> Result<Yard<Exclusive>, MapError> {
    // SAFETY: its callers are the replay and the benchmarks. The replay makes all calls on one thread unless it was
    // asked for threads, and then refuses this engine; the benchmarks give it to one thread only.
    Yard::new(map, config, unsafe { Exclusive::by_instance() })
}

/// Makes the variant without locked checks for a benchmark on one thread.
///
/// # Errors
/// [`MapError`].
pub(crate) fn alone_on_one_thread(map: &MemoryMap<'_>, config: Config) -> Result<Yard<Alone>, MapError> {
    // SAFETY: its callers are the benchmarks, which give it to one thread only.
    Yard::new(map, config, unsafe { Alone::by_instance() })
}

impl<P: PerCpu> PageAllocator for Yard<P> {
    #[inline]
    fn alloc(&self, cx: &Cx, request: &Request) -> Result<Pfn, AllocError> {
        self.engine.allocate(cx, request)
    }

    #[inline]
    fn free(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.engine.release(cx, pfn, order)
    }

    fn alloc_bulk(&self, cx: &Cx, request: &Request, out: &mut [Pfn]) -> usize {
        self.engine.allocate_bulk(cx, request, out)
    }

    fn free_bulk(&self, cx: &Cx, pfns: &[Pfn], wrong: &mut dyn FnMut(Pfn, FreeError)) {
        self.engine.release_bulk(cx, pfns, wrong);
    }

    fn split(&self, pfn: Pfn, from: Order, to: Order) -> Result<(), FreeError> {
        self.engine.split(pfn, from, to)
    }

    fn claim_exact(&self, pfn: Pfn, order: Order, m: Migratetype) -> Result<(), ClaimError> {
        self.engine.claim_exact(pfn, order, m)
    }

    fn drain(&self, cpus: CpuSet) {
        self.engine.drain(cpus);
    }

    fn stats(&self) -> Stats {
        self.engine.stats()
    }

    fn zone_stats(&self, zone: ZoneId) -> Option<ZoneStats> {
        self.engine.zone_stats(zone)
    }

    fn pcp_stats(&self, zone: ZoneId, cpu: CpuId) -> Option<PcpStats> {
        self.engine.pcp_stats(zone, cpu)
    }

    fn audit(&self) -> Result<Census, AuditError> {
        self.engine.audit()
    }
}

impl<P: PerCpu> PressureAllocator for Yard<P> {
    fn alloc_with<H: Helpers>(&self, cx: &Cx, request: &Request, helpers: &H) -> Result<Pfn, Failure> {
        self.engine.alloc_with(cx, request, helpers)
    }

    fn kswapd_with<H: Helpers>(&self, cx: &Cx, helpers: &H) -> Reclaimed {
        self.engine.kswapd_with(cx, helpers)
    }

    fn kcompactd_with<H: Helpers>(&self, cx: &Cx, helpers: &H) -> Work {
        self.engine.kcompactd_with(cx, helpers)
    }

    fn compact_zone_with<H: Helpers>(&self, cx: &Cx, zone: ZoneId, helpers: &H) -> Option<(Outcome, Work)> {
        self.engine.compact_zone_with(cx, zone, helpers)
    }
}

impl<P: PerCpu> LabEngine for Yard<P> {
    /// A claim of the whole pageblock gives it the type; it is freed in halves, which no per-CPU list takes.
    fn set_pageblock_migratetype(&self, block: PageblockId, m: Migratetype) {
        let (pfn, half) = (block.start(), Order::of(PAGEBLOCK_ORDER.get() - 1));
        if self.engine.claim_exact(pfn, PAGEBLOCK_ORDER, m).is_ok() {
            let freed = self.engine.split(pfn, PAGEBLOCK_ORDER, half).and_then(|()| {
                self.engine.release(&Cx::on(CpuId(0)), pfn, half)?;
                self.engine.release(&Cx::on(CpuId(0)), pfn + half.frames(), half)
            });
            debug_assert!(freed.is_ok(), "a block that was just claimed can be freed");
        }
    }

    /// Freeing on the CPU puts a block into its list, as far as that has room.
    fn restore_cached(&self, _: CpuId, _: Pfn, _: Order, _: Migratetype) -> bool {
        false
    }

    fn restore_pcp_high(&self, _: ZoneId, _: CpuId, _: u64) {}

    fn kswapd_tick(&self) {
        for zone in 0..self.zones {
            self.engine.reclaimed(ZoneId(zone));
        }
    }

    fn vmstat_tick(&self) {}

    fn fallbacks(&self) -> Option<Fallbacks> {
        None
    }
}
