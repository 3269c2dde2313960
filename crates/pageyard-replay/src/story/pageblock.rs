//! The record kept for a pageblock.

use super::class::{BLOCK, Class, LostBy, NONE};
use super::mark::Tenure;
use pageyard::{Migratetype, PAGEBLOCK_ORDER};

/// A pageblock as a row of a story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Frames that are not held.
    pub free: u16,
    /// The largest order that they make, or 255.
    pub largest: u8,
    /// The pageblock's type, by [`Migratetype::ALL`].
    pub kind: u8,
    /// Frames by class: movable, unmovable, reclaimable, and pinned, those that are not there among the last.
    pub held: [u16; 4],
    /// Whose frame keeps it from becoming a huge frame; [`NONE`] where none does.
    pub owner: u32,
}

/// Free blocks in a pageblock, by order up to its own.
pub type Blocks = [u16; PAGEBLOCK_ORDER.get() as usize + 1];

/// Since when a pageblock is lost, where it is not.
const NOT_LOST: u32 = u32::MAX;

/// A pageblock's counts.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Frames by class, from movable to pinned.
    pub held: [u16; 4],
    /// Frames that are not there.
    pub absent: u16,
    /// Its type now, by [`Migratetype::ALL`].
    pub kind: u8,
    /// Its type in the opening state.
    pub opened_as: u8,
    /// Whether it changed since it was last looked at.
    pub is_dirty: bool,
    lost_by: LostBy,
    /// Since when it is lost, in ticks, or [`NOT_LOST`].
    lost: u32,
    /// The frame that has kept it from being whole for longest, from its start, and whose it is; `BLOCK` where that is
    /// to be looked for.
    spoiler: u16,
    owner: u32,
}

impl Counts {
    /// Begins with no frame there.
    pub const NONE: Counts = Counts {
        held: [0; 4],
        absent: BLOCK as u16,
        kind: Migratetype::Movable as u8,
        opened_as: Migratetype::Movable as u8,
        is_dirty: false,
        lost_by: LostBy::BeforeTheRecording,
        lost: 0,
        spoiler: BLOCK as u16,
        owner: NONE,
    };

    /// Notes that all frames that are there are known; says whether it is lost. One of another machine, of which no
    /// frame is there, is not.
    pub fn open(&mut self) -> bool {
        let is_lost = self.absent > 0 && self.is_there();
        self.lost = if is_lost { 0 } else { NOT_LOST };
        is_lost
    }

    /// Returns whether any frame of it is there.
    pub fn is_there(&self) -> bool {
        u64::from(self.absent) < BLOCK
    }

    /// Returns whether it is lost to huge frames.
    pub fn is_lost(&self) -> bool {
        self.lost != NOT_LOST
    }

    /// Returns since when it is lost, in ticks, and why; `None` where it is not.
    pub fn lost_since(&self) -> Option<(u32, LostBy)> {
        self.is_lost().then_some((self.lost, self.lost_by))
    }

    /// Returns who has kept it from being whole for longest, where that is known.
    pub fn spoiler(&self) -> Option<u32> {
        (u64::from(self.spoiler) < BLOCK).then_some(self.owner)
    }

    /// Notes which frame has kept it from being whole for longest, and whose that is.
    pub fn found_spoiler(&mut self, pfn: u64, held: Tenure) {
        (self.spoiler, self.owner) = ((pfn % BLOCK) as u16, held.owner);
    }

    /// Notes that a frame that cannot be moved is in it from `now` on; says whether it is lost by that.
    pub fn spoil(&mut self, pfn: u64, class: Class, held: Tenure, now: u32) -> bool {
        if self.is_lost() {
            // What moved here may have been held for longer than what is here.
            if held.since < now {
                self.spoiler = BLOCK as u16;
            }
            return false;
        }
        self.lost = now;
        self.found_spoiler(pfn, held);
        self.lost_by = match now {
            0 => LostBy::BeforeTheRecording,
            _ if !class.belongs(self.kind) => LostBy::Fallback,
            _ if class.belongs(self.opened_as) => LostBy::OwnType,
            _ => LostBy::Converted,
        };
        true
    }

    /// Notes that frames of it from `pfn` on are free now; says whether it is no longer lost by that.
    pub fn unspoil(&mut self, pfn: u64, frames: u64) -> bool {
        if !self.is_lost() {
            return false;
        }
        let can_be_whole = self.absent == 0 && self.held[1..] == [0; 3];
        if can_be_whole {
            self.lost = NOT_LOST;
        }
        let from = pfn % BLOCK;
        if can_be_whole || (from..from + frames).contains(&u64::from(self.spoiler)) {
            self.spoiler = BLOCK as u16;
        }
        can_be_whole
    }
}
