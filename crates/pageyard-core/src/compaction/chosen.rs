//! Blocks that the engine chose because they are the cheapest to empty: no migrate scanner looks for them.

use super::cluster::CLUSTER;
use super::migrate::Migrate;
use super::pass::{Pass, Search};
use super::source::{Emptied, Source};
use super::view::Cluster;
use super::view::{Choice, Chooser, CompactionView, FrameState, Role};
use crate::units::{BlockId, Order, PAGEBLOCK_ORDER, Pfn};

/// The result of looking at a frame.
enum Look {
    /// Nothing has to move here, for this many frames.
    Pass(u64),
    /// It is isolated.
    Isolated,
    /// It cannot move, so the block cannot become free.
    Stuck,
}

impl<M: CompactionView, O: Migrate> Pass<'_, M, O> {
    /// Looks for frames to move where the source has them.
    pub(super) fn isolate(&mut self, cluster: &mut Cluster<'_, M, O>) -> Search {
        let notes = match &self.source {
            Source::Exhausted => return Search::Check,
            Source::Scanned(_) => return self.isolate_scanned(cluster),
            Source::Chosen(_, Some(at)) => {
                let block = at.block;
                return match self.may_isolate() {
                    true => self.isolate_chosen(block, cluster),
                    false => Search::Stop,
                };
            }
            Source::Chosen(notes, None) => *notes,
            Source::Unasked => Chooser::default(),
        };
        self.choose(notes, cluster)
    }

    /// Asks the engine for a block to empty.
    fn choose(&mut self, mut notes: Chooser, cluster: &mut Cluster<'_, M, O>) -> Search {
        let order = self.job.block_order();
        let choice = self.job.map.choose(&self.job.plan, order, &mut notes);
        self.work.migrate_scanned += core::mem::take(&mut notes.examined);
        let block = match choice {
            Choice::Scan => {
                self.source = Source::Scanned(None);
                return self.isolate_scanned(cluster);
            }
            Choice::Nothing => {
                self.source = Source::Exhausted;
                return Search::Check;
            }
            Choice::Block(block) => block,
        };
        self.source = Source::Chosen(notes, None);
        let pageblock = block.pfn.pageblock();
        self.make_way(pageblock);
        // If another compactor has it, the engine chooses another block.
        let Some(lease) = self.lease(pageblock, Role::Source) else { return Search::GoOn };
        self.source = Source::Chosen(notes, Some(Emptied::new(block, lease)));
        self.migrate_pfn = block.pfn;
        // Frames of a block that is larger than a cluster are moved before all of it is isolated, so look for one that
        // cannot move before moving any.
        if order.frames().0 > CLUSTER as u64 && !self.probe(block, cluster) {
            self.abandon_chosen(true);
        }
        Search::GoOn
    }

    /// Says whether every frame of a block can be isolated, by isolating each and putting it back.
    fn probe(&mut self, block: BlockId, cluster: &mut Cluster<'_, M, O>) -> bool {
        let end = end_of(block);
        let mut at = block.pfn;
        while at < end {
            let look = self.look(at, cluster);
            self.work.isolated -= cluster.frames();
            cluster.put_back();
            match look {
                Look::Pass(n) => at.0 += n,
                Look::Isolated => at.0 += 1,
                Look::Stuck => return false,
            }
        }
        true
    }

    /// Isolates a cluster of a chosen block.
    fn isolate_chosen(&mut self, block: BlockId, cluster: &mut Cluster<'_, M, O>) -> Search {
        let end = end_of(block);
        while self.migrate_pfn < end && !cluster.has(CLUSTER) {
            match self.look(self.migrate_pfn, cluster) {
                Look::Pass(n) => self.migrate_pfn = Pfn(self.migrate_pfn.0 + n).min(end),
                Look::Isolated => {
                    self.last_migrated = self.last_migrated.or(Some(self.migrate_pfn));
                    self.migrate_pfn.0 += 1;
                }
                Look::Stuck => {
                    self.work.abandoned += cluster.frames();
                    cluster.put_back();
                    self.abandon_chosen(true);
                    return Search::Check;
                }
            }
        }
        self.isolated(cluster)
    }

    fn look(&mut self, pfn: Pfn, cluster: &mut Cluster<'_, M, O>) -> Look {
        self.work.migrate_scanned += 1;
        // The rest of a pageblock that two zones share is the other zone's.
        if !self.job.span.spans(pfn) {
            return Look::Stuck;
        }
        match self.job.map.frame(pfn) {
            FrameState::Free(order) => Look::Pass(order.frames().0),
            FrameState::Allocated(order @ Order::ZERO) if cluster.isolate(BlockId { pfn, order }).is_ok() => {
                self.work.isolated += 1;
                Look::Isolated
            }
            _ => Look::Stuck,
        }
    }

    /// Gives up a chosen block. A block with a frame that cannot move is not chosen again until something in its
    /// pageblock is freed, and is a good place to move other frames to.
    pub(super) fn abandon_chosen(&mut self, stuck: bool) {
        if let Source::Chosen(notes, Some(at)) = &mut self.source
            && stuck
        {
            notes.stuck += 1;
            if at.block.order >= PAGEBLOCK_ORDER {
                self.job.map.set_skip(self.job.plan.zone, at.block.pfn.pageblock(), true);
            }
        }
        self.held.release();
        self.last_migrated = None;
        self.source.leave();
    }

    /// Lets go of a chosen block that has been emptied.
    pub(super) fn leave_chosen(&mut self) {
        if self.source.chosen().is_some_and(|block| self.migrate_pfn >= end_of(block)) {
            self.source.leave();
            self.last_migrated = None;
            self.held.release();
        }
    }
}

/// Returns the first frame after a block.
fn end_of(block: BlockId) -> Pfn {
    block.pfn + block.order.frames()
}
