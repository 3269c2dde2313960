//! The frames that the host moved, by what a replay knows of them.

use super::event_counts::EventCounts;
use super::hidden::HiddenMoves;
use serde::Serialize;

/// The frames that the host moved, by what a replay knows of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MoveCounts {
    /// Frames of moves of which the recording names both frames.
    pub seen: u64,
    /// Of those, the frames that the engine moved as the host did.
    pub carried_out: u64,
    /// Frames of moves that follow from other events.
    pub inferred: u64,
    /// The other frames that the host moved, by its own count: the replay holds them where they were.
    pub unknown: u64,
    /// How good the inference is, where the seen moves were hidden from it (`--hide-seen-moves`): then none is `seen`.
    /// Left out otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<HiddenMoves>,
}

impl MoveCounts {
    /// Makes counts of what a replay found and of what the host counted.
    pub(super) fn new(found: &EventCounts, migrated: u64, check: Option<HiddenMoves>) -> MoveCounts {
        let (seen, inferred) = (found.seen_frames, found.inferred_frames);
        let unknown = migrated.saturating_sub(seen + inferred);
        MoveCounts { seen, carried_out: found.carried_out_frames, inferred, unknown, check }
    }
}
