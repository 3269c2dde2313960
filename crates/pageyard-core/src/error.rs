//! Why a request was refused. Each error is a fact about the request or the memory; none is a panic.

use crate::units::{Frames, NodeId, Order, Pfn, ZoneId};
use core::fmt;

/// The fault in a request itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum BadRequest {
    /// The engine does not serve blocks this large.
    OrderTooLarge {
        /// The order asked for.
        order: Order,
        /// The largest it serves.
        largest: Order,
    },
    /// Requests are unmovable, movable or reclaimable; the other types are states of pageblocks.
    Migratetype,
    /// No zone is allowed by the highest zone and the node mask together.
    NoZone,
    /// The CPU is not one of the instance's.
    NoSuchCpu,
    /// Zeroed frames were asked for, and the instance cannot clear frames.
    CannotZero,
    /// The count of frames is zero, or larger than one block can be.
    Size {
        /// The count asked for.
        frames: Frames,
        /// The most that can be.
        most: Frames,
    },
}

/// Why an allocation failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AllocError {
    /// The request can never be served.
    BadRequest(BadRequest),
    /// Granting it would break a zone's reserve.
    BelowWatermark {
        /// Free frames in the zones that may serve the request.
        free: Frames,
        /// Frames those zones together keep back from it.
        kept: Frames,
    },
    /// Enough frames are free, but no free block is large enough.
    Fragmented {
        /// The order asked for.
        order: Order,
        /// Free frames in the zones that may serve the request.
        free: Frames,
    },
    /// Fewer frames are free than were asked for.
    OutOfMemory,
}

/// Why a free was refused. Nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FreeError {
    /// The frame is not one of the instance's.
    OutsideArena,
    /// The frame is free already: it was freed twice, or never allocated.
    NotAllocated,
    /// The block was allocated with another order.
    WrongOrder {
        /// The order it was allocated with.
        allocated: Order,
    },
    /// The frame lies inside an allocated block and is not its first.
    NotHead {
        /// The block's first frame.
        head: Pfn,
        /// The block's order.
        allocated: Order,
    },
    /// A block of this order cannot start at this frame, or the engine has no such order.
    Misaligned,
    /// The CPU is not one of the instance's.
    NoSuchCpu,
    /// The block is still allocated: another call is splitting it, or the kernel refused the barrier that frees of it
    /// need (biased pageblocks).
    Busy,
}

/// Why a block could not be claimed by its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ClaimError {
    /// Part of the block is not the instance's, or lies in another zone.
    OutsideArena,
    /// Part of the block is not free (or is held in a per-CPU list).
    NotFree,
    /// A block of this order cannot start at this frame, or the engine has no such order.
    Misaligned,
    /// The CPU is not one of the instance's.
    NoSuchCpu,
}

/// Why a memory map was refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum MapError {
    /// No region has a managed frame.
    NoFrames,
    /// A region starts before the one in front of it ends.
    OutOfOrder {
        /// Its index.
        region: usize,
    },
    /// A region reaches past the largest frame number that is supported.
    BeyondLimit {
        /// Its index.
        region: usize,
    },
    /// A region belongs to a node whose number is too large for the bits of a [`NodeMask`](crate::NodeMask).
    NodeBeyondLimit {
        /// The region's index.
        region: usize,
        /// The node.
        node: NodeId,
    },
    /// A region's zone began earlier and was interrupted by another zone.
    SplitZone {
        /// Its index.
        region: usize,
    },
    /// There are more zones than an instance can have.
    TooManyZones,
    /// A zone spans more frames than an instance can number.
    ZoneTooLarge {
        /// The zone.
        zone: ZoneId,
        /// The most frames that it may span.
        most: Frames,
    },
    /// The configuration has no CPU, or more than an instance can have.
    Cpus {
        /// CPUs asked for.
        cpus: u32,
        /// The most there can be.
        most: u32,
    },
    /// The configuration wants frames cleared, and there is nothing that clears them.
    CannotClear,
    /// There is no memory for the metadata.
    NoMemory {
        /// Bytes needed.
        needed: usize,
    },
    /// The metadata memory that the caller gave is smaller than the size query said.
    MetadataTooSmall {
        /// Bytes needed.
        needed: usize,
        /// Bytes given.
        given: usize,
    },
}

