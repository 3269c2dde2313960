//! The rest of a router's work for a packet: look-ups that wait for memory, for a stated time.

use crate::harness::clock::now_ns;
use crate::harness::sampler::{SAMPLES, Sample, Sampler};
use std::hint::black_box;

/// How much work a packet is, beside taking and freeing its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Level {
    /// None: the allocator and the header alone.
    Bare,
    /// A router's by the number of CPUs: 14 cores of a node shared its zone lock, here two do. With a seventh of the work
    /// two CPUs ask for the lock as often as those 14 did.
    Scaled,
    /// What the document's router spent: 70 Gbit/s on 28 cores, half busy, is 1.1 microseconds for a packet of 700 bytes
    /// (the size is assumed: the document gives none).
    Router,
}

impl Level {
    pub const ALL: [Level; 3] = [Level::Bare, Level::Scaled, Level::Router];

    pub fn name(self) -> &'static str {
        match self {
            Level::Bare => "no other work",
            Level::Scaled => "0.16 us of work",
            Level::Router => "1.1 us of work",
        }
    }

    fn ns(self) -> f64 {
        match self {
            Level::Bare => 0.0,
            Level::Scaled => 1100.0 * 2.0 / 14.0,
            Level::Router => 1100.0,
        }
    }
}

/// Entries of the table: 16 MiB, as a table of routes that does not fit into a core's caches.
const ENTRIES: usize = 1 << 22;

/// A table to look things up in.
pub(super) struct Work {
    table: Vec<u32>,
    /// Look-ups that make half of a packet's work, by level.
    half: [usize; 3],
}

impl Work {
    /// Makes the table, and measures how long a look-up takes on this machine now.
    pub fn new() -> Work {
        let mut rng = fastrand::Rng::with_seed(4_711);
        let table: Vec<u32> = (0..ENTRIES).map(|_| rng.u32(..)).collect();
        let mut work = Work { table, half: [0; 3] };
        let mut from = 0;
        let costs = Sampler::new(SAMPLES).run(&mut [()], |()| {
            const TIMES: usize = 20_000;
            from += 1;
            let start = now_ns();
            black_box(work.look_up(from, TIMES));
            Sample::Counts([(now_ns() - start) as f64 / TIMES as f64])
        });
        // The fastest: what a look-up takes when nothing else runs.
        let each = costs[0][0].min().max(0.1);
        work.half = Level::ALL.map(|level| (level.ns() / 2.0 / each).round() as usize);
        work
    }

    /// Does one end's half of a packet's work. It begins where the work for the previous packet ended, so that no two
    /// packets overlap; returns where it ends.
    #[inline]
    pub fn half(&self, from: usize, level: Level) -> usize {
        let times = self.half[level as usize];
        if times > 0 { black_box(self.look_up(from, times)) } else { from }
    }

    /// Follows `times` entries, each found through the one before.
    fn look_up(&self, from: usize, times: usize) -> usize {
        // The step counts too: following entries alone ends in a short cycle.
        (0..times).fold(from.wrapping_mul(0x9E37_79B9).wrapping_add(1), |at, i| {
            self.table[at & (ENTRIES - 1)] as usize + i
        })
    }
}
