//! One phase: its requests, each when it is due, and what came of them.

use super::settings::{Settings, Turns};
use crate::engine::{ReplayEngine, blocks, zones};
use crate::workload::beside::{Clock, Lag};
use crate::workload::ends::{Ends, take_end};
use crate::workload::fragmentation::{Fragmentation, fragmentation};
use crate::workload::load::Load;
use crate::workload::object::Role;
use crate::workload::owners::{Owners, for_fragmentation};
use hdrhistogram::Histogram;
use pageyard::{Counter, CpuId, Cx, Frames, Migratetype, Nanos, PressureAllocator, Request, metrics};
use std::time::Instant;

/// The results of one phase.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    /// Blocks asked for.
    pub attempted: u64,
    /// Blocks held at the end.
    pub held: u64,
    /// Refusals although memory was free.
    pub fragmented: u64,
    /// The phase in tenths of its attempts.
    pub tenths: [Tenth; 10],
    /// How far the load fell behind a request, where it had a thread of its own.
    pub lag: Option<Lag>,
    /// The state of memory at its end, when its blocks had been freed.
    pub after: Fragmentation,
}

impl Phase {
    /// Returns held by attempted, in percent.
    #[must_use]
    pub fn success(&self) -> f64 {
        self.held as f64 / self.attempted.max(1) as f64 * 100.0
    }
}

/// A tenth of a phase's attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tenth {
    /// Blocks asked for.
    pub attempted: u64,
    /// Blocks received.
    pub got: u64,
    /// Free frames at its end, those in per-CPU lists not counted.
    pub free: Frames,
    /// The share of them that cannot serve the test's order: `unusable_index`.
    pub unusable_index: f64,
}

/// The outcome of a phase's requests.
struct Requests {
    /// The blocks received.
    held: Vec<u32>,
    fragmented: u64,
    tenths: [Tenth; 10],
}

/// The test during the load.
pub(super) struct Test<'a, 'e, E: ?Sized> {
    owners: &'a Owners<'e, E>,
    settings: &'a Settings,
    phase_ns: u64,
    /// Nanoseconds that requests took.
    pub engine_ns: u64,
    /// Of those, on a thread of their own.
    pub apart_ns: u64,
    /// The time that each compacting request spent outside reclaim.
    pub stalls_ns: Histogram<u64>,
    /// The requests by how their asynchronous compaction ended.
    pub ends: Ends,
}

impl<'a, 'e, E: PressureAllocator + ReplayEngine> Test<'a, 'e, E> {
    pub fn new(owners: &'a Owners<'e, E>, settings: &'a Settings, round_ns: u64) -> Self {
        let histogram =
            Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("the bounds are valid constants");
        let phase_ns = (settings.rounds * round_ns as f64) as u64;
        Test {
            owners,
            settings,
            phase_ns,
            engine_ns: 0,
            apart_ns: 0,
            stalls_ns: histogram,
            ends: Ends::default(),
        }
    }

    /// Runs one phase.
    pub fn phase(&mut self, load: &mut Load<'_, '_, E>) -> Phase {
        let begin = load.now();
        let end = begin + self.phase_ns;
        let (made, lag) = match self.settings.turns {
            // Once the load has ended there is nothing to run beside of.
            Turns::Beside(pace) if !load.has_ended() => {
                let (clock, before) = (Clock::new(begin, pace), self.engine_ns);
                let requests = || self.requests(begin, |due| clock.wait(due));
                let (made, lag) = clock.run(|now| load.run_until(now), requests);
                self.apart_ns += self.engine_ns - before;
                (made, Some(lag))
            }
            _ => {
                let until = |due| {
                    load.run_until(due);
                    load.now()
                };
                (self.requests(begin, until), None)
            }
        };
        load.run_until(end);
        let Requests { held, fragmented, tenths } = made;
        let count = held.len() as u64;
        let cx = Cx { now: Nanos(load.now()), ..Cx::on(CpuId(0)) };
        for id in held {
            self.owners.free(&cx, id);
        }
        let (attempted, after) = (self.settings.attempts(), fragmentation(self.owners));
        Phase { attempted, held: count, fragmented, tenths, lag, after }
    }

    /// Makes the requests of a phase, each when it is due: `wait` waits for that time, and returns the time then.
    fn requests(&mut self, begin: u64, mut wait: impl FnMut(u64) -> u64) -> Requests {
        let attempts = self.settings.attempts();
        let mut made = Requests { held: Vec::new(), fragmented: 0, tenths: [Tenth::default(); 10] };
        for n in 0..attempts {
            let due = begin + (u128::from(self.phase_ns) * u128::from(n) / u128::from(attempts)) as u64;
            let cx = Cx { now: Nanos(wait(due)), ..Cx::on(CpuId((n % 2) as u32)) };
            let tenth = &mut made.tenths[(n * 10 / attempts) as usize];
            tenth.attempted += 1;
            match self.attempt(&cx) {
                Ok(id) => {
                    tenth.got += 1;
                    made.held.push(id);
                }
                Err(is_fragmented) => made.fragmented += u64::from(is_fragmented),
            }
            if (n + 1) * 10 / attempts > n * 10 / attempts {
                let row = blocks(&zones(self.owners.engine()));
                tenth.free = Frames(metrics::free_frames(&row));
                tenth.unusable_index =
                    metrics::unusable_index(&row, self.settings.order.index()).unwrap_or(1.0);
            }
        }
        made
    }

    /// Asks for one block; otherwise says whether memory was free.
    fn attempt(&mut self, cx: &Cx) -> Result<u32, bool> {
        let engine = self.owners.engine();
        let stalls = engine.stats()[Counter::CompactStall];
        self.owners.take_reclaim_ns();
        // Of an earlier call, of the load perhaps.
        let _earlier = take_end();
        let start = Instant::now();
        let got =
            self.owners.alloc(cx, &Request::new(self.settings.order, Migratetype::Unmovable), Role::Test);
        let ns = start.elapsed().as_nanos() as u64;
        self.engine_ns += ns;
        self.ends.count(take_end(), got.is_ok());
        if engine.stats()[Counter::CompactStall] > stalls {
            self.stalls_ns.saturating_record(ns.saturating_sub(self.owners.take_reclaim_ns()).max(1));
        }
        got.map_err(|failure| for_fragmentation(&failure.why))
    }
}
