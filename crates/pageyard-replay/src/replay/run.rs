//! The replay itself: open the machine, re-execute every row, report.

use super::direct::{Direct, ReplayObserver};
use super::distance::Baselines;
use super::early::Ahead;
use super::event_counts::EventCounts;
use super::free_view::FreeView;
use super::host::Host;
use super::in_kernel::KernelTrial;
use super::kernels_beside::compare_kernels;
use super::opening::BELOW_A_PAGEBLOCK;
use super::progress::Progress;
use super::report::{EngineReport, ReplayReport, TraceReport, Waiting};
use super::slow_path::SlowPath;
use super::threads::Plan;
use super::trial::{CallTotals, Run, Trial};
use super::trust;
use super::walk::Follow;
use super::with_slow_path::{self, WithSlowPath};
use crate::bitmap::SharedFrameSet;
use crate::engine::{AnyEngine, EngineSpec, ReplayEngine, Visit};
use crate::error::ReplayError;
use crate::kept::Readings;
use crate::latency::clock_cost_ns;
use crate::limits;
use crate::machine::{Machine, Opening};
use crate::text::count;
use pageyard::{Frames, MemoryMap, Order, ZoneStats};
use pageyard_debug::{FaultKnobs, KnobError};
use pageyard_trace::{Trace, TrustLevel};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How many samples a timeline has between its first and its last by default.
pub const SAMPLES: u64 = 20;

/// The most that can be asked for.
pub const MOST_SAMPLES: u64 = 100_000;

/// Bytes that the owners of a slow path keep for a frame that is held on its own.
const OWNER_BYTES_A_FRAME: u64 = 32;

/// The options of a replay.
#[derive(Clone, Debug, Default)]
pub struct ReplayOptions {
    /// Makes the machine smaller: the bytes that it has left.
    pub memory: Option<u64>,
    /// Replays each CPU on its own thread.
    pub threads: bool,
    /// Lets requests reclaim and compact, and keeps what the host refused and the engine grants. Without it, a replay
    /// shows only what the engine's own choices make of the recording.
    pub slow_path: Option<SlowPath>,
    /// How many samples the timeline has between its first and its last; [`SAMPLES`] if none.
    pub samples: Option<u64>,
    /// Keeps what [`ReplayReport::write_series`] writes: the state of every zone at each sample, and more refusals in
    /// full.
    pub series: bool,
    /// In which order free blocks lie on their lists at the start: 0 for the recorded one, or ascending where the
    /// recording does not tell it, each other number for another one.
    pub opening_seed: u64,
    /// Another recording of the same job on the same host: the host's distance from itself.
    pub repeat: Option<Trace>,
    /// Frees what the host's reclaim freed when its row comes, and never earlier.
    pub as_recorded: bool,
    /// Has requests fail on purpose, on every engine alike.
    pub faults: Option<FaultKnobs>,
    /// Which of the host's moves are followed.
    pub follow: Follow,
    /// Where the module is that replays in a kernel (`bench/linux/judge`); looked for where this is `None`.
    pub judge: Option<PathBuf>,
}

/// Reads which requests of a replay fail: `INTERVAL,PROBABILITY,SPACE,TIMES` as [`FaultKnobs`] has them, and the
/// smallest order.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn faults(text: &str, min_order: u8) -> Result<FaultKnobs, String> {
    let knobs: FaultKnobs = text.parse().map_err(|why: KnobError| why.to_string())?;
    let min_order = Order::new(min_order)
        .ok_or_else(|| format!("there is no order {min_order}; the largest is {}", Order::MAX))?;
    Ok(FaultKnobs { min_order, ..knobs })
}

/// A recording made ready to be replayed.
pub(crate) struct Stage {
    pub(crate) machine: Machine,
    pub(crate) opening: Opening,
    /// Frames by which the machine was made smaller.
    taken_away: Frames,
    view: FreeView,
    /// How long it took to find the opening state.
    opened: Duration,
}

