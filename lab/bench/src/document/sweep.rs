//! `bench sweep` as a document.

use super::{DisturbanceDocument, known, times};
use crate::external::ExternalNote;
use crate::harness::machine::Machine;
use crate::harness::noise::Skipped;
use crate::sweep::{Sweep, SweepRow};
use pageyard_trace::Document;
use serde::Serialize;
use std::collections::BTreeMap;

/// The engine's variants, which others are compared with.
const OURS: [&str; 3] = ["pageyard", "pageyard-exclusive", "pageyard-trylock"];

/// Batches of all sizes, allocated and freed.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SweepDocument<'a> {
    /// Where it was measured.
    pub machine: &'a Machine,
    /// Whether fewer settings were measured than the benchmark has.
    pub quick: bool,
    /// What disturbed it.
    pub disturbance: DisturbanceDocument,
    /// Samples of each row.
    pub samples: usize,
    /// The rows: nanoseconds for each block, each thread.
    pub rows: Vec<SweepRowDocument<'a>>,
    /// What was not measured.
    pub skipped: &'a [Skipped],
    /// What is to be known of rows that were measured apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<&'a str>,
    /// The source of rows that were measured elsewhere; left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<&'a ExternalNote>,
}

impl Document for SweepDocument<'_> {
    const SCHEMA: &'static str = "pageyard.bench-sweep/1";
}

/// A row, and what follows from its figures.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SweepRowDocument<'a> {
    /// What was measured.
    #[serde(flatten)]
    pub row: &'a SweepRow,
    /// The floor's name; left out where the setting has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<&'static str>,
    /// The median as a multiple of the floor's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x_floor: Option<f64>,
    /// Blocks handled in all samples; left out for a row that was measured apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u64>,
    /// Refills in 1000 of those blocks; left out where they cannot be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refills_per_1000_blocks: Option<f64>,
    /// Spills, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spills_per_1000_blocks: Option<f64>,
    /// The share of the time in which all threads ran; left out for one thread, and for a row that was measured apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap_pct: Option<f64>,
    /// With more threads, how many times as many blocks they handle as one thread does; left out where that is not
    /// known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x_one_thread: Option<f64>,
    /// The median as a multiple of each engine's in the setting; left out for the engines and for floors.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub x_engines: BTreeMap<&'static str, f64>,
}

impl Sweep {
    /// Returns the result as a document.
    #[must_use]
    pub fn document(&self) -> SweepDocument<'_> {
        SweepDocument {
            machine: &self.machine,
            quick: false,
            disturbance: DisturbanceDocument::of(self.settings, self.apart_most, self.taken),
            samples: self.samples,
            rows: self.rows.iter().map(|row| SweepRowDocument::of(row, &self.rows)).collect(),
            skipped: &self.skipped,
            note: self.note.as_deref(),
            external: self.external.as_ref(),
        }
    }
}

impl<'a> SweepRowDocument<'a> {
    fn of(row: &'a SweepRow, rows: &[SweepRow]) -> SweepRowDocument<'a> {
        let x_floor = known(row.x_floor);
        let blocks = (!row.apart).then_some(row.blocks);
        let per_1000 =
            |n: u64| blocks.filter(|_| row.moves_seen).map(|all| 1000.0 * n as f64 / all.max(1) as f64);
        SweepRowDocument {
            row,
            floor: x_floor.map(|_| row.floor),
            x_floor,
            blocks,
            refills_per_1000_blocks: per_1000(row.refills),
            spills_per_1000_blocks: per_1000(row.spills),
            overlap_pct: (row.threads > 1 && !row.apart).then_some(100.0 * row.overlap),
            x_one_thread: known(row.x_one_thread),
            x_engines: x_engines(row, rows),
        }
    }

    /// Returns whether it is one of the engine's variants.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        OURS.contains(&self.row.allocator)
    }
}

fn x_engines(row: &SweepRow, rows: &[SweepRow]) -> BTreeMap<&'static str, f64> {
    if OURS.contains(&row.allocator) || row.allocator.starts_with("floor") || !row.compares {
        return BTreeMap::new();
    }
    let setting = |r: &SweepRow| (r.order, r.batch, r.pattern, r.threads);
    let ours = rows.iter().filter(|r| OURS.contains(&r.allocator) && setting(r) == setting(row));
    ours.map(|mine| (mine.allocator, times(row.total_ns_median, mine.total_ns_median))).collect()
}
