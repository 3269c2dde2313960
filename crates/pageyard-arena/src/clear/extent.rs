//! Memory to clear: whole frames that belong to the caller.

use pageyard::{Frames, PAGE_SIZE};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Whole, aligned frames of mapped memory that nothing else uses while this lives.
#[derive(Debug)]
pub struct Extent<'m> {
    at: NonNull<u8>,
    frames: Frames,
    memory: PhantomData<&'m mut [MaybeUninit<u8>]>,
}

// SAFETY: it is a borrow of bytes that nothing else uses; bytes may be written by any thread.
unsafe impl Send for Extent<'_> {}

impl<'m> Extent<'m> {
    /// Borrows memory; none where it does not begin and end at frames.
    #[must_use]
    pub fn new(memory: &'m mut [MaybeUninit<u8>]) -> Option<Extent<'m>> {
        let (at, bytes) = (NonNull::new(memory.as_mut_ptr().cast::<u8>())?, memory.len() as u64);
        let whole = (at.addr().get() as u64).is_multiple_of(PAGE_SIZE) && bytes.is_multiple_of(PAGE_SIZE);
        whole.then_some(Extent { at, frames: Frames(bytes / PAGE_SIZE), memory: PhantomData })
    }

    /// Borrows bytes that hold something; none where they do not begin and end at frames.
    #[must_use]
    pub fn of_bytes(memory: &'m mut [u8]) -> Option<Extent<'m>> {
        let (at, bytes) = (memory.as_mut_ptr().cast(), memory.len());
        // SAFETY: initialised bytes are bytes; only zeros are written, so they stay initialised.
        Extent::new(unsafe { std::slice::from_raw_parts_mut(at, bytes) })
    }

    /// Takes frames by their address.
    ///
    /// # Safety
    /// `at` is aligned to a frame; these frames are mapped, writable, and used by nothing else during `'m`.
    #[must_use]
    pub unsafe fn at(at: NonNull<u8>, frames: Frames) -> Extent<'m> {
        debug_assert!((at.addr().get() as u64).is_multiple_of(PAGE_SIZE));
        Extent { at, frames, memory: PhantomData }
    }

    /// Returns how many frames there are.
    #[must_use]
    pub fn frames(&self) -> Frames {
        self.frames
    }

    /// Returns how many bytes there are.
    #[must_use]
    pub fn bytes(&self) -> usize {
        (self.frames.0 * PAGE_SIZE) as usize
    }

    /// Returns where they begin.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.at
    }

    /// Borrows the same frames for a shorter time.
    pub fn reborrow(&mut self) -> Extent<'_> {
        Extent { at: self.at, frames: self.frames, memory: PhantomData }
    }

    /// Takes frames off the front, or all where there are no more; none where there are none.
    pub fn take_front(&mut self, frames: Frames) -> Option<Extent<'m>> {
        let frames = Frames(frames.0.min(self.frames.0));
        if frames.0 == 0 {
            return None;
        }
        let front = Extent { at: self.at, frames, memory: PhantomData };
        // SAFETY: at most the end of the borrowed memory.
        self.at = unsafe { self.at.add((frames.0 * PAGE_SIZE) as usize) };
        self.frames = Frames(self.frames.0 - frames.0);
        Some(front)
    }
}
