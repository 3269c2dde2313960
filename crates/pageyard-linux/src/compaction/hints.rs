//! Skip hints: when the scanners leave them, and where the next scan begins.

use super::knobs::Hints;
use super::pass::Pass;
use super::view::Cluster;
use super::view::CompactionView;
use pageyard_core::compaction::{Migrate, Mode};
use pageyard_core::units::{PAGEBLOCK_ORDER, PageblockId, Pfn};

impl<M: CompactionView, O: Migrate> Pass<'_, M, O> {
    /// Notes that a call has isolated its first frame that can be reclaimed: `start` is where the call began, `at` the
    /// frame.
    ///
    /// # Linux
    /// `test_and_set_skip`. In 6.1 only the pageblock's first frame counts.
    pub(super) fn hint_isolated(&self, start: Pfn, at: Pfn) {
        let first = start.pageblock().start();
        let here = match self.job.knobs.hints {
            Hints::NothingFound => false,
            Hints::FirstFrame => at == first,
            Hints::AnyFrame => start == first.max(self.job.span.start),
        };
        if here && self.job.leaves_hints() {
            self.job.map.set_skip(self.job.plan.zone, start.pageblock(), true);
        }
    }

    /// The migrate scanner came to the end of a pageblock, in a call that began at `start` and found these frames;
    /// `any` says whether it isolated one that can be reclaimed, even if it put it back.
    ///
    /// # Linux
    /// The end of `isolate_migratepages_block`. Since 5.1 a pageblock without a frame to isolate gets its hint from
    /// every compaction, also from those that obey none.
    pub(super) fn hint_migrate_end(&self, start: Pfn, end: Pfn, any: bool, found: &Cluster<'_, O>) {
        let block = start.pageblock();
        let (job, empty) = (&self.job, found.is_empty());
        if job.knobs.hints == Hints::NothingFound {
            if empty && job.leaves_hints() {
                job.map.set_skip(job.plan.zone, block, true);
                job.state.at.passed_migrate(job.plan.mode, block, &self.round);
            }
            return;
        }
        if !job.leaves_hints_anyway() || !(empty || self.finishing) {
            return;
        }
        let begun_here = match job.knobs.hints {
            Hints::AnyFrame => start == block.start().max(job.span.start),
            _ => start == block.start(),
        };
        if begun_here && !any {
            job.map.set_skip(job.plan.zone, block, true);
        }
        job.state.at.scanned_to(job.plan.mode, end);
    }

    /// The migrate scanner does not look into a pageblock of this kind.
    pub(super) fn hint_unsuitable(&self, end: Pfn) {
        if self.job.knobs.hints != Hints::NothingFound && self.job.leaves_hints_anyway() {
            self.job.state.at.scanned_to(self.job.plan.mode, end);
        }
    }

    /// The free scanner came to the end of a pageblock, where it took `got` frames.
    ///
    /// # Linux
    /// `update_pageblock_skip`. Since 5.1 it does not matter whether there was anything to take. In 6.12 the
    /// position that is remembered is a pageblock further down.
    pub(super) fn hint_free_end(&self, block: PageblockId, got: usize) {
        let job = &self.job;
        match job.knobs.hints {
            Hints::NothingFound if got == 0 && job.leaves_hints() => {
                job.map.set_skip(job.plan.zone, block, true);
                job.state.at.passed_free(block, &self.round);
            }
            Hints::FirstFrame | Hints::AnyFrame if job.leaves_hints_anyway() => {
                job.map.set_skip(job.plan.zone, block, true);
                let down = if job.knobs.hints == Hints::AnyFrame { PAGEBLOCK_ORDER.frames().0 } else { 0 };
                job.state.at.freed_down_to(Pfn(block.start().0.saturating_sub(down)));
            }
            _ => {}
        }
    }

    /// Keeps the positions of asynchronous and other scans together until something is isolated.
    ///
    /// # Linux
    /// `update_cached` in `compact_zone`.
    pub(super) fn keep_in_step(&mut self, isolated: bool) {
        if isolated {
            self.in_step = false;
        } else if self.in_step {
            self.job.state.at.agree();
        }
    }

    /// Returns whether the modes' positions are kept together from the beginning.
    pub(super) fn begins_in_step(&self) -> bool {
        self.job.knobs.hints != Hints::NothingFound
            && self.job.plan.mode == Mode::Async
            && self.job.state.at.modes_agree()
    }
}
