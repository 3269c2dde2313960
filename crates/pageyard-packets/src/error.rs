//! Faults of a pool, a buffer or a page.

use crate::ring::MOST_SLOTS;
use core::fmt;
use pageyard_core::error::{AllocError, FreeError};
use pageyard_core::units::Order;

/// Why a table, a pool or an owner of fragments was not made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum PacketsError {
    /// A ring's size is a power of two from 1 to [`PoolConfig::MOST_SLOTS`](super::PoolConfig::MOST_SLOTS).
    Ring {
        /// The number asked for.
        slots: u32,
    },
    /// Blocks are this large at most.
    Order {
        /// The order asked for.
        order: Order,
        /// The largest.
        largest: Order,
    },
    /// The table would be of no frames, or of 2^32 and more.
    Frames,
    /// A table has this many owners of fragments and pools at most.
    TooManyOwners {
        /// How many.
        most: u32,
    },
    /// The pool maps its pages, and its table keeps no values.
    NoValues,
    /// The memory that the caller gave is too small.
    MemoryTooSmall {
        /// Bytes needed.
        needed: usize,
    },
    /// There is no memory.
    NoMemory {
        /// Bytes needed.
        needed: usize,
    },
}

/// Why a pool has no page.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum GetError {
    /// The pool and its ring are empty, and the allocator refused.
    Alloc(AllocError),
    /// The page could not be mapped; it went back to the allocator.
    NotMapped,
    /// The allocator's block lies outside the table; it went back.
    OutsideTable,
    /// The pool was closed.
    Closed,
}

/// Why a buffer or a page was not taken back. Nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum PutError {
    /// The address is not of a frame in the table.
    OutsideTable,
    /// Nothing there is in use: it was given back before, or never handed out.
    NotInUse,
    /// It is another pool's, or another owner's of fragments.
    WrongOwner,
    /// The allocator did not take the block back.
    Free(FreeError),
}

/// Something that was not taken back, and why.
#[must_use = "what was refused is still the caller's"]
pub struct Refused<T> {
    /// Why.
    pub why: PutError,
    /// The item.
    pub item: T,
}

impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("why", &self.why).finish_non_exhaustive()
    }
}

impl fmt::Display for PacketsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PacketsError::Ring { slots } => {
                write!(
                    f,
                    "a ring of {slots} is not possible: its size is a power of two from 1 to {MOST_SLOTS}"
                )
            }
            PacketsError::Order { order, largest } => {
                write!(f, "blocks of order {order} are too large for buffers: {largest} is the largest")
            }
            PacketsError::Frames => write!(f, "a table is of 1 to 2^32 - 1 frames"),
            PacketsError::TooManyOwners { most } => write!(f, "a table has {most} owners at most"),
            PacketsError::NoValues => {
                write!(
                    f,
                    "the pool maps its pages, and its table keeps no values: make it with `Values::Kept`"
                )
            }
            PacketsError::MemoryTooSmall { needed } | PacketsError::NoMemory { needed } => {
                write!(f, "{needed} bytes of memory are needed")
            }
        }
    }
}

impl fmt::Display for GetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GetError::Alloc(why) => why.fmt(f),
            GetError::NotMapped => write!(f, "the page could not be mapped"),
            GetError::Closed => write!(f, "the pool was closed"),
            GetError::OutsideTable => write!(f, "the allocator has frames that the table does not cover"),
        }
    }
}

impl fmt::Display for PutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PutError::OutsideTable => write!(f, "the address is not of a frame in the table"),
            PutError::NotInUse => write!(f, "nothing is in use there: it was given back before"),
            PutError::WrongOwner => write!(f, "it belongs to another owner"),
            PutError::Free(why) => why.fmt(f),
        }
    }
}

impl core::error::Error for PacketsError {}
impl core::error::Error for GetError {}
impl core::error::Error for PutError {}

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

impl<T> core::error::Error for Refused<T> {}
