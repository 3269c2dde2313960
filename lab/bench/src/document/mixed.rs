//! `bench mixed` as a document.

use super::DisturbanceDocument;
use crate::external::ExternalNote;
use crate::harness::machine::Machine;
use crate::harness::noise::Skipped;
use crate::mixed::{Mixed, MixedRow, RECORDED, ZONE, share};
use pageyard_trace::Document;
use serde::Serialize;

/// Blocks of several orders, taken and given back in bursts, while about half of a zone is in use.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MixedDocument<'a> {
    /// Where it was measured.
    pub machine: &'a Machine,
    /// Whether fewer settings were measured than the benchmark has.
    pub quick: bool,
    /// What disturbed it.
    pub disturbance: DisturbanceDocument,
    /// Samples of each row.
    pub samples: usize,
    /// Frames of the zone.
    pub zone_frames: u64,
    /// The orders that are asked for.
    pub orders: Vec<ShareDocument>,
    /// The rows: nanoseconds for each block, each thread.
    pub rows: Vec<MixedRowDocument<'a>>,
    /// What was not measured.
    pub skipped: &'a [Skipped],
    /// The source of rows that were measured elsewhere; left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<&'a ExternalNote>,
}

impl Document for MixedDocument<'_> {
    const SCHEMA: &'static str = "pageyard.bench-mixed/1";
}

/// How often an order is asked for.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShareDocument {
    /// The order.
    pub order: u8,
    /// Allocations of this order in the recordings that ship.
    pub recorded: u64,
    /// The share of the requests that are for it.
    pub share: f64,
}

/// A row, and what follows from its figures.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MixedRowDocument<'a> {
    /// What was measured.
    #[serde(flatten)]
    pub row: &'a MixedRow,
    /// The median less what the loop takes by itself.
    pub less_harness_ns: f64,
    /// Of 100,000 requests, the ones that failed.
    pub failed_per_100_000: f64,
}

impl Mixed {
    /// Returns the result as a document.
    #[must_use]
    pub fn document(&self) -> MixedDocument<'_> {
        let orders = RECORDED.iter().enumerate();
        MixedDocument {
            machine: &self.machine,
            quick: false,
            disturbance: DisturbanceDocument::of_all(&self.noise),
            samples: self.samples,
            zone_frames: ZONE,
            orders: orders
                .map(|(i, (order, recorded))| ShareDocument {
                    order: order.get(),
                    recorded: *recorded,
                    share: share(i),
                })
                .collect(),
            rows: self.rows.iter().map(MixedRowDocument::of).collect(),
            skipped: &self.skipped,
            external: self.external.as_ref(),
        }
    }
}

impl<'a> MixedRowDocument<'a> {
    fn of(row: &'a MixedRow) -> MixedRowDocument<'a> {
        MixedRowDocument {
            row,
            less_harness_ns: (row.ns_median - row.harness_ns).max(0.0),
            failed_per_100_000: 1e5 * row.failed as f64 / row.requests.max(1) as f64,
        }
    }
}
