//! Any number of frames in one piece, with one owner, that can be split among several.

use super::block::Block;
use super::memory::Arena;
use crate::rseq::Rseq;
use pageyard::{AllocError, Frames, Migratetype, Order, PAGE_SIZE, PerCpu, Pfn, Request, RequestFlags};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Frames of an arena that follow each other, any number of them: bytes that are freed when it is dropped.
///
/// It holds zeros, or what its last owners wrote. Bytes written through [`Pages::as_ptr`] must be initialised.
///
/// ```
/// # use {pageyard::Frames, pageyard_arena::Arena};
/// let arena = Arena::builder().size(16 << 20).build_locked()?;
/// let mut ring = arena.alloc_bytes_zeroed(13 * 4096)?; // 13 frames: nothing behind them is wasted
/// ring[5 * 4096] = 7;
/// let (head, mut rest) = ring.split_at(Frames(5)).unwrap(); // two owners, in two threads if need be
/// drop(head); // 5 frames are free
/// rest[0] += 1;
/// assert_eq!((rest.len(), rest[0]), (8 * 4096, 8));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Misuse does not compile. Pages do not outlive their arena:
///
/// ```compile_fail,E0505
/// # use pageyard_arena::Arena;
/// let arena = Arena::builder().size(1 << 20).build().unwrap();
/// let pages = arena.alloc_bytes(12288).unwrap();
/// drop(arena);
/// drop(pages);
/// ```
///
/// their bytes do not outlive them:
///
/// ```compile_fail,E0505
/// # use pageyard_arena::Arena;
/// # let arena = Arena::builder().size(1 << 20).build().unwrap();
/// let pages = arena.alloc_bytes(12288).unwrap();
/// let bytes: &[u8] = &pages;
/// drop(pages);
/// assert_eq!(bytes[0], 0);
/// ```
///
/// and what was split is gone:
///
/// ```compile_fail,E0382
/// # use {pageyard::Frames, pageyard_arena::Arena};
/// # let arena = Arena::builder().size(1 << 20).build().unwrap();
/// let pages = arena.alloc_bytes(12288).unwrap();
/// let parts = pages.split_at(Frames(1)).unwrap();
/// assert_eq!(pages[0], 0);
/// ```
pub struct Pages<'a, P: PerCpu = Rseq> {
    arena: &'a Arena<P>,
    first: Pfn,
    frames: Frames,
}

impl<P: PerCpu> Arena<P> {
    /// Allocates so many bytes in one piece, rounded up to frames and no further: not to a power of two. They hold
    /// whatever their last owners wrote, or zeros.
    ///
    /// # Errors
    /// As [`PageAllocator::alloc`](pageyard::PageAllocator::alloc), for the block that has them;
    /// [`BadRequest::Size`](pageyard::BadRequest::Size) for no bytes, or for more than 1 GiB.
    ///
    /// # Linux
    /// `alloc_pages_exact`.
    pub fn alloc_bytes(&self, bytes: usize) -> Result<Pages<'_, P>, AllocError> {
        self.alloc_bytes_aligned(bytes, Order::ZERO)
    }

    /// Allocates so many bytes of zeros in one piece.
    ///
    /// # Errors
    /// As [`Arena::alloc_bytes`].
    pub fn alloc_bytes_zeroed(&self, bytes: usize) -> Result<Pages<'_, P>, AllocError> {
        let request = Request::new(Order::ZERO, Migratetype::Movable).with(RequestFlags::ZERO);
        self.alloc_bytes_as(bytes, Order::ZERO, &request)
    }

    /// Allocates so many bytes in one piece, whose first frame is aligned to a block of an order. Up to 2 MiB they are
    /// aligned in memory, too, unless the memory is the caller's own and begins elsewhere.
    ///
    /// # Errors
    /// As [`Arena::alloc_bytes`].
    pub fn alloc_bytes_aligned(&self, bytes: usize, align: Order) -> Result<Pages<'_, P>, AllocError> {
        self.alloc_bytes_as(bytes, align, &Request::new(Order::ZERO, Migratetype::Movable))
    }

    /// Allocates so many bytes in one piece for a request, whose own order is not looked at.
    ///
    /// # Errors
    /// As [`Arena::alloc_bytes`].
    pub fn alloc_bytes_as(
        &self,
        bytes: usize,
        align: Order,
        request: &Request,
    ) -> Result<Pages<'_, P>, AllocError> {
        self.check_alive()?;
        let frames = Frames((bytes as u64).div_ceil(PAGE_SIZE));
        let first = self.yard().alloc_exact(&self.cx(), frames, align, request)?;
        Ok(Pages { arena: self, first, frames })
    }
}

