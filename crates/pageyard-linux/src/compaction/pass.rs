//! One pass over a zone: where its scanners stand, what the engine has lent it, and what it does between clusters.

use super::fast::FastSearch;
use super::forget::{Forget, forget_hints};
use super::held::HeldFrames;
use super::job::Job;
use super::knobs::{Finish, Hints};
use super::moving::Ending;
use super::plan::{Goal, block_end_pfn, block_start_pfn, pageblock_start_pfn};
use super::round::Round;
use super::source::Source;
use super::suitability::{is_reached, suitability};
use super::targets::{Search as FreeSearch, Targets};
use super::view::{CompactionView, Lease, Role};
use pageyard_core::compaction::Step;
use pageyard_core::compaction::{Contention, Outcome, Work};
use pageyard_core::compaction::{Migrate, Mode};
use pageyard_core::stats::Counter;
use pageyard_core::units::{BlockId, Order, PageblockId, Pfn};

/// A compaction that has begun and not ended. When it is dropped, its counts are added to the engine's, and everything
/// that the engine lent it goes back.
pub(super) struct Pass<'a, M: CompactionView, O: Migrate> {
    pub(super) owner: &'a O,
    pub(super) job: Job<'a, M>,
    pub(super) work: Work,
    /// The way of both scanners.
    pub(super) round: Round,
    /// The reason for which it gives way, if there is one.
    pub(super) contention: Option<Contention>,
    /// Where the migrate scanner goes on.
    pub(super) migrate_pfn: Pfn,
    /// Where the free scanner continues inside its current pageblock.
    pub(super) free_pfn: Pfn,
    /// Where it began, if it goes through the whole zone and has not come back there.
    pub(super) free_from: Option<PageblockId>,
    /// The lowest frame whose block has not been left since frames of it were freed by moving.
    pub(super) last_migrated: Option<Pfn>,
    /// Where the last cluster was isolated, as far as that is remembered for finishing a pageblock.
    pub(super) last_visit: Option<Pfn>,
    /// Whether the pageblock of this cluster is scanned to its end.
    pub(super) finishing: bool,
    /// Where the search for this cluster began.
    pub(super) cluster_from: Pfn,
    /// Whether it has just begun.
    pub(super) fresh: bool,
    /// Whether asynchronous and other scans begin at the same place as long as nothing is isolated.
    pub(super) in_step: bool,
    pub(super) fast: FastSearch,
    /// The free scanner's search, while it goes on.
    pub(super) free_search: Option<FreeSearch>,
    /// Whether it covers all of the zone that can be useful.
    whole: bool,
    /// A number for this compaction, for skipping by chance.
    seed: u64,
    pub(super) targets: Targets<'a, M>,
    pub(super) held: HeldFrames<'a, M>,
    pub(super) source: Option<Source<'a>>,
}

/// The result of a search for frames to move.
pub(super) enum Search {
    /// Keep looking.
    GoOn,
    /// Move what is isolated.
    Move,
    /// Nothing to move: put back what is isolated.
    Settle,
    /// End: others are to go first.
    Stop,
}

/// The step after a cluster.
pub(super) enum Settled<'a, M: CompactionView> {
    /// Go on.
    GoOn,
    /// Go on in the same pageblock, without asking whether it is done.
    Rescan,
    /// End: another user is in the way.
    Contended,
    /// End: this block is the request's.
    Captured(Captured<'a, M>),
}

/// The step after a cluster of which a frame was not moved.
enum Failed {
    /// The end: another user is in the way.
    Stop,
    /// The rest of the pageblock is scanned at once.
    Finish,
    /// As after any cluster.
    GoOn,
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
        std::mem::ManuallyDrop::new(self).block.pfn
    }
}

impl<M: CompactionView> Drop for Captured<'_, M> {
    fn drop(&mut self) {
        self.map.give_back(self.block);
    }
}

