//! `bench scale` as a document: searches of all sizes of memory, and requests that are refused.

use crate::harness::machine::Machine;
use crate::refused::RefusedRow;
use crate::scale::ScaleRow;
use pageyard_trace::Document;
use serde::Serialize;

/// The size that ratios are to: 16 GiB, in frames.
const BASE_FRAMES: u64 = 1 << 22;

/// Searches in memory of all sizes, per-CPU lists bypassed.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScaleDocument<'a> {
    /// Where it was measured.
    pub machine: &'a Machine,
    /// Whether fewer settings were measured than the benchmark has.
    pub quick: bool,
    /// Blocks taken and given back.
    pub rows: Vec<ScaleRowDocument<'a>>,
    /// Requests that are refused.
    pub refused: Vec<RefusedRowDocument<'a>>,
}

impl Document for ScaleDocument<'_> {
    const SCHEMA: &'static str = "pageyard.bench-scale/1";
}

/// A row, and what follows from its figures.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScaleRowDocument<'a> {
    /// What was measured.
    #[serde(flatten)]
    pub row: &'a ScaleRow,
    /// The median as a multiple of that of 16 GiB at the same order and filling; left out where that was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x_16_gib: Option<f64>,
}

/// A kind of request that is refused: one frame of each pageblock is in use, and frames are in the lists.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RefusedRowDocument<'a> {
    /// What was measured.
    #[serde(flatten)]
    pub row: &'a RefusedRow,
    /// The order of the request.
    pub order: u8,
    /// Why it was refused.
    pub why: String,
}

impl<'a> ScaleDocument<'a> {
    /// Makes the document of both results.
    #[must_use]
    pub fn of(machine: &'a Machine, rows: &'a [ScaleRow], refused: &'a [RefusedRow]) -> ScaleDocument<'a> {
        ScaleDocument {
            machine,
            quick: false,
            rows: rows.iter().map(|row| ScaleRowDocument { row, x_16_gib: x_16_gib(row, rows) }).collect(),
            refused: refused.iter().map(RefusedRowDocument::of).collect(),
        }
    }
}

fn x_16_gib(row: &ScaleRow, rows: &[ScaleRow]) -> Option<f64> {
    let alike = |b: &&ScaleRow| (b.frames, b.order, b.full_pct) == (BASE_FRAMES, row.order, row.full_pct);
    rows.iter().find(alike).map(|base| row.total_ns_median / base.total_ns_median)
}

impl<'a> RefusedRowDocument<'a> {
    fn of(row: &'a RefusedRow) -> RefusedRowDocument<'a> {
        RefusedRowDocument { row, order: 9, why: row.why.to_string() }
    }
}
