//! Blocks above a pageblock's order: an aligned run of pageblocks is taken out of allocation and emptied, as a
//! contiguous range is.

use super::pass::{Next, Pass};
use crate::engine::evacuate::Stuck;
use crate::engine::geometry::{BLOCK_ORDER, BlockIdx};
use crate::engine::pcp::percpu::PerCpu;
use crate::engine::zone::choose::Goal;
use crate::engine::zone::isolated::{ClaimedRange, IsolatedRange, ZoneRange, by_pageblock};
use pageyard_core::clear::Clear;
use pageyard_core::compaction::{Migrate, Outcome};
use pageyard_core::observer::Observer;
use pageyard_core::units::{Order, Pfn};

impl<'m, P: PerCpu, O: Observer, C: Clear, M: Migrate> Pass<'_, 'm, P, O, C, M> {
    /// Empties runs, each time the cheapest, until the goal is reached, or nothing is left, or enough was looked into.
    pub(super) fn empty_runs(&mut self) -> Next {
        let (order, pageblocks) = (self.plan.order(), &self.zone.pageblocks);
        let blocks = 1u32 << (order.get() - BLOCK_ORDER);
        let mut left = pageblocks.frames.len() as u32;
        left = left.min(self.plan.most_visits(pageblocks.frames.len()).max(blocks));
        // A frame in a list does not move.
        self.yard.drain_reached(self.cx.cpu);
        while !self.zone.has_reached(&self.plan) {
            let chosen = if left >= blocks { pageblocks.choose_run(&self.plan, order) } else { None };
            let Some(first) = chosen else { return self.give_up() };
            left -= blocks;
            match self.empty_run(first, order) {
                Next::Choose => {}
                end => return end,
            }
        }
        Next::End(Outcome::Success)
    }

    fn empty_run(&mut self, first: BlockIdx, order: Order) -> Next {
        let (pageblocks, end) =
            (&self.zone.pageblocks, BlockIdx::new(first.get() + (1 << (order.get() - BLOCK_ORDER))));
        let range = self.range(first.first_frame(), order);
        if !self.is_inside(&range) {
            pageblocks.mark_stuck(first);
            return Next::Choose;
        }
        if let Err(stuck) = self.evacuation.probe(range.clone()) {
            return self.leave_run(stuck);
        }
        let place = ZoneRange { zone: self.zone, first: first.first_frame(), end: end.first_frame() };
        // Another call has taken one of them.
        let Ok(isolated) = IsolatedRange::of(place) else { return Next::Choose };
        // What was freed since goes into no list any more.
        self.yard.drain_reached(self.cx.cpu);
        self.targets.emptied = first..end;
        if let Err(stuck) = self.evacuation.run(range, &mut self.targets) {
            drop(isolated);
            return self.leave_run(stuck);
        }
        let captured = self.capture_run(place, order);
        drop(isolated);
        captured.map_or(Next::Choose, Next::Captured)
    }

    /// Decides what follows a run that could not be emptied. It is not chosen again until something is freed where it
    /// is stuck.
    fn leave_run(&self, stuck: Stuck) -> Next {
        match stuck {
            Stuck::At(pfn) => {
                if let Some(frame) = self.zone.pageblocks.frame_of(pfn) {
                    self.zone.pageblocks.mark_stuck(frame.block());
                }
                Next::Choose
            }
            Stuck::NoTarget => self.give_up(),
            Stuck::Contended => Next::End(Outcome::Contended),
        }
    }

    /// Takes a run that was emptied, and is isolated still, if a request waits for it.
    fn capture_run(&self, place: ZoneRange<'_, 'm>, order: Order) -> Option<Pfn> {
        let Goal::Block(_, m) = self.plan.goal else { return None };
        if !self.plan.direct || !m.is_requested() {
            return None;
        }
        let mut claimed = ClaimedRange::claim(place).ok()?;
        let ZoneRange { zone, first, end } = place;
        for (frame, _) in by_pageblock(first, end) {
            zone.pageblocks.convert_owned(frame.block(), m);
        }
        // It is the request's from here on, even if the observer panics.
        claimed.place.first = end;
        Some(self.hand_out(zone, first, order, m))
    }
}