impl<'a, M: CompactionView, O: Migrate> Pass<'a, M, O> {
    /// Begins, if a compaction is worthwhile.
    ///
    /// # Linux
    /// The beginning of `compact_zone`.
    pub(super) fn begin(
        job: &Job<'a, M>,
        owner: &'a O,
        interrupted: bool,
    ) -> Result<Pass<'a, M, O>, Outcome> {
        if let Some(outcome) = suitability(job.map, &job.plan) {
            return Err(outcome);
        }
        let order = job.plan.order().unwrap_or(Order::MAX);
        if job.state.is_restarting(order, job.plan.mode, job.knobs.deferral) {
            forget_hints(job.map, owner, job.plan.zone, &job.span, Forget::Restarting);
        }
        let seed = job.state.begin();
        let modern = job.knobs.hints != Hints::NothingFound;
        if modern && !job.starts_at_ends() {
            job.state.at.mend(job.plan.mode, &job.span);
        }
        let round = job.round();
        let (migrate_pfn, free_pfn) = job.first_positions(&round);
        let whole = match modern {
            true => job.starts_at_ends() || migrate_pfn <= job.state.at.init().0,
            false => migrate_pfn == round.begin().0,
        };
        let mut pass = Pass {
            owner,
            job: job.clone(),
            work: Work::default(),
            round,
            contention: interrupted.then_some(Contention::Interrupted),
            migrate_pfn,
            free_pfn,
            free_from: job.knobs.whole_zone.then(|| free_pfn.pageblock()),
            last_migrated: None,
            last_visit: None,
            finishing: false,
            cluster_from: migrate_pfn,
            fresh: true,
            in_step: false,
            fast: FastSearch::new(job.plan.order()),
            free_search: None,
            whole,
            seed,
            targets: Targets::new(job.map, &job.cx),
            held: HeldFrames::new(job.map),
            source: None,
        };
        pass.in_step = pass.begins_in_step();
        let waits = job.plan.mode != Mode::Async;
        owner.step(Step::Begun { migrate: migrate_pfn, free: free_pfn, waits });
        Ok(pass)
    }

    /// Says how it ends, if it is done.
    ///
    /// # Linux
    /// `compact_finished`.
    pub(super) fn check(&self) -> Option<Outcome> {
        let outcome = self.finished();
        self.owner.step(Step::Checked(outcome));
        outcome
    }

    fn finished(&self) -> Option<Outcome> {
        if self.contention.is_some() {
            return Some(Outcome::Contended);
        }
        if self.have_met() {
            // The next compaction starts over.
            if self.job.plan.mode != Mode::Async || self.job.knobs.async_resets {
                self.job.state.at.met(self.migrate_pfn, &self.round);
            }
            if self.job.plan.is_direct() {
                self.job.state.ask_flush();
            }
            return Some(if self.whole { Outcome::Complete } else { Outcome::PartialSkipped });
        }
        (self.may_end_here() && is_reached(self.job.map, &self.job.plan)).then_some(Outcome::Success)
    }

    /// Returns whether the scanners have met, or the migrate scanner is at the end of its way.
    fn have_met(&self) -> bool {
        self.job.have_met(&self.round, self.migrate_pfn, self.free_pfn)
    }

    /// A cluster was moved, or nothing was found: blocks that were left are made to merge.
    ///
    /// # Linux
    /// The rest of the loop of `compact_zone`.
    pub(super) fn settle(&mut self, ending: Ending) -> Settled<'a, M> {
        if ending != Ending::Moved {
            match self.after_failure(ending == Ending::Starved) {
                Failed::Stop => return Settled::Contended,
                Failed::Finish => return Settled::Rescan,
                Failed::GoOn => {}
            }
        }
        self.leave_block().map_or(Settled::GoOn, Settled::Captured)
    }

    /// A frame was not moved, perhaps for want of a free frame. Says what follows.
    fn after_failure(&mut self, starved: bool) -> Failed {
        if self.job.knobs.release_leftovers {
            self.targets.release();
        }
        // If the scanners have not met, another compactor is in the way; if they have, the check finds out.
        let apart = match self.finish() {
            Finish::Off => {
                let ahead = self.round.distance(self.free_pfn) > self.round.distance(self.migrate_pfn);
                ahead || self.job.passes_free_scanner()
            }
            _ => !self.have_met(),
        };
        if starved && apart {
            self.give_way(Contention::Targets);
            return Failed::Stop;
        } else if self.finish() == Finish::Failed {
            if self.finishes_after_failure() {
                return Failed::Finish;
            }
        } else if self.job.skips_on_failure() {
            // One frame stays, so the block cannot become free: on to the next one.
            let last = Pfn(self.migrate_pfn.0 - 1);
            self.migrate_pfn = block_end_pfn(last, self.job.block_order()).min(self.job.span.end());
            self.held.release();
            self.forget_moves();
        }
        Failed::GoOn
    }

    /// When the block of the last moves was left, lets it merge: frames held back are released, and the CPU's lists
    /// emptied. Returns the block if it is captured for the request.
    fn leave_block(&mut self) -> Option<Captured<'a, M>> {
        let here = block_start_pfn(self.migrate_pfn, self.job.block_order());
        if self.held.base().is_some_and(|base| base < here) {
            self.held.release();
        }
        let Job { map, cx, plan, knobs, .. } = self.job.clone();
        let finish = self.finish();
        let left = if finish == Finish::Off { self.last_migrated } else { self.last_visit };
        let (Some(left), Goal::Block(order, m)) = (left, plan.goal) else { return None };
        let here = block_start_pfn(self.migrate_pfn, order);
        if left >= here {
            return None;
        }
        map.drain_local(&cx, plan.zone);
        self.work.drains += 1;
        let emptied = self.last_migrated;
        self.forget_moves();
        let asked = plan.request.filter(|_| knobs.capture)?;
        self.source = None;
        let emptied = block_start_pfn(emptied?, order);
        // A visit that finishes a pageblock can leave several blocks behind.
        let end = if finish == Finish::Off { emptied } else { here.max(emptied) };
        let end = end.0.max(emptied.0 + order.frames().0);
        let mut blocks = (emptied.0..end).step_by(asked.frames().0 as usize);
        let pfn = blocks.find_map(|pfn| map.capture(&cx, BlockId { pfn: Pfn(pfn), order: asked }, m))?;
        map.tally(&cx, Counter::CompactCapture, 1);
        Some(Captured::new(map, BlockId { pfn, order: asked }))
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

    /// Returns whether to pass a pageblock over, and counts it if so.
    pub(super) fn passes_over(&mut self, block: PageblockId, hint: bool) -> bool {
        let skip = self.job.passes_over(self.seed, block, hint);
        self.work.skipped += u64::from(skip);
        skip
    }

    /// Releases the free frames in stock if some lie in the pageblock to be emptied, which cannot serve as both source
    /// and target where leases are obeyed.
    pub(super) fn make_way(&mut self, block: PageblockId) {
        if self.job.knobs.leases && self.targets.has_leased(block) {
            self.targets.release();
        }
    }

    /// Checks whether the budget of an asynchronous compaction is used up.
    pub(super) fn note_budget(&mut self) {
        if self.job.is_over_budget(&self.work) {
            self.give_way(Contention::Budget);
        }
    }
}

impl<M: CompactionView, O: Migrate> Drop for Pass<'_, M, O> {
    /// Moves the free scanner's cached position back to frames that are given back; it never moves the other way.
    fn drop(&mut self) {
        let Job { map, cx, state, span, .. } = &self.job;
        if let Some(highest) = self.targets.release() {
            state.at.returned_free(pageblock_start_pfn(highest).max(span.start), &self.round);
        }
        self.held.release();
        self.source = None;
        for (counter, n) in self.work.counted().filter(|(_, n)| *n > 0) {
            map.tally(cx, counter, n);
        }
    }
}
