//! Fragmentation over time: samples of an engine's free memory while a replay runs.

use super::free_view::{FreeView, HeldFrames, frames_in};
use crate::engine::{ReplayEngine, zones};
use pageyard::{PAGEBLOCK_ORDER, ZoneStats, metrics};
use serde::Serialize;

/// Free memory at one moment, all zones together.
///
/// Fragmentation is that of all frames that are not held, lists drained: see `free_view`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sample {
    /// Seconds from the start of the trace.
    pub seconds: f64,
    /// Frames on the zones' free lists, those in per-CPU lists not counted: `nr_free_pages`.
    #[serde(rename = "free_frames")]
    pub free: u64,
    /// The other frames that are not held: in per-CPU lists, or set aside for one CPU.
    #[serde(rename = "cached_frames")]
    pub cached: u64,
    /// Both: the frames that are not held.
    #[serde(rename = "unheld_frames")]
    pub unheld: u64,
    /// Free huge frames as a share of what the frames that are not held could make, in percent; left out where they
    /// could make none.
    #[serde(rename = "free_huge_frames_pct_of_optimum", skip_serializing_if = "Option::is_none")]
    pub free_huge_pct: Option<f64>,
    /// `unusable_index` for a huge frame; left out where nothing is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unusable_index: Option<f64>,
    /// `extfrag_index` for a huge frame; left out where a request would succeed, and where nothing is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extfrag_index: Option<f64>,
}

/// Takes a sample; returns the zones that it is of, too.
pub fn sample<E: ReplayEngine + ?Sized>(
    engine: &E,
    time_ns: u64,
    view: &FreeView,
    held: &dyn HeldFrames,
) -> (Sample, Vec<ZoneStats>) {
    let row = view.blocks(held);
    let unheld = frames_in(&row).0;
    // On several threads the two are read at slightly different times.
    let zones = zones(engine);
    let free = zones.iter().map(|z| z.free.0).sum::<u64>().min(unheld);
    let huge = PAGEBLOCK_ORDER.index();
    let sample = Sample {
        seconds: time_ns as f64 / 1e9,
        free,
        cached: unheld - free,
        unheld,
        free_huge_pct: metrics::free_huge_share(&row).map(|share| share * 100.0),
        unusable_index: metrics::unusable_index(&row, huge),
        extfrag_index: metrics::extfrag_index(&row, huge),
    };
    (sample, zones)
}
