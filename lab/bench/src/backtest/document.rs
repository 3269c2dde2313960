//! The table as a document: what was claimed, predicted and measured, and whether it agrees.

use super::machines::Built;
use super::measure::Runs;
use super::predict::{Prediction, Recordings};
use super::series::{self, Claim, Patch, Series, Side};
use crate::experiment::made::Made;
use crate::experiment::what_if::predict::fnv;
use crate::experiment::what_if::sign::Measured;
use pageyard_replay::what_if::{Figure, Reclaim, Sign};
use serde::Serialize;
use std::collections::BTreeMap;

/// The fewest runs a side of which a change is measured.
const FEWEST: usize = 2;

/// The series that there are.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeriesDocument {
    /// The series.
    pub series: Vec<SeriesEntry>,
}

/// A series.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeriesEntry {
    /// Its name.
    pub name: &'static str,
    /// Its subject.
    pub about: &'static str,
    /// The kernels that it is measured on.
    pub kernels: Vec<&'static str>,
}

impl SeriesDocument {
    /// Lists all series.
    #[must_use]
    pub fn all() -> SeriesDocument {
        let entry = |s: &Series| SeriesEntry { name: s.name, about: s.about, kernels: s.kernels() };
        SeriesDocument { series: series::ALL.iter().map(entry).collect() }
    }
}

impl pageyard_trace::Document for SeriesDocument {
    const SCHEMA: &'static str = "pageyard.backtests/1";
}

/// A series, predicted and measured.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Backtest {
    /// The series.
    pub name: &'static str,
    /// Its subject.
    pub about: &'static str,
    /// The machine that the guests ran on.
    pub machine: String,
    /// The size of a guest.
    pub guest: String,
    /// Recordings of each kernel, and measured runs of each.
    pub runs: usize,
    /// The seed of the loads, and of the order of runs.
    pub seed: u64,
    /// The release of each kernel, by the series' name for it.
    pub kernels: BTreeMap<String, String>,
    /// Those that were built from sources.
    pub built: Vec<Built>,
    /// The recordings that the predictions rest on.
    pub recordings: Vec<RecordingDocument>,
    /// The hash of the predictions as they were written down before the first measured run (FNV-1a, 64 bits).
    pub predictions_hash: String,
    /// How long the replays took.
    pub prediction_seconds: f64,
    /// The patches, in the order of their posting.
    pub patches: Vec<PatchDocument>,
    /// How many of them agree.
    pub score: Score,
    /// Omissions, each with its reason.
    pub notes: Vec<String>,
    /// How it was made.
    pub made: Made,
}

impl pageyard_trace::Document for Backtest {
    const SCHEMA: &'static str = "pageyard.backtest/1";
}

/// A recording.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordingDocument {
    /// The kernel, with the setting that it had, if any.
    pub kernel: String,
    /// The load.
    pub load: &'static str,
    /// The trace.
    pub trace: String,
    /// The hash of its rows (FNV-1a, 64 bits).
    pub rows_hash: String,
}

impl RecordingDocument {
    /// Lists the recordings of a kernel that can be read, with the hashes of their rows.
    pub(super) fn of(recordings: &Recordings) -> impl Iterator<Item = RecordingDocument> {
        let (side, load) = recordings.of;
        recordings.traces.iter().filter_map(move |trace| {
            let rows = std::fs::read(trace.join("events.parquet")).ok()?;
            Some(RecordingDocument {
                kernel: side.to_string(),
                load,
                trace: trace.display().to_string(),
                rows_hash: format!("{:016x}", fnv(&rows)),
            })
        })
    }
}

/// A patch.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PatchDocument {
    /// Its subject.
    pub subject: &'static str,
    /// Who posted it and when, and what became of it.
    pub posted: &'static str,
    /// The load under which it is predicted and measured.
    pub load: &'static str,
    /// The kernel without it that it is measured against, with the setting that it has, if any.
    pub before: String,
    /// The kernel with it.
    pub after: String,
    /// Its claims.
    pub claims: Vec<ClaimRow>,
}

