//! The classes of frames as compaction sees them, and the sizes in which frames are counted.

use pageyard::Migratetype;
use serde::Serialize;

/// No frame, no owner, no pageblock.
pub const NONE: u32 = u32::MAX;

/// Frames of a pageblock.
pub const BLOCK: u64 = pageyard::PAGEBLOCK_ORDER.frames().0;

/// Frames of the largest block that frames merge to.
pub const UNIT: u64 = 1024;

/// The class of a frame, as compaction sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Class {
    /// No owner's.
    Free = 0,
    /// Held, and can be moved.
    Movable = 1,
    /// Held by the kernel, for good.
    Unmovable = 2,
    /// Held by the kernel until it is asked to give it up.
    Reclaimable = 3,
    /// Held from before the recording, and nothing says by what.
    Pinned = 4,
    /// Not there, or never the allocator's.
    Absent = 5,
}

impl Class {
    /// Every class, in the order of their numbers.
    pub(super) const ALL: [Class; 6] =
        [Class::Free, Class::Movable, Class::Unmovable, Class::Reclaimable, Class::Pinned, Class::Absent];

    /// Returns what requests of a type get.
    #[must_use]
    pub fn of(m: Migratetype) -> Class {
        match m {
            Migratetype::Movable | Migratetype::Cma => Class::Movable,
            Migratetype::Reclaimable => Class::Reclaimable,
            Migratetype::Unmovable | Migratetype::HighAtomic | Migratetype::Isolate => Class::Unmovable,
        }
    }

    /// Returns whether a pageblock with such a frame cannot become a huge frame by compaction.
    #[must_use]
    pub const fn spoils(self) -> bool {
        matches!(self, Class::Unmovable | Class::Reclaimable | Class::Pinned)
    }

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Class::Free => "free",
            Class::Movable => "movable",
            Class::Unmovable => "unmovable",
            Class::Reclaimable => "reclaimable",
            Class::Pinned => "pinned",
            Class::Absent => "absent",
        }
    }

    /// Returns whether a pageblock's type is the one for such frames.
    pub fn belongs(self, kind: u8) -> bool {
        match self {
            Class::Movable => matches!(kind, 1 | 4),
            Class::Reclaimable => kind == 2,
            _ => matches!(kind, 0 | 3),
        }
    }
}

/// Why a pageblock became lost to huge frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum LostBy {
    /// It was lost when the recording began.
    BeforeTheRecording,
    /// Its type was the one asked for already.
    OwnType,
    /// It was taken over for the type asked for during the recording.
    Converted,
    /// A frame in a pageblock of another type was handed out.
    Fallback,
}

impl LostBy {
    /// Every reason.
    pub const ALL: [LostBy; 4] =
        [LostBy::BeforeTheRecording, LostBy::OwnType, LostBy::Converted, LostBy::Fallback];

    /// Says it in a few words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            LostBy::BeforeTheRecording => "before the recording",
            LostBy::OwnType => "in a pageblock of its own type",
            LostBy::Converted => "the pageblock was converted to its type",
            LostBy::Fallback => "fallback: in a pageblock of another type",
        }
    }
}
