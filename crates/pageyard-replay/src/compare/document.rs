//! A comparison as a document.

use super::{Comparison, Interval};
use pageyard_trace::Trust;
use pageyard_trace::document::Document;
use serde::Serialize;

/// Settings compared on one recording.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CompareDocument<'a> {
    /// How far the replays can be trusted: those of the opening state that can be trusted least.
    pub trust: &'a Trust,
    /// The trace's name.
    pub trace: &'a str,
    /// The kernel that was recorded.
    pub kernel: &'a str,
    /// The settings, as they were named; changes are from the first.
    pub settings: &'a [String],
    /// Opening states that each was replayed from.
    pub seeds: u64,
    /// A row for each setting and metric that all of the setting's replays know. A metric that is 0 everywhere has no
    /// row.
    pub rows: Vec<CompareRow<'a>>,
}

impl Document for CompareDocument<'_> {
    const SCHEMA: &'static str = "pageyard.compare/2";
}

/// A figure of a setting: the mean of all seeds, and the interval in which the mean of very many seeds lies, 95 times
/// of 100.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CompareRow<'a> {
    /// The setting.
    pub setting: &'a str,
    /// The metric, with its unit unless it is a count.
    pub metric: &'a str,
    /// The mean.
    pub value: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The interval's upper end.
    pub high: f64,
    /// The change from the first setting; left out where that one does not know the metric.
    #[serde(flatten)]
    pub change: Option<CompareChange>,
}

/// How far a setting's figure is from that of the first setting.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CompareChange {
    /// The mean change, seed by seed.
    pub change: f64,
    /// The lower end of the change's interval.
    pub change_low: f64,
    /// The upper end of the change's interval.
    pub change_high: f64,
    /// Whether that interval leaves out 0: the settings differ by more than seeds do.
    pub differs: bool,
}

impl Comparison {
    /// Returns it as a document.
    #[must_use]
    pub fn document(&self) -> CompareDocument<'_> {
        let rows = self.metrics.iter().flat_map(|metric| {
            self.settings.iter().enumerate().filter_map(move |(n, setting)| {
                let value = metric.of(n)?;
                let change = metric.change(n).map(|change| CompareChange {
                    change: change.mean,
                    change_low: change.low,
                    change_high: change.high,
                    differs: change.leaves_out_zero(),
                });
                let Interval { mean, low, high } = value;
                Some(CompareRow { setting, metric: &metric.name, value: mean, low, high, change })
            })
        });
        CompareDocument {
            trust: &self.trust,
            trace: &self.trace,
            kernel: &self.kernel,
            settings: &self.settings,
            seeds: self.seeds,
            rows: rows.collect(),
        }
    }
}
