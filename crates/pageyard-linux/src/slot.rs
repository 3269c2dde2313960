//! The lock of one CPU's lists: a try-lock, or none where each CPU belongs to one thread. Layer: parts of a zone.
#![allow(unsafe_code, reason = "a lock that does not lock needs an unsafe promise")]

use crate::cpu_pages::CpuPages;
use crate::lock::spin_for;
use parking_lot::lock_api::{self, GuardSend, RawMutex};
use spin::mutex::SpinMutex;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};

/// A mutex, or an in-use flag that only the lists' own thread reads.
pub struct SlotLock {
    /// Released by a store, as a kernel's is.
    raw: SpinMutex<()>,
    /// Whether only one thread uses these lists: see [`crate::LinuxAllocator::by_cpu`].
    one_thread: bool,
    /// With `one_thread`: whether they are in use, by code that a signal handler has interrupted.
    used: AtomicBool,
}

// SAFETY: 1. Without `one_thread` it is spin's mutex. 2. With it, the allocator's maker has promised that one
//         thread at a time uses these lists, so only a handler on that thread can come in between, and `used`, which it
//         sees as the thread left it, keeps it out.
unsafe impl RawMutex for SlotLock {
    #[allow(clippy::declare_interior_mutable_const, reason = "the trait asks for it")]
    const INIT: SlotLock = SlotLock { raw: RawMutex::INIT, one_thread: false, used: AtomicBool::new(false) };

    type GuardMarker = GuardSend;

    #[inline]
    fn lock(&self) {
        // Only drains and reads from outside wait. With `one_thread`, the promise says that the lists are not in use
        // then.
        spin_for(|| self.try_lock().then_some(()));
    }

    #[inline]
    fn try_lock(&self) -> bool {
        if !self.one_thread {
            return RawMutex::try_lock(&self.raw);
        }
        // ORDER: Relaxed: one thread and its handlers; the fence is for the compiler.
        let free = !self.used.load(Ordering::Relaxed);
        if free {
            self.used.store(true, Ordering::Relaxed);
        }
        compiler_fence(Ordering::SeqCst);
        free
    }

    #[inline]
    unsafe fn unlock(&self) {
        if self.one_thread {
            compiler_fence(Ordering::SeqCst);
            // ORDER: Relaxed: see `try_lock`.
            return self.used.store(false, Ordering::Relaxed);
        }
        // SAFETY: the caller holds it.
        unsafe { RawMutex::unlock(&self.raw) }
    }
}

/// One CPU's lists of one zone, and their lock, on their own cache lines: no other CPU's traffic moves them.
#[repr(align(128))]
pub struct Slot(lock_api::Mutex<SlotLock, CpuPages>);

impl std::ops::Deref for Slot {
    type Target = lock_api::Mutex<SlotLock, CpuPages>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// The lists while they are held.
pub type SlotGuard<'a> = lock_api::MutexGuard<'a, SlotLock, CpuPages>;

/// Makes a CPU's lists, with a lock.
pub fn locked(pages: CpuPages) -> Slot {
    Slot(lock_api::Mutex::new(pages))
}

/// Takes the lock away.
///
/// # Safety
/// From now on one thread at a time uses the lists, its signal handlers included.
pub unsafe fn unlock_for_good(slot: Slot) -> Slot {
    Slot(lock_api::Mutex::from_raw(SlotLock { one_thread: true, ..SlotLock::INIT }, slot.0.into_inner()))
}
