//! A lock between processes that knows who holds it.

use crate::board::Worker;
use crate::shared::FromZeros;
use rustix::thread::futex::{Flags, wait, wake};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const FREE: u32 = 0;
/// Set while somebody sleeps, beside the holder's number plus one.
const SLEEPERS: u32 = 1 << 31;
/// Looks at a lock that is held before sleeping: a holder has it for less than that.
const LOOKS: u32 = 100;

/// A lock; all zeros is free. One locked instruction takes it and one gives it back, while no one waits.
#[repr(C)]
pub struct Lock(AtomicU32);

// SAFETY: an atomic, for which zeros are a value.
unsafe impl FromZeros for Lock {}

impl Lock {
    /// Takes the lock.
    #[inline]
    pub fn hold(&self, worker: Worker) -> LockGuard<'_> {
        let me = worker.0 + 1;
        // ORDER: Acquire pairs with the release in `open`: what the last holder wrote is seen.
        if self.0.compare_exchange(FREE, me, Acquire, Relaxed).is_err() {
            self.wait(me);
        }
        LockGuard(self)
    }

    #[cold]
    fn wait(&self, me: u32) {
        let mut looks = 0;
        loop {
            let word = self.0.load(Relaxed);
            if word == FREE {
                // Others may sleep on: who waited once wakes them.
                // ORDER: Acquire, as in `hold`.
                if self.0.compare_exchange(FREE, me | SLEEPERS, Acquire, Relaxed).is_ok() {
                    return;
                }
            } else if looks < LOOKS {
                looks += 1;
                std::hint::spin_loop();
            } else if word & SLEEPERS != 0
                || self.0.compare_exchange(word, word | SLEEPERS, Relaxed, Relaxed).is_ok()
            {
                // However it ends, the word is looked at again.
                let _ = wait(&self.0, Flags::empty(), word | SLEEPERS, None);
            }
        }
    }

    fn open(&self) {
        // ORDER: Release pairs with the acquire of the next holder.
        if self.0.swap(FREE, Release) & SLEEPERS != 0 {
            let _ = wake(&self.0, Flags::empty(), 1);
        }
    }

    /// Undoes what `dead` did to others, who is no more: opens the lock if it held it, and wakes those who sleep,
    /// because it may have opened the lock and not lived to wake anybody.
    pub fn open_after(&self, dead: Worker) {
        if self.0.load(Relaxed) & !SLEEPERS == dead.0 + 1 {
            self.open();
        }
        let _ = wake(&self.0, Flags::empty(), i32::MAX as u32);
    }

    /// Frees the lock; no one holds it or waits.
    pub fn reset(&self) {
        self.0.store(FREE, Relaxed);
    }
}

/// The lock, held.
pub struct LockGuard<'a>(&'a Lock);

impl Drop for LockGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.open();
    }
}
