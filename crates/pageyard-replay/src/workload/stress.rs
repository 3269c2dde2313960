//! `stress-highalloc`: large unmovable blocks, asked for at a steady rate while a load keeps memory short.
//!
//! Phases 1 and 2 run during the load; phase 3 when it has ended and its page cache was dropped. Each attempts the same
//! share of memory, holds what it gets to its end, and then frees it. Success is blocks held divided by attempts.
//!
//! Requests and load either take turns on one thread, so that every count repeats, or each has a thread ([`Turns`]).

use super::beside::{Clock, Lag};
use super::fragment::{State, bring};
use super::frame_table::Role;
use super::load::{Done, Load, LoadTrace, Shape};
use super::owners::{Owners, Shares, for_fragmentation};
use crate::engine::ReplayEngine;
use crate::error::ReplayError;
use crate::replay::{blocks, zones};
use hdrhistogram::Histogram;
use pageyard::{
    AuditError, Census, Counter, CpuId, Cx, Frames, Migratetype, Nanos, NodeId, Order, PAGE_SIZE,
    PAGEBLOCK_ORDER, Pfn, PressureAllocator, Region, Request, Stats, ZoneKind, metrics,
};
use std::time::Instant;

/// The parameters of the test.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Memory of the machine, in bytes.
    pub memory: u64,
    /// The order of the blocks asked for.
    pub order: Order,
    /// Which share of memory a phase asks for.
    pub share: f64,
    /// How long a phase lasts, in rounds of the load.
    pub rounds: f64,
    /// For how many rounds the load goes on, once memory has run short, before phase 1.
    pub settle: f64,
    /// The share of memory that the kernel holds as slab, half of it reclaimable by type. It grows as memory fills.
    pub slab: f64,
    /// The share of memory in page tables that outlive the load.
    pub tables: f64,
    /// How the load departs from its recording.
    pub shape: Shape,
    /// What of the movable frames cannot be moved.
    pub shares: Shares,
    /// The state of memory before the load begins; all free if none.
    pub start: Option<State>,
    /// Who makes the requests.
    pub turns: Turns,
}

/// How the requests of a phase go together with the load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Turns {
    /// One thread makes both, each at its time of the recording: every count repeats, no lock is contended, and whatever a
    /// request freed is still there when it looks.
    One,
    /// The requests have a thread of their own beside the load's, whose recording runs this many times as fast as it was
    /// recorded. Counts differ from run to run.
    Beside(f64),
}

impl Settings {
    /// The study's: 4 GiB, order 4, nine tenths of memory in each phase.
    #[must_use]
    pub const fn study() -> Settings {
        Settings {
            memory: 4 << 30,
            order: Order::of(4),
            share: 0.9,
            rounds: 1.0,
            settle: 0.5,
            slab: 0.1,
            tables: 0.01,
            shape: Shape { jobs: 8, large_blocks: false, compactor_ns: 100_000_000 },
            shares: Shares::STUDY,
            start: None,
            turns: Turns::One,
        }
    }

    /// Returns the machine's memory map: three quarters of memory, and at most 3 GiB, in zone DMA32, the rest in zone
    /// Normal from 4 GiB on.
    #[must_use]
    pub fn regions(&self) -> [Region; 2] {
        let frames = self.memory / PAGE_SIZE;
        // The first MiB is firmware's, as on any PC.
        let low = (frames * 3 / 4).min(3 << 18) - FIRST;
        [
            Region::managed(Pfn(FIRST), Frames(low), NodeId(0), ZoneKind::Dma32),
            Region::managed(Pfn(1 << 20), Frames(frames - low), NodeId(0), ZoneKind::Normal),
        ]
    }

    /// Returns how many blocks a phase asks for.
    #[must_use]
    pub fn attempts(&self) -> u64 {
        (self.share * (self.memory / PAGE_SIZE) as f64) as u64 >> self.order.get()
    }
}

const FIRST: u64 = 256;

/// Which phases to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phases {
    /// Two under load and one after it.
    Three,
    /// This many, all of them under load.
    UnderLoad(usize),
}

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
    /// How far the load fell behind its pace, where it had a thread of its own.
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

/// How fragmented memory is.
#[derive(Clone, Copy, Debug)]
pub struct Fragmentation {
    /// Free frames, those in per-CPU lists not counted.
    pub free: Frames,
    /// `unusable_index` by order.
    pub unusable_index: [f64; 11],
    /// Pageblocks that hold both movable and unmovable frames, as a share of those that hold movable ones.
    pub spoiled: f64,
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The phases.
    pub phases: Vec<Phase>,
    /// The engine's counters: those of the phases alone.
    pub counters: Stats,
    /// CPU seconds outside the engine, of the load's thread.
    pub user_s: f64,
    /// CPU seconds in the engine, reclaim included; calls of the load are sampled.
    pub system_s: f64,
    /// Wall time.
    pub elapsed_s: f64,
    /// Nanoseconds that a request spent in compaction and around it, without reclaim: requests that compacted.
    pub stalls_ns: Histogram<u64>,
    /// What the load did meanwhile.
    pub load: Done,
    /// Frames held, by role, before phase 1.
    pub held_before: [Frames; Role::ALL.len()],
    /// Frames pinned before phase 1.
    pub pinned_before: Frames,
    /// The audit at the end.
    pub audit: Result<Census, AuditError>,
    /// Frames that the engine counts as allocated, less those that the owners hold.
    pub leaked: i64,
}

