//! How many rows a replay met, and what it made of them.

use serde::Serialize;

/// The rows of a trace, by what the replay made of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventCounts {
    /// All rows.
    pub events: u64,
    /// Allocations, failed ones included.
    pub allocs: u64,
    /// Frees.
    pub frees: u64,
    /// Allocations that failed on the host.
    pub failed: u64,
    /// Frees of blocks that no earlier row allocated as such: older than the trace, or parts of a larger block.
    pub unknown_frees: u64,
    /// Frees of frames that neither a row nor the opening state holds: they were skipped.
    pub unresolved_frees: u64,
    /// Allocations of blocks that an earlier row allocated and none freed.
    pub reallocations: u64,
    /// Blocks in use that the host moved and the replay followed.
    pub moves: u64,
    /// Frees of blocks that had moved away: they are neither unknown nor unresolved.
    pub freed_after_moves: u64,
    /// Frames that the host moved, as far as rows name both: the seen ones.
    #[serde(skip)]
    pub seen_frames: u64,
    /// Of those, the ones that the engine moved as the host did.
    #[serde(skip)]
    pub carried_out_frames: u64,
    /// Frames that the host moved to a place that no row names: the inferred ones.
    #[serde(skip)]
    pub inferred_frames: u64,
    /// Frees of what had moved to such a place, found there.
    #[serde(skip)]
    pub freed_after_inferred: u64,
    /// Rows that name frames outside the memory map.
    #[serde(rename = "outside_memory")]
    pub outside: u64,
    /// Fallbacks that the host recorded.
    #[serde(skip)]
    pub extfrag: u64,
    /// Blocks that the host drained from per-CPU lists.
    #[serde(skip)]
    pub drains: u64,
    /// Blocks that the host took under its zone lock.
    #[serde(skip)]
    pub zone_locked: u64,
}
