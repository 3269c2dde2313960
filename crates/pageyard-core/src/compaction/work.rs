//! The work a compaction did, in numbers, and how it ended.

use crate::stats::Counter;
use core::ops::AddAssign;

/// How a compaction ended.
///
/// # Linux
/// `enum compact_result`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Outcome {
    /// Not begun: too little is free to move things to, or memory is short rather than fragmented.
    Skipped,
    /// Not begun: it failed here lately.
    Deferred,
    /// It gave way, and [`Contention`] says to what.
    Contended,
    /// The scanners met, but did not begin at the ends of the zone: part of it was not looked at.
    PartialSkipped,
    /// The scanners met after all of the zone that this mode looks at.
    Complete,
    /// A suitable block is free.
    Success,
}

impl core::fmt::Display for Outcome {
    /// Writes the outcome, to follow "the compaction".
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Outcome::Skipped => "was skipped: it would not have helped",
            Outcome::Deferred => "was deferred after earlier failures",
            Outcome::Contended => "gave way to others",
            Outcome::PartialSkipped => "ended without success in the part of the zone that it had left",
            Outcome::Complete => "ended without success after all of the zone",
            Outcome::Success => "succeeded",
        })
    }
}

/// The reason for which a compaction gave way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Contention {
    /// Its caller ended it.
    Interrupted,
    /// Its budget was used up.
    Budget,
    /// Another task wanted the CPU.
    Cpu,
    /// Another CPU held a lock that it needed: the zone's, or that of the owner's lists.
    Lock,
    /// Too many frames were isolated.
    Isolated,
    /// There was no target left although the scanners had not met: another compactor was in the way.
    Targets,
}

/// Counts of what compaction did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Frames that the migrate scanner examined. `compact_migrate_scanned`.
    pub migrate_scanned: u64,
    /// Frames that the free scanner examined. `compact_free_scanned`.
    pub free_scanned: u64,
    /// Frames isolated by either scanner. `compact_isolated`.
    pub isolated: u64,
    /// Frames moved. `pgmigrate_success`.
    pub moved: u64,
    /// Frames that could not be moved. `pgmigrate_fail`.
    pub failed: u64,
    /// Free frames taken without a scan. `compact_free_direct_alloc`.
    pub direct_alloc: u64,
    /// Of those, the ones that lay in the block that was being emptied. `compact_free_direct_miss`.
    pub direct_miss: u64,
    /// Of those, the ones in a pageblock that the migrate scanner had passed. `compact_free_direct_behind`.
    pub direct_behind: u64,
    /// Times that the CPU's lists were emptied.
    pub drains: u64,
    /// Pageblocks found in use by another compactor for the opposite end.
    pub conflicts: u64,
    /// Isolated frames that were put back because their block could not be emptied.
    pub abandoned: u64,
    /// Pageblocks passed over because of a skip hint, or by chance where that is asked for.
    pub skipped: u64,
    /// Times that it gave way because a lock was held.
    pub locked: u64,
    /// Times that it gave way because the CPU was wanted.
    pub yielded: u64,
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Work) {
        for (mine, theirs) in self.fields().into_iter().zip(other.values()) {
            *mine += theirs;
        }
    }
}

impl Work {
    fn fields(&mut self) -> [&mut u64; 14] {
        [
            &mut self.migrate_scanned,
            &mut self.free_scanned,
            &mut self.isolated,
            &mut self.moved,
            &mut self.failed,
            &mut self.direct_alloc,
            &mut self.direct_miss,
            &mut self.direct_behind,
            &mut self.drains,
            &mut self.conflicts,
            &mut self.abandoned,
            &mut self.skipped,
            &mut self.locked,
            &mut self.yielded,
        ]
    }

    fn values(mut self) -> [u64; 14] {
        self.fields().map(|field| *field)
    }

    /// Returns the frames examined or taken directly: what a success costs in scanning.
    #[must_use]
    pub fn examined(&self) -> u64 {
        self.migrate_scanned + self.free_scanned + self.direct_alloc
    }

    /// Returns the cost as document 002 counts it.
    ///
    /// Source: the weights that reproduce the document's three published values.
    #[must_use]
    pub fn cost(&self) -> u64 {
        (1038 * self.moved + 14 * self.failed + 7 * self.migrate_scanned + 19 * self.isolated) / 1_000_000
    }

    /// Iterates over an engine's counters, each with the amount to add.
    pub fn counted(&self) -> impl Iterator<Item = (Counter, u64)> + use<> {
        COUNTERS.into_iter().zip(self.values())
    }
}

/// The counter of each field, in the fields' order.
const COUNTERS: [Counter; 14] = [
    Counter::CompactMigrateScanned,
    Counter::CompactFreeScanned,
    Counter::CompactIsolated,
    Counter::PgmigrateSuccess,
    Counter::PgmigrateFail,
    Counter::CompactFreeDirectAlloc,
    Counter::CompactFreeDirectMiss,
    Counter::CompactFreeDirectBehind,
    Counter::CompactDrain,
    Counter::CompactConflict,
    Counter::CompactAbandoned,
    Counter::CompactSkipped,
    Counter::CompactLockContended,
    Counter::CompactYield,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_reproduces_the_published_values() {
        let rows = [
            (3_781_876, 45_817, 168_160_492, 7_868_232, 5252),
            (3_326_819, 41_774, 127_269_354, 6_941_457, 4476),
            (2_790_838, 38_113, 87_087_993, 5_025_092, 3602),
        ];
        for (moved, failed, migrate_scanned, isolated, cost) in rows {
            let work = Work { moved, failed, migrate_scanned, isolated, ..Work::default() };
            assert_eq!(work.cost(), cost);
        }
    }

    #[test]
    fn sums_are_field_by_field() {
        let mut sum = Work { moved: 1, skipped: 2, ..Work::default() };
        sum += Work { moved: 10, migrate_scanned: 5, skipped: 3, ..Work::default() };
        assert_eq!((sum.moved, sum.migrate_scanned, sum.skipped, sum.failed), (11, 5, 5, 0));
    }
}
