//! What a benchmark measures, behind an interface that costs nothing in its inner loops.

use super::allocator::Allocator;
use super::clock::now_ns;
use super::handover::{self, Crossed};
use super::team::Team;
use pageyard::Pfn;
use std::sync::Arc;

/// What one sample does: rounds in which a batch is taken, then given back.
#[derive(Clone)]
pub(super) struct Load {
    /// The order in which a batch is given back, by place; its length is the batch.
    pub order: Arc<[u32]>,
    /// Blocks in a call: 1 calls once for each, in `order`; more calls once for that many, in the order they were
    /// taken.
    pub call: usize,
    /// Rounds of taking and giving back without a look at the clock.
    pub rounds: usize,
    /// Rounds between two readings of the clock.
    pub chunk: usize,
    /// Rounds with the clock read between taking and giving back.
    pub split: usize,
}

impl Load {
    /// Makes a load that handles `blocks` at least, with the clock read `reads` times on the way.
    pub fn new(order: Arc<[u32]>, call: usize, blocks: usize, reads: usize) -> Load {
        let rounds = blocks.div_ceil(order.len()).max(reads);
        let chunk = rounds.div_ceil(reads);
        Load { order, call, rounds: chunk * reads, chunk, split: (rounds / 2).max(1) }
    }

    /// Blocks in all the rounds that are timed as a whole.
    pub fn blocks(&self) -> u64 {
        (self.rounds * self.order.len()) as u64
    }

    /// Blocks in all rounds.
    pub fn all_blocks(&self) -> u64 {
        ((self.rounds + self.split) * self.order.len()) as u64
    }
}

/// What a sample took on one thread, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// The clock at the start, and after each chunk of rounds.
    pub marks: Vec<u64>,
    /// Taking, in rounds of their own with the clock read in between.
    pub alloc: u64,
    /// Giving back, likewise.
    pub free: u64,
    /// Failed allocations.
    pub missing: u64,
}

/// A subject: an allocator under its name. Loops are compiled for each allocator, so the interface is crossed once a
/// sample.
pub(super) trait Subject {
    /// Returns the name.
    fn name(&self) -> &'static str;

    /// Runs a sample on this many threads; one result for each, or `None` where it cannot.
    fn sample(&self, team: &Team, threads: usize, load: &Load) -> Option<Vec<Taken>>;

    /// Returns refills and spills so far, or `None` where they cannot be seen.
    fn moves(&self) -> Option<(u64, u64)>;

    /// Says whether it can run on this many threads, and takes more than one block with a call.
    fn can(&self, threads: usize, call: usize) -> bool;

    /// Says whether this many blocks can be held at a time.
    fn holds(&self, _: usize) -> bool {
        true
    }

    /// Takes blocks on one CPU and gives them back on another, or `None` where it cannot.
    fn cross(&self, _: &Team, _: usize) -> Option<Crossed> {
        None
    }
}

/// An allocator for one thread.
pub(super) struct Alone<A> {
    pub name: &'static str,
    pub allocator: A,
    pub bulk: bool,
}

impl<A: Allocator> Subject for Alone<A> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn sample(&self, _: &Team, threads: usize, load: &Load) -> Option<Vec<Taken>> {
        (threads == 1).then(|| vec![run(&self.allocator, 0, load)])
    }

    fn moves(&self) -> Option<(u64, u64)> {
        self.allocator.moves()
    }

    fn can(&self, threads: usize, call: usize) -> bool {
        threads == 1 && (call == 1 || self.bulk)
    }
}

/// An allocator for any number of threads.
pub(super) struct Shared<A> {
    name: &'static str,
    allocator: Arc<A>,
    bulk: bool,
}

impl<A> Shared<A> {
    /// Makes the subject; `bulk` says whether the allocator takes more than one block with a call.
    pub fn new(name: &'static str, allocator: A, bulk: bool) -> Shared<A> {
        Shared { name, allocator: Arc::new(allocator), bulk }
    }
}

