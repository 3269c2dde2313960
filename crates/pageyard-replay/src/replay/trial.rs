//! One engine's replay: its opening, its rows, its end.

use super::clock::Clock;
use super::distance::{self, Baselines};
use super::early::{Ahead, Early};
use super::event_counts::EventCounts;
use super::failures::Failures;
use super::free_view::FreeView;
use super::host::Host;
use super::moved::MoveCounts;
use super::opening::{self, Opened};
use super::prediction::Prediction;
use super::refusals::Refusals;
use super::report::{CompactionCounters, EngineReport, Seconds, Waiting, WorkCounters};
use super::slow_path::SlowPathTotals;
use super::walk::{Follow, Walk};
use crate::engine::{EngineSpec, ReplayEngine, zones};
use crate::error::ReplayError;
use crate::latency::{LatencySummary, SAMPLE, clock_cost_ns};
use crate::ledger::Stand;
use crate::machine::{Machine, Opening};
use crate::rows::{Row, each_row_foreseen};
use pageyard::{Context, Migratetype, NodeId, Order, Pfn};
use pageyard_debug::{FaultKnobs, Faults};
use pageyard_trace::{Event, EventKind, Trace};
use std::time::{Duration, Instant};

/// When an engine's replay began, and the time that reading the recording took before that.
pub(super) type Since = (Instant, Duration);

/// A replay to be run: the engine, the trace and the state they start from.
#[derive(Clone)]
pub(super) struct Trial<'a> {
    pub(super) spec: &'a EngineSpec,
    pub(super) trace: &'a Trace,
    pub(super) machine: &'a Machine,
    pub(super) opening: &'a Opening,
    pub(super) view: &'a FreeView,
    /// The host, and the baselines that follow from it.
    pub(super) host: &'a (Host, Baselines),
    pub(super) samples: u64,
    pub(super) series: bool,
    pub(super) follow: Follow,
    /// In which order free blocks lie on their lists at the start.
    pub(super) seed: u64,
    pub(super) since: Since,
    /// How far ahead of the host's reclaim it may free.
    pub(super) ahead: Option<Ahead>,
    /// Which requests fail on purpose.
    pub(super) faults: Option<FaultKnobs>,
}

impl Trial<'_> {
    /// Returns the node in which the host's background reclaimer frees something with this row.
    pub(super) fn reclaims(&self, row: Row<'_>) -> Option<NodeId> {
        let Row::Event(event) = row else { return None };
        let frees = event.kind == EventKind::Free && event.context == Context::Task;
        let by_reclaimer = frees && self.opening.reclaimers.get(event.tid) == Some(&true);
        by_reclaimer.then(|| self.machine.node_of(Pfn(event.pfn))).flatten()
    }

    /// Returns what may be freed early, where the recording names it.
    pub(super) fn early(&self) -> Option<Early<'_>> {
        let reclaimed = &self.opening.reclaimed;
        let ahead = self.ahead.filter(|_| !reclaimed.is_empty())?;
        Some(Early::new(ahead, reclaimed, self.machine.end()))
    }

    /// Makes an empty record of refusals.
    pub(super) fn refusals(&self) -> Refusals {
        Refusals::new(&self.machine.gfp, self.series)
    }
}

/// A replay under way, on one engine.
pub(super) struct Run<'a> {
    pub(super) engine: &'a dyn ReplayEngine,
    pub(super) walk: Walk<'a>,
    pub(super) clock: Clock<'a>,
    pub(super) clock_ns: u64,
    pub(super) opened: Opened,
    pub(super) seconds: Seconds,
    /// Frames that the host moved by its own count, where the trace says.
    pub(super) migrated: Option<u64>,
}

/// The results of a replay's calls.
pub(super) struct CallTotals {
    /// Latencies; `None` where no call was timed.
    pub(super) alloc: Option<LatencySummary>,
    pub(super) free: Option<LatencySummary>,
    pub(super) failures: Failures,
    pub(super) refusals: Refusals,
    /// Requests served in another zone than on the host, where they were counted.
    pub(super) served_elsewhere: Option<u64>,
    pub(super) held_frames: u64,
    pub(super) waiting: Option<Waiting>,
    pub(super) slow_path: Option<SlowPathTotals>,
}

