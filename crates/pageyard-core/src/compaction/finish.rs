//! Finishing a pageblock that was begun, so that the next request does not have to mix types in another one.

use super::knobs::Finish;
use super::migrate::Mode;
use super::pass::Pass;
use super::plan::{Goal, pageblock_start_pfn};
use super::source::Source;
use super::view::CompactionView;
use crate::units::{PAGEBLOCK_ORDER, PageblockId, Pfn};

impl<M: CompactionView> Pass<'_, M> {
    /// Returns how pageblocks are finished. The engine's choices are single blocks, which are finished anyway.
    pub(super) fn finish(&self) -> Finish {
        match self.source {
            Source::Unasked | Source::Scanned(_) => self.job.knobs.finish,
            Source::Chosen(..) | Source::Exhausted => Finish::Off,
        }
    }

    /// Says whether the goal is looked at here: inside a pageblock that was begun it is not.
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
    /// `rescan`, later `finish_pageblock`, in `compact_zone`. Difference: the rest of the pageblock is isolated in
    /// clusters of 32 and moved between them, where Linux isolates all of it first.
    pub(super) fn begin_cluster(&mut self) {
        self.cluster_from = self.migrate_pfn;
        self.fresh = true;
        if self.finish() == Finish::Off {
            return;
        }
        let here = self.migrate_pfn.pageblock();
        if self.is_finishing(here) && self.migrate_pfn > here.start() {
            return;
        }
        let again = self.last_visit.is_some_and(|pfn| pfn.pageblock() == here);
        self.finishing = again.then_some(here);
    }

    /// Says whether a pageblock is being finished.
    pub(super) fn is_finishing(&self, block: PageblockId) -> bool {
        self.finishing == Some(block)
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

    /// A frame of a cluster was not moved: says whether the rest of the pageblock is scanned all the same. It then gets a
    /// skip hint, and is not found again at once by a search of the free lists.
    ///
    /// # Linux
    /// `compact_zone` in 6.12; in 6.1 the rest of the block of the wanted order is passed over.
    pub(super) fn finishes_after_failure(&mut self) -> bool {
        let (plan, at) = (&self.job.plan, self.migrate_pfn);
        let inside = at != pageblock_start_pfn(at);
        let block = at.pageblock();
        if !inside || plan.ignore_hints || plan.mode == Mode::Sync || self.is_finishing(block) {
            return false;
        }
        self.finishing = Some(block);
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
