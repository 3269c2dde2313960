//! Typed slices of the caller's memory.
//!
//! A byte that is part of an [`A8`](crate::A8) is never part of an [`A64`](crate::A64), so atomics of different sizes
//! never overlap. ([`eight`](crate::eight) has instructions that are eight of one size.)

use crate::atomics::Zeroable;
use core::marker::PhantomData;
use core::mem::{align_of, size_of};

/// Bytes of a cache line; what different CPUs write lies that far apart.
pub const LINE: usize = 64;

/// Cuts typed slices from the caller's memory, each on its own cache line.
///
/// Without memory it only counts, so that the size query and the construction run the same code.
pub struct Carver<'m> {
    base: Option<*mut u8>,
    len: usize,
    used: usize,
    memory: PhantomData<&'m mut [u8]>,
}

impl<'m> Carver<'m> {
    /// Makes a carver that only counts.
    #[must_use]
    pub fn counting() -> Carver<'m> {
        Carver { base: None, len: usize::MAX, used: 0, memory: PhantomData }
    }

    /// Makes a carver of `memory`, from its first cache line on.
    #[must_use]
    pub fn of(memory: &'m mut [u8]) -> Carver<'m> {
        let skip = memory.as_ptr().align_offset(LINE).min(memory.len());
        let rest = &mut memory[skip..];
        Carver { len: rest.len(), base: Some(rest.as_mut_ptr()), used: 0, memory: PhantomData }
    }

    /// Returns the bytes used so far, or asked for where there was no memory.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used
    }

    /// Returns whether there are that many bytes.
    #[must_use]
    pub fn has(&self, bytes: usize) -> bool {
        bytes <= self.len
    }

    /// Returns whether the memory was large enough for everything that was carved.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.used <= self.len
    }

    /// Returns where a slice that it carved begins, as a pointer that leads to all of the memory; null where there is
    /// none.
    pub fn reach<T>(&self, slice: &'m [T]) -> *const T {
        let base = self.base.unwrap_or(core::ptr::null_mut());
        if base.is_null() || slice.is_empty() {
            return core::ptr::null();
        }
        base.wrapping_add(slice.as_ptr() as usize - base as usize).cast_const().cast()
    }

    /// Takes room for `n` values of `T`; null where it only counts or there is not enough.
    fn room<T>(&mut self, n: usize) -> *mut T {
        const { assert!(align_of::<T>() <= LINE) };
        let at = self.used;
        let bytes = n.saturating_mul(size_of::<T>());
        self.used = at.saturating_add(bytes).saturating_add(LINE - 1) & !(LINE - 1);
        match self.base {
            Some(base) if self.used <= self.len || at.saturating_add(bytes) <= self.len => {
                // SAFETY: `at + bytes` is within the memory that `base` starts.
                unsafe { base.add(at).cast() }
            }
            _ => core::ptr::null_mut(),
        }
    }

    /// Carves `n` atomics that are all zero, without touching the memory: it is zero already.
    pub fn zeroed<T: Zeroable>(&mut self, n: usize) -> &'m [T] {
        let room = self.room::<T>(n);
        if room.is_null() {
            return &[];
        }
        #[cfg(any(pageyard_loom, pageyard_shuttle))]
        for i in 0..n {
            // SAFETY: `room` is that large, aligned, and exclusively ours.
            unsafe { room.add(i).write(T::zero()) };
        }
        // SAFETY: 1. `room` has space for `n` values, is aligned, and came out of an exclusive borrow of `'m`.
        //         2. No other slice overlaps it, because `used` moved past it.
        //         3. The bytes are initialised, and any of them are a valid `T` (`Zeroable`).
        unsafe { core::slice::from_raw_parts(room, n) }
    }

    /// Carves `n` values and fills them in. Where the memory is too small, nothing is made.
    pub fn filled<T>(&mut self, n: usize, mut make: impl FnMut(usize, &mut Self) -> T) -> &'m [T] {
        let room = self.room::<T>(n);
        if room.is_null() {
            (0..n).for_each(|i| drop(make(i, self)));
            return &[];
        }
        for i in 0..n {
            // SAFETY: `room` is that large, aligned, and exclusively ours.
            unsafe { room.add(i).write(make(i, self)) };
        }
        // SAFETY: as in `zeroed`, and all `n` values were written above.
        unsafe { core::slice::from_raw_parts(room, n) }
    }
}

#[cfg(all(test, not(any(pageyard_loom, pageyard_shuttle))))]
mod tests {
    use super::*;
    use crate::{A8, A64};
    use core::sync::atomic::Ordering::Relaxed;

    #[test]
    fn slices_are_apart_and_counted_alike() {
        let mut memory = [0u8; 1024];
        let mut carver = Carver::of(&mut memory);
        let bytes: &[A8] = carver.zeroed(3);
        let words: &[A64] = carver.zeroed(5);
        bytes[2].store(0xff, Relaxed);
        assert!(words.iter().all(|w| w.load(Relaxed) == 0));
        assert_eq!(words.as_ptr() as usize % LINE, 0);
        let mut counting = Carver::counting();
        let _: &[A8] = counting.zeroed(3);
        let _: &[A64] = counting.zeroed(5);
        assert_eq!(counting.used(), carver.used());
        assert!(carver.fits());
    }

    #[test]
    fn too_little_memory_is_noticed() {
        let mut memory = [0u8; 200];
        let mut carver = Carver::of(&mut memory);
        let words: &[A64] = carver.zeroed(1000);
        assert!(words.is_empty() && !carver.fits());
    }
}