/// CPU time of this thread so far.
fn thread_seconds() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// Steps in which memory is filled, by round of the load.
const FILL_STEPS: u64 = 64;

/// The most rounds until memory has to have run short.
const FILL_ROUNDS: u64 = 64;

/// Fills memory and runs the phases. The engine must be new.
///
/// # Errors
/// [`ReplayError::Fragment`] where memory cannot be brought to the state that the settings ask for.
pub fn run<E: PressureAllocator + ReplayEngine>(
    engine: &E,
    trace: &LoadTrace,
    settings: &Settings,
    phases: Phases,
    seed: u64,
) -> Result<Report, ReplayError> {
    let owners = Owners::new(engine, settings.shares, seed);
    if let Some(state) = &settings.start {
        bring(&owners, state, seed)?;
    }
    let shift = fastrand::Rng::with_seed(seed).f64();
    let mut load = Load::new(trace, &owners, &settings.shape, shift);
    fill(&mut load, &owners, settings);
    let held_before = Role::ALL.map(|role| owners.held(role));
    let pinned_before = owners.pinned();

    let mut test = Test::new(&owners, settings, trace.duration_ns());
    let (counters, wall, cpu) = (engine.stats(), Instant::now(), thread_seconds());
    let before = load.done;
    let mut made = Vec::new();
    let under_load = match phases {
        Phases::Three => 2,
        Phases::UnderLoad(n) => n,
    };
    for _ in 0..under_load {
        made.push(test.phase(&mut load));
    }
    if phases == Phases::Three {
        load.end();
        owners.drop_caches(&Cx { now: Nanos(load.now()), ..Cx::on(CpuId(0)) });
        made.push(test.phase(&mut load));
    }
    let cpu_s = thread_seconds() - cpu + test.apart_ns as f64 / 1e9;
    let elapsed_s = wall.elapsed().as_secs_f64();
    let system_s = (test.engine_ns + load.done.engine_ns - before.engine_ns) as f64 / 1e9;
    let mut since = engine.stats();
    for counter in Counter::ALL {
        since[*counter] -= counters[*counter];
    }
    let audit = engine.audit();
    Ok(Report {
        phases: made,
        counters: since,
        user_s: (cpu_s - system_s).max(0.0),
        system_s: system_s.min(cpu_s),
        elapsed_s,
        stalls_ns: test.stalls_ns,
        load: load.done.since(&before),
        held_before,
        pinned_before,
        leaked: audit.as_ref().map_or(0, |c| c.allocated.0 as i64 - owners.held_frames().0 as i64),
        audit,
    })
}

/// Runs the load until memory is short, and beyond; the kernel's own memory grows meanwhile.
fn fill<E: PressureAllocator + ReplayEngine>(
    load: &mut Load<'_, '_, E>,
    owners: &Owners<'_, E>,
    settings: &Settings,
) {
    let managed = settings.memory / PAGE_SIZE;
    let mut growth = Growth { owners, settings, rng: fastrand::Rng::with_seed(managed), slab: 0, tables: 0 };
    let step = load.round_ns() / FILL_STEPS + 1;
    let mut settled = None;
    for n in 0..FILL_ROUNDS * FILL_STEPS {
        load.run_until(load.now() + step);
        let full = growth.grow(load.now(), owners.held_frames().0 as f64 / managed as f64);
        let stats = owners.engine().stats();
        if settled.is_none() && full && stats[Counter::PgstealKswapd] + stats[Counter::PgstealDirect] > 0 {
            settled = Some(n + (settings.settle * FILL_STEPS as f64) as u64);
        }
        if settled.is_some_and(|end| n >= end) {
            return;
        }
    }
}

/// Kernel memory that outlives the load.
struct Growth<'a, 'e, E: ?Sized> {
    owners: &'a Owners<'e, E>,
    settings: &'a Settings,
    rng: fastrand::Rng,
    slab: u64,
    tables: u64,
}

