//! One pass over a zone: where its scanners stand, what the engine has lent it, and what it does between clusters.

use super::cluster::Ending;
use super::held::Held;
use super::job::Job;
use super::plan::{Goal, block_end_pfn, block_start_pfn, pageblock_start_pfn};
use super::source::Source;
use super::state::ends;
use super::suitability::{is_reached, suitability};
use super::targets::Targets;
use super::view::{CompactionView, Lease, Role};
use super::work::{Outcome, Work};
use crate::memmap::ZoneSpan;
use crate::stats::Counter;
use crate::units::{BlockId, Order, PageblockId, Pfn, ZoneId};

/// A compaction that has begun and not ended. When it is dropped, its counts are added to the engine's, and everything
/// that the engine lent it goes back.
pub(super) struct Pass<'a, M: CompactionView> {
    pub(super) job: Job<'a, M>,
    pub(super) work: Work,
    /// Whether the CPU or the zone is wanted elsewhere, or the budget is used up.
    pub(super) contended: bool,
    /// Where the migrate scanner goes on.
    pub(super) migrate_pfn: Pfn,
    /// Where the free scanner continues inside its current pageblock.
    pub(super) free_pfn: Pfn,
    /// The lowest frame whose block has not been left since frames of it were freed by moving.
    pub(super) last_migrated: Option<Pfn>,
    /// Whether it began at the end of the zone.
    whole: bool,
    /// A number for this compaction, for skipping by chance.
    seed: u64,
    pub(super) targets: Targets<'a, M>,
    pub(super) held: Held<'a, M>,
    pub(super) source: Source<'a>,
}

/// The result of a search for frames to move.
pub(super) enum Search {
    /// Keep looking.
    GoOn,
    /// Nothing is isolated: ask whether it is done.
    Check,
    /// Move what is isolated.
    Move,
    /// Nothing to move: put back what is isolated.
    Settle,
}

/// What to do after a cluster.
pub(super) enum Settled<'a, M: CompactionView> {
    /// Go on.
    GoOn,
    /// End: another user is in the way.
    Contended,
    /// End: this block is the request's.
    Captured(Captured<'a, M>),
}

/// A block that was captured for the request. It goes back if it is not taken.
pub(super) struct Captured<'a, M: CompactionView> {
    map: &'a M,
    block: BlockId,
}

impl<'a, M: CompactionView> Captured<'a, M> {
    fn new(map: &'a M, block: BlockId) -> Captured<'a, M> {
        Captured { map, block }
    }

    /// Hands the block to the caller.
    pub(super) fn into_pfn(self) -> Pfn {
        core::mem::ManuallyDrop::new(self).block.pfn
    }
}

impl<M: CompactionView> Drop for Captured<'_, M> {
    fn drop(&mut self) {
        self.map.give_back(self.block);
    }
}

impl<'a, M: CompactionView> Pass<'a, M> {
    /// Begins, if a compaction is worthwhile.
    ///
    /// # Linux
    /// The beginning of `compact_zone`.
    pub(super) fn begin(job: &Job<'a, M>, interrupted: bool) -> Result<Pass<'a, M>, Outcome> {
        if let Some(outcome) = suitability(job.map, &job.plan) {
            return Err(outcome);
        }
        let order = job.plan.order().unwrap_or(Order::MAX);
        if job.state.is_restarting(order, job.plan.mode, job.knobs.deferral) {
            forget_hints(job.map, job.plan.zone, &job.span);
        }
        let seed = job.state.begin();
        let (migrate_pfn, free_pfn) = job.first_positions();
        Ok(Pass {
            job: job.clone(),
            work: Work::default(),
            contended: interrupted,
            migrate_pfn,
            free_pfn,
            last_migrated: None,
            whole: migrate_pfn == ends(&job.span).0,
            seed,
            targets: Targets::new(job.map),
            held: Held::new(job.map),
            source: Source::new(job.block_order()),
        })
    }

    /// Says how it ends, if it is done.
    ///
    /// # Linux
    /// `compact_finished`.
    pub(super) fn check(&self) -> Option<Outcome> {
        if self.contended {
            return Some(Outcome::Contended);
        }
        let met = match self.source {
            Source::Exhausted => true,
            Source::Chosen(..) => false,
            Source::Unasked | Source::Scanned(_) => self.job.have_met(self.migrate_pfn, self.free_pfn),
        };
        if met {
            // The next compaction starts over.
            self.job.state.reset_positions();
            if self.job.plan.direct {
                self.job.state.ask_flush();
            }
            return Some(if self.whole { Outcome::Complete } else { Outcome::PartialSkipped });
        }
        is_reached(self.job.map, &self.job.plan).then_some(Outcome::Success)
    }

    /// A cluster was moved, or nothing was found: blocks that were left are made to merge.
    ///
    /// # Linux
    /// The rest of the loop of `compact_zone`.
    pub(super) fn settle(&mut self, ending: Ending) -> Settled<'a, M> {
        if ending != Ending::Moved && self.is_stopped_by(ending == Ending::Starved) {
            return Settled::Contended;
        }
        let captured = self.leave_block();
        self.leave_chosen();
        captured.map_or(Settled::GoOn, Settled::Captured)
    }

