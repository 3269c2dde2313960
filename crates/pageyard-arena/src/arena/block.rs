//! A block of memory with one owner.

use super::memory::Arena;
use crate::rseq::Rseq;
use pageyard::{AllocError, Migratetype, Order, PAGE_SIZE, PerCpu, Pfn, Request, RequestFlags};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A block of an arena: bytes that are freed when it is dropped.
///
/// It holds zeros, or what its last owner wrote. Who writes through [`Block::as_ptr`] leaves initialised bytes behind.
///
/// Misuse does not compile. A block does not outlive its arena:
///
/// ```compile_fail,E0505
/// # use {pageyard::Order, pageyard_arena::Arena};
/// let arena = Arena::builder().size(1 << 20).build().unwrap();
/// let block = arena.alloc(Order::ZERO).unwrap();
/// drop(arena);
/// drop(block);
/// ```
///
/// and its bytes do not outlive it:
///
/// ```compile_fail,E0505
/// # use {pageyard::Order, pageyard_arena::Arena};
/// # let arena = Arena::builder().size(1 << 20).build().unwrap();
/// let block = arena.alloc(Order::ZERO).unwrap();
/// let bytes: &[u8] = &block;
/// drop(block);
/// assert_eq!(bytes[0], 0);
/// ```
pub struct Block<'a, P: PerCpu = Rseq> {
    arena: &'a Arena<P>,
    pfn: Pfn,
    order: Order,
}

impl<P: PerCpu> Arena<P> {
    /// Allocates a block. It holds whatever its last owner wrote, or zeros.
    ///
    /// # Errors
    /// As [`PageAllocator::alloc`](pageyard::PageAllocator::alloc).
    pub fn alloc(&self, order: Order) -> Result<Block<'_, P>, AllocError> {
        self.alloc_as(&Request::new(order, Migratetype::Movable))
    }

    /// Allocates a block for a request.
    ///
    /// # Errors
    /// As [`PageAllocator::alloc`](pageyard::PageAllocator::alloc).
    pub fn alloc_as(&self, request: &Request) -> Result<Block<'_, P>, AllocError> {
        self.check_alive()?;
        let pfn = self.yard().alloc(&self.cx(), request)?;
        Ok(Block::new(self, pfn, request.order))
    }

    /// Allocates a block of zeros. What is known to be zeros is not cleared again.
    ///
    /// # Errors
    /// As [`PageAllocator::alloc`](pageyard::PageAllocator::alloc).
    pub fn alloc_zeroed(&self, order: Order) -> Result<Block<'_, P>, AllocError> {
        self.alloc_as(&Request::new(order, Migratetype::Movable).with(RequestFlags::ZERO))
    }

    /// Returns whether a block held zeros when it was allocated, so that it was not cleared.
    #[must_use]
    pub fn was_zeroed(&self, block: &Block<'_, P>) -> bool {
        self.yard().was_zeroed(block.pfn())
    }
}

impl<'a, P: PerCpu> Block<'a, P> {
    /// Takes a block that was just allocated.
    pub(crate) fn new(arena: &'a Arena<P>, pfn: Pfn, order: Order) -> Block<'a, P> {
        Block { arena, pfn, order }
    }

    /// Returns its first frame.
    #[must_use]
    pub fn pfn(&self) -> Pfn {
        self.pfn
    }

    /// Returns its order.
    #[must_use]
    pub fn order(&self) -> Order {
        self.order
    }

    /// Returns where it lies.
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<u8> {
        // SAFETY: it is the arena's.
        unsafe { self.arena.address(self.pfn) }
    }

    /// Frees it and says that it holds zeros, so that it is not cleared for its next owner.
    ///
    /// # Safety
    /// Every byte is zero.
    pub unsafe fn free_zeroed(self) {
        if self.arena.is_inert() {
            return;
        }
        let freed = self.arena.yard().free_zeroed(&self.arena.cx(), self.pfn, self.order);
        debug_assert_eq!(freed, Ok(()), "a block has one owner");
        std::mem::forget(self);
    }

    /// Gives it up: its arena, its first frame, and its order.
    pub(super) fn into_parts(self) -> (&'a Arena<P>, Pfn, Order) {
        let parts = (self.arena, self.pfn, self.order);
        std::mem::forget(self);
        parts
    }

    fn bytes(&self) -> usize {
        (self.order.frames().0 * PAGE_SIZE) as usize
    }
}

impl<P: PerCpu> Deref for Block<'_, P> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: 1. The block is allocated, and this is its owner. 2. The kernel's memory is initialised, and owners
        //         write initialised bytes.
        unsafe { std::slice::from_raw_parts(self.as_ptr().as_ptr(), self.bytes()) }
    }
}

impl<P: PerCpu> DerefMut for Block<'_, P> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr().as_ptr(), self.bytes()) }
    }
}

impl<P: PerCpu> Drop for Block<'_, P> {
    #[inline]
    fn drop(&mut self) {
        if self.arena.is_inert() {
            return;
        }
        let freed = self.arena.yard().free(&self.arena.cx(), self.pfn, self.order);
        debug_assert_eq!(freed, Ok(()), "a block has one owner");
    }
}

impl<P: PerCpu> fmt::Debug for Block<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("pfn", &self.pfn).field("order", &self.order).finish_non_exhaustive()
    }
}
