//! Settings compared: the same recording replayed on each, from several opening states, and what differs.
//!
//! A snapshot says which frames were free, and not in which order they lay on the free lists. Few recordings tell that.
//! Each *seed* brings the opening state about in another order, so a figure that depends on that order alone differs
//! between seeds as it does between settings.

mod chart;
mod document;
mod interval;
mod page;
mod text;

pub use document::{CompareChange, CompareDocument, CompareRow};
pub use interval::Interval;
pub(crate) use text::{figure, interval};

use crate::engine::EngineSpec;
use crate::error::ReplayError;
use crate::latency::LatencySummary;
use crate::replay::{EngineReport, Progress, ReplayOptions, replay};
use pageyard::Counter;
use pageyard_trace::{Trace, Trust};

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
    /// By setting, then by seed; `None` where a replay does not know it.
    pub values: Vec<Vec<Option<f64>>>,
}

impl Metric {
    /// Returns a setting's mean and its interval; `None` unless all of its replays know the figure.
    #[must_use]
    pub fn of(&self, setting: usize) -> Option<Interval> {
        Interval::of(&self.values[setting].iter().copied().collect::<Option<Vec<_>>>()?)
    }

    /// Returns a setting's change from the first one, seed by seed; `None` unless all replays of both know the figure.
    #[must_use]
    pub fn change(&self, setting: usize) -> Option<Interval> {
        let pairs = self.values[setting].iter().zip(&self.values[0]);
        Interval::of(&pairs.map(|(this, first)| Some((*this)? - (*first)?)).collect::<Option<Vec<_>>>()?)
    }

    /// Returns whether a setting is known to differ from the first one by more than seeds do.
    #[must_use]
    pub fn differs(&self, setting: usize) -> bool {
        self.change(setting).is_some_and(Interval::leaves_out_zero)
    }
}

/// Settings beside each other.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// How far the replays can be trusted: those of the opening state that can be trusted least.
    pub trust: Trust,
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
    if !(1..=MOST_SEEDS).contains(&seeds) {
        return Err(ReplayError::OutOfRange { of: "seeds", asked: seeds, most: MOST_SEEDS });
    }
    let mut comparison = Comparison {
        trust: Trust::of(trace.meta(), trace.rows()?),
        trace: trace.name().to_owned(),
        kernel: trace.meta().kernel.clone(),
        settings: settings.iter().map(|spec| spec.label().to_owned()).collect(),
        seeds,
        metrics: Vec::new(),
    };
    for seed in 0..comparison.seeds {
        let options = ReplayOptions { opening_seed: seed, ..options.clone() };
        let report =
            replay(trace, settings, &options, &mut |doing, done, all| progress(seed, doing, done, all))?;
        comparison.trust = match seed {
            0 => report.trust,
            _ => comparison.trust.or_lower(report.trust),
        };
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
    comparison.metrics.retain(|metric| metric.values.iter().flatten().flatten().any(|value| *value != 0.0));
    comparison.metrics.sort_by_key(|metric| metric.objective);
    Ok(comparison)
}

