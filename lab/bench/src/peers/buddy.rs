//! `buddy_system_allocator` from a registry: bare for one thread, and behind its own lock.

use crate::harness::allocator::Allocator;
use buddy_system_allocator::{FrameAllocator, LockedFrameAllocator};
use pageyard::{Order, Pfn};
use std::cell::Cell;

/// Orders that `buddy_system_allocator` keeps lists for: enough for any memory used here.
const BUDDY_ORDERS: usize = 33;

/// `buddy_system_allocator` without a lock, for one thread.
pub(crate) struct BuddyBare {
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
    fn take(&self, _: usize) -> Option<Pfn> {
        self.with(|a| a.alloc(self.frames))?.map(|frame| Pfn(frame as u64))
    }

    #[inline(always)]
    fn give(&self, _: usize, frame: Pfn) {
        self.with(|a| a.dealloc(frame.0 as usize, self.frames));
    }

    #[inline(always)]
    fn take_of(&self, _: usize, order: Order) -> Option<Pfn> {
        self.with(|a| a.alloc(1 << order.get()))?.map(|frame| Pfn(frame as u64))
    }

    #[inline(always)]
    fn give_of(&self, _: usize, frame: Pfn, order: Order) {
        self.with(|a| a.dealloc(frame.0 as usize, 1 << order.get()));
    }
}

/// `buddy_system_allocator` behind its own spin lock.
pub(crate) struct BuddyLocked {
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
    fn take(&self, _: usize) -> Option<Pfn> {
        self.inner.lock().alloc(self.frames).map(|frame| Pfn(frame as u64))
    }

    #[inline(always)]
    fn give(&self, _: usize, frame: Pfn) {
        self.inner.lock().dealloc(frame.0 as usize, self.frames);
    }

    #[inline(always)]
    fn take_of(&self, _: usize, order: Order) -> Option<Pfn> {
        self.inner.lock().alloc(1 << order.get()).map(|frame| Pfn(frame as u64))
    }

    #[inline(always)]
    fn give_of(&self, _: usize, frame: Pfn, order: Order) {
        self.inner.lock().dealloc(frame.0 as usize, 1 << order.get());
    }
}
