//! The steps that a compaction reports to the owner of the frames.

use super::work::{Contention, Outcome};
use crate::units::{Order, Pfn};

/// A step of a compaction. Two compactions that take the same steps scan the same frames, in the same order.
///
/// # Linux
/// The events of the group `compaction`. Frames examined are not told, since they are counted otherwise here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// The zone that starts here is left out, because it failed lately. `mm_compaction_deferred`.
    Deferred(Pfn, Order),
    /// It begins: where the migrate and the free scanner stand, and whether it waits for locks. `mm_compaction_begin`.
    Begun {
        /// The migrate scanner.
        migrate: Pfn,
        /// The free scanner.
        free: Pfn,
        /// Whether it waits.
        waits: bool,
    },
    /// It was asked whether it is done, and how. `mm_compaction_finished`.
    Checked(Option<Outcome>),
    /// The migrate scanner went from one frame to another and isolated so many. `mm_compaction_isolate_migratepages`.
    Sources {
        /// The first frame.
        from: Pfn,
        /// Behind the last one.
        to: Pfn,
        /// How many were isolated.
        taken: u64,
    },
    /// The free scanner did, in one pageblock. `mm_compaction_isolate_freepages`.
    Targets {
        /// The first frame.
        from: Pfn,
        /// Behind the last one.
        to: Pfn,
        /// How many free frames were taken.
        taken: u64,
    },
    /// The free lists were searched for targets. `mm_compaction_fast_isolate_freepages`, since 6.7.
    Searched {
        /// Blocks below this frame are not taken.
        least: Pfn,
        /// How many blocks were looked at.
        seen: u64,
        /// How many free frames were taken.
        taken: u64,
    },
    /// It gives way to others, and why. No kernel tells of it.
    GaveWay(Contention),
    /// So many frames were moved. `mm_compaction_migratepages`.
    Moved(u64),
    /// It ended, and where the scanners stand. `mm_compaction_end`.
    Ended {
        /// The migrate scanner.
        migrate: Pfn,
        /// The free scanner.
        free: Pfn,
        /// How it ended.
        outcome: Outcome,
    },
    /// The next compactions of this zone are left out. `mm_compaction_defer_compaction`.
    Failed(Pfn, Order),
    /// It helped, or is expected to. `mm_compaction_defer_reset`.
    Helped(Pfn, Order),
}
