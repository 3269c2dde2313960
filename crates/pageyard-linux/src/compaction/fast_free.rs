//! Targets from the free lists: a short search before the free scanner moves.

use super::fast::round;
use super::knobs::Hints;
use super::pass::Pass;
use super::plan::{pageblock_end_pfn, pageblock_start_pfn};
use super::view::{CompactionView, Lease, ListEnd, Role};
use pageyard_core::compaction::Step;
use pageyard_core::compaction::{Migrate, Mode};
use pageyard_core::units::{BlockId, Order, PAGEBLOCK_ORDER, PageblockId, Pfn};

/// Blocks of each order that the first search of a scan looks at: half as many as a pageblock has frames.
const FIRST_LOOK: usize = PAGEBLOCK_ORDER.frames().0 as usize / 2;

/// Which part of the zone a search for targets prefers: the space between the scanners, from its upper end.
#[derive(Clone, Copy)]
struct Space {
    /// In the highest quarter: a block from here on is taken at once.
    low: Pfn,
    /// In the upper half: the highest block from here on is taken where there is no better one.
    min: Pfn,
}

impl Space {
    fn between(migrate: Pfn, free: Pfn) -> Space {
        // Where the scanners have passed each other, the distance wraps round and no block is high enough, as in Linux.
        let distance = free.0.wrapping_sub(migrate.0);
        let down = |n: u64| pageblock_start_pfn(Pfn(free.0.wrapping_sub(n)));
        Space { low: down(distance / 4), min: down(distance / 2) }
    }
}

/// The blocks that a search of one list has seen.
#[derive(Default)]
struct Seen {
    blocks: usize,
    last: Option<Pfn>,
    /// A block in the preferred part.
    preferred: Option<Pfn>,
    /// The highest one above the minimum.
    candidate: Option<Pfn>,
}

