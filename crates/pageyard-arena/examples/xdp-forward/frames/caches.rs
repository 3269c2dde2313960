//! Caches of each worker, refilled a batch at a time: the scheme of AF_XDP's own sample programs.
//!
//! Frames lie in slabs of one batch. A worker has one slab that it takes from and one that it gives to; where the first
//! is empty or the second full, it exchanges its slab for another one, under a lock: numbers of slabs move, frames do
//! not.

use super::lines::Lines;
use super::lock::Lock;
use super::{BATCH, Frames, Store, User};
use crate::board::{WORKERS, Worker};
use crate::shared::{self, FromZeros};
use pageyard::Pfn;
use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// Lines of memory of a slab: its height, and its frames.
const SLAB_LINES: usize = 5;

/// A stack of up to one batch of frames.
#[repr(C, align(64))]
struct Slab {
    /// Storing it is what takes or gives a frame.
    height: AtomicU32,
    frames: [AtomicU32; BATCH],
}

// SAFETY: atomics, for which zeros are a value.
unsafe impl FromZeros for Slab {}

/// The depot that workers share: a row of slabs, the full ones first and the empty ones after them.
#[repr(C, align(64))]
struct Depot {
    lock: Lock,
    full: AtomicU32,
}

// SAFETY: as above.
unsafe impl FromZeros for Depot {}

/// The two slabs of a worker, by number.
#[repr(C, align(64))]
struct Own {
    take: AtomicU32,
    give: AtomicU32,
}

// SAFETY: as above.
unsafe impl FromZeros for Own {}

/// All of it.
#[derive(Clone, Copy)]
pub struct Cached {
    depot: &'static Depot,
    /// Numbers of slabs: full ones, then empty ones; those of workers are in neither.
    row: &'static [AtomicU32],
    slabs: &'static [Slab],
    own: &'static [Own],
    /// The depot is line 0, then the row, then the slabs.
    lines: Lines,
}

impl Cached {
    /// Makes it for so many frames, with none in it.
    ///
    /// # Errors
    /// Where there is no memory for it.
    pub fn new(frames: u32, counts: bool) -> io::Result<Cached> {
        let shelf = (frames as usize).div_ceil(BATCH) + WORKERS;
        let slabs = shelf + 2 * WORKERS;
        let cached = Cached {
            depot: shared::value()?,
            row: shared::slice(shelf)?,
            slabs: shared::slice(slabs)?,
            own: shared::slice(WORKERS)?,
            lines: Lines::new(1 + shelf.div_ceil(16) + slabs * SLAB_LINES, counts)?,
        };
        cached.rebuild(&[]);
        Ok(cached)
    }

    /// Exchanges an empty slab for a full one; none where there is no full one.
    ///
    /// The row's entry and the worker's are two stores: a worker that is killed in between has its slab in both, or
    /// neither. The allocator is made anew then.
    fn refill(&self, worker: Worker) -> bool {
        let (own, _held) = (&self.own[worker.index()], self.depot.lock.hold(worker));
        let Some(last) = self.depot.full.load(Relaxed).checked_sub(1) else { return false };
        self.exchange(worker, &own.take, last);
        self.depot.full.store(last, Relaxed);
        true
    }

    /// Exchanges a full slab for an empty one; none where there is no empty one, which cannot be while frames are given
    /// back once.
    fn spill(&self, worker: Worker) -> bool {
        let (own, _held) = (&self.own[worker.index()], self.depot.lock.hold(worker));
        let first = self.depot.full.load(Relaxed);
        if first as usize == self.row.len() {
            return false;
        }
        self.exchange(worker, &own.give, first);
        self.depot.full.store(first + 1, Relaxed);
        true
    }

    /// Exchanges a worker's slab for the one at a place of the row.
    fn exchange(&self, worker: Worker, slab: &AtomicU32, at: u32) {
        let mine = slab.load(Relaxed);
        let other = self.row[at as usize].load(Relaxed);
        self.row[at as usize].store(mine, Relaxed);
        slab.store(other, Relaxed);
        if self.lines.counts() {
            let row = self.row.len().div_ceil(16);
            self.lines.touch(worker, 0);
            self.lines.touch(worker, 1 + at as usize / 16);
            for slab in [mine, other] {
                let first = 1 + row + slab as usize * SLAB_LINES;
                (first..first + SLAB_LINES).for_each(|line| self.lines.touch(worker, line));
            }
        }
    }

