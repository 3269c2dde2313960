//! Compaction's view of a frame.

use crate::units::Order;

/// State of a frame at the moment: a hint, unless the caller owns the frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FrameState {
    /// Not managed: a hole, or reserved.
    Hole,
    /// The first frame of a free block.
    Free(Order),
    /// Free inside a larger free block.
    Inside,
    /// Free in a per-CPU list, or part of a block that is.
    Cached,
    /// The first frame of an allocated block.
    Allocated(Order),
    /// A later frame of an allocated block.
    Tail,
    /// Part of an allocated block of several frames that are not one page: each is seen by itself.
    Loose,
}
