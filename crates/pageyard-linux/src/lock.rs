//! The zone lock, which measures how long its callers wait for it.

use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A mutex that counts its waits. The time is taken only when there is a wait, so an uncontended lock costs what a
/// plain one does, and one counter.
pub struct MeasuredLock<T> {
    inner: Mutex<T>,
    taken: AtomicU64,
    contended: AtomicU64,
    wait_ns: AtomicU64,
}

/// What a [`MeasuredLock`] has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockStats {
    /// Times it was taken.
    pub taken: u64,
    /// Times somebody else held it at that moment.
    pub contended: u64,
    /// Nanoseconds waited.
    pub wait_ns: u64,
}

impl<T> MeasuredLock<T> {
    /// Makes an unlocked lock.
    pub fn new(value: T) -> Self {
        MeasuredLock {
            inner: Mutex::new(value),
            taken: AtomicU64::new(0),
            contended: AtomicU64::new(0),
            wait_ns: AtomicU64::new(0),
        }
    }

    /// Takes the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let guard = self.inner.try_lock().unwrap_or_else(|| {
            let start = Instant::now();
            let guard = self.inner.lock();
            // ORDER: Relaxed: counters, which order nothing.
            self.contended.fetch_add(1, Ordering::Relaxed);
            self.wait_ns.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
            guard
        });
        // ORDER: Relaxed: only the holder of the lock writes it, so a load and a store do.
        self.taken.store(self.taken.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        guard
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

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
