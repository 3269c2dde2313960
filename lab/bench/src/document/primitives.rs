//! `bench primitives` as a document, beside what document 000 prints for its machine.

use super::{DisturbanceDocument, known};
use crate::experiment::Published;
use crate::harness::machine::Machine;
use crate::harness::noise::Skipped;
use crate::primitives::{PrimitiveRow, Primitives};
use pageyard_trace::Document;
use serde::Serialize;

/// What paths are made of.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PrimitivesDocument<'a> {
    /// Where it was measured.
    pub machine: &'a Machine,
    /// What disturbed it.
    pub disturbance: DisturbanceDocument,
    /// The rows: first those of document 000, in its order.
    pub rows: Vec<PrimitiveRowDocument<'a>>,
    /// What is not there.
    pub skipped: &'a [Skipped],
}

impl Document for PrimitivesDocument<'_> {
    const SCHEMA: &'static str = "pageyard.bench-primitives/1";
}

/// An operation.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PrimitiveRowDocument<'a> {
    /// What was measured.
    #[serde(flatten)]
    pub row: &'a PrimitiveRow,
    /// Cycles of the time-stamp counter; left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles_tsc: Option<f64>,
    /// The cycles that document 000 prints; left out where it has no such row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_cycles_tsc: Option<f64>,
    /// The nanoseconds that document 000 prints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_ns: Option<f64>,
}

impl Primitives {
    /// Returns the result as a document.
    #[must_use]
    pub fn document(&self) -> PrimitivesDocument<'_> {
        PrimitivesDocument {
            machine: &self.machine,
            disturbance: (&self.noise).into(),
            rows: self.rows.iter().map(PrimitiveRowDocument::of).collect(),
            skipped: &self.skipped,
        }
    }
}

impl<'a> PrimitiveRowDocument<'a> {
    fn of(row: &'a PrimitiveRow) -> PrimitiveRowDocument<'a> {
        let published = published(row.primitive);
        PrimitiveRowDocument {
            row,
            cycles_tsc: known(row.cycles),
            published_cycles_tsc: published.map(|(cycles, _)| cycles),
            published_ns: published.map(|(_, ns)| ns),
        }
    }
}

/// Returns what document 000 prints for an operation: cycles and nanoseconds.
fn published(primitive: &str) -> Option<(f64, f64)> {
    let lines = Published::carried().lines("time_bench");
    let line = lines.iter().find(|l| l.text("primitive") == primitive)?;
    let both = (line.number("cycles_tsc"), line.number("ns"));
    (both.0.is_finite() && both.1.is_finite()).then_some(both)
}