    fn slab(&self, number: &AtomicU32) -> &'static Slab {
        &self.slabs[number.load(Relaxed) as usize]
    }
}

impl Slab {
    fn pop(&self) -> Option<Pfn> {
        let below = self.height.load(Relaxed).checked_sub(1)?;
        let frame = self.frames[below as usize].load(Relaxed);
        self.height.store(below, Relaxed);
        Some(Pfn(u64::from(frame)))
    }

    fn push(&self, frame: Pfn) -> bool {
        let height = self.height.load(Relaxed);
        let Some(entry) = self.frames.get(height as usize) else { return false };
        entry.store(frame.0 as u32, Relaxed);
        self.height.store(height + 1, Relaxed);
        true
    }
}

impl Store for Cached {
    fn rebuild(&self, users: &[User]) {
        let free = super::free(users);
        self.depot.lock.reset();
        self.slabs.iter().for_each(|slab| slab.height.store(0, Relaxed));
        for (number, slab) in self.row.iter().enumerate() {
            slab.store(number as u32, Relaxed);
        }
        for (worker, own) in self.own.iter().enumerate() {
            let first = (self.row.len() + 2 * worker) as u32;
            own.take.store(first, Relaxed);
            own.give.store(first + 1, Relaxed);
        }
        let batches = free.chunks_exact(BATCH);
        let (full, rest) = (batches.len(), batches.remainder());
        let slabs = self.slabs.iter().zip(batches);
        // A batch that is not full is the first worker's.
        for (slab, batch) in slabs.chain([(self.slab(&self.own[0].take), rest)]) {
            for frame in batch {
                slab.push(*frame);
            }
        }
        self.depot.full.store(full as u32, Relaxed);
        self.lines.reset();
    }

    fn drain(&self) -> Vec<Pfn> {
        self.slabs.iter().flat_map(|slab| std::iter::from_fn(|| slab.pop())).collect()
    }

    fn open(&self, worker: Worker) -> Box<dyn Frames> {
        Box::new(Side { all: *self, own: &self.own[worker.index()], worker })
    }

    fn unlock_after(&self, dead: Worker) {
        self.depot.lock.open_after(dead);
    }

    fn lines(&self) -> Option<u64> {
        self.lines.handed()
    }
}

/// A worker's side: its two slabs.
struct Side {
    all: Cached,
    own: &'static Own,
    worker: Worker,
}

impl Side {
    /// Finds frames to take, where the slab for that is empty: those that this worker gave back, or a full slab.
    fn more(&self) -> bool {
        let given = self.all.slab(&self.own.give).height.load(Relaxed) > 0;
        if given {
            let (take, give) = (self.own.take.load(Relaxed), self.own.give.load(Relaxed));
            self.own.take.store(give, Relaxed);
            self.own.give.store(take, Relaxed);
        }
        given || self.all.refill(self.worker)
    }
}

impl Frames for Side {
    fn get(&mut self, out: &mut [Pfn]) -> usize {
        let mut slab = self.all.slab(&self.own.take);
        for (got, slot) in out.iter_mut().enumerate() {
            *slot = match slab.pop() {
                Some(frame) => frame,
                None => {
                    if !self.more() {
                        return got;
                    }
                    slab = self.all.slab(&self.own.take);
                    match slab.pop() {
                        Some(frame) => frame,
                        None => return got,
                    }
                }
            };
        }
        out.len()
    }

    fn put(&mut self, frames: &[Pfn]) {
        let mut slab = self.all.slab(&self.own.give);
        for frame in frames {
            if !slab.push(*frame) {
                if !self.all.spill(self.worker) {
                    return;
                }
                slab = self.all.slab(&self.own.give);
                slab.push(*frame);
            }
        }
    }
}
