//! The interface that all engines have, by forwarding every call. Layer: top.

use crate::allocator::LinuxAllocator;
use crate::audit;
use crate::compaction::compact_everything;
use crate::frees::To;
use pageyard_core::compaction::{Outcome, Work};
use pageyard_core::reclaim::{Failure, Helpers, PressureAllocator, Reclaimed};
use pageyard_core::{
    AllocError, AuditError, BadRequest, Census, ClaimError, CpuId, CpuSet, Cx, Drained, FreeError,
    Migratetype, Order, PageAllocator, PcpStats, Pfn, Request, Stats, ZoneId, ZoneStats,
};

// SAFETY: 1. A frame leaves the free lists or a CPU's lists under their lock, and is tagged as allocated: it comes back
//            only by a free that won its tag with a compare-and-swap.
//         2. Blocks of the free lists are aligned and merge within their zone; holes are in none.
//         3. Whatever is refused is refused before a tag is written.
#[allow(unsafe_code, reason = "a promise, not an operation")]
unsafe impl PageAllocator for LinuxAllocator {
    fn alloc(&self, cx: &Cx, request: &Request) -> Result<Pfn, AllocError> {
        self.alloc(cx, request)
    }

    fn free(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.free_checked::<()>(cx, pfn, order, To::Hot)
    }

    fn free_frag(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.free_frag(cx, pfn, order)
    }

    fn alloc_bulk(&self, cx: &Cx, request: &Request, out: &mut [Pfn]) -> usize {
        self.alloc_bulk(cx, request, out)
    }

    fn free_bulk(&self, cx: &Cx, pfns: &[Pfn], order: Order, wrong: &mut dyn FnMut(Pfn, FreeError)) {
        self.free_bulk(cx, pfns, order, wrong);
    }

    fn split(&self, cx: &Cx, pfn: Pfn, from: Order, to: Order) -> Result<(), FreeError> {
        self.split(cx, pfn, from, to)
    }

    fn claim_exact(&self, cx: &Cx, pfn: Pfn, order: Order, m: Migratetype) -> Result<(), ClaimError> {
        self.claim_exact(cx, pfn, order, m)
    }

    fn order_of(&self, pfn: Pfn) -> Option<Order> {
        self.order_of(pfn)
    }

    fn drain(&self, cpus: CpuSet) -> Drained {
        // A drain waits for the locks, so that no list is left out.
        Drained { frames: self.drain(cpus), busy: 0 }
    }

    fn stats(&self) -> Stats {
        self.stats()
    }

    fn zone_stats(&self, zone: ZoneId) -> Option<ZoneStats> {
        self.zone_stats(zone)
    }

    fn pcp_stats(&self, zone: ZoneId, cpu: CpuId) -> Option<PcpStats> {
        self.pcp_stats(zone, cpu)
    }

    fn audit(&self) -> Result<Census, AuditError> {
        audit::audit(&self.zones)
    }
}

impl PressureAllocator for LinuxAllocator {
    fn alloc_with<H: Helpers>(&self, cx: &Cx, request: &Request, helpers: &H) -> Result<Pfn, Failure> {
        self.alloc_with_helpers(cx, request, Some(helpers))
    }

    fn kswapd_with<H: Helpers>(&self, cx: &Cx, helpers: &H) -> Result<Reclaimed, BadRequest> {
        self.check_cpu(cx)?;
        Ok(self.kswapd(cx, helpers))
    }

    fn kcompactd_with<H: Helpers>(&self, cx: &Cx, helpers: &H) -> Result<Work, BadRequest> {
        self.check_cpu(cx)?;
        Ok(self.kcompactd(cx, helpers))
    }

    fn compact_zone_with<H: Helpers>(
        &self,
        cx: &Cx,
        zone: ZoneId,
        helpers: &H,
    ) -> Result<(Outcome, Work), BadRequest> {
        self.check_cpu(cx)?;
        compact_everything(self, helpers, cx, zone).ok_or(BadRequest::NoZone)
    }
}
