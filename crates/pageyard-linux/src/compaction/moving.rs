//! The moves of a cluster: its blocks in the order of moving, and the frames of those that were split.

use super::view::Cluster;
use pageyard_core::allocator::Cx;
use pageyard_core::compaction::IsolatedBlock;
use pageyard_core::compaction::{Busy, Migrate, MigrateError, Mode};
use pageyard_core::units::{BlockId, Order, Pfn};

/// A cluster that is being moved: its blocks, most of them single frames, and how far it is.
pub(super) struct Moving<'a, O: Migrate> {
    cluster: Cluster<'a, O>,
    /// Whether the block that was isolated last is moved first.
    downwards: bool,
    /// Which block is next: its number in the order of moving.
    pub(super) at: usize,
    /// How often all blocks were tried.
    pub(super) rounds: u8,
    pub(super) stage: Stage,
    pub(super) turn: Turn,
    /// The frames of blocks that were split, in the order in which they move.
    parts: Cluster<'a, O>,
    /// Whether a block is to stay: its owner refused to move it, or there is no target for a part of it.
    refused: bool,
    /// Frames that were moved.
    pub(super) moved: u64,
}

/// Step of moving a cluster as a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Each block gets a target.
    Pair,
    /// Those that have one are moved; whether there was none for the others.
    Move { starved: bool },
    /// Those that did not move are tried one by one.
    Single,
}

/// Which blocks of a cluster are being moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// Those that were isolated by a scan.
    Found,
    /// The frames of those that were split, which are tried once, without waiting.
    Parts,
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
    pub(super) fn new(cluster: Cluster<'a, O>, downwards: bool) -> Moving<'a, O> {
        let parts = Cluster::<O>::new(cluster.owner(), cluster.mode());
        let (stage, turn) = (Stage::Pair, Turn::Found);
        Moving { cluster, downwards, at: 0, rounds: 0, stage, turn, parts, refused: false, moved: 0 }
    }

    /// Takes the cluster out.
    pub(super) fn take(&mut self) -> Cluster<'a, O> {
        self.cluster.take()
    }

    /// Returns how many frames are still here.
    pub(super) fn left(&self) -> usize {
        self.cluster.left()
    }

    /// Returns how many frames are still here, those of blocks that were split included.
    pub(super) fn held(&self) -> usize {
        self.left() + self.parts.left()
    }

    /// Returns how many frames there were.
    pub(super) fn frames(&self) -> usize {
        self.cluster.frames() as usize
    }

    /// Returns how many blocks there were.
    fn places(&self) -> usize {
        self.cluster.places()
    }

    /// Returns the place of a block by its number in the order of moving.
    fn place(&self, n: usize) -> usize {
        if self.downwards { self.places() - 1 - n } else { n }
    }

    /// Goes on to the next block that is still here, and returns it.
    pub(super) fn seek(&mut self) -> Option<BlockId> {
        let found = (self.at..self.places()).find_map(|n| Some((n, self.block(n)?)));
        self.at = found.map_or(self.places(), |(n, _)| n);
        found.map(|(_, block)| block)
    }

    /// Asks the owner to move the next block. The block stays here whatever the answer.
    pub(super) fn migrate(&mut self, to: Pfn, mode: Mode) -> Result<(), MigrateError> {
        self.cluster.migrate(self.place(self.at), to, mode)
    }

    /// Returns the mode that the cluster was isolated for.
    pub(super) fn mode(&self) -> Mode {
        self.cluster.mode()
    }

    /// Takes the next block out, to be dropped: it has moved, or there is nothing left to move.
    pub(super) fn remove(&mut self) -> Option<IsolatedBlock<O>> {
        self.cluster.remove(self.place(self.at))
    }

    /// Returns a block by its number in the order of moving, if it is still here.
    pub(super) fn block(&self, n: usize) -> Option<BlockId> {
        self.cluster.block(self.place(n))
    }

    /// Puts the next block back: it will not move.
    pub(super) fn refuse(&mut self) {
        self.refused = true;
        self.cluster.refuse(self.place(self.at));
    }

    /// Has the next block split by its owner, and isolates its frames; returns whether that was done. A frame that
    /// another has got hold of meanwhile is none of ours.
    ///
    /// # Linux
    /// `try_split_folio`: the last frame is moved first, and the first one last.
    pub(super) fn split(&mut self, cx: &Cx) -> bool {
        let (owner, mode, place) = (self.cluster.owner(), self.cluster.mode(), self.place(self.at));
        let Some((block, token)) = self.cluster.remove(place) else { return false };
        if let Err(token) = owner.split(cx, block, token, mode) {
            self.cluster.restore(place, (block, token));
            return false;
        }
        for n in (0..block.order.frames().0).rev() {
            let part = BlockId { pfn: Pfn(block.pfn.0 + n), order: Order::ZERO };
            let stays = |busy| busy != Busy::Gone;
            self.refused |= self.parts.is_full() || self.parts.isolate(part).is_err_and(stays);
        }
        true
    }

    /// Goes on to the frames of blocks that were split, if there are any. What did not move before is put back.
    pub(super) fn turn_to_parts(&mut self) -> bool {
        if self.turn == Turn::Parts || self.parts.is_empty() {
            return false;
        }
        self.refused |= self.left() > 0;
        self.cluster.put_back();
        self.cluster = self.parts.take();
        self.cluster.set_mode(Mode::Async);
        (self.downwards, self.turn, self.stage) = (false, Turn::Parts, Stage::Pair);
        (self.at, self.rounds) = (0, 0);
        true
    }

    /// Says how the moves ended, if no more are tried.
    pub(super) fn ending(&self) -> Ending {
        if self.left() > 0 || self.refused { Ending::Stayed } else { Ending::Moved }
    }
}