impl Stage {
    /// Reads the machine of a trace and finds its opening state, for replays that read the events `again`; `memory`
    /// makes it smaller.
    pub(crate) fn set(
        trace: &Trace,
        memory: Option<u64>,
        again: Readings,
        progress: &mut dyn FnMut(Progress<'_>, u64, u64),
    ) -> Result<Stage, ReplayError> {
        let started = Instant::now();
        // Of a recorder that is left out, only the events tell which moves were of its blocks.
        let again = if trace.left_out_threads().is_empty() { again } else { Readings::One };
        let mut opening_progress = |done, rows| progress(Progress::Opening, done, rows);
        let mut machine = Machine::read(trace, &mut opening_progress)?;
        let opening = machine.open_for(again, &mut opening_progress)?;
        let taken_away = match memory {
            Some(bytes) => machine.shrink(&opening, bytes)?,
            None => Frames::ZERO,
        };
        let view = FreeView::new(&machine);
        Ok(Stage { machine, opening, taken_away, view, opened: started.elapsed() })
    }

    /// Replays a trace on one engine, on one thread, and tells `watch` of it. Nothing is compared with the host.
    ///
    /// # Errors
    /// As [`replay`].
    pub(crate) fn replay<W: ReplayObserver>(
        &self,
        trace: &Trace,
        map: &MemoryMap<'_>,
        spec: &EngineSpec,
        watch: &mut W,
        progress: &mut dyn FnMut(Progress<'_>, u64, u64),
    ) -> Result<(EventCounts, EngineReport), ReplayError> {
        let start = Instant::now();
        let spec = self.machine.settings_of(spec);
        let fail = |why| ReplayError::Map { trace: self.machine.name().to_owned(), why };
        let engine = spec.build(map, self.machine.cpus, false)?.map_err(fail)?;
        let host = Default::default();
        let trial = Trial {
            spec: &spec,
            trace,
            machine: &self.machine,
            opening: &self.opening,
            view: &self.view,
            host: &host,
            samples: 1,
            series: false,
            follow: Follow::default(),
            seed: 0,
            since: (start, self.opened),
            ahead: Some(Ahead::of(&self.machine)),
            faults: None,
        };
        let mut at = |done, rows| progress(Progress::Replaying(spec.label()), done, rows);
        on_one_thread(&*engine, &trial, &mut *watch, &mut at)
    }
}

/// Replays a trace on each engine in turn. `progress` is told what is being done, and how many of how many rows are
/// done.
///
/// # Errors
/// [`ReplayError`]; faults of the engines are not errors, but in the report.
pub fn replay(
    trace: &Trace,
    engines: &[EngineSpec],
    options: &ReplayOptions,
    progress: &mut dyn FnMut(Progress<'_>, u64, u64),
) -> Result<ReplayReport, ReplayError> {
    if options.threads && options.slow_path.is_some() {
        return Err(ReplayError::SlowPathOnThreads);
    }
    if options.faults.is_some() && (options.threads || engines.iter().any(|spec| spec.kernel().is_some())) {
        return Err(ReplayError::FaultsElsewhere);
    }
    let samples = options.samples.unwrap_or(SAMPLES);
    if !(1..=MOST_SAMPLES).contains(&samples) {
        return Err(ReplayError::OutOfRange { of: "samples", asked: samples, most: MOST_SAMPLES });
    }
    let begun = Instant::now();
    let Stage { machine, opening, taken_away, view, .. } =
        Stage::set(trace, options.memory, Readings::by(engines.len()), progress)?;
    if options.series {
        let zones = machine.zones().count() * engines.len() * size_of::<ZoneStats>();
        let need = (samples + 2).saturating_mul(zones as u64);
        limits::check("the state of every zone at each sample", need, "ask for fewer --samples")?;
    }
    let fail = |why| ReplayError::Map { trace: machine.name().to_owned(), why };
    let regions = machine.regions();
    let map = MemoryMap::new(&regions).map_err(fail)?;
    let spans: Vec<_> = map.zones().map(|(_, span)| span).collect();
    let host = Host::read(trace, &spans)?;
    let baselines = Baselines::read(trace, &host, options.repeat.as_ref(), &spans)?;
    let host = (host, baselines);
    let mut trust = trust::of_recording(trace, &machine)?.comparable(host.0.is_known());
    if machine.made_smaller {
        trust.lower(
            TrustLevel::Limited,
            "the machine was made smaller, so nothing recorded compares with it".to_owned(),
        );
    }
    if options.faults.is_some() {
        trust.lower(
            TrustLevel::Limited,
            "requests failed on purpose, so nothing recorded compares with it".to_owned(),
        );
    }
    let trace_report = TraceReport::new(trace, &machine, &opening, taken_away);
    let mut report = ReplayReport { trust, trace: trace_report, engines: Vec::new() };
    // Every engine's opening includes what was read for all of them.
    let opened = begun.elapsed();
    for spec in engines {
        let start = Instant::now();
        let spec = machine.settings_of(spec);
        let spec = match &options.slow_path {
            Some(slow_path) if !slow_path.compaction => spec.without_compaction(),
            _ => spec,
        };
        let trial = Trial {
            spec: &spec,
            trace,
            machine: &machine,
            opening: &opening,
            view: &view,
            host: &host,
            samples,
            series: options.series,
            follow: options.follow,
            seed: options.opening_seed,
            since: (start, opened),
            ahead: (!options.as_recorded).then(|| Ahead::of(&machine)),
            faults: options.faults,
        };
        let (counts, engine) = match (spec.kernel(), &options.slow_path) {
            (Some(_), _) if options.threads || options.slow_path.is_some() => return Err(spec.only_replays()),
            (Some(kernel), _) => {
                KernelTrial { trial, kernel, judge: options.judge.as_deref() }.run(progress)?
            }
            (None, Some(slow_path)) => {
                let need = machine.end().0.saturating_mul(OWNER_BYTES_A_FRAME);
                limits::check("the owners of every frame", need, "leave out --slow-path")?;
                let mut at = |done, rows| progress(Progress::Replaying(spec.label()), done, rows);
                let user = SlowPathReplay { trial, slow_path, progress: &mut at };
                spec.on(&map, machine.cpus, false, user)?.map_err(fail)??
            }
            (None, None) => {
                let engine = spec.build(&map, machine.cpus, options.threads)?.map_err(fail)?;
                let mut at = |done, rows| progress(Progress::Replaying(spec.label()), done, rows);
                match options.threads {
                    false => on_one_thread(&*engine, &trial, (), &mut at)?,
                    true => on_a_thread_a_cpu(&*engine, &trial, &mut at)?,
                }
            }
        };
        report.trace.count(counts);
        report.trust =
            report.trust.replayed(trust::of_replay(&engine, &spec, trace, &machine, counts.failed));
        report.engines.push(engine);
    }
    compare_kernels(&mut report.engines);
    Ok(report)
}

fn on_one_thread<W: ReplayObserver>(
    engine: &dyn ReplayEngine,
    trial: &Trial<'_>,
    watch: W,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(EventCounts, EngineReport), ReplayError> {
    let mut calls = Direct::new(engine, trial.machine, clock_cost_ns(), trial.refusals(), watch);
    let mut run = Run::open(engine, trial, |_| BELOW_A_PAGEBLOCK, |pfn, order| calls.hold(pfn, order))?;
    run.walk.early = trial.early();
    run.walk.makes_efforts = trial.ahead.is_some();
    run.clock.sample(0, calls.held());
    run.rows(trial, progress, |run, row| {
        calls.before(&row);
        if let Some(node) = trial.reclaims(row) {
            run.clock.reclaims(node, row.time_ns());
        }
        if run.clock.tick(row.time_ns()) {
            run.clock.sample(row.time_ns(), calls.held());
        }
        if run.clock.score_is_due(row) {
            run.clock.sample_score(calls.held());
        }
        run.walk.row(&mut calls, row);
    })?;
    calls.finish();
    run.clock.sample_last(calls.held());
    run.clock.sample_score(calls.held());
    let totals = CallTotals {
        alloc: calls.alloc.summary(),
        free: calls.free.summary(),
        failures: calls.failures,
        refusals: calls.refusals,
        served_elsewhere: Some(calls.served_elsewhere),
        held_frames: calls.held_frames,
        waiting: None,
        slow_path: None,
    };
    run.finish(trial, totals)
}

/// A replay with helpers.
struct SlowPathReplay<'a> {
    trial: Trial<'a>,
    slow_path: &'a SlowPath,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl Visit for SlowPathReplay<'_> {
    type Output = Result<(EventCounts, EngineReport), ReplayError>;

    fn visit<E: AnyEngine>(self, engine: E) -> Self::Output {
        let (trial, machine) = (&self.trial, self.trial.machine);
        let owners = with_slow_path::owners(&engine, self.slow_path);
        let mut calls =
            WithSlowPath::new(&owners, &machine.gfp, self.slow_path, clock_cost_ns(), trial.refusals());
        let largest = |m| WithSlowPath::<E>::claimed_in(m, BELOW_A_PAGEBLOCK);
        let engine: &dyn ReplayEngine = &engine;
        let mut run = Run::open(engine, trial, largest, |pfn, order| calls.hold(machine, pfn, order))?;
        run.clock.follows_reclaim = false;
        owners.with_held(|held| run.clock.sample(0, held));
        run.rows(trial, self.progress, |run, row| {
            if run.clock.tick(row.time_ns()) {
                owners.with_held(|held| run.clock.sample(row.time_ns(), held));
            }
            if run.clock.score_is_due(row) {
                owners.with_held(|held| run.clock.sample_score(held));
            }
            calls.background(row.time_ns());
            run.walk.row(&mut calls, row);
        })?;
        owners.with_held(|held| run.clock.sample_last(held));
        owners.with_held(|held| run.clock.sample_score(held));
        calls.finish();
        let totals = CallTotals {
            alloc: calls.alloc.summary(),
            free: calls.free.summary(),
            failures: calls.failures,
            refusals: calls.refusals,
            served_elsewhere: None,
            held_frames: owners.held_frames().0,
            waiting: None,
            slow_path: Some(calls.found),
        };
        run.finish(trial, totals)
    }
}

fn on_a_thread_a_cpu(
    engine: &dyn ReplayEngine,
    trial: &Trial<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(EventCounts, EngineReport), ReplayError> {
    let machine = trial.machine;
    let rows = trial.trace.rows()?;
    let what = format!("a plan of {} rows for threads", count(rows));
    limits::check(&what, Plan::bytes(rows), "leave out --threads, or use a shorter recording")?;
    let mut plan = Plan::new(machine.cpus);
    let taken = SharedFrameSet::new(machine.end());
    let mut run = Run::open(
        engine,
        trial,
        |_| BELOW_A_PAGEBLOCK,
        |pfn, order| {
            taken.insert(pfn, order.frames());
            plan.hold(pfn)
        },
    )?;
    run.clock.sample(0, &taken);
    run.rows(trial, progress, |run, row| run.walk.row(&mut plan, row))?;
    // Planning belongs to reading: the calls are not made yet.
    run.seconds.read += run.seconds.replay;
    let start = Instant::now();
    let clock = &mut run.clock;
    let found = plan.run(engine, &taken, run.clock_ns, trial.refusals(), &mut |now| {
        if clock.tick(now) {
            clock.sample(now, &taken);
        }
    })?;
    run.seconds.replay = start.elapsed();
    run.clock.sample_last(&taken);
    let waiting = Waiting {
        threads: found.threads,
        waits: found.waits,
        wait_ns: found.wait_ns,
        biased_share: found.biased_share(),
        revocations: found.revocations,
    };
    let totals = CallTotals {
        alloc: found.alloc.summary(),
        free: found.free.summary(),
        failures: found.failures,
        refusals: found.refusals,
        served_elsewhere: None,
        held_frames: taken.len(),
        waiting: Some(waiting),
        slow_path: None,
    };
    run.finish(trial, totals)
}
