//! Peers: the engine's variants, the reference, and a buddy allocator from a registry, each with its best settings.

use super::subject::Allocator;
use buddy_system_allocator::{FrameAllocator, LockedFrameAllocator};
use pageyard::{Counter, CpuId, Cx, Migratetype, Order, PageAllocator, Pfn, Request};
use std::cell::Cell;

/// Anything with the project's interface, for blocks of one order.
///
/// The request is written out where it is used, as an embedder who knows what it wants writes it: the compiler then
/// knows it too.
pub(super) struct Paged<A, const ORDER: u8>(pub A);

impl<A: PageAllocator, const ORDER: u8> Paged<A, ORDER> {
    /// Returns refills and spills so far.
    pub fn moves(&self) -> (u64, u64) {
        let stats = self.0.stats();
        (stats[Counter::PcpRefill], stats[Counter::PcpDrain])
    }
}

impl<A: PageAllocator, const ORDER: u8> Allocator for Paged<A, ORDER> {
    #[inline(always)]
    fn take(&self, cpu: usize) -> Option<u64> {
        let cx = Cx::on(CpuId(cpu as u32));
        let request = Request::new(Order::of(ORDER), Migratetype::Movable);
        self.0.alloc(&cx, &request).ok().map(|pfn| pfn.0)
    }

    #[inline(always)]
    fn give(&self, cpu: usize, frame: u64) {
        let cx = Cx::on(CpuId(cpu as u32));
        // A refused free would show as missing frames later, and in the audit of the engine's own tests.
        let _ = self.0.free(&cx, Pfn(frame), Order::of(ORDER));
    }
}

/// Orders that `buddy_system_allocator` keeps lists for: enough for any memory used here.
const BUDDY_ORDERS: usize = 33;

/// `buddy_system_allocator` without a lock, for one thread.
pub(super) struct BuddyBare {
    inner: Cell<Option<Box<FrameAllocator<BUDDY_ORDERS>>>>,
    frames: usize,
}

impl BuddyBare {
    /// Makes one over frames `0..n`, for blocks of `order`.
    pub fn new(n: u64, order: Order) -> BuddyBare {
        let mut inner = Box::new(FrameAllocator::new());
        inner.add_frame(0, n as usize);
        BuddyBare { inner: Cell::new(Some(inner)), frames: 1 << order.get() }
    }

    /// Lends the allocator; a pointer is moved out and back, which costs no more than a check would.
    #[inline(always)]
    fn with<R>(&self, run: impl FnOnce(&mut FrameAllocator<BUDDY_ORDERS>) -> R) -> Option<R> {
        let mut inner = self.inner.take()?;
        let result = run(&mut inner);
        self.inner.set(Some(inner));
        Some(result)
    }
}

impl Allocator for BuddyBare {
    #[inline(always)]
    fn take(&self, _: usize) -> Option<u64> {
        self.with(|a| a.alloc(self.frames))?.map(|frame| frame as u64)
    }

    #[inline(always)]
    fn give(&self, _: usize, frame: u64) {
        self.with(|a| a.dealloc(frame as usize, self.frames));
    }
}

/// `buddy_system_allocator` behind its own spin lock.
pub(super) struct BuddyLocked {
    inner: LockedFrameAllocator<BUDDY_ORDERS>,
    frames: usize,
}

impl BuddyLocked {
    /// Makes one over frames `0..n`, for blocks of `order`.
    pub fn new(n: u64, order: Order) -> BuddyLocked {
        let inner = LockedFrameAllocator::new();
        inner.lock().add_frame(0, n as usize);
        BuddyLocked { inner, frames: 1 << order.get() }
    }
}

impl Allocator for BuddyLocked {
    #[inline(always)]
    fn take(&self, _: usize) -> Option<u64> {
        self.inner.lock().alloc(self.frames).map(|frame| frame as u64)
    }

    #[inline(always)]
    fn give(&self, _: usize, frame: u64) {
        self.inner.lock().dealloc(frame as usize, self.frames);
    }
}