impl<A: Allocator + Send + Sync + 'static> Subject for Shared<A> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn sample(&self, team: &Team, threads: usize, load: &Load) -> Option<Vec<Taken>> {
        if threads == 1 {
            return Some(vec![run(&*self.allocator, 0, load)]);
        }
        let (allocator, load) = (self.allocator.clone(), load.clone());
        team.run(threads, move |cpu| run(&*allocator, cpu, &load))
    }

    fn moves(&self) -> Option<(u64, u64)> {
        self.allocator.moves()
    }

    fn can(&self, _: usize, call: usize) -> bool {
        call == 1 || self.bulk
    }

    fn cross(&self, team: &Team, groups: usize) -> Option<Crossed> {
        handover::run(team, self.allocator.clone(), groups)
    }
}

/// A failed allocation; no map reaches this frame.
const MISSING: Pfn = Pfn(u64::MAX);

/// Runs a sample on this thread.
pub(super) fn run<A: Allocator>(a: &A, cpu: usize, load: &Load) -> Taken {
    let mut held = vec![MISSING; load.order.len()];
    let mut taken = Taken { marks: Vec::with_capacity(load.rounds / load.chunk + 1), ..Taken::default() };
    taken.marks.push(now_ns());
    for _ in 0..load.rounds / load.chunk {
        taken.missing += if load.call > 1 {
            rounds::<A, true>(a, cpu, &mut held, load)
        } else {
            rounds::<A, false>(a, cpu, &mut held, load)
        };
        taken.marks.push(now_ns());
    }
    if load.call > 1 {
        split::<A, true>(a, cpu, &mut held, load, &mut taken);
    } else {
        split::<A, false>(a, cpu, &mut held, load, &mut taken);
    }
    taken
}

/// Runs a chunk of rounds; returns how many allocations failed. A separate function for each way to call, so that the
/// compiler keeps a loop's values in registers, whatever is measured.
#[inline(never)]
fn rounds<A: Allocator, const BULK: bool>(a: &A, cpu: usize, held: &mut [Pfn], load: &Load) -> u64 {
    let mut missing = 0;
    for _ in 0..load.chunk {
        missing += fill::<A, BULK>(a, cpu, held, load.call);
        give_all::<A, BULK>(a, cpu, held, load);
    }
    missing
}

/// Runs the rounds in which the clock is read between taking and giving back.
#[inline(never)]
fn split<A: Allocator, const BULK: bool>(
    a: &A,
    cpu: usize,
    held: &mut [Pfn],
    load: &Load,
    taken: &mut Taken,
) {
    for _ in 0..load.split {
        let start = now_ns();
        taken.missing += fill::<A, BULK>(a, cpu, held, load.call);
        let middle = now_ns();
        give_all::<A, BULK>(a, cpu, held, load);
        taken.alloc += middle - start;
        taken.free += now_ns() - middle;
    }
}

#[inline(always)]
fn fill<A: Allocator, const BULK: bool>(a: &A, cpu: usize, held: &mut [Pfn], call: usize) -> u64 {
    let mut missing = 0;
    if BULK {
        for group in held.chunks_mut(call) {
            let got = a.take_many(cpu, group);
            group[got..].fill(MISSING);
            missing += (group.len() - got) as u64;
        }
    } else {
        for slot in held.iter_mut() {
            *slot = a.take(cpu).unwrap_or(MISSING);
            missing += u64::from(*slot == MISSING);
        }
    }
    missing
}

#[inline(always)]
fn give_all<A: Allocator, const BULK: bool>(a: &A, cpu: usize, held: &[Pfn], load: &Load) {
    if BULK {
        for group in held.chunks(load.call) {
            let got = group.iter().position(|block| *block == MISSING).unwrap_or(group.len());
            a.give_many(cpu, &group[..got]);
        }
    } else {
        for i in load.order.iter() {
            if let Some(block) = held.get(*i as usize).filter(|block| **block != MISSING) {
                a.give(cpu, *block);
            }
        }
    }
}
