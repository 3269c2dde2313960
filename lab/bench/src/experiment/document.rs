//! Experiments as documents: the result of one, and the list of all.

use super::claim::{By, Claim, Ground};
use super::{ExperimentReport, Made, Row};
use pageyard_trace::Document;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The result of an experiment.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentDocument<'a> {
    /// Its name.
    pub name: &'static str,
    /// A one-line description.
    pub about: &'static str,
    /// The machine it ran on.
    pub machine: &'a str,
    /// Measured and published values.
    pub rows: Vec<RowDocument<'a>>,
    /// Remarks.
    pub notes: &'a [String],
    /// The claims as text, one on a line.
    pub verdict: String,
    /// The claims of the document and the targets, and which of them were reproduced.
    pub claims: Vec<ClaimDocument<'a>>,
    /// Knobs that were set on engines beside those of the document, by engine; empty where all are the document's.
    pub settings: BTreeMap<&'static str, BTreeMap<String, String>>,
    /// Samples of each row; left out where the experiment counts instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<usize>,
    /// Whether it was a quick run.
    pub quick: bool,
    /// The limits of this run; empty if there are none.
    pub cannot_show: &'static str,
    /// How it was made.
    pub made: &'a Made,
}

impl Document for ExperimentDocument<'_> {
    const SCHEMA: &'static str = "pageyard.experiment/1";
}

/// A claim, and what became of it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClaimDocument<'a> {
    /// The claim's sentence.
    pub claim: &'a str,
    /// Who makes it: `document`, or `target`, which is this project's.
    pub by: &'static str,
    /// Where it stands in the document; left out for this project's targets.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub at: &'a str,
    /// The value to reach; left out where the claim names it.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub asked: &'a str,
    /// The published value; left out where there is none.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub published: &'a str,
    /// The measured value; left out where there is none, and where a quick run's figures do not belong to the claim.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub measured: &'a str,
    /// `reproduced`: every row agrees (a target is reached); `missed`: one does not; `not_carried`: this run is too
    /// small or too disturbed to say; `unmeasured`.
    pub outcome: &'static str,
    /// Why it was neither reproduced nor missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'a str>,
    /// The rows that it rests on.
    pub rows: Vec<GroundDocument<'a>>,
}

/// Rows that a claim rests on: those of this metric and setting, in these columns.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroundDocument<'a> {
    /// The metric.
    pub metric: &'a str,
    /// The setting.
    pub setting: &'a str,
    /// The columns.
    pub columns: &'a [String],
}

/// One value.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RowDocument<'a> {
    /// The quantity measured, labelled as the document labels it.
    pub metric: &'a str,
    /// On what: `published:..`, `reference:..` or `pageyard`.
    pub column: &'a str,
    /// The value.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// The table that it belongs to.
    pub table: &'static str,
    /// The table, machine and load that it was measured with. A metric, a column and a setting together name one value.
    pub setting: String,
}

/// All experiments.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentsDocument {
    /// Each of them.
    pub experiments: Vec<ExperimentListed>,
}

impl Document for ExperimentsDocument {
    const SCHEMA: &'static str = "pageyard.experiments/1";
}

/// An experiment.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentListed {
    /// Its name.
    pub name: &'static str,
    /// A one-line description.
    pub about: &'static str,
}

impl ExperimentReport {
    /// Returns the report as a document.
    #[must_use]
    pub fn document(&self) -> ExperimentDocument<'_> {
        ExperimentDocument {
            name: self.name,
            about: self.about,
            machine: &self.machine,
            rows: self.rows.iter().map(RowDocument::of).collect(),
            notes: &self.notes,
            verdict: self.verdict(),
            claims: self.claims.iter().map(ClaimDocument::of).collect(),
            settings: self.settings.by_engine(),
            samples: self.samples,
            quick: self.quick,
            cannot_show: self.cannot_show,
            made: &self.made,
        }
    }

    /// Returns the document as a JSON value.
    #[must_use]
    pub fn json(&self) -> Value {
        self.document().json()
    }
}

impl<'a> RowDocument<'a> {
    fn of(row: &'a Row) -> RowDocument<'a> {
        RowDocument {
            metric: &row.metric,
            column: &row.column,
            value: row.value,
            unit: row.unit,
            table: row.section,
            setting: row.whole_setting(),
        }
    }
}

impl<'a> ClaimDocument<'a> {
    pub(super) fn of(claim: &'a Claim) -> ClaimDocument<'a> {
        let ground =
            |Ground { metric, setting, columns }: &'a Ground| GroundDocument { metric, setting, columns };
        ClaimDocument {
            claim: &claim.what,
            by: match claim.by {
                By::Document => "document",
                By::Target => "target",
            },
            at: claim.at,
            asked: &claim.asked,
            published: &claim.published,
            measured: &claim.measured,
            outcome: claim.outcome.name(),
            why: claim.outcome.why(),
            rows: claim.rows.iter().map(ground).collect(),
        }
    }
}
