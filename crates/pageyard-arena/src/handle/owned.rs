//! Handles, and the pins that keep their frames in place.

use crate::arena::{Arena, ArenaRef};
use crate::slots::{Slot, SlotId};
use pageyard::{
    AllocError, BadRequest, BlockId, Frames, Migratetype, Observer, Order, PAGE_SIZE, PerCpu, Pfn, Request,
};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

/// A page of 4 KiB to 1 MiB that keeps its contents, but may be at another address each time it is pinned. Its frames
/// are contiguous and move as a whole.
///
/// # Concurrency
/// Any number of threads may read it at the same time, each by its own pin. Pinning never waits: if a compaction is
/// copying the frames, its copy is thrown away. A writer has exclusive access:
///
/// ```compile_fail,E0502
/// # use {pageyard::Order, pageyard_arena::Arena};
/// # let arena = Arena::builder().size(1 << 20).build().unwrap();
/// let mut data = arena.alloc_movable(Order::ZERO).unwrap();
/// let mut writer = data.pin_mut();
/// let reader = data.pin();
/// writer[0] = reader[0];
/// ```
///
/// Bytes are reached through a pin only, and do not outlive it, because the frame may move then:
///
/// ```compile_fail,E0505
/// # use {pageyard::Order, pageyard_arena::Arena};
/// # let arena = Arena::builder().size(1 << 20).build().unwrap();
/// let data = arena.alloc_movable(Order::ZERO).unwrap();
/// let pinned = data.pin();
/// let bytes: &[u8] = &pinned;
/// drop(pinned);
/// assert_eq!(bytes[0], 0);
/// ```
pub struct Handle<A: ArenaRef> {
    arena: A,
    id: SlotId,
    order: Order,
}

impl<P: PerCpu, O: Observer> Arena<P, O> {
    /// Allocates a page of `2^order` frames that compaction may move while it is not pinned. It holds zeros, or what
    /// its last owner wrote.
    ///
    /// # Errors
    /// As [`PageAllocator::alloc`](pageyard::PageAllocator::alloc);
    /// [`BadRequest::Size`](pageyard::BadRequest::Size) for an order of 9 and more.
    ///
    /// # Concurrency
    /// Lock-free, as dropping and pinning a handle are: with per-CPU lists that are safe in signal handlers, handles
    /// are, too.
    pub fn alloc_movable(&self, order: Order) -> Result<Handle<&Self>, AllocError> {
        Handle::alloc_in(self, order)
    }
}

impl<A: ArenaRef> Handle<A> {
    /// Allocates as [`Arena::alloc_movable`] does, for a handle that holds its arena as given.
    ///
    /// # Errors
    /// As there.
    pub fn alloc_in(arena: A, order: Order) -> Result<Handle<A>, AllocError> {
        if order >= Order::HUGE {
            // Compaction moves blocks of less than a pageblock.
            let most = Frames(Order::HUGE.frames().0 / 2);
            return Err(AllocError::BadRequest(BadRequest::Size { frames: order.frames(), most }));
        }
        let of = arena.arena();
        of.check_alive()?;
        let pfn = of.yard().alloc(&of.cx(), &Request::new(order, Migratetype::Movable))?;
        let Some(id) = of.table().insert(BlockId { pfn, order }) else {
            // Slots are as many as frames, so this does not happen; frames without one go back.
            let _ = of.yard().free(&of.cx(), pfn, order);
            return Err(AllocError::OutOfMemory);
        };
        Ok(Handle { arena, id, order })
    }

    /// Gives it up without freeing its frame, and lets the arena go. Only [`Handle::from_raw_in`] gets it back: keep
    /// the arena until then. Compaction may move the frame meanwhile.
    #[must_use = "its frame is never freed"]
    pub fn into_raw(self) -> u32 {
        let handle = ManuallyDrop::new(self);
        // SAFETY: it is read once, and the handle is not dropped.
        drop(unsafe { std::ptr::read(&raw const handle.arena) });
        handle.id.0
    }

