//! The driver: a compaction of one zone, as a machine that does a bounded piece of work at a time.

use super::held::Held;
use super::knobs::{Knobs, Skip};
use super::migrate::{Migrate, Mode};
use super::plan::{Goal, Plan, block_start_pfn, pageblock_start_pfn};
use super::state::{ZoneState, ends};
use super::suitability::{is_reached, suitability};
use super::view::{Chooser, CompactionView, FreeStock, Lease, Role};
use super::work::{Outcome, Work};
use crate::allocator::Cx;
use crate::memmap::ZoneSpan;
use crate::stats::Counter;
use crate::units::{BlockId, Frames, Order, PageblockId, Pfn, ZoneId};

/// Frames that are isolated before they are moved.
///
/// # Linux
/// `COMPACT_CLUSTER_MAX`.
pub const CLUSTER: usize = FreeStock::MOST;

/// Times that a frame is tried again before its migration counts as failed.
///
/// # Linux
/// `migrate_pages`.
pub(super) const PASSES: u8 = 10;

/// Where a machine stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// It has not begun.
    Begin,
    /// It asks whether it is done.
    Check,
    /// It looks for frames to move.
    Isolate,
    /// It moves them.
    Move,
    /// A cluster is done with.
    Settle,
    /// It has ended.
    Done(Outcome),
}

/// What a step came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// There is more to do.
    Working,
    /// It has ended: nothing is held any more.
    Done(Outcome),
}

