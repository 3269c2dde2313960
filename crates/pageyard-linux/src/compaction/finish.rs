//! Finishing a pageblock that was begun, so that the next request does not have to mix types in another one.

use super::knobs::Finish;
use super::pass::Pass;
use super::plan::{Goal, pageblock_start_pfn};
use super::view::CompactionView;
use pageyard_core::compaction::{CLUSTER, Contention};
use pageyard_core::compaction::{Migrate, Mode};
use pageyard_core::units::{PAGEBLOCK_ORDER, Pfn};

impl<M: CompactionView, O: Migrate> Pass<'_, M, O> {
    /// Returns how pageblocks are finished.
    pub(super) fn finish(&self) -> Finish {
        self.job.knobs.finish
    }

    /// Returns whether the goal is looked at here: inside a pageblock that was begun it is not.
    ///
    /// # Linux
    /// `__compact_finished`: since 4.12 for requests that are not movable, since 5.1 for all.
    pub(super) fn may_end_here(&self) -> bool {
        self.finish() == Finish::Off
            || !matches!(self.job.plan.goal, Goal::Block(..))
            || self.migrate_pfn == pageblock_start_pfn(self.migrate_pfn)
    }

    /// Another cluster is looked for. On the second visit to a pageblock the scanner does not leave it before its end.
    ///
    /// # Linux
    /// `rescan`, later `finish_pageblock`, in `compact_zone`. Where nothing was visited yet, it takes frame 0 for the
    /// last one, so that the first pageblock of memory is finished at once.
    pub(super) fn begin_cluster(&mut self) {
        let next = self.round.next(self.migrate_pfn);
        if next != self.migrate_pfn {
            // Behind the zone's end lies its start, and no block reaches from one to the other.
            self.migrate_pfn = next;
            self.forget_moves();
        }
        self.cluster_from = self.migrate_pfn;
        self.fresh = true;
        if self.finish() == Finish::Off {
            return;
        }
        self.finishing = self.last_visit.unwrap_or_default().pageblock() == self.migrate_pfn.pageblock();
    }

    /// Returns how many frames are isolated before they are moved. What is left of a pageblock that is finished is
    /// isolated as a whole.
    ///
    /// # Linux
    /// `isolate_migratepages_block`.
    pub(super) fn cluster_size(&self) -> usize {
        match self.finishing || self.contention == Some(Contention::Lock) {
            true => usize::MAX,
            false => CLUSTER,
        }
    }

    /// Frames were isolated, and are moved now.
    ///
    /// # Linux
    /// `last_migrated_pfn` in `compact_zone`: in 6.1 where the search for this cluster began, which can lie in an
    /// earlier pageblock; in 6.12 the start of the pageblock.
    pub(super) fn note_visit(&mut self) {
        let last = Pfn(self.migrate_pfn.0.saturating_sub(1));
        self.last_visit = match self.finish() {
            Finish::Off => None,
            Finish::Begun => Some(self.cluster_from),
            Finish::Failed => Some(pageblock_start_pfn(last).max(self.job.span.start)),
        };
    }

    /// Returns whether the rest of the pageblock is scanned although a frame of a cluster was not moved. It then gets a
    /// skip hint, and is not found again at once by a search of the free lists.
    ///
    /// # Linux
    /// `compact_zone` in 6.12; in 6.1 the rest of the block of the wanted order is passed over.
    pub(super) fn finishes_after_failure(&mut self) -> bool {
        let (plan, at) = (&self.job.plan, self.migrate_pfn);
        let inside = at != pageblock_start_pfn(at);
        if !inside || plan.ignore_hints || plan.mode == Mode::Sync || self.finishing {
            return false;
        }
        (self.finishing, self.fresh) = (true, true);
        if plan.order() == Some(PAGEBLOCK_ORDER) {
            // One frame stays, so the pageblock cannot become free: emptying the lists would not help.
            self.forget_moves();
        }
        true
    }

    /// Forgets where frames were moved from: their block cannot become free.
    pub(super) fn forget_moves(&mut self) {
        self.last_migrated = None;
        self.last_visit = None;
    }
}
