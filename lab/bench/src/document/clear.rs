//! `bench clear` as a document.

use super::{DisturbanceDocument, times};
use crate::clear::{CHOICE, Choice, ClearRow, Cleared, Mode};
use crate::harness::machine::Machine;
use crate::harness::noise::Skipped;
use pageyard_trace::Document;
use serde::Serialize;

/// How fast memory becomes zeros.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClearDocument<'a> {
    /// Where it was measured.
    pub machine: &'a Machine,
    /// Whether fewer settings were measured than the benchmark has.
    pub quick: bool,
    /// What disturbed it.
    pub disturbance: DisturbanceDocument,
    /// Samples of each row.
    pub samples: usize,
    /// What the arena chooses here; left out where nothing was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
    /// The rows.
    pub rows: Vec<ClearRowDocument<'a>>,
    /// What was not measured.
    pub skipped: &'a [Skipped],
}

impl Document for ClearDocument<'_> {
    const SCHEMA: &'static str = "pageyard.bench-clear/1";
}

/// A row, and how it compares with others of its setting.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClearRowDocument<'a> {
    /// What was measured.
    #[serde(flatten)]
    pub row: &'a ClearRow,
    /// The median as a multiple of that of `memset`, a page at a time.
    pub x_memset: f64,
    /// The median as a multiple of that of the best single primitive of the setting, in any mode.
    pub x_best: f64,
}

impl Cleared {
    /// Returns the result as a document.
    #[must_use]
    pub fn document(&self) -> ClearDocument<'_> {
        ClearDocument {
            machine: &self.machine,
            quick: false,
            disturbance: DisturbanceDocument::of_all(&self.noise),
            samples: self.samples,
            choice: self.choice,
            rows: self.rows.iter().map(|row| beside(row, &self.rows)).collect(),
            skipped: &self.skipped,
        }
    }
}

fn beside<'a>(row: &'a ClearRow, rows: &[ClearRow]) -> ClearRowDocument<'a> {
    let setting = |r: &ClearRow| (r.extent_bytes, r.cold, r.threads);
    let same = || rows.iter().filter(|r| setting(r) == setting(row));
    let memset =
        same().find(|r| (r.primitive, r.mode) == ("memset", Mode::Page)).map_or(0.0, |r| r.gbps_median);
    let single = same().filter(|r| r.primitive != CHOICE);
    let best = single.map(|r| r.gbps_median).fold(0.0, f64::max);
    ClearRowDocument { row, x_memset: times(row.gbps_median, memset), x_best: times(row.gbps_median, best) }
}