impl<E: PressureAllocator + ReplayEngine> Growth<'_, '_, E> {
    /// Brings kernel memory to its share of what is in use; says whether all of it is there.
    fn grow(&mut self, now: u64, used: f64) -> bool {
        let managed = (self.settings.memory / PAGE_SIZE) as f64;
        // All of it is there a little before memory is full.
        let part = (used / 0.9).min(1.0);
        let cx = Cx { now: Nanos(now), ..Cx::on(CpuId(self.rng.u32(0..2))) };
        let mut all = part >= 1.0;
        for (role, share) in [(Role::Slab, self.settings.slab), (Role::PageTable, self.settings.tables)] {
            let want = (share * part * managed) as u64;
            loop {
                let have = if role == Role::Slab { &mut self.slab } else { &mut self.tables };
                if *have >= want {
                    break;
                }
                let m = match role == Role::Slab && self.rng.bool() {
                    true => Migratetype::Reclaimable,
                    false => Migratetype::Unmovable,
                };
                if self.owners.alloc_lasting(&cx, &Request::new(Order::ZERO, m), role).is_err() {
                    all = false;
                    break;
                }
                *have += 1;
            }
        }
        all
    }
}

/// What came of a phase's requests.
struct Requests {
    /// The blocks received.
    held: Vec<u32>,
    fragmented: u64,
    tenths: [Tenth; 10],
}

/// The test during the load.
struct Test<'a, 'e, E: ?Sized> {
    owners: &'a Owners<'e, E>,
    settings: &'a Settings,
    phase_ns: u64,
    /// Nanoseconds that requests took.
    engine_ns: u64,
    /// Of those, on a thread of their own.
    apart_ns: u64,
    stalls_ns: Histogram<u64>,
}

impl<'a, 'e, E: PressureAllocator + ReplayEngine> Test<'a, 'e, E> {
    fn new(owners: &'a Owners<'e, E>, settings: &'a Settings, round_ns: u64) -> Self {
        let histogram =
            Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("the bounds are valid constants");
        let phase_ns = (settings.rounds * round_ns as f64) as u64;
        Test { owners, settings, phase_ns, engine_ns: 0, apart_ns: 0, stalls_ns: histogram }
    }

    /// Runs one phase.
    fn phase(&mut self, load: &mut Load<'_, '_, E>) -> Phase {
        let begin = load.now();
        let end = begin + self.phase_ns;
        let (made, lag) = match self.settings.turns {
            // Once the load has ended there is nothing to run beside of.
            Turns::Beside(pace) if !load.has_ended() => {
                let (clock, before) = (Clock::new(begin), self.engine_ns);
                let requests = || self.requests(begin, |due| clock.wait(due));
                let (made, lag) = clock.run(pace, |now| load.run_until(now), requests);
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
        let start = Instant::now();
        let got =
            self.owners.alloc(cx, &Request::new(self.settings.order, Migratetype::Unmovable), Role::Test);
        let ns = start.elapsed().as_nanos() as u64;
        self.engine_ns += ns;
        if engine.stats()[Counter::CompactStall] > stalls {
            self.stalls_ns.saturating_record(ns.saturating_sub(self.owners.take_reclaim_ns()).max(1));
        }
        got.map_err(|failure| for_fragmentation(&failure.why))
    }
}

/// Measures how fragmented memory is now.
pub fn fragmentation<E: PressureAllocator + ReplayEngine>(owners: &Owners<'_, E>) -> Fragmentation {
    let row = blocks(&zones(owners.engine()));
    let (mut movable, mut unmovable) = (Vec::new(), Vec::new());
    owners.for_each(|pfn, order, role, can_move| {
        for block in pfn.pageblock().0..=(pfn + order.frames()).0.div_ceil(512) - 1 {
            let list = match (can_move, role) {
                (true, _) => &mut movable,
                // Movable memory that is pinned is as bad as what never moves.
                (false, _) => &mut unmovable,
            };
            list.resize(list.len().max(block as usize + 1), false);
            list[block as usize] = true;
        }
    });
    let both = movable.iter().zip(&unmovable).filter(|(a, b)| **a && **b).count();
    let all = movable.iter().filter(|m| **m).count();
    Fragmentation {
        free: Frames(metrics::free_frames(&row)),
        unusable_index: std::array::from_fn(|order| metrics::unusable_index(&row, order).unwrap_or(1.0)),
        spoiled: both as f64 / all.max(1) as f64,
    }
}

/// The order of a pageblock, for readers of [`Fragmentation::unusable_index`].
pub const HUGE: usize = PAGEBLOCK_ORDER.index();

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::MemoryMap;

    #[test]
    fn machines_of_every_size_have_all_their_memory_in_two_zones() {
        for gib in [1, 2, 4, 16, 64] {
            let regions = Settings { memory: gib << 30, ..Settings::study() }.regions();
            let map = MemoryMap::new(&regions).expect("the regions do not overlap");
            assert_eq!(map.zones().map(|(_, z)| z.managed.as_bytes()).sum::<u64>(), gib << 30);
        }
    }
}
