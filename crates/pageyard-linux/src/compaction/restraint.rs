//! When compaction holds back: too many frames are isolated, another task wants the CPU, or a lock is held.

use super::knobs::{ContendedLock, IsolatedLimit, Yields};
use super::pass::Pass;
use super::view::CompactionView;
use pageyard_core::compaction::{CLUSTER, Contention, Step};
use pageyard_core::compaction::{Migrate, Mode};
use pageyard_core::units::Pfn;

/// How often it waits before one scan of a pageblock. Linux waits for ever.
const MOST_WAITS: u32 = 1024;

impl<M: CompactionView, O: Migrate> Pass<'_, M, O> {
    /// Returns what forbids to scan a pageblock for frames to move, if anything does: then compaction ends at once.
    ///
    /// # Linux
    /// The beginning of `isolate_migratepages_block`.
    pub(super) fn keeps_from_isolating(&self) -> Option<Contention> {
        let waits = self.job.plan.mode != Mode::Async;
        let mut left = MOST_WAITS;
        while self.is_too_much_isolated() {
            if !waits || left == 0 || !self.owner.wait_for_isolated() {
                return Some(Contention::Isolated);
            }
            left -= 1;
        }
        self.must_yield().then_some(Contention::Cpu)
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
    fn must_yield(&self) -> bool {
        let asynchronous = self.job.plan.mode == Mode::Async;
        asynchronous && self.job.knobs.yields == Yields::Anywhere && self.owner.must_yield()
    }

    /// Notes that it gives way, and says so; the first reason counts.
    pub(super) fn give_way(&mut self, why: Contention) {
        if self.contention.is_some() {
            return;
        }
        self.contention = Some(why);
        self.work.locked += u64::from(why == Contention::Lock);
        self.work.yielded += u64::from(why == Contention::Cpu);
        self.owner.step(Step::GaveWay(why));
    }

    /// Returns whether it stops where it is.
    ///
    /// # Linux
    /// Since 5.1 a lock that was held lets the cluster be moved.
    pub(super) fn stops(&self) -> bool {
        let later = self.job.knobs.contended_lock == ContendedLock::GivesWayLater;
        self.contention.is_some_and(|why| why != Contention::Lock || !later)
    }

    /// Gives way at every 32nd frame of a scan, if the CPU is wanted; says whether it stops.
    ///
    /// # Linux
    /// `compact_unlock_should_abort`.
    pub(super) fn stops_at(&mut self, at: Pfn) -> bool {
        if at.0.is_multiple_of(CLUSTER as u64) && self.must_yield() {
            self.give_way(Contention::Cpu);
        }
        self.stops()
    }

    /// Gives way where a lock that it needs is held; says whether it stops.
    ///
    /// # Linux
    /// `compact_trylock_irqsave`, since 5.1 `compact_lock_irqsave`.
    pub(super) fn stops_at_lock(&mut self, is_held: bool) -> bool {
        if is_held && self.tries_locks() {
            self.give_way(Contention::Lock);
        }
        self.stops()
    }

    /// Returns whether it gives way where a lock is held.
    pub(super) fn tries_locks(&self) -> bool {
        self.job.plan.mode == Mode::Async && self.job.knobs.contended_lock != ContendedLock::Waits
    }
}
