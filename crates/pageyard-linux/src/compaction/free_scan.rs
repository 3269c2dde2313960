//! Free frames to move to: the free scanner, downwards from the end of the zone, or straight from the zone's lists.

use super::pass::Pass;
use super::plan::{block_start_pfn, pageblock_end_pfn};
use super::targets::{Search, Targets};
use super::view::{CompactionView, Direct, Role};
use pageyard_core::compaction::Step;
use pageyard_core::compaction::{CLUSTER, Contention};
use pageyard_core::compaction::{Migrate, Mode};
use pageyard_core::units::{Order, Pfn};

impl<M: CompactionView, O: Migrate> Pass<'_, M, O> {
    /// Looks for up to `want` free frames, while none of `order` is in stock; `false` where there are no more. The free
    /// scanner does not move while smaller blocks are in stock.
    ///
    /// The free scanner looks at one pageblock a call, so that a step stays short.
    pub(super) fn refill(&mut self, want: usize, order: Order) -> bool {
        if self.targets.is_empty() {
            self.targets.end_leases();
        }
        if self.job.takes_directly() {
            self.take_direct(want);
            return self.targets.has(order);
        }
        if !self.job.knobs.whole_blocks {
            self.free_search = None;
        }
        let goes_on = match self.free_search {
            Some(search) => self.scan_pageblock(want, search),
            None => {
                self.search_for_targets(want);
                self.targets.is_empty() && self.scan_pageblock(want, self.first_search())
            }
        };
        if !goes_on || self.targets.len() >= want {
            self.free_search = None;
        }
        // A search that has what was wanted, though no block of the order, is at its end.
        let found = self.targets.has(order);
        found || (goes_on && (order == Order::ZERO || self.free_search.is_some()))
    }

    /// Returns whether the free scanner has found some of what is wanted and goes on looking for the rest.
    pub(super) fn is_refilling(&self) -> bool {
        self.free_search.is_some() && self.job.knobs.whole_blocks
    }

    /// Returns how a search of the free scanner begins.
    ///
    /// # Linux
    /// `isolate_freepages`, since 5.1.
    fn first_search(&self) -> Search {
        let strides = self.job.knobs.stride && self.job.plan.mode == Mode::Async;
        Search { stride: if strides { CLUSTER as u64 } else { 1 } }
    }

    /// Looks for free frames in the free scanner's current pageblock; `false` where the scanner is at its end.
    ///
    /// # Linux
    /// `isolate_freepages`, one turn of its loop.
    fn scan_pageblock(&mut self, want: usize, search: Search) -> bool {
        self.free_search = Some(search);
        let block = self.free_pfn.pageblock();
        // The pageblock that is being emptied takes nothing in.
        let last = if self.job.knobs.spare_next { 0 } else { 1 };
        let emptied = Pfn(self.migrate_pfn.0 - last);
        let is_over = match self.job.knobs.whole_zone {
            true => self.free_from.is_none(),
            false => self.round.reaches(self.free_pfn, emptied),
        };
        if is_over || self.stops_at(block.start()) {
            return false;
        }
        let down = self.round.before(self.free_pfn);
        if self.free_from == Some(down.pageblock()) {
            self.free_from = None;
        }
        if self.job.knobs.whole_zone && emptied.pageblock() == block {
            self.free_pfn = down;
            return true;
        }
        let end = pageblock_end_pfn(block.start()).min(self.job.span.end());
        let info = self.job.map.pageblock(self.job.plan.zone, block);
        if !info.populated
            || !self.job.may_fill(block, &info)
            || (!self.job.knobs.whole_zone && self.passes_over(block, info.skip))
        {
            self.free_pfn = down;
            return true;
        }
        if self.stops_at_lock(self.job.map.is_locked(self.job.plan.zone)) {
            return false;
        }
        let Some(lease) = self.lease(block, Role::Target) else {
            self.free_pfn = down;
            return true;
        };
        let from = self.free_pfn;
        let range = from..end;
        // A block that is taken whole or not at all is not passed over frame by frame.
        let stop = self.job.knobs.stop_at_floor || self.job.knobs.whole_blocks;
        let (zone, floor, before) = (self.job.plan.zone, self.job.floor, self.targets.len());
        let (map, stock) = (self.job.map, self.targets.stock());
        let scan = match self.job.knobs.whole_blocks {
            true => map.isolate_free_blocks(zone, range, want, floor, search.stride, stock),
            false => map.isolate_free(zone, range, want, floor, stop, stock),
        };
        let got = self.targets.len() - before;
        self.owner.step(Step::Targets { from, to: scan.next, taken: got as u64 });
        self.work.free_scanned += scan.scanned;
        self.work.isolated += got as u64;
        self.targets.keep(lease.filter(|_| got > 0));
        if scan.next >= end {
            self.hint_free_end(block, got);
            if self.job.knobs.whole_zone && self.job.leaves_hints() {
                self.job.map.set_skip(zone, block, true);
            }
            self.free_pfn = down;
        } else {
            self.free_pfn = scan.next;
        }
        let stride = if got > 0 { 1 } else { (search.stride * 2).min(CLUSTER as u64) };
        self.free_search = Some(Search { stride: if self.job.knobs.stride { stride } else { 1 } });
        self.note_budget();
        !scan.below_floor || !stop
    }

    /// Takes free frames straight from the zone's lists.
    ///
    /// # Linux
    /// `isolate_freepages_direct`, document 002's patch 4. A frame of the block that is being emptied is held until the
    /// block is left; it was still taken, and counts as a miss.
    fn take_direct(&mut self, mut want: usize) {
        let order = self.job.block_order();
        let emptied = block_start_pfn(Pfn(self.migrate_pfn.0 - 1), order);
        if self.held.base().is_some_and(|base| base != emptied) {
            self.held.release();
        }
        let (map, zone, low) = (self.job.map, self.job.plan.zone, self.job.low);
        let cx = self.job.cx;
        // Frames in a pageblock that another compactor is emptying: they go back at the end.
        let mut refused = Targets::new(map, &cx);
        let waits = !self.tries_locks();
        let scanned = self.round.distance(self.migrate_pfn).0;
        let outcome = map.take_direct(&cx, zone, low, waits, want, |pfn| {
            self.work.direct_alloc += 1;
            self.work.direct_behind += u64::from(self.round.distance(pfn).0 < scanned);
            if block_start_pfn(pfn, order) == emptied && self.held.push(emptied, pfn) {
                self.work.direct_miss += 1;
            } else if !self.lease_target(pfn) {
                self.work.direct_miss += 1;
                refused.push(pfn);
                return refused.len() < CLUSTER;
            } else {
                self.targets.push(pfn);
                want -= 1;
            }
            want > 0
        });
        drop(refused);
        if outcome == Direct::Contended {
            self.give_way(Contention::Lock);
        }
    }

    /// Leases the pageblock of a frame that was taken directly; `false` where another compactor is emptying it.
    fn lease_target(&mut self, pfn: Pfn) -> bool {
        let block = pfn.pageblock();
        if self.source_block() == Some(block) || self.targets.has_leased(block) {
            return true;
        }
        let Some(lease) = self.lease(block, Role::Target) else { return false };
        self.targets.keep(lease);
        true
    }
}
