//! The interface to the owner of movable frames.

use super::step::Step;
use crate::allocator::Cx;
use crate::units::{BlockId, Frames, Pfn, ZoneId};

/// How much a migration may cost its caller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mode {
    /// Never waits, and gives up where it would.
    Async,
    /// Waits for locks, not for writeback.
    SyncLight,
    /// Waits for everything.
    Sync,
}

/// Why a frame could not be isolated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Busy {
    /// It was freed meanwhile.
    Gone,
    /// It is not movable, or pinned.
    Pinned,
    /// A lock that the mode may not wait for is held.
    Locked,
}

/// Why a migration failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MigrateError {
    /// It may succeed later.
    Again,
    /// It will not.
    Refused,
    /// The owner freed the frame meanwhile: there is nothing left to move, and nothing to put back.
    Gone,
}

/// How many frames of a node its lists for reclaim have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Listed {
    /// Frames on the lists.
    pub listed: Frames,
    /// Frames that were taken off them for a while, by compaction or by reclaim.
    pub isolated: Frames,
}

/// Implemented by the owner of movable single frames (order 0), and of movable blocks of several frames if it likes.
///
/// Compaction holds no lock when it calls: an implementation may free frames, and may allocate as long as the
/// allocation does not ask for compaction again.
///
/// The methods are safe, so whoever has the owner can call them, and hand it to a compaction of any engine. An owner
/// whose frames are memory keeps the implementation on a type of its own that it gives to its own engine only.
///
/// # Safety
/// `migrate` that returns `Ok` must have moved every reference from the old frame to the new one: the new one is then
/// the owner's, an allocated block of order 0, and compaction frees the old one. In every other case, a panic
/// included, `to` must not be used any more. What [`isolate_block`](Migrate::isolate_block) has returned moves in the
/// same way, all of its frames at once: `to` is the first frame of an allocated block of the same order.
pub unsafe trait Migrate {
    /// A frame, or a block of several, taken out of use.
    type Isolated;

    /// Whether [`isolate_block`](Migrate::isolate_block) ever accepts a block: if not, `pageyard` never calls it. (The
    /// reference calls it if the knob `large_folios` is set.)
    const MOVES_BLOCKS: bool = false;

    /// Takes a frame out of use so that it can be moved.
    ///
    /// It is asked about every allocated single frame that a scan meets, its own or not.
    ///
    /// # Errors
    /// [`Busy`] says why not; [`Busy::Gone`] where it was freed meanwhile.
    fn isolate(&self, pfn: Pfn, mode: Mode) -> Result<Self::Isolated, Busy>;

    /// Takes a block of several frames that are one page out of use, so that it can be moved as a whole.
    ///
    /// It is asked about every allocated block below the wanted order that a scan meets, its own or not: by the
    /// reference where the knob `large_folios` is set, by `pageyard` where [`MOVES_BLOCKS`](Migrate::MOVES_BLOCKS) is.
    /// The default refuses: then only single frames move.
    ///
    /// # Errors
    /// As [`isolate`](Self::isolate).
    ///
    /// # Linux
    /// A folio of several pages, since 6.9. For one that finds no target, [`split`](Self::split) is asked.
    fn isolate_block(&self, block: BlockId, mode: Mode) -> Result<Self::Isolated, Busy> {
        let _ = (block, mode);
        Err(Busy::Pinned)
    }

    /// Moves the contents to `to`.
    ///
    /// # Errors
    /// The reason; `to` was not used. The frame stays isolated and is tried again or put back, unless it is gone.
    fn migrate(&self, from: &mut Self::Isolated, to: Pfn, mode: Mode) -> Result<(), MigrateError>;

    /// Splits an isolated block of several frames, for which there is no target, into single frames in use, with the
    /// engine's [`split`](crate::PageAllocator::split), and puts them back into use. They are isolated again at once,
    /// and moved after the rest.
    ///
    /// # Errors
    /// The block, as it was. The default never splits: then compaction ends, unless the scanners have met.
    ///
    /// # Linux
    /// `try_split_folio`.
    fn split(&self, cx: &Cx, block: BlockId, from: Self::Isolated, mode: Mode) -> Result<(), Self::Isolated> {
        let _ = (cx, block, mode);
        Err(from)
    }

    /// Counts the frames of a zone's node that are on lists for reclaim, and those isolated. `None`, the default, where
    /// they are not counted: then any number may be isolated.
    ///
    /// # Linux
    /// `NR_ACTIVE_*` and `NR_INACTIVE_*`; `NR_ISOLATED_*`.
    fn listed(&self, zone: ZoneId) -> Option<Listed> {
        let _ = zone;
        None
    }

    /// Waits a while, because too many frames are isolated; `false` where the caller is not to go on, which is the
    /// default.
    ///
    /// # Linux
    /// `reclaim_throttle` with `VMSCAN_THROTTLE_ISOLATED`, up to a fiftieth of a second, and `fatal_signal_pending`.
    fn wait_for_isolated(&self) -> bool {
        false
    }

    /// Returns whether the CPU is wanted by another task. The default says no.
    ///
    /// # Linux
    /// `need_resched`.
    fn must_yield(&self) -> bool {
        false
    }

    /// Returns whether another CPU holds the lock of a zone's lists for reclaim. The default says no.
    ///
    /// # Linux
    /// `lru_lock`, which asynchronous compaction only tries.
    fn lists_are_locked(&self, zone: ZoneId) -> bool {
        let _ = zone;
        false
    }

    /// Returns whether a frame, or the block that starts there, is on a list of frames that can be reclaimed. Hints of
    /// the scanners depend on it, and whether a scan passes over the rest of a block that it has isolated. All are,
    /// unless the owner knows better.
    ///
    /// # Linux
    /// `PageLRU`: frames of user space and of the page cache are, frames of drivers that can move them are not.
    fn is_reclaimable(&self, pfn: Pfn) -> bool {
        let _ = pfn;
        true
    }

    /// Is told of each step of a compaction by the reference; the default does nothing.
    fn step(&self, step: Step) {
        let _ = step;
    }

    /// Puts an isolated frame back into use. Called for each frame that was not moved, even after a panic.
    fn putback(&self, from: Self::Isolated);
}
