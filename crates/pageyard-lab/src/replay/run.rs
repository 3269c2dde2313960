//! The replay itself: open the machine, re-execute every row, give account.

use super::direct::Direct;
use super::ledger::Stand;
use super::moved::Moves;
use super::prediction::Prediction;
use super::report::{EngineReport, EventCounts, Failures, ReplayReport, Seconds, TraceReport, Waiting};
use super::threads::Plan;
use super::timeline::{Sample, blocks, sample, zones};
use super::walk::{Row, Walk};
use crate::bitmap::SharedFrameSet;
use crate::engine::{EngineSpec, LabEngine};
use crate::error::LabError;
use crate::latency::{LatencySummary, clock_cost_ns};
use crate::machine::{Machine, Opening, Start};
use pageyard::{Cx, Frames, MemoryMap, Order, Pfn, block};
use pageyard_trace::{Columns, Prefetch, Trace};
use std::time::{Duration, Instant};

/// How often the background reclaimer gets to run, in recorded time: about as soon as a woken task does.
const KSWAPD_TICK_NS: u64 = 1_000_000;

/// How often per-CPU lists shrink, in recorded time: Linux's `vm.stat_interval`.
const VMSTAT_TICK_NS: u64 = 1_000_000_000;

/// The opening state is claimed in blocks of at most this order: a claim of a whole pageblock would set its type.
const BELOW_A_PAGEBLOCK: Order = Order::of(8);

/// How many samples a timeline has between its first and its last.
const SAMPLES: u64 = 20;

/// What to replay, and how.
#[derive(Clone, Debug, Default)]
pub struct ReplayOptions {
    /// Makes the machine smaller: the bytes that it has left.
    pub memory: Option<u64>,
    /// Replays each CPU on a thread of its own.
    pub threads: bool,
}

/// What a replay is doing, for a progress bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// It looks for the opening state.
    Opening,
    /// It replays on this engine.
    Replaying(&'a str),
}

