//! `bench fault` as a document.

use super::{DisturbanceDocument, times};
use crate::fault::{FaultRow, Faulted, Path, Start};
use crate::harness::machine::Machine;
use crate::harness::noise::Skipped;
use pageyard_trace::Document;
use serde::Serialize;

/// What it takes until memory can be used.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FaultDocument<'a> {
    /// Where it was measured.
    pub machine: &'a Machine,
    /// Whether fewer settings were measured than the benchmark has.
    pub quick: bool,
    /// What disturbed it.
    pub disturbance: DisturbanceDocument,
    /// Samples of each row.
    pub samples: usize,
    /// The rows.
    pub rows: Vec<FaultRowDocument<'a>>,
    /// How an arena starts that is not faulted in; left out where the host refuses so much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    /// What was not measured.
    pub skipped: &'a [Skipped],
}

impl Document for FaultDocument<'_> {
    const SCHEMA: &'static str = "pageyard.bench-fault/1";
}

/// A row, and how it compares with the kernel's.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FaultRowDocument<'a> {
    /// What was measured.
    #[serde(flatten)]
    pub row: &'a FaultRow,
    /// The median as a multiple of that of the kernel's demand faults over the same backing.
    pub x_kernel: f64,
}

impl Faulted {
    /// Returns the result as a document.
    #[must_use]
    pub fn document(&self) -> FaultDocument<'_> {
        FaultDocument {
            machine: &self.machine,
            quick: false,
            disturbance: DisturbanceDocument::of_all(&self.noise),
            samples: self.samples,
            rows: self.rows.iter().map(|row| beside(row, &self.rows)).collect(),
            start: self.start,
            skipped: &self.skipped,
        }
    }
}

fn beside<'a>(row: &'a FaultRow, rows: &[FaultRow]) -> FaultRowDocument<'a> {
    let kernel = |r: &&FaultRow| (r.backing, r.threads, r.path) == (row.backing, row.threads, Path::Kernel);
    let kernel = rows.iter().find(kernel).map_or(0.0, |r| r.gbps_median);
    FaultRowDocument { row, x_kernel: times(row.gbps_median, kernel) }
}
