//! `bench pools` as a document.

use super::{DisturbanceDocument, times};
use crate::harness::machine::Machine;
use crate::harness::noise::Skipped;
use crate::pools::{PoolRow, Pools};
use pageyard_trace::Document;
use serde::Serialize;

/// Buffers for packets, taken and given back.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PoolsDocument<'a> {
    /// Where it was measured.
    pub machine: &'a Machine,
    /// Whether samples are shorter than the benchmark's.
    pub quick: bool,
    /// What disturbed it.
    pub disturbance: DisturbanceDocument,
    /// Samples of each row.
    pub samples: usize,
    /// The rows: nanoseconds a buffer.
    pub rows: Vec<PoolRowDocument<'a>>,
    /// What was not measured.
    pub skipped: &'a [Skipped],
}

impl Document for PoolsDocument<'_> {
    const SCHEMA: &'static str = "pageyard.bench-pools/1";
}

/// A row, and its ratio to the engine's.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PoolRowDocument<'a> {
    /// What was measured.
    #[serde(flatten)]
    pub row: &'a PoolRow,
    /// Both halves as a multiple of what the engine takes for single frames in the same setting; left out where it was
    /// not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x_pageyard: Option<f64>,
}

impl Pools {
    /// Returns the result as a document.
    #[must_use]
    pub fn document(&self) -> PoolsDocument<'_> {
        let engine = |row: &PoolRow| {
            let same = |r: &&PoolRow| {
                r.pool == "pageyard" && (r.threads, r.at, r.batch) == (row.threads, row.at, row.batch)
            };
            self.rows.iter().find(same).map(|r| times(row.pair_ns, r.pair_ns))
        };
        PoolsDocument {
            machine: &self.machine,
            quick: false,
            disturbance: DisturbanceDocument::of_all(&self.noise),
            samples: self.samples,
            rows: self.rows.iter().map(|row| PoolRowDocument { row, x_pageyard: engine(row) }).collect(),
            skipped: &self.skipped,
        }
    }
}
