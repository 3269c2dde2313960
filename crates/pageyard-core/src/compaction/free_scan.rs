//! Free frames to move to: the free scanner, downwards from the end of the zone, or straight from the zone's lists;
//! and the moves themselves.

use super::driver::{Compactor, PASSES, Phase};
use super::migrate::{Migrate, MigrateError};
use super::plan::{block_start_pfn, pageblock_end_pfn};
use super::view::{CompactionView, Direct, FreeStock, PageblockInfo, Role};
use crate::migratetype::Migratetype;
use crate::units::{BlockId, Order, PAGEBLOCK_ORDER, Pfn};

impl<'a, M: CompactionView, O: Migrate> Compactor<'a, M, O> {
    /// Moves one frame, or looks for frames to move to.
    ///
    /// # Linux
    /// `migrate_pages` with `compaction_alloc`: up to ten passes over the frames that may succeed later.
    pub(super) fn move_one(&mut self) {
        let Some(at) = (self.at..self.filled).find(|i| self.isolated[*i].is_some()) else {
            let left = self.isolated[..self.filled].iter().flatten().count();
            if left == 0 || self.pass + 1 >= PASSES {
                self.work.failed += left as u64;
                return self.moved(left > 0);
            }
            (self.at, self.pass) = (0, self.pass + 1);
            return;
        };
        let Some(&to) = self.stock.as_slice().last() else {
            if !self.refill() {
                self.starved = true;
                self.work.failed += 1;
                self.moved(true);
            }
            return;
        };
        self.at = at;
        let Some((from, frame)) = &mut self.isolated[at] else { return };
        let from = *from;
        // The frame and its target stay where they are until this returns: a panic loses neither.
        match self.owner.migrate(frame, to, self.plan.mode) {
            Ok(()) => {
                // The target is the owner's now. What the owner's token does when it is dropped comes last: if that
                // panics, nothing of this move is left to undo.
                let token = self.isolated[at].take();
                self.stock.pop();
                self.work.moved += 1;
                self.map.migrated(from, to);
                self.map.free_migrated(&self.cx, from);
                drop(token);
            }
            Err(MigrateError::Again) => {}
            Err(MigrateError::Refused) => {
                self.work.failed += 1;
                self.failed = true;
                if let Some((_, frame)) = self.isolated[at].take() {
                    self.owner.putback(frame);
                }
            }
            Err(MigrateError::Gone) => drop(self.isolated[at].take()),
        }
        self.at = at + 1;
    }

    /// The cluster is done with.
    fn moved(&mut self, failed: bool) {
        self.failed |= failed;
        if self.stock.is_empty() {
            self.targets.iter_mut().for_each(|lease| *lease = None);
        }
        self.phase = Phase::Settle;
    }

    /// Looks for free frames, while none is in stock; `false` where there are no more.
    ///
    /// The free scanner looks at one pageblock a call, so that a step stays short.
    fn refill(&mut self) -> bool {
        self.targets.iter_mut().for_each(|lease| *lease = None);
        if self.plan.uses(self.knobs.direct_free) {
            self.take_direct();
            !self.stock.is_empty()
        } else {
            self.scan_pageblock() || !self.stock.is_empty()
        }
    }

    /// Returns how many free frames a refill is for.
    fn wanted(&self) -> usize {
        self.isolated[..self.filled].iter().flatten().count()
    }

    /// Looks for free frames in the pageblock where the free scanner stands; `false` where it is at its end.
    ///
    /// # Linux
    /// `isolate_freepages`, one turn of its loop.
    fn scan_pageblock(&mut self) -> bool {
        let block = self.free_pfn.pageblock();
        // The pageblock that is being emptied takes nothing in.
        let first = pageblock_end_pfn(Pfn(self.migrate_pfn.0 - 1));
        if block.start() < first || self.contended {
            return false;
        }
        let before = Pfn(block.start().0 - PAGEBLOCK_ORDER.frames().0);
        let end = pageblock_end_pfn(block.start()).min(self.span.end());
        let info = self.map.pageblock(self.plan.zone, block);
        if !info.populated || !self.may_fill(&info) || self.passes_over(block, info.skip) {
            self.free_pfn = before;
            return true;
        }
        let Some(lease) = self.lease(block, Role::Target) else {
            self.free_pfn = before;
            return true;
        };
        let want = self.wanted();
        let range = self.free_pfn..end;
        let stop = self.knobs.stop_at_floor;
        let scan = self.map.isolate_free(self.plan.zone, range, want, self.low, stop, &mut self.stock);
        let got = self.stock.len();
        self.work.free_scanned += scan.scanned;
        self.work.isolated += got as u64;
        self.spent += scan.scanned;
        if let (Some(lease), true) = (lease, got > 0) {
            self.targets[0] = Some(lease);
        }
        if scan.next >= end {
            if got == 0 && self.leaves_hints() {
                self.map.set_skip(self.plan.zone, block, true);
                self.state.passed_free(block, &self.span);
            }
            self.free_pfn = before;
        } else {
            self.free_pfn = scan.next;
        }
        self.note_budget();
        !scan.below_floor || !stop
    }

    /// Says whether frames may be moved into a pageblock.
    ///
    /// # Linux
    /// `suitable_migration_target`.
    fn may_fill(&self, info: &PageblockInfo) -> bool {
        if self.plan.thorough {
            return true;
        }
        !info.free_whole && matches!(info.migratetype, Migratetype::Movable | Migratetype::Cma)
    }

    /// Takes free frames straight from the zone's lists.
    ///
    /// # Linux
    /// `isolate_freepages_direct`, document 002's patch 4. A frame of the block that is being emptied is held until the
    /// block is left; it was taken all the same, and counts as a miss.
    fn take_direct(&mut self) {
        let order = self.plan.block_order(&self.knobs);
        let emptied = block_start_pfn(Pfn(self.migrate_pfn.0 - 1), order);
        if self.held.base().is_some_and(|base| base != emptied) {
            self.release_held();
        }
        let mut want = self.wanted();
        let mut refused = FreeStock::new();
        let (map, zone, low) = (self.map, self.plan.zone, self.low);
        let cx = self.cx;
        let outcome = map.take_direct(&cx, zone, low, want, |pfn| {
            self.work.direct_alloc += 1;
            self.spent += 1;
            if block_start_pfn(pfn, order) == emptied && self.held.push(emptied, pfn) {
                self.work.direct_miss += 1;
            } else if !self.lease_target(pfn) {
                self.work.direct_miss += 1;
                return refused.push(pfn) && !refused.is_full();
            } else if self.stock.push(pfn) {
                want -= 1;
            }
            want > 0
        });
        while let Some(pfn) = refused.pop() {
            self.map.give_back(BlockId { pfn, order: Order::ZERO });
        }
        self.contended |= outcome == Direct::Contended;
    }

    /// Leases the pageblock of a frame that was taken directly; `false` where another compactor empties it.
    fn lease_target(&mut self, pfn: Pfn) -> bool {
        let block = pfn.pageblock();
        let mine = self.source.as_ref().is_some_and(|(b, _)| *b == block)
            || self.targets.iter().flatten().any(|t| t.block == block);
        if mine {
            return true;
        }
        let Some(lease) = self.lease(block, Role::Target) else { return false };
        if let Some(place) = self.targets.iter_mut().find(|t| t.is_none()) {
            *place = lease;
        }
        true
    }
}
