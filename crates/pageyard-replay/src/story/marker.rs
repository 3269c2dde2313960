//! Events, as markers of a line.

use super::class::{LostBy, NONE};
use pageyard_trace::FailureReason;

/// The kind of event that a marker marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MarkerKind {
    /// A request got nothing.
    Failure = 0,
    /// A block came from a pageblock of another type.
    Fallback = 1,
    /// A pageblock was converted to another type.
    Steal = 2,
    /// Compaction began.
    Compaction = 3,
}

impl MarkerKind {
    /// The names, in order.
    pub const NAMES: [&'static str; 4] = ["failure", "fallback", "steal", "compaction"];
}

/// The words of reasons: those of failures, then those for which pageblocks are lost.
pub fn reasons() -> Vec<&'static str> {
    let failures = FAILURES.iter().map(|reason| reason.words());
    failures.chain(LostBy::ALL.iter().map(|reason| reason.words())).collect()
}

const FAILURES: [FailureReason; 5] = [
    FailureReason::OutOfMemory,
    FailureReason::BelowWatermark,
    FailureReason::Fragmented,
    FailureReason::Unexplained,
    FailureReason::BadRequest,
];

/// Returns the number of a failure's reason in [`reasons`].
pub fn failure_reason(reason: FailureReason) -> u32 {
    FAILURES.iter().position(|r| *r == reason).map_or(NONE, |at| at as u32)
}

/// Returns the number of the reason for which a pageblock is lost.
pub fn lost_reason(by: LostBy) -> u32 {
    FAILURES.len() as u32 + by as u32
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// When, in nanoseconds.
    pub time_ns: u64,
    /// The kind.
    pub kind: MarkerKind,
    /// The order of the request, or 255.
    pub order: u8,
    /// The pageblock, or [`NONE`].
    pub pageblock: u32,
    /// The thread, or [`NONE`].
    pub thread: u32,
    /// Why, by [`reasons`], or [`NONE`].
    pub reason: u32,
}