    /// Takes a handle back; none, and nothing changed, where the arena has no handle of that number.
    ///
    /// # Safety
    /// Where there is one, the caller owns it: the number came from [`Handle::into_raw`] of a handle of this arena, and
    /// was not taken back since.
    pub unsafe fn from_raw_in(arena: A, id: u32) -> Option<Handle<A>> {
        let of = arena.arena();
        let is_one = id != 0 && u64::from(id) <= of.mapping().frames().0;
        let id = SlotId(id);
        let slot = is_one.then(|| of.table().get(id)).filter(|slot| slot.is_live())?;
        Some(Handle { arena, id, order: slot.order() })
    }

    /// Returns the order of its frames.
    #[must_use]
    pub fn order(&self) -> Order {
        self.order
    }

    /// Keeps the frames in place, to be read.
    ///
    /// # Panics
    /// Where 16 million pins of the handle are held, or were forgotten.
    #[must_use]
    pub fn pin(&self) -> Pinned<'_, A> {
        Pinned { handle: self, pfn: self.pinned() }
    }

    /// Keeps the frames in place, to be written.
    ///
    /// # Panics
    /// As [`pin`](Handle::pin).
    #[must_use]
    pub fn pin_mut(&mut self) -> PinnedMut<'_, A> {
        let pfn = self.pinned();
        PinnedMut { handle: self, pfn }
    }

    /// Returns the first frame as it is now; it may move as soon as this has returned.
    #[must_use]
    pub fn pfn(&self) -> Pfn {
        self.arena.arena().table().get(self.id).pfn()
    }

    fn pinned(&self) -> Pfn {
        let pinned = self.arena.arena().table().update(self.id, Slot::pin);
        pinned
            .expect("16 million pins of one handle are held or were forgotten; drop what pin() returns")
            .pfn()
    }

    fn unpin(&self) {
        // It was pinned, so there is a pin to give back.
        let _ = self.arena.arena().table().update(self.id, |slot| Some(slot.unpin()));
    }

    /// Returns where the bytes of a pinned handle lie, and how many there are.
    fn bytes(&self, pfn: Pfn) -> (*mut u8, usize) {
        // SAFETY: it is the arena's.
        let at = unsafe { self.arena.arena().address(pfn) }.as_ptr();
        (at, (self.order.frames().0 * PAGE_SIZE) as usize)
    }
}

impl<A: ArenaRef> Drop for Handle<A> {
    fn drop(&mut self) {
        let arena = self.arena.arena();
        if arena.is_inert() {
            return;
        }
        let before = arena.table().update(self.id, |slot| Some(slot.dropped()));
        // What a compaction has isolated is freed by it: it may be reading the frames.
        if let Some(before) = before.filter(|before| !before.is_isolated()) {
            arena.free_handle(self.id, BlockId { pfn: before.pfn(), order: self.order });
        }
    }
}

impl<A: ArenaRef> fmt::Debug for Handle<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("pfn", &self.pfn()).finish_non_exhaustive()
    }
}

/// The bytes of a handle, which stay in place while this lives, to be read.
pub struct Pinned<'h, A: ArenaRef> {
    handle: &'h Handle<A>,
    pfn: Pfn,
}

/// The bytes of a handle, which stay in place while this lives, to be written.
pub struct PinnedMut<'h, A: ArenaRef> {
    handle: &'h Handle<A>,
    pfn: Pfn,
}

impl<A: ArenaRef> Deref for Pinned<'_, A> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let (at, bytes) = self.handle.bytes(self.pfn);
        // SAFETY: 1. The frames are the handle's, and stay so while it is pinned. 2. No one writes to them: `pin_mut`
        //         borrows the handle alone. 3. The kernel's memory is initialised, and owners write initialised bytes.
        unsafe { std::slice::from_raw_parts(at, bytes) }
    }
}

impl<A: ArenaRef> Deref for PinnedMut<'_, A> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let (at, bytes) = self.handle.bytes(self.pfn);
        // SAFETY: as above; the handle is borrowed by this alone.
        unsafe { std::slice::from_raw_parts(at, bytes) }
    }
}

impl<A: ArenaRef> DerefMut for PinnedMut<'_, A> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let (at, bytes) = self.handle.bytes(self.pfn);
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(at, bytes) }
    }
}

impl<A: ArenaRef> Drop for Pinned<'_, A> {
    #[inline]
    fn drop(&mut self) {
        self.handle.unpin();
    }
}

impl<A: ArenaRef> Drop for PinnedMut<'_, A> {
    #[inline]
    fn drop(&mut self) {
        self.handle.unpin();
    }
}