/// Replays a trace on each engine in turn. `progress` is told what is being done, and how many of how many rows are
/// done.
///
/// # Errors
/// [`LabError`]; what the engines do wrong is not an error, but in the report.
pub fn replay(
    trace: &Trace,
    engines: &[EngineSpec],
    options: &ReplayOptions,
    progress: &mut dyn FnMut(Progress<'_>, u64, u64),
) -> Result<ReplayReport, LabError> {
    let started = Instant::now();
    let mut opening_progress = |done, rows| progress(Progress::Opening, done, rows);
    let mut machine = Machine::read(trace, &mut opening_progress)?;
    let opening = machine.open(&mut opening_progress)?;
    let taken_away = match options.memory {
        Some(bytes) => machine.shrink(&opening, bytes)?,
        None => Frames::ZERO,
    };
    let opened = started.elapsed();
    let mut report =
        ReplayReport { trace: TraceReport::new(trace, &machine, &opening, taken_away), engines: Vec::new() };
    for spec in engines {
        let start = Instant::now();
        let regions = machine.regions();
        let fail = |why| LabError::Map { trace: machine.name().to_owned(), why };
        let map = MemoryMap::new(&regions).map_err(fail)?;
        let spec = spec.with_min_free_kbytes(machine.min_free_kbytes);
        let engine = spec.build(&map, machine.cpus, options.threads)?.map_err(fail)?;
        let mut at = |done, rows| progress(Progress::Replaying(spec.name()), done, rows);
        let since = (start, opened);
        let (counts, engine) = match options.threads {
            false => on_one_thread(&*engine, &spec, trace, &machine, &opening, since, &mut at)?,
            true => on_a_thread_a_cpu(&*engine, &spec, trace, &machine, &opening, since, &mut at)?,
        };
        report.trace.counts = counts;
        report.engines.push(engine);
    }
    Ok(report)
}

/// When an engine's replay began, and the time that finding the opening state took before that.
type Since = (Instant, Duration);

fn on_one_thread<E: LabEngine + ?Sized>(
    engine: &E,
    spec: &EngineSpec,
    trace: &Trace,
    machine: &Machine,
    opening: &Opening,
    since: Since,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(EventCounts, EngineReport), LabError> {
    let mut calls = Direct::new(engine, machine.end(), clock_cost_ns());
    let mut run = Run::open(engine, machine, opening, |pfn, order| calls.hold(pfn, order))?;
    run.seconds.open = since.1 + since.0.elapsed();
    run.rows(trace, progress, |run, row| {
        run.clock.tick(row.time_ns());
        run.walk.row(&mut calls, row);
    })?;
    let outcome = Outcome {
        alloc: calls.alloc.summary(),
        free: calls.free.summary(),
        failures: calls.failures,
        held_frames: calls.held_frames,
        waiting: None,
    };
    run.finish(trace, spec, outcome)
}

fn on_a_thread_a_cpu<E: LabEngine + ?Sized>(
    engine: &E,
    spec: &EngineSpec,
    trace: &Trace,
    machine: &Machine,
    opening: &Opening,
    since: Since,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(EventCounts, EngineReport), LabError> {
    let mut plan = Plan::new(machine.cpus);
    let taken = SharedFrameSet::new(machine.end());
    let mut run = Run::open(engine, machine, opening, |pfn, order| {
        taken.insert(pfn, order.frames());
        plan.hold(pfn)
    })?;
    run.seconds.open = since.1 + since.0.elapsed();
    run.rows(trace, progress, |run, row| run.walk.row(&mut plan, row))?;
    // Planning belongs to reading: the calls are not made yet.
    run.seconds.read += run.seconds.replay;
    let start = Instant::now();
    let clock = &mut run.clock;
    let found = plan.run(engine, &taken, run.clock_ns, &mut |now| clock.tick(now));
    run.seconds.replay = start.elapsed();
    let outcome = Outcome {
        alloc: found.alloc.summary(),
        free: found.free.summary(),
        failures: found.failures,
        held_frames: taken.len(),
        waiting: Some(Waiting { threads: machine.cpus, waits: found.waits, wait_ns: found.wait_ns }),
    };
    run.finish(trace, spec, outcome)
}

/// A replay under way, on one engine.
struct Run<'a, E: LabEngine + ?Sized> {
    engine: &'a E,
    walk: Walk<'a>,
    clock: Clock<'a, E>,
    clock_ns: u64,
    opening_held: u64,
    seconds: Seconds,
}

/// Recorded time: what is due when.
struct Clock<'a, E: LabEngine + ?Sized> {
    engine: &'a E,
    samples: Vec<Sample>,
    sample_step: u64,
    next_sample: u64,
    next_kswapd: u64,
    next_vmstat: u64,
    last: u64,
}

impl<E: LabEngine + ?Sized> Clock<'_, E> {
    /// Gives the engine the background work that is due, and takes a sample when it is time.
    fn tick(&mut self, now: u64) {
        self.last = now;
        if now >= self.next_kswapd {
            self.engine.kswapd_tick();
            self.next_kswapd = now + KSWAPD_TICK_NS;
        }
        if now >= self.next_vmstat {
            self.engine.vmstat_tick();
            self.next_vmstat += VMSTAT_TICK_NS;
        }
        if now >= self.next_sample {
            self.samples.push(sample(self.engine, now));
            self.next_sample += self.sample_step;
        }
    }
}

/// What the calls of a replay came to.
struct Outcome {
    alloc: LatencySummary,
    free: LatencySummary,
    failures: Failures,
    held_frames: u64,
    waiting: Option<Waiting>,
}

