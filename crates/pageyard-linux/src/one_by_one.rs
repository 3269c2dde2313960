//! The reference as the page pools of 2018 used it. Layer: top.

use crate::allocator::LinuxAllocator;
use crate::place::FreeObserver;
use pageyard_core::{
    AllocError, AuditError, Census, ClaimError, CpuId, CpuSet, Cx, Drained, FreeError, Migratetype, Order,
    PageAllocator, PcpStats, Pfn, Request, Stats, ZoneId, ZoneStats,
};
use std::marker::PhantomData;

/// The reference, which hands out one block where many are asked for, and tells `W` where a thread is that frees a
/// fragment's block.
///
/// # Linux
/// `__page_pool_alloc_pages_slow` called the allocator for one page each time, until pools asked for pages in bulk in
/// 5.13.
pub struct OneByOne<W = ()> {
    allocator: LinuxAllocator,
    watch: PhantomData<fn() -> W>,
}

impl<W: FreeObserver> OneByOne<W> {
    /// Makes it from a reference.
    #[must_use]
    pub fn new(allocator: LinuxAllocator) -> OneByOne<W> {
        OneByOne { allocator, watch: PhantomData }
    }
}

// SAFETY: every call but one goes to one allocator, which keeps the promises; that one calls `alloc` of it, at most
// once.
#[allow(unsafe_code, reason = "a promise that is passed on")]
unsafe impl<W: FreeObserver> PageAllocator for OneByOne<W> {
    #[inline]
    fn alloc(&self, cx: &Cx, request: &Request) -> Result<Pfn, AllocError> {
        self.allocator.alloc(cx, request)
    }

    fn free(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        PageAllocator::free(&self.allocator, cx, pfn, order)
    }

    #[inline]
    fn free_frag(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.allocator.free_frag_watched::<W>(cx, pfn, order)
    }

    #[inline]
    fn alloc_bulk(&self, cx: &Cx, request: &Request, out: &mut [Pfn]) -> usize {
        let Some(slot) = out.first_mut() else { return 0 };
        match self.allocator.alloc(cx, request) {
            Ok(pfn) => {
                *slot = pfn;
                1
            }
            Err(_) => 0,
        }
    }

    fn free_bulk(&self, cx: &Cx, pfns: &[Pfn], order: Order, wrong: &mut dyn FnMut(Pfn, FreeError)) {
        PageAllocator::free_bulk(&self.allocator, cx, pfns, order, wrong);
    }

    fn split(&self, cx: &Cx, pfn: Pfn, from: Order, to: Order) -> Result<(), FreeError> {
        PageAllocator::split(&self.allocator, cx, pfn, from, to)
    }

    fn claim_exact(&self, cx: &Cx, pfn: Pfn, order: Order, m: Migratetype) -> Result<(), ClaimError> {
        PageAllocator::claim_exact(&self.allocator, cx, pfn, order, m)
    }

    fn order_of(&self, pfn: Pfn) -> Option<Order> {
        PageAllocator::order_of(&self.allocator, pfn)
    }

    fn drain(&self, cpus: CpuSet) -> Drained {
        PageAllocator::drain(&self.allocator, cpus)
    }

    fn stats(&self) -> Stats {
        PageAllocator::stats(&self.allocator)
    }

    fn zone_stats(&self, zone: ZoneId) -> Option<ZoneStats> {
        PageAllocator::zone_stats(&self.allocator, zone)
    }

    fn pcp_stats(&self, zone: ZoneId, cpu: CpuId) -> Option<PcpStats> {
        PageAllocator::pcp_stats(&self.allocator, zone, cpu)
    }

    fn audit(&self) -> Result<Census, AuditError> {
        PageAllocator::audit(&self.allocator)
    }
}