/// The first inconsistency that an audit found, and where it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AuditError {
    /// The invariant that does not hold.
    pub what: &'static str,
    /// The zone it was found in.
    pub zone: ZoneId,
    /// The frame it was found at, or the zone's first.
    pub pfn: Pfn,
    /// The recorded value.
    pub expected: u64,
    /// The counted value.
    pub found: u64,
}

impl fmt::Display for BadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadRequest::OrderTooLarge { order, largest } => {
                write!(f, "order {order} is above the largest order served, {largest}")
            }
            BadRequest::Migratetype => f.write_str(
                "the migratetype is a pageblock's state; ask for unmovable, movable or reclaimable",
            ),
            BadRequest::NoZone => f.write_str("no zone is both allowed and present"),
            BadRequest::NoSuchCpu => f.write_str("the CPU is not one of the instance's"),
            BadRequest::CannotZero => f.write_str(
                "nothing here can clear frames: ask without ZERO, and clear the block unless was_zeroed says it is clear",
            ),
            BadRequest::Size { frames, most } => {
                write!(f, "{frames} frames were asked for; ask for at least 1 and at most {most}")
            }
        }
    }
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllocError::BadRequest(why) => write!(f, "bad request: {why}"),
            AllocError::BelowWatermark { free, kept } => write!(
                f,
                "below the watermark: {free} frames are free, and {kept} are kept back from this request"
            ),
            AllocError::Fragmented { order, free } => {
                write!(f, "fragmented: {free} frames are free, but no block of order {order}")
            }
            AllocError::OutOfMemory => f.write_str("out of memory"),
        }
    }
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FreeError::OutsideArena => f.write_str("the frame is not one of the allocator's"),
            FreeError::NotAllocated => f.write_str("the frame is free already"),
            FreeError::WrongOrder { allocated } => {
                write!(f, "the block was allocated with order {allocated}")
            }
            FreeError::NotHead { head, allocated } => {
                write!(f, "the frame lies inside the block of order {allocated} that starts at {head}")
            }
            FreeError::Misaligned => f.write_str("no block of this order starts at this frame"),
            FreeError::NoSuchCpu => f.write_str("the CPU is not one of the instance's"),
            FreeError::Busy => f.write_str("the block is in use: it is being split, or the kernel refused a barrier; free it, or its parts, later"),
        }
    }
}

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClaimError::OutsideArena => "part of the block is not the allocator's",
            ClaimError::NotFree => "part of the block is not free",
            ClaimError::Misaligned => "no block of this order starts at this frame",
            ClaimError::NoSuchCpu => "the CPU is not one of the instance's",
        })
    }
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapError::NoFrames => f.write_str("the memory map has no managed frame"),
            MapError::OutOfOrder { region } => {
                write!(f, "region {region} starts before the one in front of it ends")
            }
            MapError::BeyondLimit { region } => {
                write!(f, "region {region} reaches past the largest frame number supported")
            }
            MapError::NodeBeyondLimit { region, node } => {
                write!(
                    f,
                    "region {region} belongs to node {node}; number the nodes from 0 to {}",
                    crate::memmap::MAX_NODES - 1
                )
            }
            MapError::SplitZone { region } => {
                write!(f, "region {region} continues a zone that another zone interrupted")
            }
            MapError::TooManyZones => f.write_str("the memory map has too many zones"),
            MapError::ZoneTooLarge { zone, most } => {
                write!(f, "zone {zone} spans more than {most} frames: give its upper part to another zone or node")
            }
            MapError::Cpus { cpus, most } => {
                write!(f, "{cpus} CPUs were asked for; ask for at least 1 and at most {most}")
            }
            MapError::CannotClear => f.write_str(
                "init_on_alloc and init_on_free need something that clears frames: build the instance with a clearer",
            ),
            MapError::NoMemory { needed } => write!(f, "no memory for {needed} bytes of metadata"),
            MapError::MetadataTooSmall { needed, given } => {
                write!(f, "the metadata memory has {given} bytes, and {needed} are needed")
            }
        }
    }
}

impl fmt::Display for AuditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (zone {}, frame {}): recorded {}, counted {}",
            self.what, self.zone, self.pfn, self.expected, self.found
        )
    }
}

impl core::error::Error for BadRequest {}
impl core::error::Error for AllocError {}
impl core::error::Error for FreeError {}
impl core::error::Error for ClaimError {}
impl core::error::Error for MapError {}
impl core::error::Error for AuditError {}

impl From<BadRequest> for AllocError {
    fn from(why: BadRequest) -> Self {
        AllocError::BadRequest(why)
    }
}
