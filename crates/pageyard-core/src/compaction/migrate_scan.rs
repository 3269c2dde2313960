//! The migrate scanner: upwards from the start of the zone, a pageblock at a time.

use super::driver::{CLUSTER, Compactor, Phase};
use super::migrate::{Migrate, Mode};
use super::plan::{block_end_pfn, pageblock_end_pfn};
use super::view::{CompactionView, FrameState, PageblockInfo, Role};
use crate::migratetype::Migratetype;
use crate::units::{Order, Pfn};

impl<M: CompactionView, O: Migrate> Compactor<'_, M, O> {
    /// Looks at one pageblock, or passes it over.
    ///
    /// # Linux
    /// `isolate_migratepages`, one turn of its loop.
    pub(super) fn isolate(&mut self) {
        if self.isolate_chosen() {
            return;
        }
        let low = self.migrate_pfn;
        let block = low.pageblock();
        let end = pageblock_end_pfn(low).min(self.span.end());
        let limit = if self.passes_free_scanner() { self.span.end() } else { self.free_pfn };
        if low >= self.span.end() || end > limit {
            // The scanners meet in this pageblock: the check that follows finds out.
            self.source = None;
            self.phase = Phase::Settle;
            return;
        }
        let leased = self.source.as_ref().is_some_and(|(b, _)| *b == block);
        if !leased {
            self.source = None;
            let info = self.map.pageblock(self.plan.zone, block);
            if !info.populated || self.passes_over(block, info.skip) || !self.may_empty(&info) {
                self.migrate_pfn = end;
                return;
            }
            if self.targets.iter().flatten().any(|t| t.block == block) {
                // Free frames of it are in stock: it cannot be both ends at once.
                self.release_stock();
            }
            let Some(lease) = self.lease(block, Role::Source) else {
                self.migrate_pfn = end;
                return;
            };
            self.source = Some((block, lease));
        }
        self.migrate_pfn = self.isolate_block(low, end);
        self.note_budget();
        if self.migrate_pfn >= end && self.filled == 0 {
            self.source = None;
        }
        (self.at, self.pass, self.failed) = (0, 0, false);
        self.phase = if self.contended || self.filled == 0 { Phase::Settle } else { Phase::Move };
    }

    /// Says whether the mode empties pageblocks of this type.
    fn may_empty(&self, info: &PageblockInfo) -> bool {
        if self.plan.thorough || self.plan.mode != Mode::Async || !self.knobs.async_movable_only {
            return true;
        }
        matches!(info.migratetype, Migratetype::Movable | Migratetype::Cma)
    }

    /// Isolates up to a cluster of frames between `low` and `end`, in one pageblock; returns where it stopped.
    ///
    /// # Linux
    /// `isolate_migratepages_block`, with document 002's patches 2 and 3.
    fn isolate_block(&mut self, start: Pfn, end: Pfn) -> Pfn {
        let eager = self.plan.uses(self.knobs.skip_on_failure);
        let order = self.plan.block_order(&self.knobs);
        let mut next_skip = block_end_pfn(start, order);
        let mut low = start;
        while low < end {
            if eager && low >= next_skip {
                // All of the block before was isolated, and none of it failed: move that now.
                if self.filled > 0 {
                    break;
                }
                // Not one step further: a free or a compound block may have led past more than one.
                next_skip = block_end_pfn(low, order);
            }
            self.work.migrate_scanned += 1;
            self.spent += 1;
            let skipped = match self.map.frame(low) {
                FrameState::Free(order) => {
                    low = low + order.frames();
                    continue;
                }
                FrameState::Allocated(Order::ZERO) => match self.owner.isolate(low, self.plan.mode) {
                    Ok(frame) => {
                        self.isolated[self.filled] = Some((low, frame));
                        self.filled += 1;
                        self.work.isolated += 1;
                        if self.knobs.last_migrated_drain && self.last_migrated.is_none() {
                            self.last_migrated = Some(low);
                        }
                        low.0 += 1;
                        if self.filled == CLUSTER {
                            break;
                        }
                        continue;
                    }
                    Err(_) => 1,
                },
                FrameState::Allocated(order) => order.frames().0,
                FrameState::Hole | FrameState::Inside | FrameState::Cached | FrameState::Tail => 1,
            };
            let failed_at = Pfn(low.0 + skipped - 1);
            low = Pfn(failed_at.0 + 1);
            if !eager {
                continue;
            }
            if self.filled > 0 {
                self.work.abandoned += self.filled as u64;
                self.put_back();
                self.last_migrated = None;
            }
            if failed_at < next_skip {
                low = next_skip;
                next_skip = Pfn(next_skip.0 + order.frames().0);
            }
        }
        low = low.min(end);
        if !self.knobs.last_migrated_drain && self.filled > 0 && self.last_migrated.is_none() {
            self.last_migrated = Some(start);
        }
        if low == end && self.filled == 0 && self.leaves_hints() {
            self.map.set_skip(self.plan.zone, start.pageblock(), true);
            self.state.passed_migrate(self.plan.mode, start.pageblock(), &self.span);
        }
        low
    }
}
