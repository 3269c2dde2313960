//! A free list behind a lock: the newest frame first, and the lock for each frame.

use super::lines::Lines;
use super::lock::Lock;
use super::{Frames, Store, User};
use crate::board::Worker;
use crate::shared::{self, FromZeros};
use pageyard::Pfn;
use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// Entries in a cache line.
const LINE: usize = 16;

/// The words that a worker writes each time, in one cache line.
#[repr(C, align(64))]
struct Top {
    lock: Lock,
    /// Frames in the list. Storing it is what takes or gives one.
    height: AtomicU32,
}

// SAFETY: atomics, for which zeros are a value.
unsafe impl FromZeros for Top {}

/// The list.
#[derive(Clone, Copy)]
pub struct Locked {
    top: &'static Top,
    frames: &'static [AtomicU32],
    /// The top is line 0, the list those behind it.
    lines: Lines,
}

impl Locked {
    /// Makes an empty list for so many frames.
    ///
    /// # Errors
    /// Where there is no memory for it.
    pub fn new(frames: u32, counts: bool) -> io::Result<Locked> {
        let frames = frames as usize;
        Ok(Locked {
            top: shared::value()?,
            frames: shared::slice(frames)?,
            lines: Lines::new(1 + frames.div_ceil(LINE), counts)?,
        })
    }

    /// Takes the newest frame.
    ///
    /// Between processes the words are relaxed, because the lock orders them. Within one that is killed, what counts is
    /// that the height is stored last and at once.
    fn pop(&self, worker: Worker) -> Option<Pfn> {
        let _held = self.top.lock.hold(worker);
        let below = self.top.height.load(Relaxed).checked_sub(1)?;
        let frame = self.frames[below as usize].load(Relaxed);
        self.top.height.store(below, Relaxed);
        self.touch(worker, below);
        Some(Pfn(u64::from(frame)))
    }

    fn push(&self, worker: Worker, frame: Pfn) {
        let _held = self.top.lock.hold(worker);
        let height = self.top.height.load(Relaxed);
        // There is room for every frame, so only a frame that is given back twice finds none.
        let Some(entry) = self.frames.get(height as usize) else { return };
        entry.store(frame.0 as u32, Relaxed);
        self.top.height.store(height + 1, Relaxed);
        self.touch(worker, height);
    }

    #[inline]
    fn touch(&self, worker: Worker, entry: u32) {
        if self.lines.counts() {
            self.lines.touch(worker, 0);
            self.lines.touch(worker, 1 + entry as usize / LINE);
        }
    }
}

impl Store for Locked {
    fn rebuild(&self, users: &[User]) {
        let free = super::free(users);
        self.top.lock.reset();
        for (entry, frame) in self.frames.iter().zip(&free) {
            entry.store(frame.0 as u32, Relaxed);
        }
        self.top.height.store(free.len().min(self.frames.len()) as u32, Relaxed);
        self.lines.reset();
    }

    fn drain(&self) -> Vec<Pfn> {
        let height = self.top.height.swap(0, Relaxed) as usize;
        self.frames[..height].iter().map(|frame| Pfn(u64::from(frame.load(Relaxed)))).collect()
    }

    fn open(&self, worker: Worker) -> Box<dyn Frames> {
        Box::new(Side { list: *self, worker })
    }

    fn unlock_after(&self, dead: Worker) {
        self.top.lock.open_after(dead);
    }

    fn lines(&self) -> Option<u64> {
        self.lines.handed()
    }
}

/// A worker's side: nothing of its own.
struct Side {
    list: Locked,
    worker: Worker,
}

impl Frames for Side {
    fn get(&mut self, out: &mut [Pfn]) -> usize {
        for (got, slot) in out.iter_mut().enumerate() {
            match self.list.pop(self.worker) {
                Some(frame) => *slot = frame,
                None => return got,
            }
        }
        out.len()
    }

    fn put(&mut self, frames: &[Pfn]) {
        frames.iter().for_each(|frame| self.list.push(self.worker, *frame));
    }
}
