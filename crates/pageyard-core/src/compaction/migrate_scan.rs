//! The migrate scanner: upwards from the start of the zone, a pageblock at a time.

use super::cluster::Cluster;
use super::knobs::FastSource;
use super::migrate::Migrate;
use super::pass::{Pass, Search};
use super::plan::{block_end_pfn, pageblock_end_pfn};
use super::source::{Emptied, Source};
use super::view::{CompactionView, FrameState, Role};
use crate::units::{Order, Pfn};

impl<M: CompactionView> Pass<'_, M> {
    /// Looks at one pageblock, or passes it over.
    ///
    /// # Linux
    /// `isolate_migratepages`, one turn of its loop.
    pub(super) fn isolate_scanned<O: Migrate>(&mut self, cluster: &mut Cluster<'_, O>) -> Search {
        let found = core::mem::take(&mut self.fresh) && self.search_for_source();
        if found && self.is_spoiled_by_its_hint() {
            return Search::Settle;
        }
        let low = self.migrate_pfn;
        let block = low.pageblock();
        let span_end = self.job.span.end();
        let end = pageblock_end_pfn(low).min(span_end);
        let limit = if self.job.passes_free_scanner() { span_end } else { self.free_pfn };
        if low >= span_end || end > limit {
            // The scanners meet in this pageblock: the check that follows finds out.
            self.source.leave();
            return Search::Settle;
        }
        if self.source.pageblock() != Some(block) {
            self.source.leave();
            let info = self.job.map.pageblock(self.job.plan.zone, block);
            // Inside a pageblock, and in one that a search found, the hint may be this compaction's own.
            let enters = !found && low == block.start().max(self.job.span.start);
            if !info.populated || (enters && self.passes_over(block, info.skip)) {
                self.migrate_pfn = end;
                return Search::GoOn;
            }
            if !self.job.may_empty(block, &info) {
                self.hint_unsuitable(end);
                self.migrate_pfn = end;
                return Search::GoOn;
            }
            self.make_way(block);
            let Some(lease) = self.lease(block, Role::Source) else {
                self.migrate_pfn = end;
                return Search::GoOn;
            };
            self.source = Source::Scanned(Some(Emptied::new(block, lease)));
        }
        self.migrate_pfn = self.isolate_block(low, end, cluster);
        if self.migrate_pfn >= end && cluster.is_empty() {
            self.source.leave();
        }
        self.isolated(cluster)
    }

    /// Passes over the pageblock that a search found if its own hint forbids to scan it.
    ///
    /// # Linux
    /// `isolate_migratepages_block`, which looks at the hint again, while `fast_find_migrateblock` leaves it too early:
    /// in 6.1.192 such a search only moves the scanner on.
    fn is_spoiled_by_its_hint(&mut self) -> bool {
        let at = self.migrate_pfn;
        let spoiled = self.job.knobs.fast_source == FastSource::Hinted && at == at.pageblock().start();
        if spoiled {
            let end = pageblock_end_pfn(at).min(self.job.span.end());
            self.work.migrate_scanned += 1;
            self.work.skipped += 1;
            self.hint_unsuitable(end);
            self.migrate_pfn = end;
            self.keep_in_step(false);
        }
        spoiled
    }

    /// Says what to do with what was isolated.
    pub(super) fn isolated<O: Migrate>(&mut self, cluster: &Cluster<'_, O>) -> Search {
        self.keep_in_step(!cluster.is_empty());
        if !cluster.is_empty() {
            self.note_visit();
        }
        self.note_budget();
        if self.contended || cluster.is_empty() { Search::Settle } else { Search::Move }
    }

    /// Isolates up to a cluster of frames between `low` and `end`, in one pageblock; returns where it stopped.
    ///
    /// # Linux
    /// `isolate_migratepages_block`, with document 002's patches 2 and 3.
    fn isolate_block<O: Migrate>(&mut self, start: Pfn, end: Pfn, cluster: &mut Cluster<'_, O>) -> Pfn {
        let eager = self.job.skips_on_failure();
        let tracks_isolated = self.job.knobs.last_migrated_drain;
        let order = self.job.block_order();
        let mut next_skip = block_end_pfn(start, order);
        let (mut low, mut any) = (start, false);
        while low < end {
            if eager && low >= next_skip {
                // All of the previous block was isolated and nothing failed: move it now.
                if !cluster.is_empty() {
                    break;
                }
                // Recomputed, not stepped: a free or compound block can reach past several of these blocks.
                next_skip = block_end_pfn(low, order);
            }
            self.work.migrate_scanned += 1;
            let skipped = match self.job.map.frame(low) {
                FrameState::Free(order) => {
                    low = low + order.frames();
                    continue;
                }
                FrameState::Allocated(Order::ZERO) => match cluster.isolate(low) {
                    Ok(()) => {
                        self.work.isolated += 1;
                        if !core::mem::replace(&mut any, true) {
                            self.hint_isolated(start, low);
                        }
                        if tracks_isolated && self.last_migrated.is_none() {
                            self.last_migrated = Some(low);
                        }
                        low.0 += 1;
                        if cluster.is_full() {
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
            if !cluster.is_empty() {
                self.work.abandoned += cluster.filled() as u64;
                cluster.put_back();
                self.last_migrated = None;
            }
            if failed_at < next_skip {
                low = next_skip;
                next_skip = Pfn(next_skip.0 + order.frames().0);
            }
        }
        low = low.min(end);
        if !tracks_isolated && !cluster.is_empty() && self.last_migrated.is_none() {
            self.last_migrated = Some(start);
        }
        if low == end {
            self.hint_migrate_end(start, end, any, cluster);
        }
        low
    }
}
