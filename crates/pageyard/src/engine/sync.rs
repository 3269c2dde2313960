//! The only file that names atomics, so that a model checker or a test that stops threads can replace them.
//!
//! * Normally the types here are `core::sync::atomic`'s, and a call costs what theirs costs.
//! * Under `--cfg loom` they are the model checker's.
//! * Under `--cfg shuttle` they are a scheduler's, which tries many orders of steps at the real sizes. It knows only
//!   sequential consistency.
//! * With the feature `step-hook` a function that a test installs runs before every atomic step.
//!
//! Metadata is carved from the caller's memory as typed slices: a byte that is part of an [`A8`] is never part of an
//! [`A64`], so that atomics of different sizes never overlap. (`map::eight` has instructions that are eight of one
//! size.)

use super::geometry::LINE;
use core::marker::PhantomData;
use core::mem::{align_of, size_of};

#[cfg(not(any(loom, shuttle)))]
use core::sync::atomic as imp;
#[cfg(loom)]
use loom::sync::atomic as imp;
#[cfg(shuttle)]
use shuttle::sync::atomic as imp;

pub(crate) use core::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};

/// The hook that runs before every atomic step.
#[cfg(feature = "step-hook")]
pub mod hook {
    use core::sync::atomic::{AtomicPtr, Ordering::SeqCst};

    static HOOK: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

    /// Installs a function that runs before every atomic step of every thread, or removes it.
    pub fn set(hook: Option<fn()>) {
        HOOK.store(hook.map_or(core::ptr::null_mut(), |f| f as *mut ()), SeqCst);
    }

    #[inline]
    pub(crate) fn step() {
        let hook = HOOK.load(SeqCst);
        if !hook.is_null() {
            // SAFETY: 1. Only `set` stores here, and what it stores that is not null is a `fn()`.
            //         2. Functions live for the whole program.
            let hook: fn() = unsafe { core::mem::transmute(hook) };
            hook();
        }
    }
}

#[cfg(not(feature = "step-hook"))]
mod hook {
    #[inline(always)]
    pub(crate) fn step() {}
}

/// Orders an earlier store of this thread before a later load of it.
///
/// The stores and loads concerned are all sequentially consistent, and those have one order that every thread agrees
/// on: nothing is left to do. The model checker implements that order for fences only.
#[inline(always)]
pub(crate) fn store_load_fence() {
    #[cfg(loom)]
    loom::sync::atomic::fence(SeqCst);
}

