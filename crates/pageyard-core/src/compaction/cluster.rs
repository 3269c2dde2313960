//! Isolated frames: found by a scan, moved one by one, and put back if they were not moved.

use super::migrate::{Busy, Migrate, MigrateError, Mode};
use super::room::Room;
use super::stock::FreeStock;
use super::view::CompactionView;
use crate::units::Pfn;

/// Frames that are isolated before they are moved, except where a pageblock is finished.
///
/// # Linux
/// `COMPACT_CLUSTER_MAX`.
pub const CLUSTER: usize = FreeStock::MOST;

/// A frame that its owner has taken out of use.
type Isolated<O> = (Pfn, <O as Migrate>::Isolated);

/// Frames that their owner has taken out of use. Those still here when it is dropped are put back.
pub(super) struct Cluster<'a, M: CompactionView, O: Migrate> {
    owner: &'a O,
    mode: Mode,
    frames: M::Room<Isolated<O>>,
}

impl<'a, M: CompactionView, O: Migrate> Cluster<'a, M, O> {
    pub(super) fn new(owner: &'a O, mode: Mode) -> Cluster<'a, M, O> {
        Cluster { owner, mode, frames: Room::new() }
    }

    /// Takes the whole cluster out and leaves an empty one.
    pub(super) fn take(&mut self) -> Cluster<'a, M, O> {
        let empty = Cluster::new(self.owner, self.mode);
        core::mem::replace(self, empty)
    }

    /// Isolates a frame. There must be room.
    pub(super) fn isolate(&mut self, pfn: Pfn) -> Result<(), Busy> {
        let frame = self.owner.isolate(pfn, self.mode)?;
        self.frames.push((pfn, frame));
        Ok(())
    }

    /// Returns how many frames were isolated, including those that have left since.
    pub(super) fn filled(&self) -> usize {
        self.frames.places().len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.filled() == 0
    }

    /// Says whether it holds `most` frames, or as many as fit.
    pub(super) fn has(&self, most: usize) -> bool {
        self.filled() >= most || self.frames.is_full()
    }

    /// Returns how many frames are still here.
    pub(super) fn left(&self) -> usize {
        self.frames.places().iter().flatten().count()
    }

    /// Puts all frames back, including those after one whose owner panics.
    pub(super) fn put_back(&mut self) {
        PutBack { owner: self.owner, left: self.frames.places_mut().iter_mut() }.run();
        self.frames.clear();
    }
}

impl<M: CompactionView, O: Migrate> Drop for Cluster<'_, M, O> {
    fn drop(&mut self) {
        self.put_back();
    }
}

/// Isolated frames on their way back to their owner.
struct PutBack<'s, O: Migrate> {
    owner: &'s O,
    left: core::slice::IterMut<'s, Option<Isolated<O>>>,
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

/// A cluster that is being moved: its frames, and how far it is.
pub(super) struct Moving<'a, M: CompactionView, O: Migrate> {
    cluster: Cluster<'a, M, O>,
    /// Whether the frame that was isolated last is moved first.
    downwards: bool,
    /// Which frame is next: its number in the order of moving.
    pub(super) at: usize,
    /// How often all frames were tried.
    pub(super) rounds: u8,
    pub(super) stage: Stage,
    /// Whether an owner has refused to move a frame.
    refused: bool,
    /// Frames that were moved.
    pub(super) moved: u64,
}

/// What is done with a cluster that is moved as a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Each frame gets a target.
    Pair,
    /// Those that have one are moved; whether there was none for the others.
    Move { starved: bool },
    /// Those that did not move are tried one by one.
    Single,
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

impl<'a, M: CompactionView, O: Migrate> Moving<'a, M, O> {
    pub(super) fn new(cluster: Cluster<'a, M, O>, downwards: bool) -> Moving<'a, M, O> {
        Moving { cluster, downwards, at: 0, rounds: 0, stage: Stage::Pair, refused: false, moved: 0 }
    }

    /// Takes the cluster out.
    pub(super) fn take(&mut self) -> Cluster<'a, M, O> {
        self.cluster.take()
    }

    /// Returns how many frames are still here.
    pub(super) fn left(&self) -> usize {
        self.cluster.left()
    }

    /// Returns how many frames there were.
    pub(super) fn filled(&self) -> usize {
        self.cluster.filled()
    }

    /// Returns the place of a frame by its number in the order of moving.
    fn place(&self, n: usize) -> usize {
        if self.downwards { self.filled() - 1 - n } else { n }
    }

    /// Goes on to the next frame that is still here; `false` where there is none.
    pub(super) fn seek(&mut self) -> bool {
        let found = (self.at..self.filled()).find(|n| self.frame(*n).is_some());
        self.at = found.unwrap_or(self.filled());
        found.is_some()
    }

    /// Asks the owner to move the next frame. The frame stays here whatever the answer.
    pub(super) fn migrate(&mut self, to: Pfn, mode: Mode) -> Result<(), MigrateError> {
        let place = self.place(self.at);
        let Cluster { owner, frames, .. } = &mut self.cluster;
        match &mut frames.places_mut()[place] {
            Some((_, frame)) => owner.migrate(frame, to, mode),
            None => Err(MigrateError::Gone),
        }
    }

    /// Returns the mode that the cluster was isolated for.
    pub(super) fn mode(&self) -> Mode {
        self.cluster.mode
    }

    /// Takes the next frame out, to be dropped: it has moved, or there is nothing left to move.
    pub(super) fn remove(&mut self) -> Option<Isolated<O>> {
        let place = self.place(self.at);
        self.cluster.frames.places_mut()[place].take()
    }

    /// Returns a frame by its number in the order of moving, if it is still here.
    pub(super) fn frame(&self, n: usize) -> Option<Pfn> {
        self.cluster.frames.places()[self.place(n)].as_ref().map(|(pfn, _)| *pfn)
    }

    /// Returns the first frame that is still here.
    pub(super) fn first(&self) -> Option<Pfn> {
        self.cluster.frames.places().iter().flatten().map(|(pfn, _)| *pfn).next()
    }

    /// Puts the next frame back: it will not move.
    pub(super) fn refuse(&mut self) {
        self.refused = true;
        if let Some((_, frame)) = self.remove() {
            self.cluster.owner.putback(frame);
        }
    }

    /// Says how the moves ended, if no more are tried.
    pub(super) fn ending(&self) -> Ending {
        if self.left() > 0 || self.refused { Ending::Stayed } else { Ending::Moved }
    }
}
