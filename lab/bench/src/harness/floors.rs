//! Floors: what no checked allocator can be faster than.

use super::allocator::Allocator;
use pageyard::Pfn;
use pageyard_arena::rseq::CpuStacks;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Frames that a floor's array holds: more than any batch.
pub(crate) const FLOOR: u32 = 1 << 18;

/// A private array of frame numbers: a pop and a push, no checks, one thread.
pub(crate) struct FloorArray {
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
    fn take(&self, _: usize) -> Option<Pfn> {
        let top = self.len.get().checked_sub(1)?;
        self.len.set(top);
        Some(Pfn(u64::from(self.slots[top].get())))
    }

    #[inline(always)]
    fn give(&self, _: usize, frame: Pfn) {
        let top = self.len.get();
        self.slots[top].set(frame.0 as u32);
        self.len.set(top + 1);
    }

    fn take_many(&self, _: usize, out: &mut [Pfn]) -> usize {
        let n = out.len().min(self.len.get());
        let rest = self.len.get() - n;
        for (slot, item) in out.iter_mut().zip(self.slots[rest..].iter().rev()) {
            *slot = Pfn(u64::from(item.get()));
        }
        self.len.set(rest);
        n
    }

    fn give_many(&self, _: usize, frames: &[Pfn]) {
        let top = self.len.get();
        for (item, frame) in self.slots[top..].iter().zip(frames) {
            item.set(frame.0 as u32);
        }
        self.len.set(top + frames.len());
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
pub(crate) struct FloorTrylock(Vec<Locked>);

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
    fn take(&self, cpu: usize) -> Option<Pfn> {
        // ORDER: Relaxed, here and below: the lock orders what it protects.
        self.with(cpu, |l| {
            let top = l.len.load(Ordering::Relaxed).checked_sub(1)?;
            l.len.store(top, Ordering::Relaxed);
            Some(Pfn(u64::from(l.slots[top as usize].load(Ordering::Relaxed))))
        })?
    }

    #[inline(always)]
    fn give(&self, cpu: usize, frame: Pfn) {
        self.with(cpu, |l| {
            let top = l.len.load(Ordering::Relaxed);
            l.slots[top as usize].store(frame.0 as u32, Ordering::Relaxed);
            l.len.store(top + 1, Ordering::Relaxed);
        });
    }
}

/// An array of words for each CPU, used by restartable sequences, no checks.
pub(crate) struct FloorRseq(pub CpuStacks);

impl Allocator for FloorRseq {
    #[inline(always)]
    fn take(&self, _: usize) -> Option<Pfn> {
        self.0.pop().map(Pfn)
    }

    #[inline(always)]
    fn give(&self, _: usize, block: Pfn) {
        self.0.push(block.0);
    }
}
