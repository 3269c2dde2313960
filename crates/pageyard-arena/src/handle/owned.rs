//! Handles, and the pins that keep their frames in place.

use crate::arena::Arena;
use crate::rseq::Rseq;
use crate::slots::{Slot, SlotId};
use pageyard::{AllocError, Migratetype, Order, PAGE_SIZE, PerCpu, Pfn, Request};
use std::fmt;
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
pub struct Handle<'a, P: PerCpu = Rseq> {
    arena: &'a Arena<P>,
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
    pub fn alloc_movable(&self) -> Result<Handle<'_, P>, AllocError> {
        self.check_alive()?;
        let pfn = self.yard().alloc(&self.cx(), &Request::new(Order::ZERO, Migratetype::Movable))?;
        let Some(id) = self.table().insert(pfn) else {
            // Slots are as many as frames, so this does not happen; a frame without one goes back.
            let _ = self.yard().free(&self.cx(), pfn, Order::ZERO);
            return Err(AllocError::OutOfMemory);
        };
        Ok(Handle { arena: self, id })
    }
}

impl<P: PerCpu> Handle<'_, P> {
    /// Keeps the frame in place, to be read.
    ///
    /// # Panics
    /// Where 16 million pins of the handle are held, or were forgotten.
    #[must_use]
    pub fn pin(&self) -> Pinned<'_, P> {
        Pinned { handle: self, pfn: self.pinned() }
    }

    /// Keeps the frame in place, to be written.
    ///
    /// # Panics
    /// As [`pin`](Handle::pin).
    #[must_use]
    pub fn pin_mut(&mut self) -> PinnedMut<'_, P> {
        let pfn = self.pinned();
        PinnedMut { handle: self, pfn }
    }

    /// Returns where the frame is now; it may move as soon as this has returned.
    #[must_use]
    pub fn pfn(&self) -> Pfn {
        self.arena.table().get(self.id).pfn()
    }

    fn pinned(&self) -> Pfn {
        let pinned = self.arena.table().update(self.id, Slot::pin);
        pinned
            .expect("16 million pins of one handle are held or were forgotten; drop what pin() returns")
            .pfn()
    }

    fn unpin(&self) {
        // It was pinned, so there is a pin to give back.
        let _ = self.arena.table().update(self.id, |slot| Some(slot.unpin()));
    }

    /// Returns the bytes of a frame that is pinned.
    fn bytes(&self, pfn: Pfn) -> *mut u8 {
        // SAFETY: it is the arena's.
        unsafe { self.arena.address(pfn) }.as_ptr()
    }
}

impl<P: PerCpu> Drop for Handle<'_, P> {
    fn drop(&mut self) {
        if self.arena.is_inert() {
            return;
        }
        let before = self.arena.table().update(self.id, |slot| Some(slot.dropped()));
        // What a compaction has isolated is freed by it: it may be reading the frame.
        if let Some(before) = before.filter(|before| !before.is_isolated()) {
            self.arena.free_handle(self.id, before.pfn());
        }
    }
}

impl<P: PerCpu> fmt::Debug for Handle<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("pfn", &self.pfn()).finish_non_exhaustive()
    }
}

/// The bytes of a frame that stays in place while this lives, to be read.
pub struct Pinned<'h, P: PerCpu = Rseq> {
    handle: &'h Handle<'h, P>,
    pfn: Pfn,
}

/// The bytes of a frame that stays in place while this lives, to be written.
pub struct PinnedMut<'h, P: PerCpu = Rseq> {
    handle: &'h Handle<'h, P>,
    pfn: Pfn,
}

impl<P: PerCpu> Deref for Pinned<'_, P> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: 1. The frame is the handle's, and stays so while it is pinned. 2. No one writes to it: `pin_mut`
        //         borrows the handle alone. 3. The kernel's memory is initialised, and owners write initialised bytes.
        unsafe { std::slice::from_raw_parts(self.handle.bytes(self.pfn), PAGE_SIZE as usize) }
    }
}

impl<P: PerCpu> Deref for PinnedMut<'_, P> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: as above; the handle is borrowed by this alone.
        unsafe { std::slice::from_raw_parts(self.handle.bytes(self.pfn), PAGE_SIZE as usize) }
    }
}

impl<P: PerCpu> DerefMut for PinnedMut<'_, P> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.handle.bytes(self.pfn), PAGE_SIZE as usize) }
    }
}

impl<P: PerCpu> Drop for Pinned<'_, P> {
    #[inline]
    fn drop(&mut self) {
        self.handle.unpin();
    }
}

impl<P: PerCpu> Drop for PinnedMut<'_, P> {
    #[inline]
    fn drop(&mut self) {
        self.handle.unpin();
    }
}
