//! The parts of an opening state.

use pageyard::{CpuId, Migratetype, Order, Pfn};
use pageyard_trace::FrameKind;
use serde::Serialize;

/// The frames of a pageblock that look like kernel memory.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct KernelFrames {
    pub(super) slab: u16,
    pub(super) other: u16,
}

impl KernelFrames {
    pub(super) fn add(&mut self, kind: FrameKind, frames: u16) {
        match kind {
            FrameKind::Slab => self.slab += frames,
            FrameKind::PageTable => self.other += frames,
            _ => {}
        }
    }
}

/// A block in a CPU's list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cached {
    /// Whose list.
    pub cpu: CpuId,
    /// The first frame.
    pub pfn: Pfn,
    /// Its order.
    pub order: Order,
    /// The list's type.
    pub migratetype: Migratetype,
}

/// How the opening state was found.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OpeningCounts {
    /// Frames in per-CPU lists, because their first event takes them out and no recorded list has them.
    pub cached_by_event: u64,
    /// Frames in per-CPU lists, because the recording has them there.
    pub cached_by_list: u64,
    /// Frames in per-CPU lists, unknown ones that make up the recorded count.
    pub cached_by_count: u64,
    /// Frames that were freed between the snapshot and their first event, unrecorded.
    pub freed_unseen: u64,
    /// Pageblocks whose type an event or a recorded free list names.
    pub types_by_event: u64,
    /// Pageblocks whose type is guessed from their contents, to make up the recorded count.
    pub types_by_contents: u64,
}

impl OpeningCounts {
    /// Returns the frames in per-CPU lists.
    #[must_use]
    pub fn cached(&self) -> u64 {
        self.cached_by_event + self.cached_by_list + self.cached_by_count
    }
}
