//! The replay itself: open the machine, re-execute every row, give account.

use super::ledger::{Entry, Ledger};
use super::prediction::Prediction;
use super::report::{EngineReport, EventCounts, Failures, ReplayReport, Seconds, TraceReport};
use super::timeline::{Sample, blocks, sample, zones};
use crate::engine::{EngineSpec, LabEngine};
use crate::error::LabError;
use crate::latency::{Latencies, clock_cost_ns};
use crate::machine::{Machine, Opening, Start};
use pageyard::{
    AllocError, BlockId, CpuId, Cx, Frames, MemoryMap, Migratetype, Nanos, Order, Pfn, Request, block,
};
use pageyard_trace::{Columns, Event, EventKind, FAILED, Prefetch, Trace};
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
        let engine = build(&machine, spec)?;
        let mut run = Run::open(&*engine, &machine, &opening)?;
        run.seconds.open = opened + start.elapsed();
        let at = |done, rows| progress(Progress::Replaying(spec.name()), done, rows);
        run.events(trace, &machine, at)?;
        report.trace.counts = run.counts;
        report.engines.push(run.finish(trace, spec)?);
    }
    Ok(report)
}

fn build(machine: &Machine, spec: &EngineSpec) -> Result<Box<dyn LabEngine>, LabError> {
    let regions = machine.regions();
    let fail = |why| LabError::Map { trace: machine.name().to_owned(), why };
    let map = MemoryMap::new(&regions).map_err(fail)?;
    spec.with_min_free_kbytes(machine.min_free_kbytes).build(&map, machine.cpus).map_err(fail)
}

struct Run<'a, E: LabEngine + ?Sized> {
    engine: &'a E,
    ledger: Ledger,
    counts: EventCounts,
    failures: Failures,
    alloc: Latencies,
    free: Latencies,
    samples: Vec<Sample>,
    next_sample: u64,
    next_kswapd: u64,
    next_vmstat: u64,
    sample_step: u64,
    last_ns: u64,
    opening_held: u64,
    seconds: Seconds,
}

impl<'a, E: LabEngine + ?Sized> Run<'a, E> {
    /// Brings the engine into the opening state.
    fn open(engine: &'a E, machine: &Machine, opening: &Opening) -> Result<Self, LabError> {
        let fail = |what: &str, pfn: Pfn| LabError::Machine {
            trace: machine.name().to_owned(),
            why: format!("the opening state cannot be set up: {what} (frame {pfn})"),
        };
        for (block, m) in &opening.types {
            engine.set_pageblock_migratetype(*block, *m);
        }
        let mut ledger = Ledger::new(machine.end());
        for region in machine.regions() {
            for (start, frames, held) in machine.runs(region.start, region.end(), Start::held_as) {
                let Some(m) = held else { continue };
                for b in block::blocks(start, frames, BELOW_A_PAGEBLOCK) {
                    engine.claim_exact(b.pfn, b.order, m).map_err(|why| fail(&why.to_string(), b.pfn))?;
                    ledger.open(b.pfn, b.order);
                }
            }
        }
        for c in &opening.cached {
            engine.claim_exact(c.pfn, c.order, c.migratetype).map_err(|why| fail(&why.to_string(), c.pfn))?;
            if !engine.restore_cached(c.cpu, c.pfn, c.order, c.migratetype) {
                // An engine without such a list keeps the block on its free lists.
                engine.free(&Cx::on(c.cpu), c.pfn, c.order).map_err(|why| fail(&why.to_string(), c.pfn))?;
            }
        }
        for (zone, cpu, high) in &opening.highs {
            engine.restore_pcp_high(*zone, *cpu, *high);
        }
        let clock_ns = clock_cost_ns();
        let step = (opening.duration_ns / SAMPLES).max(1);
        Ok(Run {
            engine,
            opening_held: ledger.held_frames,
            ledger,
            counts: EventCounts::default(),
            failures: Failures::default(),
            alloc: Latencies::new(clock_ns),
            free: Latencies::new(clock_ns),
            samples: vec![sample(engine, 0)],
            next_sample: step,
            next_kswapd: KSWAPD_TICK_NS,
            next_vmstat: VMSTAT_TICK_NS,
            sample_step: step,
            last_ns: 0,
            seconds: Seconds::default(),
        })
    }