impl<'a> Run<'a> {
    /// Brings the engine into the opening state, as [`opening::set_up`] does.
    pub(super) fn open(
        engine: &'a dyn ReplayEngine,
        trial: &Trial<'a>,
        largest: impl Fn(Migratetype) -> Order,
        hold: impl FnMut(Pfn, Order) -> Stand,
    ) -> Result<Self, ReplayError> {
        let Trial { machine, opening, since, view, host, samples, .. } = *trial;
        let (mut walk, opened) =
            opening::set_up(engine, machine, opening, trial.follow, trial.seed, largest, hold)?;
        walk.faults = trial.faults.map(Faults::new);
        let step = (opening.duration_ns / samples).max(1);
        let clock = Clock::new(engine, &opening.emptied, view, &host.0, step, trial.series);
        let clock_ns = clock_cost_ns();
        let seconds = Seconds { open: since.1 + since.0.elapsed(), ..Seconds::default() };
        Ok(Run { engine, walk, clock, clock_ns, opened, seconds, migrated: None })
    }

    /// Reads the rows and hands each to `row`.
    pub(super) fn rows(
        &mut self,
        trial: &Trial<'_>,
        progress: &mut dyn FnMut(u64, u64),
        row: impl FnMut(&mut Self, Row<'_>),
    ) -> Result<(), ReplayError> {
        let foresee = |run: &mut Self, events: &[Event]| run.walk.ledger.foresee(events);
        let read =
            each_row_foreseen(trial.trace, trial.opening.events.as_ref(), progress, self, foresee, row)?;
        self.migrated = read.migrated;
        self.seconds.read = read.reading;
        self.seconds.replay = read.working;
        Ok(())
    }

    /// Audits the engine and sums up.
    pub(super) fn finish(
        self,
        trial: &Trial<'_>,
        totals: CallTotals,
    ) -> Result<(EventCounts, EngineReport), ReplayError> {
        let Trial { trace, spec, host: (host, baselines), .. } = *trial;
        let mut failures = totals.failures;
        failures.refused_frees += self.walk.refused_splits;
        let audit = self.engine.audit();
        let zones = zones(self.engine);
        let several_nodes = zones.iter().any(|z| z.span.node != zones[0].span.node);
        let name = move |z: &pageyard::ZoneStats| match several_nodes {
            true => format!("node{}/{}", z.span.node, z.span.kind),
            false => z.span.kind.to_string(),
        };
        let stats = self.engine.stats();
        let (counts, hidden) = (self.walk.counts, self.walk.hidden());
        let llfree_score = self.clock.llfree_score();
        let (samples, kept_zones, over_time) = self.clock.into_samples();
        let end = distance::free_blocks(&zones);
        let opened = Opened { free: samples[0].free, cached: samples[0].cached, ..self.opened };
        let low_watermark_frames = zones.iter().map(|z| z.watermarks.low.0).sum();
        let least_free_frames = samples.iter().map(|s| s.free).fold(opened.free, u64::min);
        let rows = counts.allocs + counts.frees;
        let report = EngineReport {
            name: spec.label().to_owned(),
            engine: spec.name(),
            leaves_out: spec.leaves_out(),
            settings: spec.settings().to_vec(),
            seconds: self.seconds,
            rows,
            events_per_s: self.seconds.events_per_s(rows),
            one_call_timed_in: Some(SAMPLE),
            alloc: totals.alloc,
            free: totals.free,
            leaked_frames: audit
                .as_ref()
                .ok()
                .map(|census| census.allocated.0 as i64 - totals.held_frames as i64),
            opened,
            audit,
            failures,
            refusals: totals.refusals,
            served_elsewhere: totals.served_elsewhere,
            splits: self.walk.ledger.splits,
            fallbacks: self.engine.fallbacks(),
            listed_blocks: self.engine.listed_blocks(),
            distance: distance::compared(host, baselines, over_time, &end),
            migrated: self.migrated,
            moves: self.migrated.map(|migrated| MoveCounts::new(&counts, migrated, hidden)),
            buddyinfo: zones.iter().map(&name).zip(end).collect(),
            prediction: Prediction::new(trace, host, self.engine, &zones, &name)?,
            marks: zones.iter().map(|z| (name(z), z.watermarks, z.span.managed)).collect(),
            low_watermark_frames,
            least_free_frames,
            least_spare_frames: least_free_frames.saturating_sub(low_watermark_frames),
            free_huge_pct: samples.last().and_then(|s| s.free_huge_pct),
            llfree_score,
            metadata_bytes_per_frame: stats.metadata_bytes as f64 / stats.spanned.0.max(1) as f64,
            samples,
            zones: kept_zones,
            counters: stats.iter().map(|(counter, n)| (counter.name(), n)).collect(),
            work: WorkCounters::of(&stats),
            compaction: Some(CompactionCounters::of(&stats)),
            stats,
            waiting: totals.waiting,
            slow_path: totals.slow_path,
            early: self.walk.early_frees(),
            failed_on_purpose: self.walk.faults.as_ref().map(Faults::failed),
            kernel: None,
        };
        Ok((counts, report))
    }
}