impl<M: CompactionView, O: Migrate> Pass<'_, M, O> {
    /// Looks for targets in the lists of free movable blocks smaller than the wanted one, while none is in stock, or
    /// only blocks that are too small for what is to be moved.
    ///
    /// # Linux
    /// `fast_isolate_freepages`, since 5.1. A scan that has just begun looks deeper, and moves the free scanner to the
    /// highest block that it saw where it finds none.
    pub(super) fn search_for_targets(&mut self, want: usize) {
        let Some(wanted) = self.job.plan.order().filter(|o| *o > Order::ZERO) else { return };
        if !self.job.knobs.fast_free || !self.fast.offered {
            return;
        }
        let begins = self.free_pfn >= self.job.state.at.init().1;
        let space = Space::between(self.migrate_pfn, self.free_pfn);
        let mut limit = if begins { FIRST_LOOK } else { (self.fast.limit() / 2).max(1) };
        let (mut highest, mut found): (Option<Pfn>, _) = (None, None);
        let first = self.fast.first_order(wanted);
        let (mut came_round, mut looked) = (true, 0);
        let before = self.targets.len();
        for order in round(first, wanted) {
            let seen = self.look_for_target(order, space, &mut limit, &mut highest);
            if !self.fast.offered {
                return;
            }
            self.work.free_scanned += seen.blocks as u64;
            looked += seen.blocks as u64;
            let at = seen.preferred.or(seen.candidate);
            let stopped = at.or(seen.last.filter(|_| seen.blocks >= limit));
            if let Some(pfn) = stopped {
                self.job.map.turn_list(self.job.plan.zone, BlockId { pfn, order }, ListEnd::Tail);
            }
            if let Some(pfn) = at {
                if seen.preferred.is_some() {
                    self.fast.succeed();
                    self.fast.begin_with(order);
                }
                // A block that cannot be taken ends the search: the zone is at its floor.
                let taken = self.take_found(BlockId { pfn, order });
                // As if the next list were asked, unless this block is enough where that is noticed.
                let enough = self.has_enough(want);
                if taken {
                    let round = self.fast.comes_round_after(order, wanted);
                    (found, came_round) = (Some(pfn), round && !enough);
                } else {
                    came_round = !enough;
                }
                break;
            }
            // Blocks that are too small were in stock already.
            if before > 0 && self.has_enough(want) && self.has_list(order) {
                came_round = false;
                break;
            }
            if seen.blocks >= limit {
                limit = (limit / 2).max(1);
            }
        }
        if came_round {
            self.fast.come_round(wanted);
        }
        let taken = if found.is_some() { (self.targets.len() - before) as u64 } else { 0 };
        self.owner.step(Step::Searched { least: space.min, seen: looked, taken });
        let around = found.or_else(|| {
            self.fast.fail();
            begins.then(|| self.move_free_scanner(highest, space.min)).flatten()
        });
        if let Some(highest) = highest.filter(|pfn| *pfn >= self.job.state.at.cached_free()) {
            self.job.state.at.start_free_at(Pfn(highest.0.saturating_sub(PAGEBLOCK_ORDER.frames().0)));
        }
        if let Some(pfn) = around {
            self.search_around(pfn, want);
        }
        self.note_budget();
    }

    /// Returns whether a search notices that what is in stock is enough.
    fn has_enough(&self, want: usize) -> bool {
        self.job.knobs.hints == Hints::AnyFrame && self.targets.len() >= want
    }

    /// Returns whether a block of this order is free, of any type.
    fn has_list(&self, order: Order) -> bool {
        self.job.map.free_blocks(self.job.plan.zone)[order.index()] > 0
    }

    /// Looks at one list from its tail. `limit` falls with each block that would do.
    fn look_for_target(
        &mut self,
        order: Order,
        space: Space,
        limit: &mut usize,
        highest: &mut Option<Pfn>,
    ) -> Seen {
        let (mut seen, start) = (Seen::default(), self.job.span.start);
        self.fast.offered = self.job.map.see_list(self.job.plan.zone, order, ListEnd::Tail, |pfn| {
            seen.blocks += 1;
            seen.last = Some(pfn);
            *highest = (*highest).max(Some(pageblock_start_pfn(pfn).max(start)));
            if pfn >= space.low {
                seen.preferred = Some(pfn);
                return false;
            }
            if pfn >= space.min && Some(pfn) > seen.candidate {
                seen.candidate = Some(pfn);
                *limit /= 2;
            }
            seen.blocks < *limit
        });
        seen
    }

    /// Takes a block that a search has found.
    fn take_found(&mut self, block: BlockId) -> bool {
        let Some(lease) = self.lease_found(block.pfn.pageblock()) else { return false };
        let (zone, floor) = (self.job.plan.zone, self.job.floor);
        let taken = self.job.map.isolate_block(zone, block, floor, self.targets.stock());
        if taken {
            self.work.isolated += block.order.frames().0;
            self.targets.keep(lease);
        }
        taken
    }

    /// Leases a pageblock for targets; `None` where it cannot be used. Without leases a search may find a block in the
    /// pageblock that is being emptied, as in Linux.
    fn lease_found<'s>(&mut self, block: PageblockId) -> Option<Option<Lease<'s>>>
    where
        Self: 's,
    {
        if self.source_block() == Some(block) {
            return (!self.job.knobs.leases).then_some(None);
        }
        if self.targets.has_leased(block) {
            return Some(None);
        }
        self.lease(block, Role::Target)
    }

    /// Lets the free scanner begin at the highest pageblock with a free block. A request that waits is not patient
    /// enough to scan down to it where that is low. Returns where to search at once.
    fn move_free_scanner(&mut self, highest: Option<Pfn>, min: Pfn) -> Option<Pfn> {
        if let Some(highest) = highest.or(Some(Pfn(0))).filter(|pfn| *pfn >= min) {
            self.free_pfn = highest;
            return Some(highest);
        }
        if !self.job.plan.is_direct() || min >= self.job.span.end() {
            return None;
        }
        self.free_pfn = min;
        let info = self.job.map.pageblock(self.job.plan.zone, min.pageblock());
        let suits = !self.job.knobs.spare_wanted || self.job.may_fill(min.pageblock(), &info);
        (info.populated && suits).then_some(min)
    }

    /// Takes more free frames of the pageblock where one was found.
    ///
    /// # Linux
    /// `fast_isolate_around`. In 6.1 a pageblock that did not have enough gets a skip hint, in 6.12 one that was
    /// searched to its end.
    fn search_around(&mut self, pfn: Pfn, want: usize) {
        let (plan, span) = (self.job.plan, self.job.span);
        if self.targets.len() >= want || (plan.is_direct() && plan.mode == Mode::Async) {
            return;
        }
        let block = pfn.pageblock();
        let range = block.start().max(span.start)..pageblock_end_pfn(pfn).min(span.end());
        if !self.job.map.pageblock(plan.zone, block).populated {
            return;
        }
        let Some(lease) = self.lease_found(block) else { return };
        let (from, end, before) = (range.start, range.end, self.targets.len());
        let (map, floor) = (self.job.map, self.job.floor);
        let scan = map.isolate_free_blocks(plan.zone, range, want, floor, 1, self.targets.stock());
        let got = self.targets.len() - before;
        self.owner.step(Step::Targets { from, to: scan.next, taken: got as u64 });
        self.work.free_scanned += scan.scanned;
        self.work.isolated += got as u64;
        self.targets.keep(lease.filter(|_| got > 0));
        let used_up = match self.job.knobs.hints {
            Hints::NothingFound => false,
            Hints::FirstFrame => self.targets.len() < want,
            Hints::AnyFrame => scan.next >= end,
        };
        if used_up && self.job.leaves_hints_anyway() {
            map.set_skip(plan.zone, block, true);
        }
    }
}
