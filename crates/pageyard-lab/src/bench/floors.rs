//! Floors: what no checked allocator can be faster than.

use super::subject::Allocator;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// A private array of frame numbers: a pop and a push, no checks, one thread.
pub(super) struct FloorArray {
    slots: Box<[Cell<u32>]>,
    len: Cell<usize>,
}

impl FloorArray {
    /// Makes an array that holds `n` frames.
    pub fn new(n: u32) -> FloorArray {
        FloorArray { slots: (0..n).map(Cell::new).collect(), len: Cell::new(n as usize) }
    }
}

impl Allocator for FloorArray {
    #[inline(always)]
    fn take(&self, _: usize) -> Option<u64> {
        let top = self.len.get().checked_sub(1)?;
        self.len.set(top);
        Some(u64::from(self.slots[top].get()))
    }

    #[inline(always)]
    fn give(&self, _: usize, frame: u64) {
        let top = self.len.get();
        self.slots[top].set(frame as u32);
        self.len.set(top + 1);
    }
}

/// One CPU's array behind a lock that is tried.
#[repr(align(128))]
struct Locked {
    held: AtomicBool,
    len: AtomicU64,
    slots: Box<[AtomicU32]>,
}

/// The same array behind a lock that is tried, one for each CPU, no checks.
pub(super) struct FloorTrylock(Vec<Locked>);

impl FloorTrylock {
    /// Makes an array of `n` frames for each CPU.
    pub fn new(cpus: usize, n: u32) -> FloorTrylock {
        let one = |_| Locked {
            held: AtomicBool::new(false),
            len: AtomicU64::new(u64::from(n)),
            slots: (0..n).map(AtomicU32::new).collect(),
        };
        FloorTrylock((0..cpus).map(one).collect())
    }

    #[inline(always)]
    fn with<R>(&self, cpu: usize, run: impl FnOnce(&Locked) -> R) -> Option<R> {
        let locked = &self.0[cpu];
        // ORDER: Acquire pairs with the Release below: the array is as its last user left it.
        if locked.held.swap(true, Ordering::Acquire) {
            return None;
        }
        let result = run(locked);
        // ORDER: Release pairs with the Acquire above.
        locked.held.store(false, Ordering::Release);
        Some(result)
    }
}

impl Allocator for FloorTrylock {
    #[inline(always)]
    fn take(&self, cpu: usize) -> Option<u64> {
        // ORDER: Relaxed, here and below: the lock orders what it protects.
        self.with(cpu, |l| {
            let top = l.len.load(Ordering::Relaxed).checked_sub(1)?;
            l.len.store(top, Ordering::Relaxed);
            Some(u64::from(l.slots[top as usize].load(Ordering::Relaxed)))
        })?
    }

    #[inline(always)]
    fn give(&self, cpu: usize, frame: u64) {
        self.with(cpu, |l| {
            let top = l.len.load(Ordering::Relaxed);
            l.slots[top as usize].store(frame as u32, Ordering::Relaxed);
            l.len.store(top + 1, Ordering::Relaxed);
        });
    }
}
