//! One compaction of a zone.

use super::lease::{Lease, Role};
use super::targets::Targets;
use crate::engine::evacuate::{Evacuation, Stuck};
use crate::engine::geometry::{BLOCK_ORDER, BlockIdx, FrameIdx, PAGEBLOCK};
use crate::engine::pcp::percpu::PerCpu;
use crate::engine::yard::Pageyard;
use crate::engine::zone::Zone;
use crate::engine::zone::choose::{Goal, Notes, Plan};
use crate::engine::zone::pageblocks::{Take, Want};
use core::ops::Range;
use pageyard_core::allocator::Cx;
use pageyard_core::clear::Clear;
use pageyard_core::compaction::{CLUSTER, Migrate, Outcome, Work};
use pageyard_core::migratetype::Migratetype;
use pageyard_core::observer::Observer;
use pageyard_core::stats::Counter;
use pageyard_core::units::{Order, Pfn};

/// Result of one compaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    /// The block that was made for the request: it is the caller's.
    pub(super) captured: Option<Pfn>,
    pub(super) work: Work,
}

/// Next step after an attempt to empty a block.
pub(super) enum Next {
    /// Another one is chosen, if the goal is not reached.
    Choose,
    /// The compaction ends.
    End(Outcome),
    /// It ends with this block, which is the request's.
    Captured(Pfn),
}

/// A compaction that has begun. Where it is dropped, also during a panic of the owner, what it did is counted, and what
/// it holds goes back.
pub(super) struct Pass<'y, 'm, P: PerCpu, O: Observer, C: Clear, M: Migrate> {
    pub(super) yard: &'y Pageyard<'m, P, O, C>,
    pub(super) zone: &'y Zone<'m>,
    pub(super) cx: Cx,
    pub(super) plan: Plan,
    pub(super) evacuation: Evacuation<'y, 'm, P, O, C, M>,
    pub(super) targets: Targets<'y, 'm, P, O, C, M>,
}

impl<'m, P: PerCpu, O: Observer, C: Clear> Pageyard<'m, P, O, C> {
    /// Compacts a zone as planned. It gives back all that it holds, but for a captured block.
    ///
    /// # Linux
    /// `compact_zone`.
    pub(super) fn compact_as_planned<M: Migrate>(
        &self,
        cx: &Cx,
        zone: &Zone<'m>,
        owner: &M,
        plan: Plan,
    ) -> Ended {
        let over = |outcome| Ended { outcome, captured: None, work: Work::default() };
        if let Some(outcome) = zone.need_not_begin(&plan) {
            return over(outcome);
        }
        if zone.compaction.is_restarting(plan.order(), plan.mode) {
            zone.pageblocks.forget_stuck();
        }
        let (yard, cx, nothing) = (self, *cx, BlockIdx::new(0)..BlockIdx::new(0));
        let targets = Targets { yard, zone, owner, cx, plan, emptied: nothing, lease: None, taken: 0 };
        let evacuation = Evacuation::new(self, owner, plan.mode, true);
        let mut pass = Pass { yard, zone, cx, plan, evacuation, targets };
        let next = match plan.order().get() > BLOCK_ORDER {
            true => pass.empty_runs(),
            false => pass.empty_blocks(),
        };
        let work = pass.work();
        match next {
            Next::Captured(pfn) => Ended { outcome: Outcome::Success, captured: Some(pfn), work },
            Next::End(outcome) => Ended { outcome, captured: None, work },
            Next::Choose => Ended { outcome: Outcome::Complete, captured: None, work },
        }
    }
}

impl<P: PerCpu, O: Observer, C: Clear, M: Migrate> Pass<'_, '_, P, O, C, M> {
    fn work(&self) -> Work {
        Work { direct_alloc: self.targets.taken, ..self.evacuation.work }
    }

    /// Empties blocks of at most a pageblock, each time the cheapest, until the goal is reached or nothing is left.
    fn empty_blocks(&mut self) -> Next {
        let (order, pageblocks) = (self.plan.order(), &self.zone.pageblocks);
        let mut notes = Notes::default();
        while !self.zone.has_reached(&self.plan) {
            let chosen = pageblocks.choose_source(&self.plan, order, &mut notes, &self.zone.choices);
            self.evacuation.work.migrate_scanned += core::mem::take(&mut notes.examined);
            let Some(frame) = chosen else { return self.give_up() };
            match self.empty_block(frame, order, &mut notes) {
                Next::Choose => {}
                end => return end,
            }
        }
        Next::End(Outcome::Success)
    }