impl<'a, E: LabEngine + ?Sized> Run<'a, E> {
    /// Brings the engine into the opening state. `hold` is told of each block that is held then, and says what stands
    /// for it.
    fn open(
        engine: &'a E,
        machine: &'a Machine,
        opening: &Opening,
        mut hold: impl FnMut(Pfn, Order) -> Stand,
    ) -> Result<Self, LabError> {
        let fail = |what: &str, pfn: Pfn| LabError::Machine {
            trace: machine.name().to_owned(),
            why: format!("the opening state cannot be set up: {what} (frame {pfn})"),
        };
        for (block, m) in &opening.types {
            engine.set_pageblock_migratetype(*block, *m);
        }
        let mut walk = Walk::new(machine);
        let mut opening_held = 0;
        for region in machine.regions() {
            for (start, frames, held) in machine.runs(region.start, region.end(), Start::held_as) {
                let Some(m) = held else { continue };
                opening_held += frames.0;
                for b in block::blocks(start, frames, BELOW_A_PAGEBLOCK) {
                    engine.claim_exact(b.pfn, b.order, m).map_err(|why| fail(&why.to_string(), b.pfn))?;
                    walk.ledger.put(b.pfn, b.order, hold(b.pfn, b.order));
                }
            }
        }
        // The hottest last: what is added to a list last is taken first.
        for c in opening.cached.iter().rev() {
            engine.claim_exact(c.pfn, c.order, c.migratetype).map_err(|why| fail(&why.to_string(), c.pfn))?;
            if !engine.restore_cached(c.cpu, c.pfn, c.order, c.migratetype) {
                // An engine without such a list keeps the block on its free lists.
                engine.free(&Cx::on(c.cpu), c.pfn, c.order).map_err(|why| fail(&why.to_string(), c.pfn))?;
            }
        }
        for (zone, cpu, high) in &opening.highs {
            engine.restore_pcp_high(*zone, *cpu, *high);
        }
        let step = (opening.duration_ns / SAMPLES).max(1);
        let clock = Clock {
            engine,
            samples: vec![sample(engine, 0)],
            sample_step: step,
            next_sample: step,
            next_kswapd: KSWAPD_TICK_NS,
            next_vmstat: VMSTAT_TICK_NS,
            last: 0,
        };
        let clock_ns = clock_cost_ns();
        Ok(Run { engine, walk, clock, clock_ns, opening_held, seconds: Seconds::default() })
    }

    /// Reads the rows and hands each to `row`.
    fn rows(
        &mut self,
        trace: &Trace,
        progress: &mut dyn FnMut(u64, u64),
        mut row: impl FnMut(&mut Self, Row<'_>),
    ) -> Result<(), LabError> {
        let rows = trace.rows()?;
        let mut done = 0;
        let mut reading = Duration::ZERO;
        let start = Instant::now();
        let mut reader = Prefetch::new(trace.events(Columns::Replay)?)?;
        let mut moves = Moves::of(trace)?;
        let mut batch = Vec::new();
        loop {
            let before = Instant::now();
            let more = reader.next_batch(&mut batch)?;
            reading += before.elapsed();
            if !more {
                moves.until(u64::MAX, |moved| row(self, Row::Move(moved)))?;
                break;
            }
            for event in &batch {
                moves.until(event.time_ns, |moved| row(self, Row::Move(moved)))?;
                row(self, Row::Event(event));
            }
            done += batch.len() as u64;
            progress(done, rows);
        }
        self.seconds.read = reading;
        self.seconds.replay = start.elapsed() - reading;
        Ok(())
    }

    /// Audits the engine and sums up.
    fn finish(
        mut self,
        trace: &Trace,
        spec: &EngineSpec,
        outcome: Outcome,
    ) -> Result<(EventCounts, EngineReport), LabError> {
        self.clock.samples.push(sample(self.engine, self.clock.last));
        let mut failures = outcome.failures;
        failures.refused_frees += self.walk.refused_splits;
        let audit = self.engine.audit();
        let zones = zones(self.engine);
        let several_nodes = zones.iter().any(|z| z.span.node != zones[0].span.node);
        let name = move |z: &pageyard::ZoneStats| match several_nodes {
            true => format!("node{}/{}", z.span.node, z.span.kind),
            false => z.span.kind.to_string(),
        };
        let stats = self.engine.stats();
        let counts = self.walk.counts;
        let report = EngineReport {
            name: spec.name(),
            leaves_out: spec.leaves_out(),
            seconds: self.seconds,
            rows: counts.allocs + counts.frees,
            alloc: outcome.alloc,
            free: outcome.free,
            leaked_frames: match audit {
                Ok(census) => census.allocated.0 as i64 - outcome.held_frames as i64,
                Err(_) => 0,
            },
            opening_held: self.opening_held,
            audit,
            failures,
            splits: self.walk.ledger.splits,
            fallbacks: self.engine.fallbacks(),
            free_blocks: blocks(&zones),
            buddyinfo: zones
                .iter()
                .map(|z| (name(z), pageyard::proctext::linux_orders(&z.blocks_by_order())))
                .collect(),
            prediction: Prediction::new(trace, self.engine, &zones, &name)?,
            marks: zones.iter().map(|z| (name(z), z.watermarks, z.span.managed)).collect(),
            samples: self.clock.samples,
            stats,
            waiting: outcome.waiting,
        };
        Ok((counts, report))
    }
}
