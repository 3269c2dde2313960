//! The interface that all engines share, on an instance: each call forwards to the inherent one of the same name.

use super::pcp::percpu::PerCpu;
use super::yard::Pageyard;
use pageyard_core::allocator::{Cx, Drained, PageAllocator};
use pageyard_core::clear::Clear;
use pageyard_core::error::{AllocError, AuditError, ClaimError, FreeError};
use pageyard_core::migratetype::Migratetype;
use pageyard_core::observer::Observer;
use pageyard_core::request::Request;
use pageyard_core::stats::{Census, PcpStats, Stats, ZoneStats};
use pageyard_core::units::{CpuId, CpuSet, Order, Pfn, ZoneId};

// SAFETY: 1. A frame is handed out by the caller that took its bit, or popped its number from a list: one caller for
//            each time that it was freed, and it is freed by one winner of its tag. `docs/design/frame-map.md` has the
//            protocol.
//         2. Masks and runs are aligned by construction, within a zone, and holes are never free.
//         3. Only a won tag makes a block free; frames that compaction holds are tagged as allocated to it.
unsafe impl<P: PerCpu, O: Observer, C: Clear> PageAllocator for Pageyard<'_, P, O, C> {
    #[inline(always)]
    fn alloc(&self, cx: &Cx, request: &Request) -> Result<Pfn, AllocError> {
        self.alloc(cx, request)
    }

    #[inline(always)]
    fn free(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.free(cx, pfn, order)
    }

    #[inline(always)]
    fn alloc_bulk(&self, cx: &Cx, request: &Request, out: &mut [Pfn]) -> usize {
        self.alloc_bulk(cx, request, out)
    }

    #[inline(always)]
    fn free_bulk(&self, cx: &Cx, pfns: &[Pfn], order: Order, wrong: &mut dyn FnMut(Pfn, FreeError)) {
        self.free_bulk(cx, pfns, order, wrong);
    }

    fn split(&self, cx: &Cx, pfn: Pfn, from: Order, to: Order) -> Result<(), FreeError> {
        self.split(cx, pfn, from, to)
    }

    fn claim_exact(
        &self,
        cx: &Cx,
        pfn: Pfn,
        order: Order,
        migratetype: Migratetype,
    ) -> Result<(), ClaimError> {
        self.claim_exact(cx, pfn, order, migratetype)
    }

    fn anywhere(&self) -> Option<Cx> {
        P::ANYWHERE.then_some(Cx::on(CpuId(0)))
    }

    fn order_of(&self, pfn: Pfn) -> Option<Order> {
        self.order_of(pfn)
    }

    fn drain(&self, cpus: CpuSet) -> Drained {
        self.drain(cpus)
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
        self.audit()
    }
}