/// A compaction of one zone, between its beginning and its end.
///
/// It holds frames that are isolated, free frames to move them to, and leases of pageblocks. All of that goes back when it
/// ends or is dropped, also when a callback panics.
pub struct Compactor<'a, M: CompactionView, O: Migrate> {
    pub(super) map: &'a M,
    pub(super) owner: &'a O,
    pub(super) cx: Cx,
    pub(super) plan: Plan,
    pub(super) knobs: Knobs,
    pub(super) state: &'a ZoneState,
    pub(super) span: ZoneSpan,
    pub(super) low: Frames,
    pub(super) phase: Phase,
    /// Where the migrate scanner goes on.
    pub(super) migrate_pfn: Pfn,
    /// Where the free scanner goes on, inside the pageblock that it is in.
    pub(super) free_pfn: Pfn,
    /// The lowest frame whose block has not been left since frames of it were freed by moving.
    pub(super) last_migrated: Option<Pfn>,
    pub(super) isolated: [Option<(Pfn, O::Isolated)>; CLUSTER],
    /// How many places of `isolated` were filled, and which one is moved next.
    pub(super) filled: usize,
    pub(super) at: usize,
    pub(super) pass: u8,
    /// Whether a frame could not be moved, and whether that was for want of a free frame.
    pub(super) failed: bool,
    pub(super) starved: bool,
    pub(super) stock: FreeStock,
    pub(super) held: Held,
    pub(super) source: Option<(PageblockId, Option<Lease<'a>>)>,
    pub(super) targets: [Option<Lease<'a>>; CLUSTER],
    pub(super) contended: bool,
    pub(super) whole: bool,
    /// The block that is being emptied because the engine chose it, and the engine's notes.
    pub(super) chosen: Option<BlockId>,
    pub(super) chooser: Chooser,
    /// Whether the engine chooses at all, and whether it has nothing left to choose.
    pub(super) chooses: bool,
    pub(super) exhausted: bool,
    /// A number for this compaction, for skipping by chance.
    pub(super) seed: u64,
    pub(super) spent: u64,
    pub(super) work: Work,
    booked: bool,
    captured: Option<Pfn>,
}

impl<'a, M: CompactionView, O: Migrate> Compactor<'a, M, O> {
    /// Prepares a compaction; `None` where there is no such zone.
    pub fn new(map: &'a M, owner: &'a O, cx: &Cx, plan: Plan) -> Option<Compactor<'a, M, O>> {
        let view = map.zone(plan.zone).filter(|z| z.span.spanned.0 > 0)?;
        let knobs = *map.knobs();
        let thorough = plan.thorough || (knobs.thorough && plan.mode != Mode::Async);
        let plan = Plan { thorough, ignore_hints: plan.ignore_hints || thorough, ..plan };
        Some(Compactor {
            map,
            owner,
            cx: *cx,
            plan,
            knobs,
            state: map.zone_state(plan.zone),
            span: view.span,
            low: view.marks.low,
            phase: Phase::Begin,
            migrate_pfn: view.span.start,
            free_pfn: view.span.start,
            last_migrated: None,
            isolated: [const { None }; CLUSTER],
            filled: 0,
            at: 0,
            pass: 0,
            failed: false,
            starved: false,
            stock: FreeStock::new(),
            held: Held::default(),
            source: None,
            targets: [const { None }; CLUSTER],
            contended: false,
            whole: false,
            chosen: None,
            chooser: Chooser::default(),
            chooses: false,
            exhausted: false,
            seed: 0,
            spent: 0,
            work: Work::default(),
            booked: false,
            captured: None,
        })
    }

    /// Works until about `budget` frames were examined or moved, or to the end.
    ///
    /// A step may go past its budget by a pageblock, 512 frames.
    pub fn step(&mut self, budget: u64) -> Progress {
        let until = self.spent.saturating_add(budget.max(1));
        loop {
            if let Phase::Done(outcome) = self.phase {
                return Progress::Done(outcome);
            }
            if self.spent >= until {
                return Progress::Working;
            }
            self.spent += 1;
            match self.phase {
                Phase::Begin => self.begin(),
                Phase::Check => self.check(),
                Phase::Isolate => self.isolate(),
                Phase::Move => self.move_one(),
                Phase::Settle => self.settle(),
                Phase::Done(_) => {}
            }
        }
    }

    /// Works to the end.
    pub fn run(&mut self) -> Outcome {
        loop {
            if let Progress::Done(outcome) = self.step(u64::MAX) {
                return outcome;
            }
        }
    }

    /// Tells it that somebody else wants the CPU or the zone: it ends at the next occasion, as contended.
    ///
    /// This, the knob `async_budget` and a zone in use by somebody else are the only reasons for that end; none of them
    /// depends on time.
    pub fn interrupt(&mut self) {
        self.contended = true;
    }

    /// Returns what it has done so far.
    #[must_use]
    pub fn work(&self) -> Work {
        self.work
    }

    /// Returns where the migrate and the free scanner stand.
    #[must_use]
    pub fn positions(&self) -> (Pfn, Pfn) {
        (self.migrate_pfn, self.free_pfn)
    }

    /// Returns how many frames it holds: isolated ones, free ones to move to, and free ones held back.
    #[must_use]
    pub fn holds(&self) -> (usize, usize, usize) {
        (self.isolated.iter().flatten().count(), self.stock.len(), self.held.len())
    }

    /// Takes the block that was captured for the request.
    pub fn take_captured(&mut self) -> Option<Pfn> {
        self.captured.take()
    }

    /// # Linux
    /// The beginning of `compact_zone`.
    fn begin(&mut self) {
        if let Some(outcome) = suitability(self.map, &self.plan) {
            return self.finish(outcome);
        }
        let order = self.plan.order().unwrap_or(Order::MAX);
        if self.state.is_restarting(order, self.plan.mode, self.knobs.deferral) {
            forget_hints(self.map, self.plan.zone, &self.span);
        }
        self.seed = self.state.begin();
        let (low, high) = ends(&self.span);
        (self.migrate_pfn, self.free_pfn) = match self.plan.thorough {
            true => (low, high),
            false => self.state.positions(self.plan.mode, &self.span),
        };
        self.whole = self.migrate_pfn == low;
        self.phase = Phase::Check;
    }

    /// # Linux
    /// `compact_finished`.
    fn check(&mut self) {
        if self.contended {
            return self.finish(Outcome::Contended);
        }
        let met = if self.exhausted {
            true
        } else if self.chooses {
            false
        } else if self.passes_free_scanner() {
            self.migrate_pfn >= self.span.end()
        } else {
            self.free_pfn.pageblock() <= self.migrate_pfn.pageblock() || self.migrate_pfn >= self.span.end()
        };
        if met {
            // The next compaction starts anew.
            self.state.reset_positions();
            if self.plan.direct {
                self.state.ask_flush();
            }
            return self.finish(if self.whole { Outcome::Complete } else { Outcome::PartialSkipped });
        }
        if is_reached(self.map, &self.plan) {
            return self.finish(Outcome::Success);
        }
        self.phase = Phase::Isolate;
    }

    /// Says whether the migrate scanner takes no notice of where the free scanner stands.
    pub(super) fn passes_free_scanner(&self) -> bool {
        self.knobs.migrate_ignores_free_scanner && self.plan.uses(self.knobs.direct_free)
    }

    /// A cluster was moved, or nothing was found: blocks that were left are made to merge.
    ///
    /// # Linux
    /// The rest of the loop of `compact_zone`.
    fn settle(&mut self) {
        self.put_back();
        if self.failed {
            self.failed = false;
            if self.knobs.release_leftovers {
                self.release_stock();
            }
            // The scanners have not met, so somebody else is in the way; if they have, the check finds out.
            let apart = self.free_pfn > self.migrate_pfn || self.passes_free_scanner();
            if self.chosen.is_some() {
                self.exhausted |= self.starved;
                self.abandon_chosen(!self.starved);
            } else if self.starved && apart {
                return self.finish(Outcome::Contended);
            } else if self.plan.uses(self.knobs.skip_on_failure) {
                // One frame stays, so the block cannot become free: on to the next one.
                let order = self.plan.block_order(&self.knobs);
                let last = Pfn(self.migrate_pfn.0 - 1);
                self.migrate_pfn = super::plan::block_end_pfn(last, order).min(self.span.end());
                self.release_held();
                self.last_migrated = None;
            }
        }
        self.starved = false;
        self.phase = Phase::Check;
        self.leave_block();
        self.leave_chosen();
    }

    /// When the block of the last moves was left, lets it merge: frames held back are released, and the CPU's lists
    /// emptied.
    fn leave_block(&mut self) {
        let here = block_start_pfn(self.migrate_pfn, self.plan.block_order(&self.knobs));
        if self.held.base().is_some_and(|base| base < here) {
            self.release_held();
        }
        let (Some(last), Goal::Block(order, m)) = (self.last_migrated, self.plan.goal) else { return };
        if last >= block_start_pfn(self.migrate_pfn, order) {
            return;
        }
        self.map.drain_local(&self.cx, self.plan.zone);
        self.work.drains += 1;
        self.last_migrated = None;
        if self.knobs.capture && self.plan.direct {
            // An engine may refuse to hand out a leased pageblock as a whole.
            self.source = None;
            let block = BlockId { pfn: block_start_pfn(last, order), order };
            self.captured = self.map.capture(&self.cx, block, m);
            if self.captured.is_some() {
                self.map.tally(&self.cx, Counter::CompactCapture, 1);
                self.finish(Outcome::Success);
            }
        }
    }

    /// Puts back what is still isolated: all of it, also where the owner panics over one.
    pub(super) fn put_back(&mut self) {
        let filled = core::mem::take(&mut self.filled);
        (self.at, self.pass) = (0, 0);
        PutBack { owner: self.owner, left: self.isolated[..filled].iter_mut() }.run();
    }

    /// Gives the frames back that were held so that they merge with their block.
    pub(super) fn release_held(&mut self) {
        while let Some(pfn) = self.held.pop() {
            self.map.give_back(BlockId { pfn, order: Order::ZERO });
        }
    }

    /// Gives the free frames back that nothing was moved to; returns the highest.
    pub(super) fn release_stock(&mut self) -> Option<Pfn> {
        let mut highest = None;
        while let Some(pfn) = self.stock.pop() {
            highest = highest.max(Some(pfn));
            self.map.give_back(BlockId { pfn, order: Order::ZERO });
        }
        self.targets.iter_mut().for_each(|lease| *lease = None);
        highest
    }

    /// Ends it.
    ///
    /// # Linux
    /// `out:` of `compact_zone`. The free scanner's cached position only moves back, towards what was given back.
    fn finish(&mut self, outcome: Outcome) {
        self.let_go();
        self.phase = Phase::Done(outcome);
    }

    /// What is the engine's goes first: it calls nobody, and a panic of the owner then finds it done.
    fn let_go(&mut self) {
        if let Some(highest) = self.release_stock() {
            self.state.returned_free(pageblock_start_pfn(highest).max(self.span.start), &self.span);
        }
        self.release_held();
        self.source = None;
        if !self.booked {
            self.booked = true;
            for (counter, n) in self.work.counted().filter(|(_, n)| *n > 0) {
                self.map.tally(&self.cx, counter, n);
            }
        }
        self.put_back();
    }

    // Leases.

    /// Takes a pageblock for one end; `false` where another compactor has it and leases are obeyed.
    pub(super) fn lease(&mut self, block: PageblockId, role: Role) -> Option<Option<Lease<'a>>> {
        match self.map.lease(block, role, self.plan.by) {
            Ok(lease) => Some(Some(lease)),
            Err(holder) => {
                self.work.conflicts += u64::from(!self.knobs.leases && holder.role != role);
                (!self.knobs.leases).then_some(None)
            }
        }
    }

    /// Says whether a pageblock is to be passed over.
    pub(super) fn passes_over(&mut self, block: PageblockId, hint: bool) -> bool {
        let skip = match self.knobs.skip {
            _ if self.plan.ignore_hints => false,
            Skip::Hints => hint,
            Skip::Nothing => false,
            Skip::Random(share) => chance(self.seed, block) < share,
        };
        self.work.skipped += u64::from(skip);
        skip
    }

    /// Says whether hints are left for later scans.
    pub(super) fn leaves_hints(&self) -> bool {
        !self.plan.ignore_hints && self.knobs.skip == Skip::Hints
    }

    /// Looks whether the budget of an asynchronous compaction is used up.
    pub(super) fn note_budget(&mut self) {
        let used = self.work.migrate_scanned + self.work.free_scanned;
        let budget = self.knobs.async_budget;
        self.contended |= self.plan.mode == Mode::Async && budget > 0 && used >= budget;
    }
}

/// Isolated frames on their way back to their owner.
struct PutBack<'s, O: Migrate> {
    owner: &'s O,
    left: core::slice::IterMut<'s, Option<(Pfn, O::Isolated)>>,
}

impl<O: Migrate> PutBack<'_, O> {
    fn run(&mut self) {
        for slot in &mut self.left {
            if let Some((_, frame)) = slot.take() {
                self.owner.putback(frame);
            }
        }
    }
}

impl<O: Migrate> Drop for PutBack<'_, O> {
    /// Goes on behind the frame whose owner panicked.
    fn drop(&mut self) {
        self.run();
    }
}

impl<M: CompactionView, O: Migrate> Drop for Compactor<'_, M, O> {
    fn drop(&mut self) {
        // A captured block that was not taken is not lost.
        if let (Some(pfn), Goal::Block(order, _)) = (self.captured.take(), self.plan.goal) {
            self.map.give_back(BlockId { pfn, order });
        }
        if !matches!(self.phase, Phase::Done(_)) {
            self.let_go();
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

/// Returns a number below 1000 for a pageblock in one compaction.
fn chance(seed: u64, block: PageblockId) -> u16 {
    let x = (seed << 32 ^ block.0).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((x ^ x >> 31) % 1000) as u16
}