/// A claim, its prediction and its measurement.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClaimRow {
    /// The claim, in short.
    pub says: &'static str,
    /// The figure that shows it.
    pub figure: Figure,
    /// Its unit.
    pub unit: &'static str,
    /// The change that the claim implies.
    pub claimed: Sign,
    /// Whether requests alone decide it: then it is predicted without reclaim of the engine's own.
    pub decided_by_requests: bool,
    /// Whether replays without the patch and with it are not short of memory equally often. A row that requests decide
    /// is then predicted with reclaim of the engine's own all the same.
    pub ran_short: bool,
    /// The prediction of replays; left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Change>,
    /// The measurement; left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<Change>,
}

/// A change, predicted or measured: means over recordings or runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// Without the patch.
    pub before: f64,
    /// With it.
    pub after: f64,
    /// With `high`, what 95 % of redrawn samples of the change lie between.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The sign: none where that interval holds nothing.
    pub sign: Sign,
}

impl Change {
    fn of(m: Measured, figure: Figure) -> Change {
        let Measured { baseline, change, low, high, .. } = m;
        Change { before: baseline, after: baseline + change, low, high, sign: m.sign(figure.floor()) }
    }
}

/// How many rows agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Score {
    /// Rows decided by requests that were predicted and measured.
    pub by_requests: usize,
    /// Of those, the ones whose sign was predicted.
    pub by_requests_right: usize,
    /// Rows decided by reclaim that were predicted and measured.
    pub by_reclaim: usize,
    /// Of those, the ones whose sign was predicted.
    pub by_reclaim_right: usize,
    /// Measured claims.
    pub claims: usize,
    /// Of those, the ones that were seen here.
    pub claims_seen: usize,
}

impl Backtest {
    /// Fills in the rows of every patch, and counts.
    pub(super) fn judge(
        &mut self,
        series: &'static Series,
        predictions: &[Prediction],
        runs: &Runs,
        seed: u64,
    ) {
        for patch in series.patches {
            let claims = patch
                .claims
                .iter()
                .enumerate()
                .map(|(n, claim)| ClaimRow::of(patch, n, claim, predictions, runs, seed));
            let claims: Vec<ClaimRow> = claims.collect();
            claims.iter().for_each(|row| self.score.count(row));
            let Patch { subject, posted, load, .. } = patch;
            let [before, after] = [patch.before, patch.after].map(|side| side.to_string());
            self.patches.push(PatchDocument { subject, posted, load, before, after, claims });
        }
    }
}

impl ClaimRow {
    fn of(
        patch: &Patch,
        n: usize,
        claim: &Claim,
        predictions: &[Prediction],
        runs: &Runs,
        seed: u64,
    ) -> ClaimRow {
        let figure = claim.figure;
        // A kernel may not count a figure.
        let of = |side: Side| -> Option<Vec<f64>> {
            let runs = runs.get(&(side, patch.load)).filter(|runs| runs.len() >= FEWEST)?;
            runs.iter().map(|f| f.0.get(&figure).copied()).collect()
        };
        let measured = of(patch.before).zip(of(patch.after));
        let measured =
            measured.map(|(before, after)| Change::of(Measured::of(&before, &after, seed), figure));
        let predicted = patch.predicted(n, predictions);
        ClaimRow {
            says: claim.says,
            figure,
            unit: figure.unit(),
            claimed: claim.sign,
            decided_by_requests: claim.decided == Reclaim::Recorded,
            ran_short: predicted.is_some_and(|p| p.ran_short),
            predicted: predicted.map(|p| Change::of(p.predicted, figure)),
            measured,
        }
    }
}

impl Score {
    fn count(&mut self, row: &ClaimRow) {
        let Some(measured) = row.measured else { return };
        self.claims += 1;
        self.claims_seen += usize::from(measured.sign == row.claimed);
        let Some(predicted) = row.predicted else { return };
        let (all, right) = match row.decided_by_requests {
            true => (&mut self.by_requests, &mut self.by_requests_right),
            false => (&mut self.by_reclaim, &mut self.by_reclaim_right),
        };
        *all += 1;
        *right += usize::from(predicted.sign == measured.sign);
    }
}