    /// Ends: nothing that is worth it is left.
    pub(super) fn give_up(&self) -> Next {
        if self.plan.direct {
            self.zone.compaction.doubt();
        }
        Next::End(Outcome::Complete)
    }

    fn empty_block(&mut self, frame: FrameIdx, order: Order, notes: &mut Notes) -> Next {
        let (zone, block) = (self.zone, frame.block());
        let range = self.range(frame, order);
        let id = range.start.pageblock();
        if self.targets.fills(id) {
            // It cannot serve both ends.
            self.evacuation.stock.release();
            self.targets.lease = None;
        }
        // If another compactor has it, another block is chosen.
        let Some(lease) = Lease::of(self.yard, id, Role::Source, self.plan.by) else { return Next::Choose };
        self.targets.emptied = block..BlockIdx::new(block.get() + 1);
        let emptied = match self.is_inside(&range) {
            true => self.empty(&range),
            false => Err(Stuck::At(range.start)),
        };
        // A leased pageblock is not handed out as a whole.
        drop(lease);
        match emptied {
            Ok(()) => self.capture(frame, order).map_or(Next::Choose, Next::Captured),
            Err(Stuck::At(_)) => {
                notes.stuck += 1;
                if order == PAGEBLOCK {
                    zone.pageblocks.mark_stuck(block);
                }
                Next::Choose
            }
            Err(Stuck::NoTarget) => self.give_up(),
            Err(Stuck::Contended) => Next::End(Outcome::Contended),
        }
    }

    /// Empties a range of frames.
    fn empty(&mut self, range: &Range<Pfn>) -> Result<(), Stuck> {
        // Frames of a block that is larger than a cluster are moved before all of it is isolated, so what does not move
        // is looked for first.
        if range.end.0 - range.start.0 > CLUSTER as u64 {
            self.evacuation.probe(range.clone())?;
        }
        self.evacuation.run(range.clone(), &mut self.targets)
    }

    /// Returns the frames of a block.
    pub(super) fn range(&self, frame: FrameIdx, order: Order) -> Range<Pfn> {
        let first = self.zone.pageblocks.pfn(frame);
        first..first + order.frames()
    }

    /// Returns whether the zone has all of a range: the rest of a pageblock that two zones share is the other zone's.
    pub(super) fn is_inside(&self, range: &Range<Pfn>) -> bool {
        let span = &self.zone.pageblocks.span;
        span.start <= range.start && range.end <= span.end()
    }

    /// Takes the block that was emptied before another request does, if one waits for it.
    ///
    /// # Linux
    /// `compaction_capture`.
    fn capture(&self, frame: FrameIdx, order: Order) -> Option<Pfn> {
        let Goal::Block(_, m) = self.plan.goal else { return None };
        let (zone, pageblocks, block) = (self.zone, &self.zone.pageblocks, frame.block());
        let ty = pageblocks.frames.state(block).migratetype();
        if !self.plan.direct || !m.is_requested() || !ty.is_requested() {
            return None;
        }
        if order == PAGEBLOCK {
            let want = Want { ty: m, order: PAGEBLOCK, blocks: 1, cpu: self.cx.cpu };
            let how = if ty == m { Take::Same } else { Take::Convert { from: ty } };
            pageblocks.free.add(pageblocks.claim_of(block, want, how, false)?.claimed);
        } else if !pageblocks.claim_exactly(frame, order) {
            return None;
        }
        Some(self.hand_out(zone, frame, order, m))
    }

    /// Makes a block that was claimed the request's.
    pub(super) fn hand_out(&self, zone: &Zone<'_>, frame: FrameIdx, order: Order, m: Migratetype) -> Pfn {
        self.yard.count(self.cx.cpu, Counter::CompactCapture, 1);
        self.yard.hand_out(zone, &self.cx, frame, order, m)
    }
}

impl<P: PerCpu, O: Observer, C: Clear, M: Migrate> Drop for Pass<'_, '_, P, O, C, M> {
    fn drop(&mut self) {
        // Frames in stock go back before the lease of their pageblock ends.
        self.evacuation.stock.release();
        for (counter, n) in self.work().counted().filter(|(_, n)| *n > 0) {
            self.yard.count(self.cx.cpu, counter, n);
        }
    }
}
