//! Handles, and the pins that keep their frames in place.

use crate::arena::{Arena, ArenaRef};
use crate::slots::{Slot, SlotId};
use pageyard::{AllocError, Migratetype, Order, PAGE_SIZE, PerCpu, Pfn, Request};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

/// A frame of 4 KiB that stays what it is, and may lie somewhere else each time that it is pinned.
///
/// # Concurrency
/// Any number of threads may read it at the same time, each by its own pin. Pinning never waits: where a compaction
/// copies the frame, its copy is thrown away. One that writes is alone:
///
/// ```compile_fail,E0502
/// # use pageyard_arena::Arena;
/// # let arena = Arena::builder().size(1 << 20).build().unwrap();
/// let mut data = arena.alloc_movable().unwrap();
/// let mut writer = data.pin_mut();
/// let reader = data.pin();
/// writer[0] = reader[0];
/// ```
///
/// Bytes are reached through a pin only, and do not outlive it, because the frame may move then:
///
/// ```compile_fail,E0505
/// # use pageyard_arena::Arena;
/// # let arena = Arena::builder().size(1 << 20).build().unwrap();
/// let data = arena.alloc_movable().unwrap();
/// let pinned = data.pin();
/// let bytes: &[u8] = &pinned;
/// drop(pinned);
/// assert_eq!(bytes[0], 0);
/// ```
pub struct Handle<A: ArenaRef> {
    arena: A,
    id: SlotId,
}

impl<P: PerCpu> Arena<P> {
    /// Allocates a frame that compaction may move while it is not pinned. It holds zeros, or what its last owner wrote.
    ///
    /// # Errors
    /// As [`PageAllocator::alloc`](pageyard::PageAllocator::alloc).
    ///
    /// # Concurrency
    /// Lock-free, as dropping and pinning a handle are: with per-CPU lists that are safe in signal handlers, handles
    /// are, too.
    pub fn alloc_movable(&self) -> Result<Handle<&Self>, AllocError> {
        Handle::alloc_in(self)
    }
}

impl<A: ArenaRef> Handle<A> {
    /// Allocates as [`Arena::alloc_movable`] does, for a handle that holds its arena as given.
    ///
    /// # Errors
    /// As there.
    pub fn alloc_in(arena: A) -> Result<Handle<A>, AllocError> {
        let of = arena.arena();
        of.check_alive()?;
        let pfn = of.yard().alloc(&of.cx(), &Request::new(Order::ZERO, Migratetype::Movable))?;
        let Some(id) = of.table().insert(pfn) else {
            // Slots are as many as frames, so this does not happen; a frame without one goes back.
            let _ = of.yard().free(&of.cx(), pfn, Order::ZERO);
            return Err(AllocError::OutOfMemory);
        };
        Ok(Handle { arena, id })
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
        // Not `then_some`: a handle that there is not must not be dropped.
        (is_one && of.table().get(id).is_live()).then(|| Handle { arena, id })
    }

    /// Keeps the frame in place, to be read.
    ///
    /// # Panics
    /// Where 16 million pins of the handle are held, or were forgotten.
    #[must_use]
    pub fn pin(&self) -> Pinned<'_, A> {
        Pinned { handle: self, pfn: self.pinned() }
    }

    /// Keeps the frame in place, to be written.
    ///
    /// # Panics
    /// As [`pin`](Handle::pin).
    #[must_use]
    pub fn pin_mut(&mut self) -> PinnedMut<'_, A> {
        let pfn = self.pinned();
        PinnedMut { handle: self, pfn }
    }

    /// Returns where the frame is now; it may move as soon as this has returned.
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

    /// Returns the bytes of a frame that is pinned.
    fn bytes(&self, pfn: Pfn) -> *mut u8 {
        // SAFETY: it is the arena's.
        unsafe { self.arena.arena().address(pfn) }.as_ptr()
    }
}

impl<A: ArenaRef> Drop for Handle<A> {
    fn drop(&mut self) {
        let arena = self.arena.arena();
        if arena.is_inert() {
            return;
        }
        let before = arena.table().update(self.id, |slot| Some(slot.dropped()));
        // What a compaction has isolated is freed by it: it may be reading the frame.
        if let Some(before) = before.filter(|before| !before.is_isolated()) {
            arena.free_handle(self.id, before.pfn());
        }
    }
}

impl<A: ArenaRef> fmt::Debug for Handle<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("pfn", &self.pfn()).finish_non_exhaustive()
    }
}

/// The bytes of a frame that stays in place while this lives, to be read.
pub struct Pinned<'h, A: ArenaRef> {
    handle: &'h Handle<A>,
    pfn: Pfn,
}

/// The bytes of a frame that stays in place while this lives, to be written.
pub struct PinnedMut<'h, A: ArenaRef> {
    handle: &'h Handle<A>,
    pfn: Pfn,
}

impl<A: ArenaRef> Deref for Pinned<'_, A> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: 1. The frame is the handle's, and stays so while it is pinned. 2. No one writes to it: `pin_mut`
        //         borrows the handle alone. 3. The kernel's memory is initialised, and owners write initialised bytes.
        unsafe { std::slice::from_raw_parts(self.handle.bytes(self.pfn), PAGE_SIZE as usize) }
    }
}

impl<A: ArenaRef> Deref for PinnedMut<'_, A> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: as above; the handle is borrowed by this alone.
        unsafe { std::slice::from_raw_parts(self.handle.bytes(self.pfn), PAGE_SIZE as usize) }
    }
}

impl<A: ArenaRef> DerefMut for PinnedMut<'_, A> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.handle.bytes(self.pfn), PAGE_SIZE as usize) }
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