    /// Re-executes every row.
    fn events(
        &mut self,
        trace: &Trace,
        machine: &Machine,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<(), LabError> {
        let rows = trace.rows()?;
        let mut done = 0;
        let mut reading = Duration::ZERO;
        let start = Instant::now();
        let mut reader = Prefetch::new(trace.events(Columns::Replay)?)?;
        let mut batch = Vec::new();
        loop {
            let before = Instant::now();
            let more = reader.next_batch(&mut batch)?;
            reading += before.elapsed();
            if !more {
                break;
            }
            for event in &batch {
                self.tick(event.time_ns);
                self.event(machine, event);
            }
            done += batch.len() as u64;
            progress(done, rows);
            if let Some(last) = batch.last() {
                self.last_ns = last.time_ns;
            }
        }
        self.seconds.read = reading;
        self.seconds.replay = start.elapsed() - reading;
        Ok(())
    }

    /// Gives the engine the background work that is due.
    fn tick(&mut self, now: u64) {
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

    fn event(&mut self, machine: &Machine, event: &Event) {
        self.counts.events += 1;
        let Some(order) = Order::new(event.order) else { return };
        let cx = Cx { cpu: CpuId(event.cpu), context: event.context, now: Nanos(event.time_ns) };
        match event.kind {
            EventKind::Alloc => self.alloc(machine, &cx, event, order),
            EventKind::Free => self.free(&cx, event, order),
            EventKind::AllocExtfrag => self.counts.extfrag += 1,
            EventKind::PcpuDrain => self.counts.drains += 1,
            EventKind::AllocZoneLocked => self.counts.zone_locked += 1,
        }
    }

    fn alloc(&mut self, machine: &Machine, cx: &Cx, event: &Event, order: Order) {
        self.counts.allocs += 1;
        let recorded = u8::try_from(event.migratetype).ok().and_then(Migratetype::from_index);
        let request = Request::from_gfp(event.gfp, &machine.gfp, order, recorded);
        let pfn = Pfn(event.pfn);
        let succeeded = event.pfn != FAILED;
        if !succeeded {
            self.counts.failed += 1;
        } else if !self.ledger.covers(pfn, order) {
            self.counts.outside += 1;
            return;
        } else {
            // The host allocated it, so it was free: whoever holds it here gave it up unseen.
            self.counts.reallocations += u64::from(self.ledger.note_alloc(pfn));
            self.give_up(cx, pfn, order);
        }
        let engine = self.engine;
        let answer = self.alloc.time(|| engine.alloc(cx, &request));
        match (answer, succeeded) {
            (Ok(at), true) => {
                if !self.ledger.allocate(pfn, order, Entry::Held(at)) {
                    self.failures.double_allocations += 1;
                }
            }
            (Ok(at), false) => {
                // The host's caller got nothing, so nobody will free this.
                self.failures.served_where_host_failed += 1;
                self.free_at(cx, at, order);
            }
            (Err(why), _) => {
                self.failures.count(order, &why);
                if succeeded {
                    self.failures.refused_where_host_served += 1;
                    self.ledger.allocate(pfn, order, Entry::Unserved);
                }
            }
        }
    }

    fn free(&mut self, cx: &Cx, event: &Event, order: Order) {
        self.counts.frees += 1;
        let pfn = Pfn(event.pfn);
        if !self.ledger.covers(pfn, order) {
            self.counts.outside += 1;
            return;
        }
        self.counts.unknown_frees += u64::from(!self.ledger.note_free(pfn));
        self.counts.unresolved_frees += u64::from(self.give_up(cx, pfn, order) == 0);
    }

    /// Frees whatever the book has within a recorded block; returns how many entries that were.
    fn give_up(&mut self, cx: &Cx, pfn: Pfn, order: Order) -> u64 {
        let engine = self.engine;
        let (free, failures) = (&mut self.free, &mut self.failures);
        let mut entries = 0;
        let removed = self.ledger.remove(engine, pfn, order, |b: BlockId, entry| {
            entries += 1;
            if let Entry::Held(at) = entry
                && free.time(|| engine.free(cx, at, b.order)).is_err()
            {
                failures.refused_frees += 1;
            }
        });
        if removed.is_err() {
            self.failures.refused_frees += 1;
        }
        entries
    }

    fn free_at(&mut self, cx: &Cx, at: Pfn, order: Order) {
        let engine = self.engine;
        if self.free.time(|| engine.free(cx, at, order)).is_err() {
            self.failures.refused_frees += 1;
        }
    }

    /// Audits the engine and sums up.
    fn finish(mut self, trace: &Trace, spec: &EngineSpec) -> Result<EngineReport, LabError> {
        self.samples.push(sample(self.engine, self.last_ns));
        let audit = self.engine.audit();
        let zones = zones(self.engine);
        let several_nodes = zones.iter().any(|z| z.span.node != zones[0].span.node);
        let name = move |z: &pageyard::ZoneStats| match several_nodes {
            true => format!("node{}/{}", z.span.node, z.span.kind),
            false => z.span.kind.to_string(),
        };
        let stats = self.engine.stats();
        Ok(EngineReport {
            name: spec.name(),
            leaves_out: spec.leaves_out(),
            seconds: self.seconds,
            rows: self.counts.allocs + self.counts.frees,
            alloc: self.alloc.summary(),
            free: self.free.summary(),
            leaked_frames: match audit {
                Ok(census) => census.allocated.0 as i64 - self.ledger.held_frames as i64,
                Err(_) => 0,
            },
            double_frames: self.ledger.double_frames,
            opening_held: self.opening_held,
            audit,
            failures: self.failures,
            splits: self.ledger.splits,
            fallbacks: self.engine.fallbacks(),
            free_blocks: blocks(&zones),
            buddyinfo: zones
                .iter()
                .map(|z| (name(z), pageyard::proctext::linux_orders(&z.blocks_by_order())))
                .collect(),
            prediction: Prediction::new(trace, self.engine, &zones, &name)?,
            marks: zones.iter().map(|z| (name(z), z.watermarks, z.span.managed)).collect(),
            samples: self.samples,
            stats,
        })
    }
}

impl Failures {
    fn count(&mut self, order: Order, why: &AllocError) {
        self.allocs += 1;
        self.by_order[order.index()] += 1;
        *match why {
            AllocError::BadRequest(_) => &mut self.bad_request,
            AllocError::BelowWatermark { .. } => &mut self.below_watermark,
            AllocError::Fragmented { .. } => &mut self.fragmented,
            AllocError::OutOfMemory => &mut self.out_of_memory,
        } += 1;
    }
}
