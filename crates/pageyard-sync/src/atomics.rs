//! Atomics of one, four and eight bytes, and atomic pointers.

use crate::hook;

#[cfg(not(any(pageyard_loom, pageyard_shuttle)))]
use core::sync::atomic as imp;
#[cfg(pageyard_loom)]
use loom::sync::atomic as imp;
#[cfg(pageyard_shuttle)]
use shuttle::sync::atomic as imp;

#[cfg(any(pageyard_loom, pageyard_shuttle))]
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::Ordering::{self, Relaxed};

/// Orders an earlier store of this thread before a later load of it.
///
/// The stores and loads concerned are all sequentially consistent, and those have one order that every thread agrees
/// on: nothing is left to do. The model checker implements that order for fences only.
#[inline(always)]
pub fn store_load_fence() {
    #[cfg(pageyard_loom)]
    loom::sync::atomic::fence(SeqCst);
}

macro_rules! atomic {
    ($(#[$doc:meta])* $name:ident, $imp:ident, $raw:ty) => {
        $(#[$doc])*
        #[repr(transparent)]
        pub struct $name(imp::$imp);

        impl $name {
            /// Makes one of this value.
            #[must_use]
            pub fn new(value: $raw) -> $name {
                $name(imp::$imp::new(value))
            }

            /// Returns the value.
            #[inline(always)]
            pub fn load(&self, order: Ordering) -> $raw {
                hook::step();
                self.0.load(order)
            }

            /// Replaces the value.
            #[inline(always)]
            pub fn store(&self, value: $raw, order: Ordering) {
                hook::step();
                self.0.store(value, order);
            }

            /// Replaces the value; returns what it was.
            #[inline(always)]
            pub fn swap(&self, value: $raw, order: Ordering) -> $raw {
                hook::step();
                self.0.swap(value, order)
            }

            /// Sets the bits of `mask`; returns what the value was.
            #[inline(always)]
            pub fn fetch_or(&self, mask: $raw, order: Ordering) -> $raw {
                hook::step();
                self.0.fetch_or(mask, order)
            }

            /// Keeps the bits of `mask` only; returns what the value was.
            #[inline(always)]
            pub fn fetch_and(&self, mask: $raw, order: Ordering) -> $raw {
                hook::step();
                self.0.fetch_and(mask, order)
            }

            /// Adds `n`, wrapping around; returns what the value was.
            #[inline(always)]
            pub fn fetch_add(&self, n: $raw, order: Ordering) -> $raw {
                hook::step();
                self.0.fetch_add(n, order)
            }

            /// Replaces `old` by `new`. Returns what the value was, as an error where that was not `old`.
            #[inline(always)]
            pub fn compare_exchange(
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
            #[cfg(pageyard_shuttle)]
            pub fn update_if(&self, to: impl FnOnce($raw) -> Option<$raw>) -> Result<$raw, $raw> {
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
            #[cfg(pageyard_loom)]
            fn zero() -> Self {
                $name(imp::$imp::new(0))
            }

            // A copy of a constant: the scheduler's atomics hash where they were made, for each one that is.
            #[cfg(pageyard_shuttle)]
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

#[cfg(pageyard_shuttle)]
impl A8 {
    /// Replaces all of some values by what `to` makes of each and its place, if that is something for every one and
    /// `last` says so, in one step. Returns whether it was; `None` where `last` said no.
    pub fn update_all_if(
        these: &[A8],
        last: impl FnOnce() -> bool,
        to: impl Fn(usize, u8) -> Option<u8>,
    ) -> Option<bool> {
        // The scheduler switches before this load only: see `update_if`.
        these[0].load(SeqCst);
        if !last() {
            return None;
        }
        // SAFETY: as in `update_if`.
        let now = |a: &A8| unsafe { *(*(&raw const a.0).cast_mut()).get_mut() };
        let all = these.iter().enumerate().all(|(nth, a)| to(nth, now(a)).is_some());
        for (nth, a) in these.iter().enumerate().filter(|_| all) {
            if let Some(new) = to(nth, now(a)) {
                // SAFETY: as in `update_if`.
                unsafe { *(*(&raw const a.0).cast_mut()).get_mut() = new };
            }
        }
        Some(all)
    }
}

/// An atomic pointer to something that is shared.
#[repr(transparent)]
pub struct APtr<T>(imp::AtomicPtr<T>);

impl<T> APtr<T> {
    /// Makes one that points there.
    #[must_use]
    pub fn new(to: *const T) -> APtr<T> {
        APtr(imp::AtomicPtr::new(to.cast_mut()))
    }

    /// Returns the pointer.
    #[inline(always)]
    pub fn load(&self, order: Ordering) -> *const T {
        hook::step();
        self.0.load(order)
    }

    /// Replaces the pointer.
    #[inline(always)]
    pub fn store(&self, to: *const T, order: Ordering) {
        hook::step();
        self.0.store(to.cast_mut(), order);
    }

    /// Replaces one pointer by another. Returns whether it was there.
    pub fn replace(&self, from: *const T, to: *const T, order: Ordering) -> bool {
        hook::step();
        // ORDER: Relaxed where it fails: nothing was learnt but that.
        self.0.compare_exchange(from.cast_mut(), to.cast_mut(), order, Relaxed).is_ok()
    }
}

/// An atomic that can be made from zeroed memory.
///
/// # Safety
/// All-zero memory of its size and alignment is a valid value.
pub unsafe trait Zeroable: Sync {
    /// Makes a zero.
    #[cfg(any(pageyard_loom, pageyard_shuttle))]
    fn zero() -> Self;
}
