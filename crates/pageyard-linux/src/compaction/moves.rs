//! The moves: each isolated frame of a cluster goes to a free frame, and each block to a free block, while there are
//! any.

use super::knobs::Moves;
use super::moving::{Ending, Moving, Stage, Turn};
use super::pass::Pass;
use super::view::CompactionView;
use pageyard_core::compaction::Step;
use pageyard_core::compaction::{Migrate, MigrateError, Mode};
use pageyard_core::units::{BlockId, Order, Pfn};

/// Times that a frame is tried before its migration counts as failed.
///
/// # Linux
/// `NR_MAX_MIGRATE_PAGES_RETRY`.
pub(super) const ROUNDS: u8 = 10;

/// How many of them are spent on a whole batch that may wait, before its frames are tried one by one.
///
/// # Linux
/// `NR_MAX_MIGRATE_ASYNC_RETRY`, and what it leaves for `NR_MAX_MIGRATE_SYNC_RETRY`.
const ROUNDS_OF_BATCH: u8 = 3;

impl<M: CompactionView, O: Migrate> Pass<'_, M, O> {
    /// Moves one frame, or looks for frames to move to. Says how the cluster ended, if it did.
    ///
    /// # Linux
    /// `migrate_pages` with `compaction_alloc`.
    pub(super) fn move_one(&mut self, moving: &mut Moving<'_, O>) -> Option<Ending> {
        let ending = match self.job.knobs.moves {
            Moves::Upwards | Moves::Downwards => self.move_single(moving, ROUNDS),
            Moves::Batch => match moving.stage {
                Stage::Pair => self.pair_one(moving),
                Stage::Move { starved } => self.move_paired(moving, starved),
                Stage::Single => self.move_single(moving, ROUNDS - ROUNDS_OF_BATCH),
            },
        }?;
        let ending = match ending {
            // That there is none for a part is no reason to end.
            Ending::Starved if moving.turn == Turn::Parts => Ending::Stayed,
            // The parts of those that were split are put back as well.
            Ending::Starved => Ending::Starved,
            _ if moving.turn_to_parts() => return None,
            _ => ending,
        };
        if self.targets.is_empty() {
            self.targets.end_leases();
        }
        self.owner.step(Step::Moved(moving.moved));
        Some(ending)
    }

    /// Moves one frame to a free frame that it gets now.
    ///
    /// # Linux
    /// `unmap_and_move`; since 6.3 `migrate_folio_unmap` and `migrate_folio_move`. In 6.1 each round goes through all
    /// frames; in 6.12 each frame is tried to the end before the next one (`migrate_pages_sync`).
    fn move_single(&mut self, moving: &mut Moving<'_, O>, rounds: u8) -> Option<Ending> {
        let alone = moving.stage == Stage::Single;
        let Some(BlockId { order, .. }) = moving.seek() else {
            moving.rounds += 1;
            moving.at = 0;
            let once = alone || moving.turn == Turn::Parts;
            let over = once || moving.left() == 0 || moving.rounds >= rounds;
            return over.then(|| self.moved_all(moving));
        };
        if !self.targets.has(order) || self.is_refilling() {
            let want = match self.job.knobs.moves {
                Moves::Downwards => moving.frames(),
                Moves::Upwards | Moves::Batch => moving.held(),
            };
            return match self.refill(want, order) {
                true => None,
                false => self.lacks(moving, order),
            };
        }
        let stays = if order == Order::ZERO {
            let to = self.targets.next()?;
            self.migrate(moving, to, moving.mode(), |pass| pass.targets.used())
        } else {
            let to = self.targets.single(order)?;
            let stays = self.migrate(moving, to, moving.mode(), |pass| pass.targets.used_single());
            self.targets.put_back_single();
            stays
        };
        if alone && stays {
            // It keeps its target meanwhile, so nothing else happens between two attempts.
            moving.rounds += 1;
            if moving.rounds < rounds {
                return None;
            }
            moving.rounds = 0;
        }
        moving.at += 1;
        None
    }

    /// Finds a target for the next block of a batch.
    ///
    /// # Linux
    /// `migrate_pages_batch`, its first loop: `migrate_folio_unmap` of each block.
    fn pair_one(&mut self, moving: &mut Moving<'_, O>) -> Option<Ending> {
        let Some(BlockId { order, .. }) = moving.seek() else {
            (moving.at, moving.stage) = (0, Stage::Move { starved: false });
            return None;
        };
        if !self.targets.has(order) || self.is_refilling() {
            if self.refill(moving.held() - self.targets.paired(), order) {
                return None;
            }
            if moving.turn == Turn::Found && self.split(moving, order) {
                self.targets.pair_none();
                moving.at += 1;
                return None;
            }
            if self.targets.paired() == 0 {
                return Some(self.starve(order));
            }
            self.work.failed += order.frames().0;
            (moving.at, moving.stage) = (0, Stage::Move { starved: true });
            return None;
        }
        moving.at += usize::from(self.targets.pair(order));
        None
    }

    /// Moves the next frame that has a target.
    ///
    /// # Linux
    /// `migrate_pages_batch`, its second loop: `migrate_folio_move`. Where it may wait, what is left is tried one by
    /// one.
    fn move_paired(&mut self, moving: &mut Moving<'_, O>, starved: bool) -> Option<Ending> {
        let waits = moving.mode() != Mode::Async;
        let Some((at, to)) = self.targets.paired_from(moving.at) else {
            let rounds = if waits { ROUNDS_OF_BATCH } else { ROUNDS };
            moving.rounds += 1;
            moving.at = 0;
            if self.targets.paired() > 0 && moving.rounds < rounds && moving.turn == Turn::Found {
                return None;
            }
            self.targets.unpair();
            if starved {
                return Some(Ending::Starved);
            }
            if !waits || moving.left() == 0 {
                return Some(self.moved_all(moving));
            }
            (moving.rounds, moving.stage) = (0, Stage::Single);
            return None;
        };
        moving.at = at;
        // What may wait is tried without waiting first.
        self.migrate(moving, to, Mode::Async, |pass| pass.targets.used_pair(at));
        if moving.block(at).is_none() {
            self.targets.unpair_one(at);
        }
        moving.at += 1;
        None
    }

    /// Asks the owner to move the next block; `used` takes its target out of what the pass holds. Returns whether it
    /// may succeed later.
    fn migrate(
        &mut self,
        moving: &mut Moving<'_, O>,
        to: Pfn,
        mode: Mode,
        used: impl FnOnce(&mut Self),
    ) -> bool {
        // The block and its target stay where they are until this returns: a panic loses neither.
        match moving.migrate(to, mode) {
            Ok(()) => {
                // The target is the owner's now. What the owner's token does when it is dropped comes last: if that
                // panics, nothing of this move is left to undo.
                let moved = moving.remove();
                used(self);
                if let Some((from, token)) = moved {
                    self.work.moved += from.order.frames().0;
                    moving.moved += from.order.frames().0;
                    self.job.map.migrated(from, to);
                    self.job.map.free_migrated(&self.job.cx, from);
                    drop(token);
                }
            }
            Err(MigrateError::Again) => return true,
            Err(MigrateError::Refused) => {
                self.work.failed += moving.block(moving.at).map_or(0, |block| block.order.frames().0);
                moving.refuse();
            }
            Err(MigrateError::Gone) => drop(moving.remove()),
        }
        false
    }

    /// No frame is tried any more.
    fn moved_all(&mut self, moving: &Moving<'_, O>) -> Ending {
        self.work.failed += moving.left() as u64;
        moving.ending()
    }

    /// There is no target for a block that is moved alone: it is split, or the moves end.
    fn lacks(&mut self, moving: &mut Moving<'_, O>, order: Order) -> Option<Ending> {
        if !self.split(moving, order) {
            return Some(self.starve(order));
        }
        moving.rounds = if moving.stage == Stage::Single { 0 } else { moving.rounds };
        moving.at += 1;
        None
    }

    /// Has the next block split, if it has several frames and its owner does that.
    fn split(&mut self, moving: &mut Moving<'_, O>, order: Order) -> bool {
        order > Order::ZERO && moving.split(&self.job.cx)
    }

    /// There is no target left for a block of this order.
    fn starve(&mut self, order: Order) -> Ending {
        self.work.failed += order.frames().0;
        Ending::Starved
    }
}
