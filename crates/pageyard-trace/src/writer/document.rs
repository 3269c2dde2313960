//! A saved recording as a document.

use super::salvage::Salvaged;
use crate::document::Document;
use crate::meta::Meta;
use crate::text::grouped;
use serde::Serialize;

/// The parts of a killed recording that were saved.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SalvageDocument<'a> {
    /// Where the trace is.
    pub trace: &'a str,
    /// Events of the trace.
    pub events: u64,
    /// Seconds that were recorded.
    pub duration_seconds: f64,
    /// Events that the recorder missed.
    pub lost: u64,
    /// Why the recording ended early.
    pub partial: &'a str,
    /// Rows about compaction and migration; omitted if the recording had none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moves: Option<SalvagedMoves>,
    /// Samples of the host; omitted if the recording had none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<SalvagedSamples>,
}

impl Document for SalvageDocument<'_> {
    const SCHEMA: &'static str = "pageyard.import-partial/1";
}

impl SalvageDocument<'_> {
    /// Writes the document as text.
    #[must_use]
    pub fn text(&self) -> String {
        format!(
            "{}: {} events over {:.1} s; partial, because {}\n",
            self.trace,
            grouped(self.events),
            self.duration_seconds,
            self.partial
        )
    }
}

/// Rows about compaction and migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SalvagedMoves {
    /// All of them.
    pub rows: u64,
}

/// Samples of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SalvagedSamples {
    /// All of them.
    pub taken: u64,
}

impl Salvaged {
    /// Returns the recording as a document: `trace` is where the trace is, `meta` its description.
    #[must_use]
    pub fn document<'a>(&'a self, trace: &'a str, meta: &Meta) -> SalvageDocument<'a> {
        SalvageDocument {
            trace,
            events: self.events,
            duration_seconds: meta.duration_ns as f64 / 1e9,
            lost: meta.lost,
            partial: &self.partial,
            moves: self.moves.map(|rows| SalvagedMoves { rows }),
            samples: self.samples.map(|taken| SalvagedSamples { taken }),
        }
    }
}
