//! The board on which the processes of a run communicate: one block of shared memory, in which every word has one
//! writer.

use crate::shared::FromZeros;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

/// Queues that a run can have.
pub const QUEUES: usize = 8;
/// Workers that a run can have: for each queue one that receives, and one that takes completions.
pub const WORKERS: usize = 2 * QUEUES;

/// A worker's number: it stays with the place in the run, and the worker that takes over from one that was killed has
/// it too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Worker(pub u32);

impl Worker {
    /// Returns it as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The phase that every process is to be in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Work.
    Run,
    /// Stop with empty hands, say so, and wait.
    Pause,
    /// End.
    End,
}

/// Calls of an allocator: what they moved, and how long they took.
#[repr(C, align(64))]
pub struct Calls {
    /// Frames that moved in calls that were timed undisturbed.
    pub frames: AtomicU64,
    /// Ticks of those calls.
    pub ticks: AtomicU64,
    /// Calls that took so long that the process was not running all of the time.
    pub disturbed: AtomicU64,
    /// Frames that moved in those.
    pub disturbed_frames: AtomicU64,
}

impl Calls {
    /// Adds a call; one writer.
    pub fn add(&self, frames: u64, ticks: u64, limit: u64) {
        let more = |word: &AtomicU64, n| word.store(word.load(Relaxed) + n, Relaxed);
        if ticks > limit {
            more(&self.disturbed, 1);
            more(&self.disturbed_frames, frames);
        } else {
            more(&self.frames, frames);
            more(&self.ticks, ticks);
        }
    }
}

/// Packets on their way from an RX ring to a TX ring, written before the two indices change and cleared after it.
///
/// The TX index is stored first and commits the move. A process that is killed between the two stores leaves packets in
/// both rings; this says how to finish.
#[repr(C)]
pub struct Moving {
    /// Where the TX producer stands when the move has happened.
    pub tx_to: AtomicU32,
    /// Where the RX consumer then belongs.
    pub rx_to: AtomicU32,
    /// Packets, and so whether there is a move: 0 or how many.
    pub packets: AtomicU32,
}

/// A worker's state and counts.
#[repr(C, align(128))]
pub struct Slot {
    /// The order that it stopped for; see [`Board::parked`].
    parked: AtomicU32,
    /// Whether it is inside of an allocator's call.
    pub in_call: AtomicU32,
    /// Its move from RX to TX.
    pub moving: Moving,
    /// The packet whose header it changes: its RX index above, and below what the header has for
    /// [`restore`](crate::packet::restore). 0 before the first.
    pub routing: AtomicU64,
    /// Packets of others that it took out of the RX ring.
    pub foreign: AtomicU64,
    /// Times that the allocator had no frame for it.
    pub empty: AtomicU64,
    /// Nanoseconds of processor time that it took, in the kernel too; of a worker that was killed, none.
    pub cpu: AtomicU64,
    /// Its calls for frames.
    pub get: Calls,
    /// Its calls that give them back.
    pub put: Calls,
}

/// The source's counts for a queue.
#[repr(C, align(128))]
pub struct Sent {
    /// Packets that it handed to the kernel.
    pub packets: AtomicU64,
    /// Packets that never arrived, as far as the source has given up on them to go on.
    pub given_up: AtomicU64,
}

/// The sink's counts for a queue.
#[repr(C, align(128))]
pub struct Arrived {
    /// Packets that were right.
    pub packets: AtomicU64,
    /// Packets of others.
    pub foreign: AtomicU64,
    /// Packets whose contents were wrong.
    pub damaged: AtomicU64,
    /// Packets that came again, or after a later one.
    pub disordered: AtomicU64,
    /// The next number that is expected.
    pub next: AtomicU64,
}

/// All of it.
#[repr(C)]
pub struct Board {
    /// The order in the low two bits, how often it changed above them.
    order: AtomicU32,
    source_parked: AtomicU32,
    /// How many packets the source may have sent on each queue by now.
    pub quota: AtomicU64,
    /// A slot for each worker.
    pub slots: [Slot; WORKERS],
    /// Packets sent, by queue.
    pub sent: [Sent; QUEUES],
    /// Packets arrived, by queue.
    pub arrived: [Arrived; QUEUES],
}

// SAFETY: atomics throughout, for which zeros are a value.
unsafe impl FromZeros for Board {}

/// Who stops for an order to pause.
#[derive(Clone, Copy)]
pub enum Who {
    /// A worker.
    Worker(Worker),
    /// The source.
    Source,
}

impl Board {
    /// Gives an order; the supervisor alone does.
    pub fn give(&self, order: Order) {
        let changes = (self.order.load(Relaxed) >> 2) + 1;
        // ORDER: Release pairs with the acquire in `order`: what the supervisor changed before is seen by the workers
        // that go on.
        self.order.store(changes << 2 | order as u32, Release);
    }

    fn word(&self) -> u32 {
        // ORDER: Acquire pairs with the release in `give`.
        self.order.load(Acquire)
    }

    /// Reads the order.
    pub fn order(&self) -> Order {
        match self.word() & 3 {
            0 => Order::Run,
            1 => Order::Pause,
            _ => Order::End,
        }
    }

    fn park_word(&self, who: Who) -> &AtomicU32 {
        match who {
            Who::Worker(worker) => &self.slots[worker.index()].parked,
            Who::Source => &self.source_parked,
        }
    }

    /// Stops for an order to pause, until it changes; the caller's hands are empty. Returns whether it did.
    pub fn park(&self, who: Who) -> bool {
        let word = self.word();
        if self.order() != Order::Pause {
            return false;
        }
        // ORDER: Release pairs with the acquire in `parked`: what this process did is done.
        self.park_word(who).store(word, Release);
        while self.word() == word {
            std::thread::sleep(Duration::from_micros(20));
        }
        true
    }

    /// Returns whether somebody has stopped for the order that stands.
    pub fn parked(&self, who: Who) -> bool {
        // ORDER: Acquire pairs with the release in `park`.
        self.park_word(who).load(Acquire) == self.word()
    }
}
