//! The interface that all engines have: every call is passed on. Layer: top.

use crate::allocator::LinuxAllocator;
use crate::audit;
use crate::frees::To;
use pageyard_core::compaction::{Outcome, Work, compact_everything};
use pageyard_core::reclaim::{Failure, Helpers, PressureAllocator, Reclaimed};
use pageyard_core::{
    AllocError, AuditError, Census, ClaimError, CpuId, CpuSet, Cx, FreeError, Migratetype, Order,
    PageAllocator, PcpStats, Pfn, Request, Stats, ZoneId, ZoneStats,
};

impl PageAllocator for LinuxAllocator {
    fn alloc(&self, cx: &Cx, request: &Request) -> Result<Pfn, AllocError> {
        self.alloc(cx, request)
    }

    fn free(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.free_checked(cx, pfn, order, To::Hot)
    }

    fn alloc_bulk(&self, cx: &Cx, request: &Request, out: &mut [Pfn]) -> usize {
        self.alloc_bulk(cx, request, out)
    }

    fn free_bulk(&self, cx: &Cx, pfns: &[Pfn], wrong: &mut dyn FnMut(Pfn, FreeError)) {
        self.free_bulk(cx, pfns, Order::ZERO, wrong);
    }

    fn split(&self, pfn: Pfn, from: Order, to: Order) -> Result<(), FreeError> {
        self.split(pfn, from, to)
    }

    fn claim_exact(&self, pfn: Pfn, order: Order, m: Migratetype) -> Result<(), ClaimError> {
        self.claim_exact(pfn, order, m)
    }

    fn drain(&self, cpus: CpuSet) {
        self.drain(cpus);
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
        self.alloc_helped(cx, request, Some(helpers))
    }

    fn kswapd_with<H: Helpers>(&self, cx: &Cx, helpers: &H) -> Reclaimed {
        self.kswapd(cx, helpers)
    }

    fn kcompactd_with<H: Helpers>(&self, cx: &Cx, helpers: &H) -> Work {
        self.kcompactd(cx, helpers)
    }

    fn compact_zone_with<H: Helpers>(&self, cx: &Cx, zone: ZoneId, helpers: &H) -> Option<(Outcome, Work)> {
        self.has_cpu(cx.cpu).then(|| compact_everything(self, helpers, cx, zone))?
    }
}
