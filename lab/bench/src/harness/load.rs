//! The work of a sample, and the time it took.

use pageyard::Context;
use std::sync::Arc;

/// The work of one sample: rounds in which a batch is taken, then given back.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// The order in which a batch is given back, by place; its length is the batch.
    pub order: Arc<[u32]>,
    /// Whether a call takes or gives back `call` blocks, in the order they were taken; else each has its own, in
    /// `order`.
    pub bulk: bool,
    /// Blocks in a call.
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
        Load { order, bulk: call > 1, call, rounds: chunk * reads, chunk, split: (rounds / 2).max(1) }
    }

    /// Makes a load of `rounds` with the clock read at their ends only, and as many with it read in between. `bulk`
    /// takes each batch with one call.
    pub fn of_rounds(order: Arc<[u32]>, bulk: bool, rounds: usize) -> Load {
        let call = if bulk { order.len() } else { 1 };
        Load { order, bulk, call, rounds, chunk: rounds, split: rounds }
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

/// The time a sample took on one thread, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The clock at the start, and after each chunk of rounds.
    pub marks: Vec<u64>,
    /// Taking, in rounds of their own with the clock read in between.
    pub alloc: u64,
    /// Giving back, likewise.
    pub free: u64,
    /// Failed allocations.
    pub missing: u64,
}

impl Taken {
    /// Returns nanoseconds a block on one thread: taking, giving back, and both. `clock` is what reading the clock
    /// costs. `None` where an allocation failed.
    ///
    /// Each half is timed in its own rounds. A disturbance in one half is not part of the other, so the halves need not
    /// add up to the whole.
    pub fn each(&self, load: &Load, clock: f64) -> Option<[f64; 3]> {
        let total = self.marks.last()?.checked_sub(*self.marks.first()?)? as f64 / load.blocks() as f64;
        let half = |ns: u64| {
            (ns as f64 - clock * load.split as f64).max(0.0) / (load.split * load.order.len()) as f64
        };
        (self.missing == 0).then(|| [half(self.alloc), half(self.free), total])
    }
}

/// One order-0 call of a recorded mix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub place: u32,
    pub context: Context,
    pub free: bool,
}

/// A recorded mix of order-0 calls.
#[derive(Clone)]
pub(crate) struct Mix {
    pub calls: Arc<[Call]>,
    /// How many frames are held at most, each in its own place.
    pub places: usize,
    /// How often a sample makes the calls.
    pub repeat: usize,
}

impl Mix {
    /// Returns how many calls a sample makes on each thread.
    pub fn calls_a_sample(&self) -> u64 {
        (self.calls.len() * self.repeat) as u64
    }
}

/// The time one thread spent in an allocator's calls, and when it ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy {
    pub ns: u64,
    pub start: u64,
    pub end: u64,
    /// Failed allocations.
    pub missing: u64,
}
