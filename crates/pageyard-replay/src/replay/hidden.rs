//! Seen moves, hidden from the replay, to find out how good the inference of unseen ones is.

use crate::bitmap::FrameSet;
use pageyard::{Order, Pfn};
use serde::Serialize;

/// How well moves were inferred that the recording names and the replay was not told of, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HiddenMoves {
    /// Frames of moves that were hidden.
    pub hidden: u64,
    /// Of those, the ones inferred to have moved when they were freed.
    pub inferred: u64,
    /// Frames to which hidden moves went, and that were freed later with nothing known to hold them.
    pub freed: u64,
    /// Of those, the ones inferred to be such frames.
    pub freed_inferred: u64,
    /// Frames inferred to be such frames, rightly or not. Where the recording has every move, the difference is wrong.
    pub freed_claimed: u64,
    /// Frames inferred to have moved beyond what the host counts for the same compaction: certainly wrong.
    pub beyond_count: u64,
}

/// The hidden moves.
pub(super) struct Hidden {
    /// Frames that something moved from and to.
    from: FrameSet,
    to: FrameSet,
    pub(super) counts: HiddenMoves,
}

impl Hidden {
    pub(super) fn new(end: Pfn) -> Hidden {
        Hidden { from: FrameSet::new(end), to: FrameSet::new(end), counts: HiddenMoves::default() }
    }

    /// Hides a move.
    pub(super) fn hide(&mut self, from: Pfn, to: Pfn, order: Order) {
        let frames = order.frames();
        self.counts.hidden += frames.0;
        _ = self.from.insert(from, frames);
        self.from.remove(to, frames);
        _ = self.to.insert(to, frames);
    }

    /// Notes that a block was allocated: no hidden move is about it any more.
    pub(super) fn allocated(&mut self, pfn: Pfn, order: Order) {
        self.from.remove(pfn, order.frames());
        self.to.remove(pfn, order.frames());
    }

    /// Notes a free, and what was made of it: that the block had moved away, that it was one to which something had
    /// moved, and whether nothing was known to hold it.
    pub(super) fn freed(&mut self, pfn: Pfn, order: Order, moved_away: bool, ended: bool, nobodys: bool) {
        let frames = order.frames();
        let (from, to) = (self.from.count(pfn, frames), self.to.count(pfn, frames));
        if ended {
            self.counts.freed_claimed += frames.0;
        }
        if moved_away {
            self.counts.inferred += from;
        } else if nobodys {
            self.counts.freed += to;
            if ended {
                self.counts.freed_inferred += to;
            }
        }
        self.allocated(pfn, order);
    }
}
