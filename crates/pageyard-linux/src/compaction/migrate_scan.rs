//! The migrate scanner: upwards from the start of the zone, a pageblock at a time.

use super::knobs::{FastSource, Hints};
use super::pass::{Pass, Search};
use super::plan::{block_end_pfn, pageblock_end_pfn};
use super::source::Source;
use super::view::Cluster;
use super::view::{CompactionView, Role};
use pageyard_core::compaction::FrameState;
use pageyard_core::compaction::Migrate;
use pageyard_core::compaction::{CLUSTER, Step};
use pageyard_core::units::{BlockId, PageblockId, Pfn};

impl<M: CompactionView, O: Migrate> Pass<'_, M, O> {
    /// Returns the pageblock that is being emptied.
    pub(super) fn source_block(&self) -> Option<PageblockId> {
        self.source.as_ref().map(|source| source.block)
    }

    /// Looks at one pageblock, or passes it over.
    ///
    /// # Linux
    /// `isolate_migratepages`, one turn of its loop.
    pub(super) fn isolate_scanned(&mut self, cluster: &mut Cluster<'_, O>) -> Search {
        let found = if std::mem::take(&mut self.fresh) { self.search_for_source() } else { None };
        let low = found.unwrap_or(self.migrate_pfn);
        // A pageblock where the scanner stands already counts as reached by scanning.
        let found = low != self.migrate_pfn;
        let block = low.pageblock();
        let span_end = self.job.span.end();
        let end = pageblock_end_pfn(low).min(span_end);
        let reached = !self.job.passes_free_scanner() && self.round.reaches(self.free_pfn, low);
        if low >= span_end || reached {
            // The scanners meet in this pageblock: the check that follows finds out.
            self.source = None;
            self.keep_in_step(false);
            return Search::Settle;
        }
        let enters = self.source_block() != Some(block);
        if enters {
            self.source = None;
        }
        if enters || self.job.knobs.hints != Hints::NothingFound {
            let info = self.job.map.pageblock(self.job.plan.zone, block);
            // Inside a pageblock, and in one that a search found, the hint may be this compaction's own.
            let obeys = !found && self.job.begins(low);
            if !info.populated || (obeys && self.passes_over(block, info.skip)) {
                self.migrate_pfn = end;
                return Search::GoOn;
            }
            if !self.job.may_empty(block, &info) {
                self.hint_unsuitable(end);
                self.migrate_pfn = end;
                return Search::GoOn;
            }
        }
        if enters {
            self.make_way(block);
            let Some(lease) = self.lease(block, Role::Source) else {
                self.migrate_pfn = end;
                return Search::GoOn;
            };
            self.source = Some(Source::new(block, lease));
        }
        if let Some(contention) = self.keeps_from_isolating() {
            self.give_way(contention);
            return Search::Stop;
        }
        self.migrate_pfn = match found && self.is_spoiled_by_its_hint(low) {
            true => self.pass_spoiled(low, end),
            false => self.isolate_block(low, end, cluster),
        };
        if self.migrate_pfn >= end && cluster.is_empty() {
            self.source = None;
        }
        self.isolated(cluster)
    }

    /// Returns whether the hint that a search left forbids to scan what it found.
    ///
    /// # Linux
    /// `isolate_migratepages_block`, which looks at the hint again, while `fast_find_migrateblock` leaves it too early:
    /// in 6.1.192 such a search only moves the scanner on.
    fn is_spoiled_by_its_hint(&self, at: Pfn) -> bool {
        self.job.knobs.fast_source == FastSource::Hinted && at == at.pageblock().start()
    }

    /// Passes over such a pageblock: it was looked at, and nothing was isolated.
    fn pass_spoiled(&mut self, from: Pfn, to: Pfn) -> Pfn {
        self.work.migrate_scanned += 1;
        self.work.skipped += 1;
        self.hint_unsuitable(to);
        self.owner.step(Step::Sources { from, to, taken: 0 });
        to
    }

    /// Says what to do with what was isolated.
    pub(super) fn isolated(&mut self, cluster: &Cluster<'_, O>) -> Search {
        self.keep_in_step(!cluster.is_empty());
        if !cluster.is_empty() {
            self.note_visit();
        }
        self.note_budget();
        if self.stops() || cluster.is_empty() { Search::Settle } else { Search::Move }
    }

    /// Isolates up to a cluster of frames, or all there are, between `low` and `end`, in one pageblock; returns where
    /// it stopped.
    ///
    /// # Linux
    /// `isolate_migratepages_block`, with document 002's patches 2 and 3.
    fn isolate_block(&mut self, start: Pfn, end: Pfn, cluster: &mut Cluster<'_, O>) -> Pfn {
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
            if low != start && self.stops_at(low) {
                break;
            }
            self.work.migrate_scanned += 1;
            let skipped = match self.job.map.frame(low) {
                FrameState::Free(order) => {
                    low = low + order.frames();
                    continue;
                }
                FrameState::Allocated(of) if self.job.moves(of) => {
                    // The lock of the lists is taken for the first frame, and again after it was let go.
                    let takes_lock = cluster.is_empty() || low.0.is_multiple_of(CLUSTER as u64);
                    let zone = self.job.plan.zone;
                    if takes_lock && self.stops_at_lock(self.owner.lists_are_locked(zone)) {
                        break;
                    }
                    match cluster.isolate(BlockId { pfn: low, order: of }) {
                        Ok(()) => {
                            let listed = self.owner.is_reclaimable(low);
                            self.work.isolated += of.frames().0;
                            if listed && !std::mem::replace(&mut any, true) {
                                self.hint_isolated(start, low);
                            }
                            if tracks_isolated && self.last_migrated.is_none() {
                                self.last_migrated = Some(low);
                            }
                            // Of a block that is on no list for reclaim Linux looks at each frame that follows, in
                            // vain.
                            low.0 += if listed { of.frames().0 } else { 1 };
                            if cluster.has(self.cluster_size()) {
                                break;
                            }
                            continue;
                        }
                        Err(_) => of.frames().0,
                    }
                }
                FrameState::Allocated(of) => of.frames().0,
                FrameState::Hole
                | FrameState::Inside
                | FrameState::Cached
                | FrameState::Tail
                | FrameState::Loose => 1,
            };
            let failed_at = Pfn(low.0 + skipped - 1);
            low = Pfn(failed_at.0 + 1);
            if !eager {
                continue;
            }
            if !cluster.is_empty() {
                self.work.abandoned += cluster.frames();
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
        self.owner.step(Step::Sources { from: start, to: low, taken: cluster.frames() });
        low
    }
}
