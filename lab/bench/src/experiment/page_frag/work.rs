//! The rest of a router's work for a packet: look-ups that wait for memory, for a stated time.

use crate::experiment::machines::ROUTER_PACKET_NS;
use crate::harness::clock::now_ns;
use crate::harness::sampler::{Sample, Sampler};
use std::hint::black_box;

/// How much work a packet is, beside taking and freeing its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Level {
    /// None: the allocator and the header alone.
    Bare,
    /// A router's by the number of CPUs: 14 cores of a node shared its zone lock, here two do. With a seventh of the
    /// work two CPUs ask for the lock as often as those 14 did.
    Scaled,
    /// The work of the document's router.
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
            Level::Scaled => ROUTER_PACKET_NS * 2.0 / 14.0,
            Level::Router => ROUTER_PACKET_NS,
        }
    }

    /// Returns the look-ups, of this many nanoseconds each, that make half of the work: one at least where there is
    /// any.
    fn look_ups(self, each: f64) -> usize {
        let half = (self.ns() / 2.0 / each).round() as usize;
        if self == Level::Bare { 0 } else { half.max(1) }
    }
}

/// Entries of the table: 16 MiB, as a table of routes that does not fit into a core's caches.
const ENTRIES: usize = 1 << 22;

/// Samples of a look-up's time, of some ten microseconds each.
const SHORT: usize = 151;

/// A table to look things up in.
pub(super) struct Work {
    table: Vec<u32>,
    /// Look-ups that make half of a packet's work, by level.
    half: [usize; 3],
    /// Nanoseconds of a look-up when these were chosen.
    each: f64,
}

impl Work {
    /// Makes the table, and measures how long a look-up takes on this machine now.
    pub fn new() -> Work {
        let mut rng = fastrand::Rng::with_seed(4_711);
        let table: Vec<u32> = (0..ENTRIES).map(|_| rng.u32(..)).collect();
        let mut work = Work { table, half: [0; 3], each: 0.0 };
        work.each = work.measured();
        work.half = Level::ALL.map(|level| level.look_ups(work.each));
        work
    }

    /// Returns by how many percent a look-up takes longer now than when the work was set.
    pub fn drifted(&self) -> f64 {
        (self.measured() / self.each - 1.0) * 100.0
    }

    /// Measures a look-up, in nanoseconds.
    fn measured(&self) -> f64 {
        let mut from = 0;
        let costs = Sampler::new(SHORT).run(&mut [()], |()| {
            const TIMES: usize = 2_000;
            from += 1;
            let start = now_ns();
            black_box(self.look_up(from, TIMES));
            Sample::Counts([(now_ns() - start) as f64 / TIMES as f64])
        });
        // The fastest: what a look-up takes when nothing else runs. Samples are short, so that some are not interrupted
        // on a busy machine.
        costs[0][0].min().max(0.1)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_never_rounded_to_none() {
        let look_ups = |each| Level::ALL.map(|level| level.look_ups(each));
        assert_eq!(look_ups(10.0), [0, 8, 55]);
        assert_eq!(look_ups(1000.0), [0, 1, 1]);
    }
}
