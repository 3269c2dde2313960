//! `bench cross` as a document.

use super::{DisturbanceDocument, times};
use crate::cross::{Cross, CrossRow, GROUP};
use crate::external::ExternalNote;
use crate::harness::machine::Machine;
use crate::harness::noise::Skipped;
use pageyard_trace::Document;
use serde::Serialize;

/// Frames taken on one CPU and given back on another.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CrossDocument<'a> {
    /// Where it was measured.
    pub machine: &'a Machine,
    /// Whether fewer settings were measured than the benchmark has.
    pub quick: bool,
    /// What disturbed it.
    pub disturbance: DisturbanceDocument,
    /// Samples of each row.
    pub samples: usize,
    /// What the queue between the two takes by itself, in nanoseconds a frame.
    pub queue_ns_median: f64,
    /// The rows: nanoseconds a frame.
    pub rows: Vec<CrossRowDocument<'a>>,
    /// What was not measured.
    pub skipped: &'a [Skipped],
    /// The source of rows that were measured elsewhere; left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<&'a ExternalNote>,
}

impl Document for CrossDocument<'_> {
    const SCHEMA: &'static str = "pageyard.bench-cross/1";
}

/// A row, with its setting and what follows from its figures.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CrossRowDocument<'a> {
    /// What was measured.
    #[serde(flatten)]
    pub row: &'a CrossRow,
    /// Threads.
    pub threads: u8,
    /// The order of the blocks.
    pub order: u8,
    /// Frames handed over at a time.
    pub group: usize,
    /// Times a per-CPU list was filled from its zone, in all samples; 0 where that cannot be seen.
    pub refills: u64,
    /// Times one was spilled to its zone, likewise.
    pub spills: u64,
    /// Whether refills and spills can be seen.
    pub moves_seen: bool,
    /// The floor's name; left out where no floor was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<&'static str>,
    /// The median as a multiple of the floor's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x_floor: Option<f64>,
}

impl Cross {
    /// Returns the result as a document.
    #[must_use]
    pub fn document(&self) -> CrossDocument<'_> {
        let floor = self.rows.iter().find(|r| r.allocator.starts_with("floor"));
        CrossDocument {
            machine: &self.machine,
            quick: false,
            disturbance: (&self.noise).into(),
            samples: self.samples,
            queue_ns_median: self.queue_ns,
            rows: self.rows.iter().map(|row| CrossRowDocument::of(row, floor)).collect(),
            skipped: &self.skipped,
            external: self.external.as_ref(),
        }
    }
}

impl<'a> CrossRowDocument<'a> {
    fn of(row: &'a CrossRow, floor: Option<&CrossRow>) -> CrossRowDocument<'a> {
        let (refills, spills) = row.moves.unwrap_or_default();
        let floor = floor.filter(|_| row.compares);
        CrossRowDocument {
            row,
            threads: 2,
            order: 0,
            group: GROUP,
            refills,
            spills,
            moves_seen: row.moves.is_some(),
            floor: floor.map(|floor| floor.allocator),
            x_floor: floor.map(|floor| times(row.total_ns_median, floor.total_ns_median)),
        }
    }
}
