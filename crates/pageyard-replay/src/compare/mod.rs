//! Settings compared: the same recording replayed on each, from several opening states, and what differs.
//!
//! A snapshot says which frames were free, and not in which order they lay on the free lists. Each *seed* brings the
//! opening state about in another order, so a figure that depends on that order alone differs between seeds as it does
//! between settings.

mod chart;
mod document;
mod interval;
mod page;
mod text;

pub use document::{CompareDocument, CompareRow};
pub use interval::Interval;

use crate::engine::EngineSpec;
use crate::error::ReplayError;
use crate::replay::{EngineReport, Progress, ReplayOptions, replay};
use pageyard::{Counter, NR_ORDERS};
use pageyard_trace::Trace;

/// Opening states that settings are compared from unless asked otherwise.
pub const SEEDS: u64 = 5;

/// The most that can be asked for.
pub const MOST_SEEDS: u64 = 100;

/// The aspect of a setting that a figure measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Objective {
    /// Requests that got nothing.
    Failures,
    /// Free memory that makes huge frames.
    HugeFrames,
    /// The allocator's other work.
    Work,
    /// How long calls took, on this host.
    Latency,
}

impl Objective {
    /// Every objective, in the order in which they are shown.
    pub const ALL: [Objective; 4] =
        [Objective::Failures, Objective::HugeFrames, Objective::Work, Objective::Latency];

    /// Returns its heading.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Objective::Failures => "Refused requests",
            Objective::HugeFrames => "Free memory at the end",
            Objective::Work => "Work",
            Objective::Latency => "Latency on this host",
        }
    }
}

/// One figure of every setting and seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Its name in documents, unit included.
    pub name: String,
    /// The aspect it measures.
    pub objective: Objective,
    /// By setting, then by seed.
    pub values: Vec<Vec<f64>>,
}

impl Metric {
    /// Returns a setting's mean and its interval.
    #[must_use]
    pub fn of(&self, setting: usize) -> Interval {
        Interval::of(&self.values[setting])
    }

    /// Returns a setting's change from the first one, seed by seed.
    #[must_use]
    pub fn change(&self, setting: usize) -> Interval {
        let pairs = self.values[setting].iter().zip(&self.values[0]);
        Interval::of(&pairs.map(|(this, first)| this - first).collect::<Vec<_>>())
    }

    /// Returns whether a setting differs from the first one by more than seeds do.
    #[must_use]
    pub fn differs(&self, setting: usize) -> bool {
        let change = self.change(setting);
        change.low > 0.0 || change.high < 0.0
    }
}

/// Settings beside each other.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The trace's name and kernel.
    pub trace: String,
    /// The kernel that was recorded.
    pub kernel: String,
    /// The settings, as they were named; changes are from the first.
    pub settings: Vec<String>,
    /// Opening states that each was replayed from.
    pub seeds: u64,
    /// The figures, by objective.
    pub metrics: Vec<Metric>,
}

/// Replays a trace on each setting from `seeds` opening states. `progress` is told which seed it is, and what else
/// [`replay`] says.
///
/// # Errors
/// [`ReplayError`]; also where a setting breaks its promises.
pub fn compare(
    trace: &Trace,
    settings: &[EngineSpec],
    seeds: u64,
    options: &ReplayOptions,
    progress: &mut dyn FnMut(u64, Progress<'_>, u64, u64),
) -> Result<Comparison, ReplayError> {
    let mut comparison = Comparison {
        trace: trace.name().to_owned(),
        kernel: trace.meta().kernel.clone(),
        settings: settings.iter().map(|spec| spec.label().to_owned()).collect(),
        seeds: seeds.clamp(1, MOST_SEEDS),
        metrics: Vec::new(),
    };
    for seed in 0..comparison.seeds {
        let options = ReplayOptions { opening_seed: seed, ..options.clone() };
        let report =
            replay(trace, settings, &options, &mut |doing, done, all| progress(seed, doing, done, all))?;
        for (setting, engine) in report.engines.iter().enumerate() {
            if !engine.is_sound() {
                let why = format!("{} broke its promises in the replay of seed {seed}", engine.name);
                return Err(ReplayError::Machine { trace: comparison.trace, why });
            }
            for (objective, name, value) in figures(engine) {
                comparison.enter(setting, objective, name, value);
            }
        }
    }
    comparison.metrics.retain(|metric| metric.values.iter().flatten().any(|value| *value != 0.0));
    comparison.metrics.sort_by_key(|metric| metric.objective);
    Ok(comparison)
}

impl Comparison {
    fn enter(&mut self, setting: usize, objective: Objective, name: String, value: f64) {
        let at = self.metrics.iter().position(|metric| metric.name == name).unwrap_or_else(|| {
            self.metrics.push(Metric { name, objective, values: vec![Vec::new(); self.settings.len()] });
            self.metrics.len() - 1
        });
        self.metrics[at].values[setting].push(value);
    }
}

/// Counters that say what an engine did besides handing out and taking back.
const WORK: [Counter; 14] = [
    Counter::ZoneLock,
    Counter::PcpRefill,
    Counter::PcpDrainPages,
    Counter::AllocSlow,
    Counter::Extfrag,
    Counter::ExtfragSteal,
    Counter::ExtfragClaim,
    Counter::Allocstall,
    Counter::PgstealDirect,
    Counter::PgstealKswapd,
    Counter::CompactStall,
    Counter::CompactMigrateScanned,
    Counter::CompactFreeScanned,
    Counter::PgmigrateSuccess,
];

/// Returns an engine's figures. Every replay of every setting has the same ones.
fn figures(engine: &EngineReport) -> Vec<(Objective, String, f64)> {
    let f = &engine.failures;
    let failures = [
        ("failures", f.allocs),
        ("failures_out_of_memory", f.by_reason.out_of_memory),
        ("failures_below_watermark", f.by_reason.below_watermark),
        ("failures_fragmented", f.by_reason.fragmented),
        ("failures_where_host_served", f.refused_where_host_served),
        ("served_where_host_failed", f.served_where_host_failed),
    ];
    let mut all: Vec<(Objective, String, f64)> =
        failures.map(|(name, n)| (Objective::Failures, name.to_owned(), n as f64)).into();
    all.extend(
        (0..NR_ORDERS).map(|o| (Objective::Failures, format!("failures_order_{o}"), f.by_order[o] as f64)),
    );
    let end = engine.samples.last();
    all.push((Objective::HugeFrames, "free_huge_pct_of_optimum".to_owned(), engine.free_huge_pct));
    all.push((Objective::HugeFrames, "unusable_index".to_owned(), end.map_or(0.0, |s| s.unusable_index)));
    all.push((Objective::HugeFrames, "least_spare_frames".to_owned(), engine.least_spare_frames as f64));
    all.extend(
        WORK.map(|counter| (Objective::Work, counter.name().to_owned(), engine.stats[counter] as f64)),
    );
    for (call, latency) in [("alloc", engine.alloc), ("free", engine.free)] {
        for (name, ns) in [("mean", latency.mean), ("p50", latency.p50 as f64), ("p99", latency.p99 as f64)] {
            all.push((Objective::Latency, format!("{call}_{name}_ns"), ns));
        }
    }
    all
}
