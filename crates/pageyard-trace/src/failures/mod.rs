//! Requests that got nothing: what they asked for, what was free then, and why. Of a recording and of a replay.

mod document;
mod gfp;
mod kinds;
mod text;

use pageyard::{AllocError, Context, metrics};
use serde::Serialize;

use crate::event::{Event, MAX_ORDER};

pub use document::{FailureDocument, FailureKindDocument};
pub use gfp::{GfpNames, gfp_of_names};
pub use kinds::ByKind;
pub use text::{FAILURE_HEADINGS, KIND_HEADINGS};

/// Orders that a trace can name.
pub const ORDERS: usize = MAX_ORDER as usize + 1;

/// Failures that are described one by one.
pub const FAILURES_SHOWN: usize = 20;

/// Kinds of failures in a document.
pub const KINDS_SHOWN: usize = 100;

/// Why a request got nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FailureReason {
    /// Fewer frames were free than were asked for.
    OutOfMemory,
    /// Free memory was kept back by watermarks and reserves.
    BelowWatermark,
    /// Enough was free above the watermarks, in blocks that were too small.
    Fragmented,
    /// In a recording: a large enough block was free above the watermarks. It lay in a per-CPU list, or in a reserve,
    /// or on a node that the request was not allowed.
    Unexplained,
    /// In a replay: the engine does not serve such requests.
    BadRequest,
}

impl FailureReason {
    /// Returns words for people: those of the document, with spaces.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            FailureReason::OutOfMemory => "out of memory",
            FailureReason::BelowWatermark => "below watermark",
            FailureReason::Fragmented => "fragmented",
            FailureReason::Unexplained => "unexplained",
            FailureReason::BadRequest => "bad request",
        }
    }

    /// Returns the name that documents use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FailureReason::OutOfMemory => "out_of_memory",
            FailureReason::BelowWatermark => "below_watermark",
            FailureReason::Fragmented => "fragmented",
            FailureReason::Unexplained => "unexplained",
            FailureReason::BadRequest => "bad_request",
        }
    }
}

impl From<&AllocError> for FailureReason {
    fn from(why: &AllocError) -> FailureReason {
        match why {
            AllocError::BadRequest(_) => FailureReason::BadRequest,
            AllocError::BelowWatermark { .. } => FailureReason::BelowWatermark,
            AllocError::Fragmented { .. } => FailureReason::Fragmented,
            AllocError::OutOfMemory => FailureReason::OutOfMemory,
        }
    }
}

/// One request that got nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct FailedRequest {
    /// Nanoseconds since the recording started.
    pub time_ns: u64,
    /// The request and the thread that made it.
    pub kind: FailureKind,
    /// The CPU.
    pub cpu: u32,
    /// Free blocks by order in the zones that the request could use; `None` if unknown.
    pub free_blocks: Option<[u64; ORDERS]>,
    /// Why; `None` if unknown.
    pub reason: Option<FailureReason>,
}

impl FailedRequest {
    /// Returns the frames in the free blocks.
    #[must_use]
    pub fn free_frames(&self) -> Option<u64> {
        self.free_blocks.map(|blocks| metrics::free_frames(&blocks))
    }

    /// Returns how many blocks of its order the free blocks made.
    #[must_use]
    pub fn suitable_blocks(&self) -> Option<u64> {
        self.free_blocks.map(|blocks| metrics::suitable_blocks(&blocks, self.kind.order.into()))
    }

    /// Returns the order of the largest free block.
    #[must_use]
    pub fn largest_free_order(&self) -> Option<usize> {
        self.free_blocks.and_then(|blocks| blocks.iter().rposition(|n| *n > 0))
    }
}

/// The key by which failures are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FailureKind {
    /// The order.
    pub order: u8,
    /// The kernel's gfp bits.
    pub gfp: u32,
    /// The migratetype's number, or -1.
    pub migratetype: i8,
    /// The context that the CPU was in, by [`Context::ALL`].
    pub context: u8,
    /// The thread.
    pub tid: u32,
}

impl FailureKind {
    /// Returns what a recorded request asked for.
    #[must_use]
    pub fn of(event: &Event) -> FailureKind {
        let Event { order, gfp, migratetype, context, tid, .. } = *event;
        FailureKind { order, gfp, migratetype, context: context as u8, tid }
    }

    /// Returns what the CPU was doing.
    #[must_use]
    pub fn context(&self) -> &'static str {
        Context::ALL.get(usize::from(self.context)).map_or("unknown", |c| c.name())
    }

    /// Returns the migratetype's name.
    #[must_use]
    pub fn migratetype(&self) -> &'static str {
        pageyard::Migratetype::ALL
            .get(usize::try_from(self.migratetype).unwrap_or(usize::MAX))
            .map_or("Unknown", |m| m.name())
    }
}
