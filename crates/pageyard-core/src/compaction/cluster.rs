//! Isolated frames: found by a scan, moved one by one, and put back if they were not moved.

use super::migrate::{Busy, Migrate, MigrateError, Mode};
use super::stock::FreeStock;
use crate::units::Pfn;

/// Frames that are isolated before they are moved.
///
/// # Linux
/// `COMPACT_CLUSTER_MAX`.
pub const CLUSTER: usize = FreeStock::MOST;

/// Times that a frame is tried again before its migration counts as failed.
///
/// # Linux
/// `migrate_pages`.
const ROUNDS: u8 = 10;

/// Frames that their owner has taken out of use. Those still here when it is dropped are put back.
pub(super) struct Cluster<'a, O: Migrate> {
    owner: &'a O,
    mode: Mode,
    frames: [Option<(Pfn, O::Isolated)>; CLUSTER],
    /// How many places have been filled. Only the first `filled` can hold a frame.
    filled: usize,
}

impl<'a, O: Migrate> Cluster<'a, O> {
    pub(super) fn new(owner: &'a O, mode: Mode) -> Cluster<'a, O> {
        Cluster { owner, mode, frames: [const { None }; CLUSTER], filled: 0 }
    }

    /// Takes the whole cluster out and leaves an empty one.
    pub(super) fn take(&mut self) -> Cluster<'a, O> {
        let empty = Cluster::new(self.owner, self.mode);
        core::mem::replace(self, empty)
    }

    /// Isolates a frame. The cluster must not be full.
    pub(super) fn isolate(&mut self, pfn: Pfn) -> Result<(), Busy> {
        let frame = self.owner.isolate(pfn, self.mode)?;
        self.frames[self.filled] = Some((pfn, frame));
        self.filled += 1;
        Ok(())
    }

    /// Returns how many frames were isolated, including those that have left since.
    pub(super) fn filled(&self) -> usize {
        self.filled
    }

    pub(super) fn is_empty(&self) -> bool {
        self.filled == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.filled == CLUSTER
    }

    /// Returns how many frames are still here.
    pub(super) fn left(&self) -> usize {
        self.frames[..self.filled].iter().flatten().count()
    }

    /// Puts all frames back, including those after one whose owner panics.
    pub(super) fn put_back(&mut self) {
        let filled = core::mem::take(&mut self.filled);
        PutBack { owner: self.owner, left: self.frames[..filled].iter_mut() }.run();
    }
}

impl<O: Migrate> Drop for Cluster<'_, O> {
    fn drop(&mut self) {
        self.put_back();
    }
}

/// Isolated frames on their way back to their owner.
struct PutBack<'s, O: Migrate> {
    owner: &'s O,
    left: core::slice::IterMut<'s, Option<(Pfn, O::Isolated)>>,
}

impl<O: Migrate> PutBack<'_, O> {
    fn run(&mut self) {
        for slot in &mut self.left {
            if let Some((_, frame)) = slot.take() {
                self.owner.putback(frame);
            }
        }
    }
}

impl<O: Migrate> Drop for PutBack<'_, O> {
    /// Continues after the frame whose owner panicked.
    fn drop(&mut self) {
        self.run();
    }
}

/// A cluster that is being moved.
pub(super) struct Moving<'a, O: Migrate> {
    cluster: Cluster<'a, O>,
    /// The place that is looked at next.
    at: usize,
    /// How often all places were looked at.
    rounds: u8,
    /// Whether an owner has refused to move a frame.
    refused: bool,
}

/// Which frame is to move next.
pub(super) enum Turn {
    /// The one at this place.
    Frame(usize),
    /// None yet: another round begins.
    Again,
    /// None: this many are left that would not move.
    Over(usize),
}

/// How the moves of a cluster ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    /// Each frame moved, or was freed by its owner; or nothing was to be moved.
    Moved,
    /// A frame stayed where it was.
    Stayed,
    /// There was no free frame to move one to.
    Starved,
}

impl<'a, O: Migrate> Moving<'a, O> {
    pub(super) fn new(cluster: Cluster<'a, O>) -> Moving<'a, O> {
        Moving { cluster, at: 0, rounds: 0, refused: false }
    }

    /// Takes the cluster out.
    pub(super) fn take(&mut self) -> Cluster<'a, O> {
        self.cluster.take()
    }

    /// Returns how many frames are still here.
    pub(super) fn left(&self) -> usize {
        self.cluster.left()
    }

    /// Says whether an owner has refused to move a frame.
    pub(super) fn was_refused(&self) -> bool {
        self.refused
    }

    /// Finds the next frame to move.
    ///
    /// # Linux
    /// `migrate_pages`: up to ten passes over the frames that may succeed later.
    pub(super) fn turn(&mut self) -> Turn {
        let Cluster { frames, filled, .. } = &self.cluster;
        if let Some(at) = (self.at..*filled).find(|i| frames[*i].is_some()) {
            self.at = at;
            return Turn::Frame(at);
        }
        let left = self.cluster.left();
        if left == 0 || self.rounds + 1 >= ROUNDS {
            return Turn::Over(left);
        }
        (self.at, self.rounds) = (0, self.rounds + 1);
        Turn::Again
    }

    /// Asks the owner to move the frame at a place. The frame stays here whatever the answer.
    pub(super) fn migrate(&mut self, at: usize, to: Pfn) -> Result<(), MigrateError> {
        let Cluster { owner, mode, frames, .. } = &mut self.cluster;
        match &mut frames[at] {
            Some((_, frame)) => owner.migrate(frame, to, *mode),
            None => Err(MigrateError::Gone),
        }
    }

    /// Takes the frame at a place out, to be dropped: it has moved, or there is nothing left to move.
    pub(super) fn remove(&mut self, at: usize) -> Option<(Pfn, O::Isolated)> {
        self.cluster.frames[at].take()
    }

    /// Returns the frame at a place.
    pub(super) fn frame(&self, at: usize) -> Option<Pfn> {
        self.cluster.frames[at].as_ref().map(|(pfn, _)| *pfn)
    }

    /// Returns the first frame that is still here.
    pub(super) fn first(&self) -> Option<Pfn> {
        self.cluster.frames[..self.cluster.filled].iter().flatten().map(|(pfn, _)| *pfn).next()
    }

    /// Puts the frame at a place back: it will not move.
    pub(super) fn refuse(&mut self, at: usize) {
        self.refused = true;
        if let Some((_, frame)) = self.cluster.frames[at].take() {
            self.cluster.owner.putback(frame);
        }
    }

    /// Continues after a place.
    pub(super) fn pass(&mut self, at: usize) {
        self.at = at + 1;
    }
}
