//! Where workers get frames from and put them back: one small interface, and allocators behind it.
//!
//! Each allocator's state lies in shared memory, because workers are processes and may be killed at any instruction, in
//! the middle of a call too. What such a call leaves behind cannot be relied on: the rings say where every frame is
//! that somebody uses, all others are free, and [`Store::rebuild`] makes the allocator anew from that while every
//! worker stands still. A lock whose holder died is opened first, so that the others can come to a stand; for that,
//! every change under a lock takes effect by one store.
//!
//! An allocator is one module here: a type that implements [`Store`], and its worker's side, [`Frames`].

mod caches;
mod engine;
mod lines;
mod lock;
mod mutex;
mod pool;

use crate::board::Worker;
use pageyard::Pfn;
use std::io;

/// Frames that are moved by one call at most.
pub const BATCH: usize = 64;

/// Who has a frame: the queue on whose rings it is; none where it is free.
pub type User = Option<u32>;

/// Returns the frames that no one has.
fn free(users: &[User]) -> Vec<Pfn> {
    (0..).zip(users).filter(|(_, user)| user.is_none()).map(|(frame, _)| Pfn(frame)).collect()
}

/// A worker's side of an allocator.
pub trait Frames {
    /// Takes up to `out.len()` frames, at most [`BATCH`]; returns how many it wrote, from the front. Fewer only where
    /// too few are left.
    fn get(&mut self, out: &mut [Pfn]) -> usize;

    /// Gives frames back, at most [`BATCH`], no matter which worker took them.
    fn put(&mut self, frames: &[Pfn]);
}

/// The supervisor's side of an allocator.
///
/// # Concurrency
/// [`rebuild`](Store::rebuild) and [`drain`](Store::drain) are for times when no worker uses it.
pub trait Store {
    /// Makes it hold exactly the frames that no one has.
    fn rebuild(&self, users: &[User]);

    /// Takes every frame that it can still hand out.
    fn drain(&self) -> Vec<Pfn>;

    /// Returns the side of one worker. What the worker before it left in there is in there.
    fn open(&self, worker: Worker) -> Box<dyn Frames>;

    /// Opens the lock, if a worker that was killed held it, and wakes those who wait for it.
    fn unlock_after(&self, _dead: Worker) {}

    /// Returns cache lines that one worker wrote and another one took over next, since the last
    /// [`rebuild`](Store::rebuild); none where it does not count them.
    fn lines(&self) -> Option<u64>;

    /// Returns which share of frames came back through a ring and not through a cache, since then; none where it has no
    /// ring.
    fn through_ring(&self) -> Option<f64> {
        None
    }
}

/// The allocators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Pageyard's pools of pages, one for each queue, over its engine.
    Pool,
    /// The same, without the mark and its check: as the others here, it believes that a frame is put back once.
    TrustingPool,
    /// Pageyard's engine alone, by bulk calls.
    Engine,
    /// A free list behind a lock, taken for each frame.
    Mutex,
    /// Caches of each worker, which exchange full batches for empty ones under a lock.
    Caches,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] = [Kind::Pool, Kind::TrustingPool, Kind::Engine, Kind::Mutex, Kind::Caches];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Pool => "pool",
            Kind::TrustingPool => "pool-trusting",
            Kind::Engine => "engine",
            Kind::Mutex => "mutex",
            Kind::Caches => "caches",
        }
    }

    /// Makes it for so many frames and queues; it holds none before it is [rebuilt](Store::rebuild). `counts` has it
    /// count lines instead of being timed.
    ///
    /// # Errors
    /// Where there is no memory for it.
    pub fn make(self, frames: u32, queues: u32, counts: bool) -> io::Result<Box<dyn Store>> {
        Ok(match self {
            Kind::Pool => Box::new(pool::Pools::new(frames, queues, true, counts)?),
            Kind::TrustingPool => Box::new(pool::Pools::new(frames, queues, false, counts)?),
            Kind::Engine => Box::new(engine::Engine::new(frames, 2 * queues, counts)?),
            Kind::Mutex => Box::new(mutex::Locked::new(frames, counts)?),
            Kind::Caches => Box::new(caches::Cached::new(frames, counts)?),
        })
    }
}

#[cfg(test)]
mod tests;
