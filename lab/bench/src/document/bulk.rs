//! `bench bulk` as a document.

use super::known;
use crate::bulk::{BUFFER_FRAMES, BufferRow, Bulk, BulkRow};
use crate::harness::machine::Machine;
use crate::harness::noise::Skipped;
use crate::sweep::Pattern;
use pageyard_trace::Document;
use serde::Serialize;

/// Many frames with one call, against the same one by one.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BulkDocument<'a> {
    /// Where it was measured.
    pub machine: &'a Machine,
    /// Whether fewer settings were measured than the benchmark has.
    pub quick: bool,
    /// What disturbed it.
    pub disturbance: BulkDisturbance,
    /// Samples of each row.
    pub samples: usize,
    /// The rows: nanoseconds a frame.
    pub rows: Vec<BulkRowDocument<'a>>,
    /// A receive buffer of 256 KiB: nanoseconds for taking and returning one.
    pub receive_buffer: Vec<BufferRowDocument<'a>>,
    /// What was not measured.
    pub skipped: &'a [Skipped],
}

impl Document for BulkDocument<'_> {
    const SCHEMA: &'static str = "pageyard.bench-bulk/1";
}

/// What disturbed it.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BulkDisturbance {
    /// Settings measured.
    pub settings: usize,
    /// Of those, the ones whose rows are to be doubted.
    pub disturbed: usize,
}

/// A row, with its setting and what follows from its figures.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BulkRowDocument<'a> {
    /// What was measured.
    #[serde(flatten)]
    pub row: &'a BulkRow,
    /// Threads.
    pub threads: u8,
    /// The order of the blocks.
    pub order: u8,
    /// The order of the frees.
    pub pattern: Pattern,
    /// By how much of the time one by one a call is faster.
    pub gain_pct: f64,
    /// The floor's name; left out where it has no row in the setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<&'static str>,
    /// The median as a multiple of the floor's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x_floor: Option<f64>,
}

/// A receive buffer.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BufferRowDocument<'a> {
    /// What was measured.
    #[serde(flatten)]
    pub row: &'a BufferRow,
    /// Frames of a buffer.
    pub frames: usize,
    /// Bytes of a buffer.
    pub bytes: u64,
    /// The same as one block of order 6; left out where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_6_ns: Option<f64>,
}

impl Bulk {
    /// Returns the result as a document.
    #[must_use]
    pub fn document(&self) -> BulkDocument<'_> {
        BulkDocument {
            machine: &self.machine,
            quick: false,
            disturbance: BulkDisturbance { settings: self.settings.0, disturbed: self.settings.1 },
            samples: self.samples,
            rows: self.rows.iter().map(BulkRowDocument::of).collect(),
            receive_buffer: self.buffers.iter().map(BufferRowDocument::of).collect(),
            skipped: &self.skipped,
        }
    }
}

impl<'a> BulkRowDocument<'a> {
    fn of(row: &'a BulkRow) -> BulkRowDocument<'a> {
        let x_floor = known(row.x_floor);
        BulkRowDocument {
            row,
            threads: 1,
            order: 0,
            pattern: Pattern::Fifo,
            gain_pct: row.gain_pct(),
            floor: x_floor.map(|_| "floor-array"),
            x_floor,
        }
    }
}

impl<'a> BufferRowDocument<'a> {
    fn of(row: &'a BufferRow) -> BufferRowDocument<'a> {
        let bytes = BUFFER_FRAMES as u64 * pageyard::PAGE_SIZE;
        BufferRowDocument { row, frames: BUFFER_FRAMES, bytes, order_6_ns: known(row.order_6_ns) }
    }
}
