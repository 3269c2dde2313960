//! The engine's calls, as the storm makes them: the one file to change when one is renamed.

use super::watched::{Watched, Way};
use crate::check;
use crate::naive::Naive;
use pageyard::compaction::FrameState;
use pageyard::engine::{BiasStats, CmaArea, Internals};
use pageyard::reclaim::Helpers;
use pageyard::{
    AllocError, AuditError, Census, ClaimError, CompactorId, Config, CpuId, CpuSet, Cx, FrameRange, Frames,
    FreeError, MapError, MemoryMap, Metadata, Migratetype, Order, PageAllocator, PageblockId, Pageyard,
    PcpStats, PerCpu, Pfn, PressureAllocator, RangeFault, Request, Stats, ZoneId, ZoneStats,
};

/// An engine under test: Pageyard's as it is or watched in one of two ways, or another.
pub(super) enum Subject<'m, P> {
    Plain(Pageyard<'m, P>),
    Observed(Pageyard<'m, P, &'m Watched<'m>>),
    Cleared(Pageyard<'m, P, (), &'m Watched<'m>>),
    Other(Box<dyn PageAllocator + Send>),
}

/// Makes a call to the engine, whichever it is. The second form says what another than Pageyard's does in its place.
macro_rules! call {
    ($subject:ident, $yard:ident => $call:expr) => {
        call!($subject, $yard => $call, $yard => $call)
    };
    ($subject:ident, $yard:ident => $call:expr, $other:pat => $instead:expr) => {
        match $subject {
            Subject::Plain($yard) => $call,
            Subject::Observed($yard) => $call,
            Subject::Cleared($yard) => $call,
            Subject::Other($other) => $instead,
        }
    };
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
        watched: Option<&'m Watched<'m>>,
        metadata: &'m mut [u8],
    ) -> Result<Self, MapError> {
        let metadata = Metadata::zeroed(metadata);
        Ok(match watched {
            None => Subject::Plain(Pageyard::new(map, config, percpu, metadata)?),
            Some(w) if w.way == Way::Observed => {
                Subject::Observed(Pageyard::with_observer(map, config, percpu, w, metadata)?)
            }
            Some(w) => Subject::Cleared(Pageyard::with_clearer(map, config, percpu, (), w, metadata)?),
        })
    }

    // The inherent calls.

    pub(super) fn alloc(&self, cx: &Cx, request: &Request) -> Result<Pfn, AllocError> {
        call!(self, yard => yard.alloc(cx, request))
    }

    pub(super) fn free(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        call!(self, yard => yard.free(cx, pfn, order))
    }

    pub(super) fn alloc_bulk(&self, cx: &Cx, request: &Request, out: &mut [Pfn]) -> usize {
        call!(self, yard => yard.alloc_bulk(cx, request, out))
    }

    /// Frees single frames.
    pub(super) fn free_bulk(&self, cx: &Cx, pfns: &[Pfn], mut wrong: impl FnMut(Pfn, FreeError)) {
        call!(self, yard => yard.free_bulk(cx, pfns, Order::ZERO, &mut wrong));
    }

    pub(super) fn free_zeroed(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        call!(self, yard => yard.free_zeroed(cx, pfn, order), other => other.free(cx, pfn, order))
    }

    pub(super) fn was_zeroed(&self, pfn: Pfn) -> bool {
        call!(self, yard => yard.was_zeroed(pfn), _ => false)
    }

    pub(super) fn split(&self, cx: &Cx, pfn: Pfn, from: Order, to: Order) -> Result<(), FreeError> {
        call!(self, yard => yard.split(cx, pfn, from, to))
    }

    pub(super) fn claim(&self, cx: &Cx, pfn: Pfn, order: Order, ty: Migratetype) -> Result<(), ClaimError> {
        call!(self, yard => yard.claim_exact(cx, pfn, order, ty))
    }

    pub(super) fn drain(&self, cpus: CpuSet) {
        call!(self, yard => { yard.drain(cpus); });
    }

    // Ranges.

    pub(super) fn alloc_exact(
        &self,
        cx: &Cx,
        frames: Frames,
        align: Order,
        request: &Request,
    ) -> Option<Pfn> {
        call!(self, yard => yard.alloc_exact(cx, frames, align, request).ok(), _ => None)
    }

    /// Frees a range; says how many frames of it were freed where not all were, and why.
    pub(super) fn free_range(&self, cx: &Cx, range: FrameRange) -> Result<(), (Frames, RangeFault)> {
        let FrameRange { first, frames } = range;
        call!(
            self,
            yard => yard.free_range(cx, first, frames).map_err(|error| (error.freed, error.why)),
            _ => unreachable!("only Pageyard's engine frees ranges")
        )
    }

    pub(super) fn alloc_contig<H: Helpers>(
        &self,
        cx: &Cx,
        range: FrameRange,
        ty: Migratetype,
        helpers: &H,
    ) -> bool {
        call!(
            self,
            yard => yard.alloc_contig_range(cx, range.first, range.frames, ty, helpers).is_ok(),
            _ => false
        )
    }

    pub(super) fn declare_cma(&self, cx: &Cx, range: FrameRange) -> Option<CmaArea> {
        call!(self, yard => yard.declare_cma(cx, range.first, range.frames).ok(), _ => None)
    }

    pub(super) fn alloc_cma<H: Helpers>(
        &self,
        cx: &Cx,
        area: CmaArea,
        frames: Frames,
        align: Order,
        helpers: &H,
    ) -> Option<Pfn> {
        call!(self, yard => yard.alloc_cma(cx, area, frames, align, helpers).ok(), _ => None)
    }

    pub(super) fn offline<H: Helpers>(&self, cx: &Cx, range: FrameRange, helpers: &H) -> bool {
        call!(self, yard => yard.offline_range(cx, range.first, range.frames, helpers).is_ok(), _ => false)
    }

    pub(super) fn online(&self, cx: &Cx, range: FrameRange) -> bool {
        call!(self, yard => yard.online_range(cx, range.first, range.frames).is_ok(), _ => false)
    }

    // Pageblocks.

    pub(super) fn isolate(&self, cx: &Cx, block: PageblockId) -> bool {
        call!(self, yard => yard.isolate(cx, block), _ => false)
    }

    pub(super) fn restore(&self, cx: &Cx, block: PageblockId) -> bool {
        call!(self, yard => yard.restore(cx, block), _ => false)
    }

    pub(super) fn lease(&self, block: PageblockId, by: CompactorId) -> bool {
        call!(self, yard => yard.lease_pageblock(block, by), _ => false)
    }

    pub(super) fn unlease(&self, block: PageblockId) -> bool {
        call!(self, yard => yard.unlease_pageblock(block), _ => false)
    }

    /// Returns whether a frame is free but in a per-CPU list, or on its way to one.
    pub(super) fn is_cached(&self, pfn: Pfn) -> bool {
        call!(self, yard => matches!(yard.frame(pfn), FrameState::Cached), _ => false)
    }

    // Calls with helpers.

    pub(super) fn alloc_with<H: Helpers>(
        &self,
        cx: &Cx,
        request: &Request,
        helpers: &H,
    ) -> Result<Pfn, AllocError> {
        call!(
            self,
            yard => yard.alloc_with(cx, request, helpers).map_err(|failure| failure.why),
            other => other.alloc(cx, request)
        )
    }

    pub(super) fn compact_zone<H: Helpers>(&self, cx: &Cx, zone: ZoneId, helpers: &H) {
        call!(self, yard => { let _ = yard.compact_zone_with(cx, zone, helpers); }, _ => ());
    }

    pub(super) fn background<H: Helpers>(&self, cx: &Cx, helpers: &H) {
        call!(self, yard => {
            let _ = yard.kswapd_with(cx, helpers);
            let _ = yard.kcompactd_with(cx, helpers);
        }, _ => ());
    }

    // Accounts.

    pub(super) fn is_pageyard(&self) -> bool {
        !matches!(self, Subject::Other(_))
    }

    /// Returns the protection of Pageyard's lists, and its bias.
    pub(super) fn lists(&self) -> Option<(&P, BiasStats)> {
        call!(self, yard => Some((yard.percpu(), yard.bias_stats())), _ => None)
    }

    pub(super) fn audit(&self) -> Result<Census, AuditError> {
        call!(self, yard => yard.audit())
    }

    pub(super) fn stats(&self) -> Stats {
        call!(self, yard => yard.stats())
    }

    pub(super) fn zone_stats(&self, zone: ZoneId) -> Option<ZoneStats> {
        call!(self, yard => yard.zone_stats(zone))
    }

    pub(super) fn pcp_stats(&self, zone: ZoneId, cpu: CpuId) -> Option<PcpStats> {
        call!(self, yard => yard.pcp_stats(zone, cpu))
    }

    /// Runs the suite's check of an engine in which everything is free.
    pub(super) fn all_free(&self, model: &Naive) -> Result<(), String> {
        call!(self, yard => check::all_free(yard, model), other => check::all_free(&&**other, model))
    }
}
