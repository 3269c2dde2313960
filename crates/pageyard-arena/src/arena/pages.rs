//! Any number of frames in one piece, with one owner, that can be split among several.

use super::block::Block;
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

/// Frames of an arena that follow each other, any number of them: bytes that are freed when it is dropped. `A` is
/// [how they hold their arena](ArenaRef).
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
pub struct Pages<A: ArenaRef> {
    arena: A,
    first: Pfn,
    frames: Frames,
}

impl<P: PerCpu, O: Observer> Arena<P, O> {
    /// Allocates so many bytes in one piece, rounded up to frames and no further: not to a power of two. They hold
    /// whatever their last owners wrote, or zeros.
    ///
    /// # Errors
    /// As [`PageAllocator::alloc`](pageyard::PageAllocator::alloc), for the block that has them;
    /// [`BadRequest::Size`](pageyard::BadRequest::Size) for no bytes, or for more than 1 GiB.
    ///
    /// # Linux
    /// `alloc_pages_exact`.
    pub fn alloc_bytes(&self, bytes: usize) -> Result<Pages<&Self>, AllocError> {
        self.alloc_bytes_aligned(bytes, Order::ZERO)
    }

    /// Allocates so many bytes of zeros in one piece.
    ///
    /// # Errors
    /// As [`Arena::alloc_bytes`].
    pub fn alloc_bytes_zeroed(&self, bytes: usize) -> Result<Pages<&Self>, AllocError> {
        let request = Request::new(Order::ZERO, Migratetype::Movable).with(RequestFlags::ZERO);
        self.alloc_bytes_as(bytes, Order::ZERO, &request)
    }

    /// Allocates so many bytes in one piece, whose first frame is aligned to a block of an order. Up to 2 MiB they are
    /// aligned in memory, too, unless the memory is the caller's own and begins elsewhere.
    ///
    /// # Errors
    /// As [`Arena::alloc_bytes`].
    pub fn alloc_bytes_aligned(&self, bytes: usize, align: Order) -> Result<Pages<&Self>, AllocError> {
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
    ) -> Result<Pages<&Self>, AllocError> {
        Pages::alloc_in(self, bytes, align, request)
    }
}

impl<A: ArenaRef> Pages<A> {
    /// Allocates as [`Arena::alloc_bytes_as`] does, for a value that holds its arena as given.
    ///
    /// # Errors
    /// As [`Arena::alloc_bytes`].
    pub fn alloc_in(arena: A, bytes: usize, align: Order, request: &Request) -> Result<Pages<A>, AllocError> {
        let of = arena.arena();
        of.check_alive()?;
        let frames = Frames((bytes as u64).div_ceil(PAGE_SIZE));
        let first = of.yard().alloc_exact(&of.cx(), frames, align, request)?;
        Ok(Pages { arena, first, frames })
    }

    /// Gives them up without freeing them, and lets the arena go: their address, and how many bytes they are. Only
    /// [`Pages::from_raw_in`] gets them back: keep the arena until then.
    #[must_use = "they are never freed"]
    pub fn into_raw(self) -> (NonNull<u8>, usize) {
        let raw = (self.as_ptr(), self.bytes());
        drop(self.into_parts());
        raw
    }

    /// Takes pages back from their address and length; none, and nothing changed, where these are not whole frames of
    /// the arena.
    ///
    /// # Safety
    /// The caller owns them: they came from [`Pages::into_raw`] of pages of this arena, and were not taken back since.
    pub unsafe fn from_raw_in(arena: A, at: NonNull<u8>, bytes: usize) -> Option<Pages<A>> {
        let of = arena.arena();
        let (first, frames) = (of.frame_at(at)?, Frames(bytes as u64 / PAGE_SIZE));
        let left = of.mapping().frames() - Frames(first.0);
        let is_whole = (bytes as u64).is_multiple_of(PAGE_SIZE) && frames > Frames::ZERO && frames <= left;
        // Not `then_some`: pages that are refused must not be dropped.
        is_whole.then(|| Pages { arena, first, frames })
    }

    /// Makes a range of their bytes zeros, and gives the whole pages among them back to the host. As
    /// [`Block::discard`].
    ///
    /// # Errors
    /// As there.
    pub fn discard(&mut self, range: Range<usize>) -> Result<Frames, BackingError> {
        let (at, bytes, first) = (self.as_ptr(), self.bytes(), self.first);
        // SAFETY: as in `deref_mut`.
        let bytes = unsafe { std::slice::from_raw_parts_mut(at.as_ptr(), bytes) };
        self.arena.arena().discard(first, bytes, range)
    }

    /// Gives them up: their arena, the first frame, and how many there are.
    fn into_parts(self) -> (A, Pfn, Frames) {
        let pages = ManuallyDrop::new(self);
        // SAFETY: it is read once, and the pages are not dropped.
        (unsafe { std::ptr::read(&raw const pages.arena) }, pages.first, pages.frames)
    }

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
        unsafe { self.arena.arena().address(self.first) }
    }

    /// Splits them in front of frame `at`, counted from the first: the parts have owners of their own from then on, and
    /// are freed apart.
    ///
    /// # Errors
    /// The pages as they were, where one part would have no frame.
    ///
    /// # Concurrency
    /// Owners of parts share nothing: they may be freed, and split again, in any order and at the same time.
    pub fn split_at(mut self, at: Frames) -> Result<(Pages<A>, Pages<A>), Pages<A>>
    where
        A: Clone,
    {
        if at == Frames::ZERO || at >= self.frames {
            return Err(self);
        }
        if !self.arena.arena().is_inert() {
            self.cut_before(self.first + at);
        }
        let second = Pages { arena: self.arena.clone(), first: self.first + at, frames: self.frames - at };
        self.frames = at;
        Ok((self, second))
    }

    /// Cuts the live block that has a frame of these inside, so that one begins there: two owners never free parts of
    /// one block.
    fn cut_before(&self, at: Pfn) {
        let (arena, mut head) = (self.arena.arena(), self.first);
        let yard = arena.yard();
        while head < at {
            let Some(order) = yard.order_of(head) else {
                debug_assert!(false, "pages have one owner");
                return;
            };
            match order.smaller() {
                Some(half) if head + order.frames() > at => {
                    let split = yard.split(&arena.cx(), head, order, half);
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
impl<A: ArenaRef> From<Block<A>> for Pages<A> {
    fn from(block: Block<A>) -> Pages<A> {
        let (arena, first, order) = block.into_parts();
        Pages { arena, first, frames: order.frames() }
    }
}

impl<A: ArenaRef> Deref for Pages<A> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: 1. The frames are allocated, and this is their owner. 2. The kernel's memory is initialised, and
        //         owners write initialised bytes.
        unsafe { std::slice::from_raw_parts(self.as_ptr().as_ptr(), self.bytes()) }
    }
}

impl<A: ArenaRef> DerefMut for Pages<A> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr().as_ptr(), self.bytes()) }
    }
}

impl<A: ArenaRef> Drop for Pages<A> {
    fn drop(&mut self) {
        let arena = self.arena.arena();
        if arena.is_inert() {
            return;
        }
        let freed = arena.yard().free_range(&arena.cx(), self.first, self.frames);
        debug_assert_eq!(freed, Ok(()), "pages have one owner");
    }
}

impl<A: ArenaRef> fmt::Debug for Pages<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages")
            .field("pfn", &self.first)
            .field("frames", &self.frames)
            .finish_non_exhaustive()
    }
}
