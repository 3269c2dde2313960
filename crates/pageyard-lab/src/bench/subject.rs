//! What a benchmark measures, behind an interface that costs nothing in its inner loops.

use std::time::{Duration, Instant};

/// An allocator as a benchmark sees it: frames by number, one order.
pub(super) trait Allocator {
    /// Takes a block.
    fn take(&self, cpu: usize) -> Option<u64>;

    /// Gives a block back.
    fn give(&self, cpu: usize, frame: u64);
}

/// What one sample does: `rounds` times, `order.len()` blocks are taken, then given back in that order.
pub(super) struct Load {
    pub order: Vec<u32>,
    pub rounds: usize,
}

/// What a sample took.
#[derive(Clone, Copy, Default)]
pub(super) struct Taken {
    /// Taking and giving back.
    pub total: Duration,
    /// Taking, in a pass of its own with the clock read in between.
    pub alloc: Duration,
    /// Giving back, likewise.
    pub free: Duration,
    /// Blocks that could not be had.
    pub missing: u64,
}

/// A subject: an allocator under its name. Loops are compiled for each allocator, so the interface is crossed once a
/// sample.
pub(super) trait Subject {
    /// Returns the name.
    fn name(&self) -> &'static str;

    /// Runs a sample on a CPU.
    fn sample(&self, cpu: usize, load: &Load, held: &mut Vec<u64>) -> Taken;

    /// Returns refills and spills so far.
    fn moves(&self) -> (u64, u64);
}

/// The subject made of an allocator.
pub(super) struct Named<A, M> {
    pub name: &'static str,
    pub allocator: A,
    pub moves: M,
}

/// Says that an allocator has no lists, and so neither refills nor spills.
pub(super) fn no_moves<A>(_: &A) -> (u64, u64) {
    (0, 0)
}

impl<A: Allocator, M: Fn(&A) -> (u64, u64)> Subject for Named<A, M> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn sample(&self, cpu: usize, load: &Load, held: &mut Vec<u64>) -> Taken {
        let a = &self.allocator;
        let n = load.order.len();
        let mut taken = Taken::default();
        held.clear();
        held.resize(n, 0);
        let start = Instant::now();
        for _ in 0..load.rounds {
            taken.missing += fill(a, cpu, held);
            give_all(a, cpu, held, &load.order);
        }
        taken.total = start.elapsed();
        for _ in 0..load.rounds {
            let start = Instant::now();
            taken.missing += fill(a, cpu, held);
            let middle = Instant::now();
            give_all(a, cpu, held, &load.order);
            taken.alloc += middle - start;
            taken.free += middle.elapsed();
        }
        taken
    }

    fn moves(&self) -> (u64, u64) {
        (self.moves)(&self.allocator)
    }
}

/// A block that could not be had; no map reaches this frame.
const MISSING: u64 = u64::MAX;

#[inline(always)]
fn fill<A: Allocator>(a: &A, cpu: usize, held: &mut [u64]) -> u64 {
    let mut missing = 0;
    for slot in held.iter_mut() {
        *slot = a.take(cpu).unwrap_or(MISSING);
        missing += u64::from(*slot == MISSING);
    }
    missing
}

#[inline(always)]
fn give_all<A: Allocator>(a: &A, cpu: usize, held: &[u64], order: &[u32]) {
    for i in order {
        if let Some(frame) = held.get(*i as usize).filter(|f| **f != MISSING) {
            a.give(cpu, *frame);
        }
    }
}
