//! Anything with the project's interface as a subject: the engine's variants and the reference.

use super::allocator::Allocator;
use super::subject::{Alone, Shared, Subject};
use pageyard::{Context, Counter, CpuId, Cx, Migratetype, Order, PageAllocator, Pfn, Request, RequestFlags};
use pageyard_replay::engine::{AnyEngine, ReplayEngine, Visit};

/// An engine, asked for blocks of one order.
///
/// The request is written out where it is used, as an embedder with a fixed request would: the compiler then knows it
/// too.
pub(crate) struct Paged<A, const ORDER: u8>(pub A);

impl<A, const ORDER: u8> Paged<A, ORDER> {
    #[inline(always)]
    fn request() -> Request {
        Request::new(Order::of(ORDER), Migratetype::Movable)
    }
}

impl<A: ReplayEngine + 'static, const ORDER: u8> Allocator for Paged<A, ORDER> {
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

    /// In an interrupt, as a driver asks: without waiting, and from the reserve.
    #[inline(always)]
    fn take_in(&self, cpu: usize, context: Context) -> Option<Pfn> {
        let cx = Cx { context, ..Cx::on(CpuId(cpu as u32)) };
        let atomic = || Self::request().with(RequestFlags::HIGH | RequestFlags::NON_BLOCKING);
        let request = if context == Context::Task { Self::request() } else { atomic() };
        self.0.alloc(&cx, &request).ok()
    }

    #[inline(always)]
    fn give_in(&self, cpu: usize, context: Context, block: Pfn) {
        let cx = Cx { context, ..Cx::on(CpuId(cpu as u32)) };
        let _ = self.0.free(&cx, block, Order::of(ORDER));
    }

    /// Only what serves single frames is asked for other orders too: the loops are compiled once for each engine.
    #[inline(always)]
    fn take_of(&self, cpu: usize, order: Order) -> Option<Pfn> {
        if ORDER > 0 {
            return None;
        }
        self.0.alloc(&Cx::on(CpuId(cpu as u32)), &Request::new(order, Migratetype::Movable)).ok()
    }

    #[inline(always)]
    fn give_of(&self, cpu: usize, block: Pfn, order: Order) {
        if ORDER == 0 {
            let _ = self.0.free(&Cx::on(CpuId(cpu as u32)), block, order);
        }
    }

    fn moves(&self) -> Option<(u64, u64)> {
        let stats = self.0.stats();
        Some((stats[Counter::PcpRefill], stats[Counter::PcpDrain]))
    }

    fn is_biased_here(&self, block: Pfn) -> Option<bool> {
        self.0.is_biased_here(block)
    }

    fn revocations(&self) -> Option<u64> {
        self.0.revocations()
    }

    fn engine(&self) -> Option<&dyn PageAllocator> {
        Some(&self.0)
    }
}

/// An adapter that makes an engine a subject for blocks of one order.
pub(crate) struct AsSubject<const ORDER: u8> {
    pub name: &'static str,
    /// Whether the engine is for one thread.
    pub one_thread: bool,
}

impl<const ORDER: u8> Visit for AsSubject<ORDER> {
    type Output = Box<dyn Subject>;

    fn visit<E: AnyEngine>(self, engine: E) -> Box<dyn Subject> {
        let (name, allocator) = (self.name, Paged::<_, ORDER>(engine));
        match self.one_thread {
            true => Box::new(Alone { name, allocator, bulk: true }),
            false => Box::new(Shared::new(name, allocator, true)),
        }
    }
}
