//! The moves: each isolated frame of a cluster goes to a free frame, while there are any.

use super::cluster::{Ending, Moving, Turn};
use super::migrate::{Migrate, MigrateError};
use super::pass::Pass;
use super::view::CompactionView;

impl<M: CompactionView> Pass<'_, M> {
    /// Moves one frame, or looks for frames to move to. Says how the cluster ended, if it did.
    ///
    /// # Linux
    /// `migrate_pages` with `compaction_alloc`.
    pub(super) fn move_one<O: Migrate>(&mut self, moving: &mut Moving<'_, O>) -> Option<Ending> {
        let at = match moving.turn() {
            Turn::Frame(at) => at,
            Turn::Again => return None,
            Turn::Over(left) => {
                self.work.failed += left as u64;
                let stayed = left > 0 || moving.was_refused();
                return Some(self.moved(if stayed { Ending::Stayed } else { Ending::Moved }));
            }
        };
        let Some(to) = self.targets.next().filter(|_| !self.is_refilling()) else {
            if self.refill(moving.left()) {
                return None;
            }
            self.work.failed += 1;
            return Some(self.moved(Ending::Starved));
        };
        // The frame and its target stay where they are until this returns: a panic loses neither.
        match moving.migrate(at, to) {
            Ok(()) => {
                // The target is the owner's now. What the owner's token does when it is dropped comes last: if that
                // panics, nothing of this move is left to undo.
                let moved = moving.remove(at);
                self.targets.used();
                self.work.moved += 1;
                if let Some((from, token)) = moved {
                    self.job.map.migrated(from, to);
                    self.job.map.free_migrated(&self.job.cx, from);
                    drop(token);
                }
            }
            Err(MigrateError::Again) => {}
            Err(MigrateError::Refused) => {
                self.work.failed += 1;
                moving.refuse(at);
            }
            Err(MigrateError::Gone) => drop(moving.remove(at)),
        }
        moving.pass(at);
        None
    }

    /// The cluster is done with.
    fn moved(&mut self, ending: Ending) -> Ending {
        if self.targets.is_empty() {
            self.targets.end_leases();
        }
        ending
    }
}