    /// A frame was not moved, perhaps for want of a free frame. Says whether that is the end.
    fn is_stopped_by(&mut self, starved: bool) -> bool {
        if self.job.knobs.release_leftovers {
            self.targets.release();
        }
        // If the scanners have not met, another compactor is in the way; if they have, the check finds out.
        let apart = self.free_pfn > self.migrate_pfn || self.job.passes_free_scanner();
        if self.source.chosen().is_some() {
            self.abandon_chosen(!starved);
            if starved {
                self.source = Source::Exhausted;
            }
        } else if starved && apart {
            return true;
        } else if self.job.skips_on_failure() {
            // One frame stays, so the block cannot become free: on to the next one.
            let last = Pfn(self.migrate_pfn.0 - 1);
            self.migrate_pfn = block_end_pfn(last, self.job.block_order()).min(self.job.span.end());
            self.held.release();
            self.last_migrated = None;
        }
        false
    }

    /// When the block of the last moves was left, lets it merge: frames held back are released, and the CPU's lists
    /// emptied. Returns the block if it is captured for the request.
    fn leave_block(&mut self) -> Option<Captured<'a, M>> {
        let here = block_start_pfn(self.migrate_pfn, self.job.block_order());
        if self.held.base().is_some_and(|base| base < here) {
            self.held.release();
        }
        let Job { map, cx, plan, knobs, .. } = &self.job;
        let (Some(last), Goal::Block(order, m)) = (self.last_migrated, plan.goal) else { return None };
        if last >= block_start_pfn(self.migrate_pfn, order) {
            return None;
        }
        map.drain_local(cx, plan.zone);
        self.work.drains += 1;
        self.last_migrated = None;
        if !knobs.capture || !plan.direct {
            return None;
        }
        // An engine may refuse to hand out a leased pageblock as a whole.
        self.source.leave();
        let block = BlockId { pfn: block_start_pfn(last, order), order };
        let pfn = map.capture(cx, block, m)?;
        map.tally(cx, Counter::CompactCapture, 1);
        Some(Captured::new(map, BlockId { pfn, order }))
    }

    /// Takes the lease of a pageblock for one role. Where another compactor has it: `None` if leases are obeyed, and no
    /// lease if they are not.
    pub(super) fn lease(&mut self, block: PageblockId, role: Role) -> Option<Option<Lease<'a>>> {
        match self.job.map.lease(block, role, self.job.plan.by) {
            Ok(lease) => Some(Some(lease)),
            Err(holder) => {
                let obeyed = self.job.knobs.leases;
                self.work.conflicts += u64::from(!obeyed && holder.role != role);
                (!obeyed).then_some(None)
            }
        }
    }

    /// Says whether to pass a pageblock over, and counts it if so.
    pub(super) fn passes_over(&mut self, block: PageblockId, hint: bool) -> bool {
        let skip = self.job.passes_over(self.seed, block, hint);
        self.work.skipped += u64::from(skip);
        skip
    }

    /// Releases the free frames in stock if some lie in the pageblock to be emptied, which cannot serve as both source
    /// and target.
    pub(super) fn make_way(&mut self, block: PageblockId) {
        if self.targets.has_leased(block) {
            self.targets.release();
        }
    }

    /// Checks whether the budget of an asynchronous compaction is used up.
    pub(super) fn note_budget(&mut self) {
        self.contended |= self.job.is_over_budget(&self.work);
    }
}

impl<M: CompactionView> Drop for Pass<'_, M> {
    /// Moves the free scanner's cached position back to frames that are given back; it never moves the other way.
    fn drop(&mut self) {
        let Job { map, cx, state, span, .. } = &self.job;
        if let Some(highest) = self.targets.release() {
            state.returned_free(pageblock_start_pfn(highest).max(span.start), span);
        }
        self.held.release();
        self.source.leave();
        for (counter, n) in self.work.counted().filter(|(_, n)| *n > 0) {
            map.tally(cx, counter, n);
        }
    }
}

/// Forgets all skip hints of a zone, and where its scanners were.
///
/// # Linux
/// `__reset_isolation_suitable`.
pub(super) fn forget_hints<M: CompactionView>(map: &M, zone: ZoneId, span: &ZoneSpan) {
    let last = Pfn(span.end().0 - 1).pageblock();
    for block in span.start.pageblock().0..=last.0 {
        map.set_skip(zone, PageblockId(block), false);
    }
    map.zone_state(zone).reset_positions();
}
