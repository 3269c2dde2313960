//! Anything with the project's interface as a subject: the engine's variants and the reference.

use super::allocator::Allocator;
use super::subject::{Alone, Shared, Subject};
use pageyard::{Context, Counter, CpuId, Cx, Migratetype, Order, PageAllocator, Pfn, Request, RequestFlags};
use pageyard_replay::engine::{AnyEngine, ReplayEngine, Visit};

/// An engine, asked for blocks of one order: single frames, or of a larger one, which loops then read at each call.
///
/// A request for a single frame is written out where it is used, as an embedder with a fixed request would: the
/// compiler then knows it too.
pub(crate) struct Paged<A, const SINGLE: bool> {
    engine: A,
    order: Order,
}

impl<A> Paged<A, true> {
    /// Makes one that is asked for single frames.
    pub fn single(engine: A) -> Paged<A, true> {
        Paged { engine, order: Order::ZERO }
    }
}

impl<A, const SINGLE: bool> Paged<A, SINGLE> {
    /// Returns the engine.
    pub fn inner(&self) -> &A {
        &self.engine
    }

    #[inline(always)]
    fn order(&self) -> Order {
        if SINGLE { Order::ZERO } else { self.order }
    }

    #[inline(always)]
    fn request(&self) -> Request {
        Request::new(self.order(), Migratetype::Movable)
    }
}

impl<A: ReplayEngine + 'static, const SINGLE: bool> Allocator for Paged<A, SINGLE> {
    #[inline(always)]
    fn take(&self, cpu: usize) -> Option<Pfn> {
        self.engine.alloc(&Cx::on(CpuId(cpu as u32)), &self.request()).ok()
    }

    #[inline(always)]
    fn give(&self, cpu: usize, block: Pfn) {
        // A refused free would show as missing blocks later, and in the audit of the engine's own tests.
        let _ = self.engine.free(&Cx::on(CpuId(cpu as u32)), block, self.order());
    }

    #[inline(always)]
    fn take_many(&self, cpu: usize, out: &mut [Pfn]) -> usize {
        self.engine.alloc_bulk(&Cx::on(CpuId(cpu as u32)), &self.request(), out)
    }

    #[inline(always)]
    fn give_many(&self, cpu: usize, blocks: &[Pfn]) {
        if SINGLE {
            self.engine.free_bulk(&Cx::on(CpuId(cpu as u32)), blocks, Order::ZERO, &mut |_, _| {});
        } else {
            blocks.iter().for_each(|block| self.give(cpu, *block));
        }
    }

    /// In an interrupt, as a driver asks: without waiting, and from the reserve.
    #[inline(always)]
    fn take_in(&self, cpu: usize, context: Context) -> Option<Pfn> {
        let cx = Cx { context, ..Cx::on(CpuId(cpu as u32)) };
        let atomic = || self.request().with(RequestFlags::HIGH | RequestFlags::NON_BLOCKING);
        let request = if context == Context::Task { self.request() } else { atomic() };
        self.engine.alloc(&cx, &request).ok()
    }

    #[inline(always)]
    fn give_in(&self, cpu: usize, context: Context, block: Pfn) {
        let cx = Cx { context, ..Cx::on(CpuId(cpu as u32)) };
        let _ = self.engine.free(&cx, block, self.order());
    }

    /// Only what serves single frames is asked for other orders too: the loops are compiled once for each engine.
    #[inline(always)]
    fn take_of(&self, cpu: usize, order: Order) -> Option<Pfn> {
        if !SINGLE {
            return None;
        }
        self.engine.alloc(&Cx::on(CpuId(cpu as u32)), &Request::new(order, Migratetype::Movable)).ok()
    }

    #[inline(always)]
    fn give_of(&self, cpu: usize, block: Pfn, order: Order) {
        if SINGLE {
            let _ = self.engine.free(&Cx::on(CpuId(cpu as u32)), block, order);
        }
    }

    fn moves(&self) -> Option<(u64, u64)> {
        let stats = self.engine.stats();
        Some((stats[Counter::PcpRefill], stats[Counter::PcpDrain]))
    }

    fn is_biased_here(&self, block: Pfn) -> Option<bool> {
        self.engine.is_biased_here(block)
    }

    fn revocations(&self) -> Option<u64> {
        self.engine.revocations()
    }

    fn engine(&self) -> Option<&dyn PageAllocator> {
        Some(&self.engine)
    }
}

/// An engine whose calls are calls: what it costs a program that does not have them inlined.
pub(crate) struct Called<A>(A);

impl<A: Allocator> Allocator for Called<A> {
    #[inline(never)]
    fn take(&self, cpu: usize) -> Option<Pfn> {
        self.0.take(cpu)
    }

    #[inline(never)]
    fn give(&self, cpu: usize, block: Pfn) {
        self.0.give(cpu, block);
    }

    #[inline(never)]
    fn take_of(&self, cpu: usize, order: Order) -> Option<Pfn> {
        self.0.take_of(cpu, order)
    }

    #[inline(never)]
    fn give_of(&self, cpu: usize, block: Pfn, order: Order) {
        self.0.give_of(cpu, block, order);
    }

    fn moves(&self) -> Option<(u64, u64)> {
        self.0.moves()
    }
}

/// An adapter that makes an engine a subject whose calls are not inlined, for single frames and mixed loads.
pub(crate) struct AsCalled(pub &'static str);

impl Visit for AsCalled {
    type Output = Box<dyn Subject>;

    fn visit<E: AnyEngine>(self, engine: E) -> Box<dyn Subject> {
        Box::new(Shared::new(self.0, Called(Paged::single(engine)), false))
    }
}

/// An adapter that makes an engine a subject for single frames, or for blocks of another order.
pub(crate) struct AsSubject<const SINGLE: bool> {
    pub name: &'static str,
    pub order: Order,
    /// Whether the engine is for one thread.
    pub one_thread: bool,
}

impl<const SINGLE: bool> Visit for AsSubject<SINGLE> {
    type Output = Box<dyn Subject>;

    fn visit<E: AnyEngine>(self, engine: E) -> Box<dyn Subject> {
        let (name, allocator) = (self.name, Paged::<_, SINGLE> { engine, order: self.order });
        match self.one_thread {
            true => Box::new(Alone { name, allocator, bulk: true }),
            false => Box::new(Shared::new(name, allocator, true)),
        }
    }
}
