//! The zone lock, which measures how long its callers wait for it. Layer: parts of a zone.

use crate::place::{FreeObserver, FreeStage};
use spin::mutex::{SpinMutex, SpinMutexGuard};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A lock that counts its waits, and spins as a kernel's does: a waiter never sleeps on a queue, so a signal handler
/// can wait for another thread's section too. Time is measured only when there is a wait, so an uncontended lock costs
/// as much as a plain one, plus a counter.
///
/// It is taken with one locked instruction and released by a store, as a kernel's spin lock is.
///
/// A wait is timed from before the first look until after the lock is taken. Both clock readings lie inside, so it
/// includes about one reading of the clock (some 20 ns); the clock's own step (10 ns) cancels out over many waits.
///
/// It has its own cache lines: fields read beside it without the lock do not move when it is taken.
#[repr(align(128))]
pub struct MeasuredLock<T> {
    inner: SpinMutex<T>,
    taken: AtomicU64,
    contended: AtomicU64,
    wait_ns: AtomicU64,
}

/// Looks at a held lock before giving up the CPU: some microseconds, longer than any section that is not interrupted.
const SPINS: u32 = 1000;

/// Looks at a held lock before sleeping between them.
const YIELDS: u32 = 2000;

/// How long to sleep then.
const NAP: Duration = Duration::from_micros(50);

/// The counters of a measured lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockStats {
    /// Times it was taken.
    pub taken: u64,
    /// Times it was already held.
    pub contended: u64,
    /// Nanoseconds waited.
    pub wait_ns: u64,
}

impl<T> MeasuredLock<T> {
    /// Makes an unlocked lock.
    pub fn new(value: T) -> Self {
        MeasuredLock {
            inner: SpinMutex::new(value),
            taken: AtomicU64::new(0),
            contended: AtomicU64::new(0),
            wait_ns: AtomicU64::new(0),
        }
    }

    /// Takes the lock unless it is held: that is neither a wait nor counted as one.
    pub fn try_lock(&self) -> Option<SpinMutexGuard<'_, T>> {
        let guard = self.inner.try_lock()?;
        // ORDER: Relaxed: only the holder of the lock writes it, so a load and a store do.
        self.taken.store(self.taken.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        Some(guard)
    }

    /// Takes the lock.
    pub fn lock(&self) -> SpinMutexGuard<'_, T> {
        self.lock_watched::<()>()
    }

    /// Takes the lock; `W` is told so.
    #[inline]
    pub fn lock_watched<W: FreeObserver>(&self) -> SpinMutexGuard<'_, T> {
        let _taking = W::enter(FreeStage::RawSpinLock);
        let guard = self.inner.try_lock().unwrap_or_else(|| {
            let _waiting = W::enter(FreeStage::SpinLockSlowpath);
            let start = Instant::now();
            let guard = self.wait();
            // ORDER: Relaxed: counters, which order nothing.
            self.contended.fetch_add(1, Ordering::Relaxed);
            self.wait_ns.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
            guard
        });
        // ORDER: Relaxed: only the holder of the lock writes it, so a load and a store do.
        self.taken.store(self.taken.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        guard
    }

    #[cold]
    fn wait(&self) -> SpinMutexGuard<'_, T> {
        spin_for(|| if self.inner.is_locked() { None } else { self.inner.try_lock() })
    }

    /// Returns whether it is held now.
    pub fn is_locked(&self) -> bool {
        self.inner.is_locked()
    }

    /// Returns what it has seen so far.
    pub fn stats(&self) -> LockStats {
        // ORDER: Relaxed: counters, which order nothing.
        LockStats {
            taken: self.taken.load(Ordering::Relaxed),
            contended: self.contended.load(Ordering::Relaxed),
            wait_ns: self.wait_ns.load(Ordering::Relaxed),
        }
    }
}

/// Tries until it succeeds, without a pause at first. The holder of a lock may have lost its CPU: after a while the
/// waiter yields its own, and then sleeps between looks.
pub(crate) fn spin_for<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let mut turns = 0u32;
    loop {
        if let Some(got) = attempt() {
            return got;
        }
        turns = turns.saturating_add(1);
        match turns {
            0..SPINS => std::hint::spin_loop(),
            SPINS..YIELDS => std::thread::yield_now(),
            // The holder may be of lower priority on this very CPU.
            _ => std::thread::sleep(NAP),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_counted_and_timed_and_its_absence_is_not() {
        let lock = MeasuredLock::new(0);
        drop(lock.lock());
        assert_eq!(lock.stats(), LockStats { taken: 1, contended: 0, wait_ns: 0 });
        std::thread::scope(|s| {
            let guard = lock.lock();
            let waiter = s.spawn(|| *lock.lock() += 1);
            std::thread::sleep(Duration::from_millis(20));
            drop(guard);
            waiter.join().unwrap();
        });
        let seen = lock.stats();
        assert_eq!((seen.taken, seen.contended), (3, 1));
        assert!(seen.wait_ns > 0);
    }
}
