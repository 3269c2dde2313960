//! Blocks that the engine chose because they are the cheapest to empty: no migrate scanner looks for them.

use super::driver::{CLUSTER, Compactor, Phase};
use super::migrate::Migrate;
use super::view::{Choice, CompactionView, FrameState, Role};
use crate::units::{BlockId, Order, PAGEBLOCK_ORDER, Pfn};

/// What became of a look at a frame.
enum Look {
    /// Nothing has to move here, for so many frames.
    Pass(u64),
    /// It is isolated.
    Isolated,
    /// It cannot move, so the block cannot become free.
    Stuck,
}

impl<M: CompactionView, O: Migrate> Compactor<'_, M, O> {
    /// Isolates a cluster of a chosen block; `false` where the engine does not choose.
    pub(super) fn isolate_chosen(&mut self) -> bool {
        let order = self.plan.block_order(&self.knobs);
        if order > PAGEBLOCK_ORDER {
            return false;
        }
        let Some(block) = self.chosen else { return self.choose(order) };
        let end = Pfn(block.pfn.0 + order.frames().0);
        while self.migrate_pfn < end && self.filled < CLUSTER {
            match self.look(self.migrate_pfn) {
                Look::Pass(n) => self.migrate_pfn = Pfn(self.migrate_pfn.0 + n).min(end),
                Look::Isolated => {
                    self.last_migrated = self.last_migrated.or(Some(self.migrate_pfn));
                    self.migrate_pfn.0 += 1;
                }
                Look::Stuck => {
                    self.work.abandoned += self.filled as u64;
                    self.put_back();
                    self.abandon_chosen(true);
                    self.phase = Phase::Check;
                    return true;
                }
            }
        }
        self.note_budget();
        (self.at, self.pass, self.failed) = (0, 0, false);
        self.phase = if self.contended || self.filled == 0 { Phase::Settle } else { Phase::Move };
        true
    }

    /// Asks the engine for a block; `false` where it does not choose.
    fn choose(&mut self, order: Order) -> bool {
        let choice = self.map.choose(&self.plan, order, &mut self.chooser);
        self.work.migrate_scanned += self.chooser.examined;
        self.spent += core::mem::take(&mut self.chooser.examined);
        self.chooses = choice != Choice::Scan;
        let block = match choice {
            Choice::Scan => return false,
            Choice::Nothing => {
                self.exhausted = true;
                self.phase = Phase::Check;
                return true;
            }
            Choice::Block(block) => block,
        };
        let pageblock = block.pfn.pageblock();
        self.source = None;
        if self.targets.iter().flatten().any(|t| t.block == pageblock) {
            // Free frames of it are in stock: it cannot be both ends at once.
            self.release_stock();
        }
        // Where another compactor has it, the engine will choose another one.
        let Some(lease) = self.lease(pageblock, Role::Source) else { return true };
        self.source = Some((pageblock, lease));
        (self.chosen, self.migrate_pfn) = (Some(block), block.pfn);
        // Frames of a block that is larger than a cluster are moved before all of it was isolated: one that cannot
        // move had better be known before.
        if order.frames().0 > CLUSTER as u64 && !self.probe(block) {
            self.abandon_chosen(true);
        }
        true
    }

    /// Says whether every frame of a block can be isolated, by isolating each and putting it back.
    fn probe(&mut self, block: BlockId) -> bool {
        let end = Pfn(block.pfn.0 + block.order.frames().0);
        let mut at = block.pfn;
        while at < end {
            let look = self.look(at);
            self.work.isolated -= self.filled as u64;
            self.put_back();
            match look {
                Look::Pass(n) => at.0 += n,
                Look::Isolated => at.0 += 1,
                Look::Stuck => return false,
            }
        }
        true
    }

    fn look(&mut self, pfn: Pfn) -> Look {
        self.work.migrate_scanned += 1;
        self.spent += 1;
        // The rest of a pageblock that two zones share is the other zone's.
        if !self.span.spans(pfn) {
            return Look::Stuck;
        }
        match self.map.frame(pfn) {
            FrameState::Free(order) => Look::Pass(order.frames().0),
            FrameState::Allocated(Order::ZERO) => match self.owner.isolate(pfn, self.plan.mode) {
                Ok(frame) => {
                    self.isolated[self.filled] = Some((pfn, frame));
                    self.filled += 1;
                    self.work.isolated += 1;
                    Look::Isolated
                }
                Err(_) => Look::Stuck,
            },
            _ => Look::Stuck,
        }
    }

    /// Gives a chosen block up. One with a frame that cannot move is not chosen again until something in its pageblock is
    /// freed, and is a good place to move others to.
    pub(super) fn abandon_chosen(&mut self, stuck: bool) {
        if let Some(block) = self.chosen.take()
            && stuck
        {
            self.chooser.stuck += 1;
            if block.order >= PAGEBLOCK_ORDER {
                self.map.set_skip(self.plan.zone, block.pfn.pageblock(), true);
            }
        }
        self.release_held();
        self.last_migrated = None;
        self.source = None;
    }

    /// Lets go of a chosen block that has been emptied.
    pub(super) fn leave_chosen(&mut self) {
        let done = |b: BlockId| self.migrate_pfn.0 >= b.pfn.0 + b.order.frames().0;
        if self.chosen.is_some_and(done) {
            (self.chosen, self.source, self.last_migrated) = (None, None, None);
            self.release_held();
        }
    }
}