impl Comparison {
    fn enter(&mut self, setting: usize, objective: Objective, name: String, value: Option<f64>) {
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

/// A figure of one replay: its objective, its name, and its value where the replay knows it.
type Figure = (Objective, String, Option<f64>);

/// Returns an engine's figures, `None` where its replay does not know them. Every replay of every setting has the same
/// names.
fn figures(engine: &EngineReport) -> Vec<Figure> {
    let f = &engine.failures;
    let failures = [
        ("failures", f.allocs),
        ("failures_out_of_memory", f.by_reason.out_of_memory),
        ("failures_below_watermark", f.by_reason.below_watermark),
        ("failures_fragmented", f.by_reason.fragmented),
        ("failures_where_host_served", f.refused_where_host_served),
        ("served_where_host_failed", f.served_where_host_failed),
    ];
    let mut all: Vec<Figure> =
        failures.map(|(name, n)| (Objective::Failures, name.to_owned(), Some(n as f64))).into();
    all.extend(
        f.by_order
            .iter()
            .enumerate()
            .map(|(o, n)| (Objective::Failures, format!("failures_order_{o}"), Some(*n as f64))),
    );
    let end = engine.samples.last();
    let memory = [
        ("free_huge_pct_of_optimum", engine.free_huge_pct),
        ("unusable_index", end.and_then(|s| s.unusable_index)),
        ("least_spare_frames", Some(engine.least_spare_frames as f64)),
    ];
    all.extend(memory.map(|(name, value)| (Objective::HugeFrames, name.to_owned(), value)));
    // Of the engine's counters, a kernel has those that its replay counts.
    let counter = |name: &'static str| engine.counters.get(name).map(|n| *n as f64);
    all.extend(WORK.map(|c| (Objective::Work, c.name().to_owned(), counter(c.name()))));
    for (call, latency) in [("alloc", engine.alloc), ("free", engine.free)] {
        let ns = |of: fn(LatencySummary) -> f64| latency.map(of);
        let figures =
            [("mean", ns(|l| l.mean)), ("p50", ns(|l| l.p50 as f64)), ("p99", ns(|l| l.p99 as f64))];
        all.extend(figures.map(|(name, ns)| (Objective::Latency, format!("{call}_{name}_ns"), ns)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard_trace::{Document, Meta};

    fn trusted() -> Trust {
        Trust::of(&Meta::new(2), 1)
    }

    #[test]
    fn a_figure_that_one_replay_does_not_know_has_no_mean_and_no_change() {
        let values = vec![vec![Some(1.0), Some(3.0)], vec![Some(2.0), None], vec![Some(4.0), Some(6.0)]];
        let metric = Metric { name: "index".to_owned(), objective: Objective::HugeFrames, values };
        assert_eq!(metric.of(0).map(|of| of.mean), Some(2.0));
        assert_eq!((metric.of(1), metric.change(1), metric.differs(1)), (None, None, false));
        assert!(metric.differs(2) && metric.change(2).is_some_and(|of| of.mean == 3.0));
        let comparison = Comparison {
            trust: trusted(),
            trace: "busy".to_owned(),
            kernel: "Linux 6.1.0".to_owned(),
            settings: ["first", "unknown", "third"].map(str::to_owned).into(),
            seeds: 2,
            metrics: vec![metric],
        };
        let document = comparison.document();
        let settings: Vec<&str> = document.rows.iter().map(|row| row.setting).collect();
        assert_eq!(settings, ["first", "third"]);
        let text = comparison.to_string();
        assert!(text.contains(" - ") && !text.contains(" 0 "), "{text}");
        let page = comparison.page(None);
        assert!(
            page.contains("data-setting=\"third\"") && !page.contains("data-setting=\"unknown\""),
            "{page}"
        );
        assert!(page.contains("<td>-</td>") && page.contains("unknown: not known"), "{page}");
    }

    #[test]
    fn changes_from_a_first_setting_that_does_not_know_a_figure_are_left_out() {
        let values = vec![vec![None], vec![Some(7.0)]];
        let comparison = Comparison {
            trust: trusted(),
            trace: "busy".to_owned(),
            kernel: "Linux 6.1.0".to_owned(),
            settings: ["first", "second"].map(str::to_owned).into(),
            seeds: 1,
            metrics: vec![Metric { name: "alloc_p50_ns".to_owned(), objective: Objective::Latency, values }],
        };
        let json = comparison.document().json();
        assert_eq!(json["rows"].as_array().unwrap().len(), 1);
        assert_eq!((&json["rows"][0]["setting"], &json["rows"][0]["value"]), (&"second".into(), &7.0.into()));
        assert!(
            json["rows"][0].get("change").is_none() && json["rows"][0].get("differs").is_none(),
            "{json}"
        );
        assert!(comparison.page(None).contains(">7</text>"));
    }
}
