//! When compaction holds back: too many frames are isolated, or another task wants the CPU.

use super::knobs::{IsolatedLimit, Yields};
use super::pass::Pass;
use super::view::CompactionView;
use pageyard_core::compaction::CLUSTER;
use pageyard_core::compaction::{Migrate, Mode};
use pageyard_core::units::Pfn;

/// How often it waits before one scan of a pageblock. Linux waits for ever.
const MOST_WAITS: u32 = 1024;

impl<M: CompactionView, O: Migrate> Pass<'_, M, O> {
    /// Returns whether a pageblock may be scanned for frames to move; otherwise compaction ends at once.
    ///
    /// # Linux
    /// The beginning of `isolate_migratepages_block`.
    pub(super) fn may_isolate(&self) -> bool {
        let waits = self.job.plan.mode != Mode::Async;
        let mut left = MOST_WAITS;
        while self.is_too_much_isolated() {
            if !waits || left == 0 || !self.owner.wait_for_isolated() {
                return false;
            }
            left -= 1;
        }
        !self.gives_way()
    }

    /// # Linux
    /// `too_many_isolated` of compaction. A request that may not enter a filesystem is held to a half in every version
    /// there.
    fn is_too_much_isolated(&self) -> bool {
        let parts = match self.job.knobs.isolated_limit {
            IsolatedLimit::Off => return false,
            IsolatedLimit::Half => 2,
            IsolatedLimit::Sixteenth => 16,
        };
        self.owner.listed(self.job.plan.zone).is_some_and(|l| l.isolated.0 > l.listed.0 / parts)
    }

    /// Returns whether it ends because another task wants the CPU.
    ///
    /// # Linux
    /// `compact_should_abort`, and from 4.8 to 5.0 what stood in its place.
    pub(super) fn gives_way(&self) -> bool {
        let asynchronous = self.job.plan.mode == Mode::Async;
        asynchronous && self.job.knobs.yields == Yields::Anywhere && self.owner.must_yield()
    }

    /// The same, at every 32nd frame of a scan; it is contended from then on.
    ///
    /// # Linux
    /// `compact_unlock_should_abort`.
    pub(super) fn stops_at(&mut self, at: Pfn) -> bool {
        self.contended |= at.0.is_multiple_of(CLUSTER as u64) && self.gives_way();
        self.contended
    }
}
