//! Anything with the project's interface as a subject: the engine's variants and the reference.

use super::allocator::Allocator;
use pageyard::{Counter, CpuId, Cx, Migratetype, Order, PageAllocator, Pfn, Request};

/// An engine, asked for blocks of one order.
///
/// The request is written out where it is used, as an embedder with a fixed request would: the compiler then knows it
/// too.
pub(super) struct Paged<A, const ORDER: u8>(pub A);

impl<A, const ORDER: u8> Paged<A, ORDER> {
    #[inline(always)]
    fn request() -> Request {
        Request::new(Order::of(ORDER), Migratetype::Movable)
    }
}

impl<A: PageAllocator, const ORDER: u8> Allocator for Paged<A, ORDER> {
    #[inline(always)]
    fn take(&self, cpu: usize) -> Option<Pfn> {
        self.0.alloc(&Cx::on(CpuId(cpu as u32)), &Self::request()).ok()
    }

    #[inline(always)]
    fn give(&self, cpu: usize, block: Pfn) {
        // A refused free would show as missing blocks later, and in the audit of the engine's own tests.
        let _ = self.0.free(&Cx::on(CpuId(cpu as u32)), block, Order::of(ORDER));
    }

    #[inline(always)]
    fn take_many(&self, cpu: usize, out: &mut [Pfn]) -> usize {
        self.0.alloc_bulk(&Cx::on(CpuId(cpu as u32)), &Self::request(), out)
    }

    #[inline(always)]
    fn give_many(&self, cpu: usize, blocks: &[Pfn]) {
        if ORDER == 0 {
            self.0.free_bulk(&Cx::on(CpuId(cpu as u32)), blocks, Order::ZERO, &mut |_, _| {});
        } else {
            blocks.iter().for_each(|block| self.give(cpu, *block));
        }
    }

    fn moves(&self) -> Option<(u64, u64)> {
        let stats = self.0.stats();
        Some((stats[Counter::PcpRefill], stats[Counter::PcpDrain]))
    }
}
