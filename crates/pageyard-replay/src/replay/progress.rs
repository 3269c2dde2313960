//! The progress of a replay.

/// The current stage of a replay, for a progress bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// It looks for the opening state.
    Opening,
    /// It follows the rows themselves, without an engine.
    Recorded,
    /// It waits for this kernel to be downloaded or built; what is done is in seconds, and of how many is not known.
    Preparing(&'a str),
    /// It replays on this engine.
    Replaying(&'a str),
}