impl<'a, P: PerCpu> Pages<'a, P> {
    /// Returns the first frame.
    #[must_use]
    pub fn pfn(&self) -> Pfn {
        self.first
    }

    /// Returns how many there are.
    #[must_use]
    pub fn frames(&self) -> Frames {
        self.frames
    }

    /// Returns where they lie.
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<u8> {
        // SAFETY: it is the arena's.
        unsafe { self.arena.address(self.first) }
    }

    /// Splits them in front of frame `at`, counted from the first: the parts have owners of their own from then on, and
    /// are freed apart.
    ///
    /// # Errors
    /// The pages as they were, where one part would have no frame.
    ///
    /// # Concurrency
    /// Owners of parts share nothing: they may be freed, and split again, in any order and at the same time.
    pub fn split_at(self, at: Frames) -> Result<(Pages<'a, P>, Pages<'a, P>), Pages<'a, P>> {
        if at == Frames::ZERO || at >= self.frames {
            return Err(self);
        }
        if !self.arena.is_inert() {
            self.cut_before(self.first + at);
        }
        let second = Pages { arena: self.arena, first: self.first + at, frames: self.frames - at };
        let first = Pages { arena: self.arena, first: self.first, frames: at };
        std::mem::forget(self);
        Ok((first, second))
    }

    /// Cuts the live block that has a frame of these inside, so that one begins there: two owners never free parts of
    /// one block.
    fn cut_before(&self, at: Pfn) {
        let (yard, mut head) = (self.arena.yard(), self.first);
        while head < at {
            let Some(order) = yard.order_of(head) else {
                debug_assert!(false, "pages have one owner");
                return;
            };
            match order.smaller() {
                Some(half) if head + order.frames() > at => {
                    let split = yard.split(&self.arena.cx(), head, order, half);
                    debug_assert_eq!(split, Ok(()), "pages have one owner");
                    if split.is_err() {
                        return;
                    }
                }
                _ => head = head + order.frames(),
            }
        }
    }

    fn bytes(&self) -> usize {
        (self.frames.0 * PAGE_SIZE) as usize
    }
}

/// A block becomes pages, which can be split anywhere.
impl<'a, P: PerCpu> From<Block<'a, P>> for Pages<'a, P> {
    fn from(block: Block<'a, P>) -> Pages<'a, P> {
        let (arena, first, order) = block.into_parts();
        Pages { arena, first, frames: order.frames() }
    }
}

impl<P: PerCpu> Deref for Pages<'_, P> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: 1. The frames are allocated, and this is their owner. 2. The kernel's memory is initialised, and
        //         owners write initialised bytes.
        unsafe { std::slice::from_raw_parts(self.as_ptr().as_ptr(), self.bytes()) }
    }
}

impl<P: PerCpu> DerefMut for Pages<'_, P> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr().as_ptr(), self.bytes()) }
    }
}

impl<P: PerCpu> Drop for Pages<'_, P> {
    fn drop(&mut self) {
        if self.arena.is_inert() {
            return;
        }
        let freed = self.arena.yard().free_range(&self.arena.cx(), self.first, self.frames);
        debug_assert_eq!(freed, Ok(()), "pages have one owner");
    }
}

impl<P: PerCpu> fmt::Debug for Pages<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages")
            .field("pfn", &self.first)
            .field("frames", &self.frames)
            .finish_non_exhaustive()
    }
}
