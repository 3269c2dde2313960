//! Experiments as documents: what one came to, and which there are.

use super::{EXPERIMENTS, ExperimentReport, Row};
use pageyard_trace::Document;
use serde::Serialize;
use serde_json::Value;

/// What an experiment came to.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentDocument<'a> {
    /// Its name.
    pub name: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// The machine it ran on.
    pub machine: &'a str,
    /// Measured and published values.
    pub rows: Vec<RowDocument<'a>>,
    /// Remarks.
    pub notes: &'a [String],
    /// What was reproduced, and what was not.
    pub verdict: &'a str,
    /// Whether it was a quick run.
    pub quick: bool,
    /// What this run cannot show; empty where that is nothing.
    pub cannot_show: &'static str,
}

impl Document for ExperimentDocument<'_> {
    const SCHEMA: &'static str = "pageyard.experiment/1";
}

/// One value.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RowDocument<'a> {
    /// What was measured, labelled as the document labels it.
    pub metric: &'a str,
    /// By whom: `published:..`, `reference:..` or `pageyard`.
    pub column: &'a str,
    /// How much.
    pub value: f64,
    /// Of what.
    pub unit: &'static str,
    /// The table that it belongs to.
    pub table: &'static str,
    /// The table, and the machine and load that it was measured on. No metric stands twice for a column and this.
    pub setting: String,
}

/// The experiments that there are.
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
    /// What it is about.
    pub about: &'static str,
}

impl ExperimentsDocument {
    /// Lists every experiment.
    #[must_use]
    pub fn all() -> ExperimentsDocument {
        let listed = EXPERIMENTS.iter().map(|e| ExperimentListed { name: e.name(), about: e.about() });
        ExperimentsDocument { experiments: listed.collect() }
    }
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
            verdict: &self.verdict,
            quick: self.quick,
            cannot_show: self.cannot_show,
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
