//! One sample of `bench cross`: a queue between two threads, and what each side did with the allocator.

use super::allocator::Allocator;
use super::clock::{clock_cost, now_ns};
use super::load::Busy;
use super::loops::MISSING;
use super::team::Team;
use pageyard::Pfn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Blocks that are handed over at a time.
pub const GROUP: usize = 64;

/// Groups that the queue holds.
const SLOTS: usize = 16;

/// The result of a sample, in nanoseconds a block.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Crossed {
    pub alloc: f64,
    pub free: f64,
    pub elapsed: f64,
    pub missing: u64,
}

impl Crossed {
    /// Writes it as words, to send to another process.
    pub fn to_words(self) -> [u64; 4] {
        [self.alloc.to_bits(), self.free.to_bits(), self.elapsed.to_bits(), self.missing]
    }

    /// Reads it from words.
    pub fn of_words([alloc, free, elapsed, missing]: [u64; 4]) -> Crossed {
        let [alloc, free, elapsed] = [alloc, free, elapsed].map(f64::from_bits);
        Crossed { alloc, free, elapsed, missing }
    }
}

/// A word with a cache line, and its neighbour, to itself.
#[repr(align(128))]
pub(crate) struct Padded(pub AtomicUsize);

/// A ring between two threads, a group in each slot.
pub(crate) struct Queue {
    slots: Vec<[AtomicU64; GROUP]>,
    written: Padded,
    read: Padded,
    /// One side panicked: the other must not wait for it.
    gone: AtomicBool,
}

/// Reports that a side is gone if it panics.
pub(crate) struct Guard<'a>(&'a AtomicBool);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // ORDER: Relaxed: it stands for itself.
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

impl Queue {
    /// Makes an empty one.
    pub fn new() -> Queue {
        let slots = (0..SLOTS).map(|_| [const { AtomicU64::new(0) }; GROUP]).collect();
        let (written, read) = (Padded(AtomicUsize::new(0)), Padded(AtomicUsize::new(0)));
        Queue { slots, written, read, gone: AtomicBool::new(false) }
    }

    /// Spins, and gives the CPU away if that takes long.
    fn wait(&self, ready: impl Fn() -> bool) {
        let mut spins = 0u32;
        while !ready() {
            spins += 1;
            if spins.is_multiple_of(1 << 14) {
                // ORDER: Relaxed: it stands for itself.
                if self.gone.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }

    /// Returns what each side keeps while it uses the queue.
    pub fn guard(&self) -> Guard<'_> {
        Guard(&self.gone)
    }

    /// Writes the group of this number, once there is room for it.
    pub fn send(&self, nth: usize, group: &[Pfn; GROUP]) {
        // ORDER: Acquire pairs with the Release in `receive`: the slot was read before it is written again.
        self.wait(|| nth - self.read.0.load(Ordering::Acquire) < SLOTS);
        for (slot, block) in self.slots[nth % SLOTS].iter().zip(group) {
            // ORDER: Relaxed: `written` publishes it.
            slot.store(block.0, Ordering::Relaxed);
        }
        // ORDER: Release pairs with the Acquire in `receive`.
        self.written.0.store(nth + 1, Ordering::Release);
    }

    /// Reads the group of this number, once it is there.
    pub fn receive(&self, nth: usize, group: &mut [Pfn; GROUP]) {
        // ORDER: Acquire pairs with the Release in `send`: the group is there.
        self.wait(|| self.written.0.load(Ordering::Acquire) > nth);
        for (slot, block) in self.slots[nth % SLOTS].iter().zip(group) {
            // ORDER: Relaxed, as above.
            block.0 = slot.load(Ordering::Relaxed);
        }
        // ORDER: Release pairs with the Acquire in `send`.
        self.read.0.store(nth + 1, Ordering::Release);
    }
}

/// Runs a sample on the first two CPUs of a team.
pub(crate) fn run<A>(team: &Team, allocator: Arc<A>, groups: usize) -> Option<Crossed>
where
    A: Allocator + Send + Sync + 'static,
{
    let queue = Arc::new(Queue::new());
    let clock = clock_cost();
    let start = now_ns();
    let sides = team.run(2, move |cpu| match cpu {
        0 => taking(&*allocator, &queue, groups),
        _ => giving(&*allocator, &queue, groups),
    })?;
    let blocks = (groups * GROUP) as f64;
    let cost = clock * groups as f64;
    let each = |ns: u64| (ns as f64 - cost).max(0.0) / blocks;
    let (taking, giving) = (sides[0], sides[1]);
    Some(Crossed {
        alloc: each(taking.ns),
        free: each(giving.ns),
        elapsed: (giving.end - start.max(taking.start)) as f64 / blocks,
        missing: taking.missing,
    })
}

fn taking<A: Allocator>(a: &A, queue: &Queue, groups: usize) -> Busy {
    let _guard = queue.guard();
    let mut group = [MISSING; GROUP];
    let mut side = Busy { ns: 0, start: now_ns(), end: 0, missing: 0 };
    for nth in 0..groups {
        let start = now_ns();
        for slot in &mut group {
            *slot = a.take(0).unwrap_or(MISSING);
            side.missing += u64::from(*slot == MISSING);
        }
        side.ns += now_ns() - start;
        queue.send(nth, &group);
    }
    side.end = now_ns();
    side
}

fn giving<A: Allocator>(a: &A, queue: &Queue, groups: usize) -> Busy {
    let _guard = queue.guard();
    let mut group = [MISSING; GROUP];
    let mut side = Busy { ns: 0, start: now_ns(), end: 0, missing: 0 };
    for nth in 0..groups {
        queue.receive(nth, &mut group);
        let start = now_ns();
        for block in group.iter().filter(|b| **b != MISSING) {
            a.give(1, *block);
        }
        side.ns += now_ns() - start;
    }
    side.end = now_ns();
    side
}
