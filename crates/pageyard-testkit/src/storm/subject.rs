//! The engine's calls, as the storm makes them: the one file to change when one is renamed.

use pageyard::compaction::{CompactionView, FrameState};
use pageyard::reclaim::Helpers;
use pageyard::{
    AllocError, AuditError, Census, ClaimError, CompactorId, Config, CpuId, CpuSet, Cx, FreeError, MapError,
    MemoryMap, Metadata, Migratetype, Order, PageAllocator, PageblockId, Pageyard, PcpStats, PerCpu, Pfn,
    PressureAllocator, Request, Stats, ZoneId, ZoneStats,
};

/// An engine under test.
pub(super) struct Subject<'m, P> {
    yard: Pageyard<'m, P>,
}

/// Returns zeroed memory for the metadata of an engine.
pub(super) fn metadata<P: PerCpu>(map: &MemoryMap<'_>, config: &Config) -> Result<Vec<u8>, MapError> {
    let layout = Pageyard::<P>::layout(map, config)?.layout;
    Ok(vec![0; layout.size() + layout.align()])
}

impl<'m, P: PerCpu> Subject<'m, P> {
    pub(super) fn new(
        map: &MemoryMap<'_>,
        config: Config,
        percpu: P,
        metadata: &'m mut [u8],
    ) -> Result<Self, MapError> {
        Ok(Subject { yard: Pageyard::new(map, config, percpu, Metadata::zeroed(metadata))? })
    }

    // The inherent calls.

    pub(super) fn alloc(&self, cx: &Cx, request: &Request) -> Result<Pfn, AllocError> {
        self.yard.alloc(cx, request)
    }

    pub(super) fn free(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.yard.free(cx, pfn, order)
    }

    pub(super) fn alloc_bulk(&self, cx: &Cx, request: &Request, out: &mut [Pfn]) -> usize {
        self.yard.alloc_bulk(cx, request, out)
    }

    /// Frees single frames.
    pub(super) fn free_bulk(&self, cx: &Cx, pfns: &[Pfn], mut wrong: impl FnMut(Pfn, FreeError)) {
        self.yard.free_bulk(cx, pfns, Order::ZERO, &mut wrong);
    }

    pub(super) fn free_zeroed(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.yard.free_zeroed(cx, pfn, order)
    }

    pub(super) fn was_zeroed(&self, pfn: Pfn) -> bool {
        self.yard.was_zeroed(pfn)
    }

    pub(super) fn split(&self, cx: &Cx, pfn: Pfn, from: Order, to: Order) -> Result<(), FreeError> {
        self.yard.split(cx, pfn, from, to)
    }

    pub(super) fn claim(&self, cx: &Cx, pfn: Pfn, order: Order, ty: Migratetype) -> Result<(), ClaimError> {
        self.yard.claim_exact(cx, pfn, order, ty)
    }

    pub(super) fn drain(&self, cpus: CpuSet) {
        self.yard.drain(cpus);
    }

    // Pageblocks.

    pub(super) fn isolate(&self, cx: &Cx, block: PageblockId) -> bool {
        self.yard.isolate(cx, block)
    }

    pub(super) fn restore(&self, cx: &Cx, block: PageblockId) -> bool {
        self.yard.restore(cx, block)
    }

    pub(super) fn lease(&self, block: PageblockId, by: CompactorId) -> bool {
        self.yard.lease_pageblock(block, by)
    }

    pub(super) fn unlease(&self, block: PageblockId) -> bool {
        self.yard.unlease_pageblock(block)
    }

    /// Says whether a frame is free but in a per-CPU list, or on its way to one.
    pub(super) fn is_cached(&self, pfn: Pfn) -> bool {
        matches!(self.yard.frame(pfn), FrameState::Cached)
    }

    // Calls with helpers.

    pub(super) fn alloc_with<H: Helpers>(
        &self,
        cx: &Cx,
        request: &Request,
        helpers: &H,
    ) -> Result<Pfn, AllocError> {
        self.yard.alloc_with(cx, request, helpers).map_err(|failure| failure.why)
    }

    pub(super) fn compact_zone<H: Helpers>(&self, cx: &Cx, zone: ZoneId, helpers: &H) {
        let _ = self.yard.compact_zone_with(cx, zone, helpers);
    }

    pub(super) fn background<H: Helpers>(&self, cx: &Cx, helpers: &H) {
        let _ = self.yard.kswapd_with(cx, helpers);
        let _ = self.yard.kcompactd_with(cx, helpers);
    }

    // Accounts.

    pub(super) fn audit(&self) -> Result<Census, AuditError> {
        self.yard.audit()
    }

    pub(super) fn stats(&self) -> Stats {
        self.yard.stats()
    }

    pub(super) fn zone_stats(&self, zone: ZoneId) -> Option<ZoneStats> {
        self.yard.zone_stats(zone)
    }

    pub(super) fn pcp_stats(&self, zone: ZoneId, cpu: CpuId) -> Option<PcpStats> {
        self.yard.pcp_stats(zone, cpu)
    }

    /// The engine as the interface that the suite's checks take.
    pub(super) fn engine(&self) -> &impl PageAllocator {
        &self.yard
    }
}
