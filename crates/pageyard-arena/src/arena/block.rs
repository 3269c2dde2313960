//! A block of memory with one owner.

use super::holder::ArenaRef;
use super::memory::Arena;
use crate::backing::BackingError;
use pageyard::{
    AllocError, Frames, Migratetype, Observer, Order, PAGE_SIZE, PerCpu, Pfn, Request, RequestFlags,
};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;

/// A block of an arena: bytes that are freed when it is dropped. `A` is [how it holds its arena](ArenaRef).
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
pub struct Block<A: ArenaRef> {
    arena: A,
    pfn: Pfn,
    order: Order,
}

impl<P: PerCpu, O: Observer> Arena<P, O> {
    /// Allocates a block. It holds whatever its last owner wrote, or zeros.
    ///
    /// # Errors
    /// As [`PageAllocator::alloc`](pageyard::PageAllocator::alloc).
    #[inline]
    pub fn alloc(&self, order: Order) -> Result<Block<&Self>, AllocError> {
        self.alloc_as(&Request::new(order, Migratetype::Movable))
    }

    /// Allocates a block for a request.
    ///
    /// # Errors
    /// As [`PageAllocator::alloc`](pageyard::PageAllocator::alloc).
    #[inline]
    pub fn alloc_as(&self, request: &Request) -> Result<Block<&Self>, AllocError> {
        Block::alloc_as_in(self, request)
    }

    /// Allocates a block of zeros. What is known to be zeros is not cleared again.
    ///
    /// # Errors
    /// As [`PageAllocator::alloc`](pageyard::PageAllocator::alloc).
    pub fn alloc_zeroed(&self, order: Order) -> Result<Block<&Self>, AllocError> {
        self.alloc_as(&Request::new(order, Migratetype::Movable).with(RequestFlags::ZERO))
    }
}

impl<A: ArenaRef> Block<A> {
    /// Allocates as [`Arena::alloc`] does, for a block that keeps `arena`, such as an `Arc`.
    ///
    /// # Errors
    /// As [`PageAllocator::alloc`](pageyard::PageAllocator::alloc).
    #[inline]
    pub fn alloc_in(arena: A, order: Order) -> Result<Block<A>, AllocError> {
        Block::alloc_as_in(arena, &Request::new(order, Migratetype::Movable))
    }

    /// Allocates as [`Arena::alloc_as`] does, for a block that keeps `arena`.
    ///
    /// # Errors
    /// As [`PageAllocator::alloc`](pageyard::PageAllocator::alloc).
    #[inline]
    pub fn alloc_as_in(arena: A, request: &Request) -> Result<Block<A>, AllocError> {
        let of = arena.arena();
        of.check_alive()?;
        let pfn = of.yard().alloc(&of.cx(), request)?;
        Ok(Block::new(arena, pfn, request.order))
    }

    /// Takes a block that was just allocated.
    #[inline]
    pub(crate) fn new(arena: A, pfn: Pfn, order: Order) -> Block<A> {
        Block { arena, pfn, order }
    }

    /// Gives it up without freeing it, and lets the arena go. Only [`Block::from_raw_in`] gets it back: keep the arena
    /// until then.
    ///
    /// ```
    /// # use {pageyard::Order, pageyard_arena::{Arena, Block}};
    /// # let arena = Arena::builder().size(1 << 20).build_locked()?;
    /// let at = arena.alloc(Order::ZERO)?.into_raw(); // to a device, or to C
    /// // SAFETY: it came from `into_raw` of this arena, once.
    /// let block = unsafe { Block::from_raw_in(&arena, at) }.unwrap();
    /// assert_eq!(block.len(), 4096);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "it is never freed"]
    #[inline]
    pub fn into_raw(self) -> NonNull<u8> {
        let at = self.as_ptr();
        drop(self.into_parts());
        at
    }

    /// Takes a block back from its address; none, and nothing changed, where no allocated block of the arena begins
    /// there.
    ///
    /// # Safety
    /// Where a block begins there, the caller owns it: it came from [`Block::into_raw`] of a block of this arena, and
    /// was not taken back since.
    pub unsafe fn from_raw_in(arena: A, at: NonNull<u8>) -> Option<Block<A>> {
        let of = arena.arena();
        let pfn = of.frame_at(at)?;
        let order = of.yard().order_of(pfn)?;
        Some(Block { arena, pfn, order })
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
    #[inline]
    pub fn as_ptr(&self) -> NonNull<u8> {
        // SAFETY: it is the arena's.
        unsafe { self.arena.arena().address(self.pfn) }
    }

    /// Returns whether it held zeros when it was allocated, so that it was not cleared.
    #[must_use]
    pub fn was_zeroed(&self) -> bool {
        self.arena.arena().yard().was_zeroed(self.pfn)
    }

    /// Makes a range of its bytes zeros, and gives the whole pages among them back to the host: the next write to each
    /// waits for the kernel. Returns how many frames the host has. A range past the block's end ends there. Reserved
    /// huge pages that are given back may be taken by another process: a write that then finds none ends this one
    /// (SIGBUS).
    ///
    /// # Errors
    /// Those of the host, as for locked memory: the bytes are zeros all the same.
    pub fn discard(&mut self, range: Range<usize>) -> Result<Frames, BackingError> {
        let (at, bytes, pfn) = (self.as_ptr(), self.bytes(), self.pfn);
        // SAFETY: as in `deref_mut`.
        let bytes = unsafe { std::slice::from_raw_parts_mut(at.as_ptr(), bytes) };
        self.arena.arena().discard(pfn, bytes, range)
    }

    /// Frees it and says that it holds zeros, so that it is not cleared for its next owner.
    ///
    /// # Safety
    /// Every byte is zero.
    pub unsafe fn free_zeroed(self) {
        let (arena, pfn, order) = self.into_parts();
        let arena = arena.arena();
        if arena.is_inert() {
            return;
        }
        let freed = arena.yard().free_zeroed(&arena.cx(), pfn, order);
        debug_assert_eq!(freed, Ok(()), "a block has one owner");
    }

    /// Gives it up: its arena, its first frame, and its order.
    #[inline]
    pub(super) fn into_parts(self) -> (A, Pfn, Order) {
        let block = ManuallyDrop::new(self);
        // SAFETY: it is read once, and the block is not dropped.
        (unsafe { std::ptr::read(&raw const block.arena) }, block.pfn, block.order)
    }

    fn bytes(&self) -> usize {
        (self.order.frames().0 * PAGE_SIZE) as usize
    }
}

impl<A: ArenaRef> Deref for Block<A> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: 1. The block is allocated, and this is its owner. 2. The kernel's memory is initialised, and owners
        //         write initialised bytes.
        unsafe { std::slice::from_raw_parts(self.as_ptr().as_ptr(), self.bytes()) }
    }
}

impl<A: ArenaRef> DerefMut for Block<A> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr().as_ptr(), self.bytes()) }
    }
}

impl<A: ArenaRef> Drop for Block<A> {
    #[inline]
    fn drop(&mut self) {
        let arena = self.arena.arena();
        if arena.is_inert() {
            return;
        }
        let freed = arena.yard().free(&arena.cx(), self.pfn, self.order);
        debug_assert_eq!(freed, Ok(()), "a block has one owner");
    }
}

impl<A: ArenaRef> fmt::Debug for Block<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("pfn", &self.pfn).field("order", &self.order).finish_non_exhaustive()
    }
}