macro_rules! atomic {
    ($(#[$doc:meta])* $name:ident, $imp:ident, $raw:ty) => {
        $(#[$doc])*
        #[repr(transparent)]
        pub struct $name(imp::$imp);

        #[allow(dead_code, reason = "each width offers the same operations")]
        impl $name {
            pub(crate) fn new(value: $raw) -> $name {
                $name(imp::$imp::new(value))
            }

            #[inline(always)]
            pub(crate) fn load(&self, order: Ordering) -> $raw {
                hook::step();
                self.0.load(order)
            }

            #[inline(always)]
            pub(crate) fn store(&self, value: $raw, order: Ordering) {
                hook::step();
                self.0.store(value, order);
            }

            #[inline(always)]
            pub(crate) fn swap(&self, value: $raw, order: Ordering) -> $raw {
                hook::step();
                self.0.swap(value, order)
            }

            #[inline(always)]
            pub(crate) fn fetch_or(&self, mask: $raw, order: Ordering) -> $raw {
                hook::step();
                self.0.fetch_or(mask, order)
            }

            #[inline(always)]
            pub(crate) fn fetch_and(&self, mask: $raw, order: Ordering) -> $raw {
                hook::step();
                self.0.fetch_and(mask, order)
            }

            #[inline(always)]
            pub(crate) fn fetch_add(&self, n: $raw, order: Ordering) -> $raw {
                hook::step();
                self.0.fetch_add(n, order)
            }

            #[inline(always)]
            pub(crate) fn compare_exchange(
                &self,
                old: $raw,
                new: $raw,
                ok: Ordering,
                failed: Ordering,
            ) -> Result<$raw, $raw> {
                hook::step();
                self.0.compare_exchange(old, new, ok, failed)
            }

            /// Replaces the value by what `to` makes of it, if anything, in one step. Returns what it was.
            #[cfg(shuttle)]
            pub(crate) fn update_if(&self, to: impl FnOnce($raw) -> Option<$raw>) -> Result<$raw, $raw> {
                // The scheduler switches before a load, and not again before the next call of it. Its own updates ask
                // in one step and write in another.
                let was = self.0.load(SeqCst);
                let Some(new) = to(was) else { return Err(was) };
                let word = (&raw const self.0).cast_mut();
                // SAFETY: the scheduler runs one thread at a time, on one thread of the host, and no other call of it
                // is under way.
                unsafe { *(*word).get_mut() = new };
                Ok(was)
            }
        }

        // SAFETY: 1. It is a transparent wrapper around an integer, so every bit pattern is a value of it.
        //         2. Under a checker `zeroed` constructs each one instead.
        unsafe impl Zeroable for $name {
            #[cfg(loom)]
            fn zero() -> Self {
                $name(imp::$imp::new(0))
            }

            // A copy of a constant: the scheduler's atomics hash where they were made, for each one that is.
            #[cfg(shuttle)]
            fn zero() -> Self {
                #[allow(clippy::declare_interior_mutable_const, reason = "each copy is a separate atomic")]
                const ZERO: $name = $name(imp::$imp::new(0));
                ZERO
            }
        }
    };
}

atomic! {
    /// An atomic byte.
    A8, AtomicU8, u8
}
atomic! {
    /// An atomic of four bytes.
    A32, AtomicU32, u32
}
atomic! {
    /// An atomic of eight bytes.
    A64, AtomicU64, u64
}

#[cfg(shuttle)]
impl A8 {
    /// Replaces all of some values by what `to` makes of each, if that is something for every one and `last` says so,
    /// in one step. Says whether it was; `None` where `last` said no.
    pub(crate) fn update_all_if(
        these: &[A8],
        last: impl FnOnce() -> bool,
        to: impl Fn(u8) -> Option<u8>,
    ) -> Option<bool> {
        // The scheduler switches before this load only: see `update_if`.
        these[0].load(SeqCst);
        if !last() {
            return None;
        }
        // SAFETY: as in `update_if`.
        let now = |a: &A8| unsafe { *(*(&raw const a.0).cast_mut()).get_mut() };
        let all = these.iter().all(|a| to(now(a)).is_some());
        for a in these.iter().filter(|_| all) {
            if let Some(new) = to(now(a)) {
                // SAFETY: as in `update_if`.
                unsafe { *(*(&raw const a.0).cast_mut()).get_mut() = new };
            }
        }
        Some(all)
    }
}

/// An atomic pointer to something that is shared.
#[repr(transparent)]
pub(crate) struct APtr<T>(imp::AtomicPtr<T>);

impl<T> APtr<T> {
    pub(crate) fn new(to: *const T) -> APtr<T> {
        APtr(imp::AtomicPtr::new(to.cast_mut()))
    }

    #[inline(always)]
    pub(crate) fn load(&self, order: Ordering) -> *const T {
        hook::step();
        self.0.load(order)
    }

    #[inline(always)]
    pub(crate) fn store(&self, to: *const T, order: Ordering) {
        hook::step();
        self.0.store(to.cast_mut(), order);
    }

    /// Replaces one pointer by another. Says whether it was there.
    pub(crate) fn replace(&self, from: *const T, to: *const T, order: Ordering) -> bool {
        hook::step();
        // ORDER: Relaxed where it fails: nothing was learnt but that.
        self.0.compare_exchange(from.cast_mut(), to.cast_mut(), order, Relaxed).is_ok()
    }
}

/// An atomic that can be made from zeroed memory.
///
/// # Safety
/// All-zero memory of its size and alignment is a valid value.
pub(crate) unsafe trait Zeroable: Sync {
    /// Makes a zero.
    #[cfg(any(loom, shuttle))]
    fn zero() -> Self;
}

/// Cuts typed slices from the caller's memory, each on its own cache line.
///
/// Without memory it only counts, so that the size query and the construction run the same code.
pub(crate) struct Carver<'m> {
    base: Option<*mut u8>,
    len: usize,
    used: usize,
    memory: PhantomData<&'m mut [u8]>,
}

impl<'m> Carver<'m> {
    /// Makes a carver that only counts.
    pub(crate) fn counting() -> Carver<'m> {
        Carver { base: None, len: usize::MAX, used: 0, memory: PhantomData }
    }

    /// Makes a carver of `memory`, from its first cache line on.
    pub(crate) fn of(memory: &'m mut [u8]) -> Carver<'m> {
        let skip = memory.as_ptr().align_offset(LINE).min(memory.len());
        let rest = &mut memory[skip..];
        Carver { len: rest.len(), base: Some(rest.as_mut_ptr()), used: 0, memory: PhantomData }
    }

    /// Returns the bytes used so far, or asked for where there was no memory.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Says whether there are that many bytes.
    pub(crate) fn has(&self, bytes: usize) -> bool {
        bytes <= self.len
    }

    /// Says whether the memory was large enough for everything that was carved.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn fits(&self) -> bool {
        self.used <= self.len
    }

    /// Returns where a slice that it carved begins, as a pointer that leads to all of the memory; null where there is
    /// none.
    pub(crate) fn reach<T>(&self, slice: &'m [T]) -> *const T {
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
    pub(crate) fn zeroed<T: Zeroable>(&mut self, n: usize) -> &'m [T] {
        let room = self.room::<T>(n);
        if room.is_null() {
            return &[];
        }
        #[cfg(any(loom, shuttle))]
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
    pub(crate) fn filled<T>(&mut self, n: usize, mut make: impl FnMut(usize, &mut Self) -> T) -> &'m [T] {
        let room = self.room::<T>(n);
        for i in 0..n {
            let value = make(i, self);
            if !room.is_null() {
                // SAFETY: `room` is that large, aligned, and exclusively ours.
                unsafe { room.add(i).write(value) };
            }
        }
        if room.is_null() {
            return &[];
        }
        // SAFETY: as in `zeroed`, and all `n` values were written above.
        unsafe { core::slice::from_raw_parts(room, n) }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

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
