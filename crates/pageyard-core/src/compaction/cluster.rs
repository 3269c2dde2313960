//! Isolated frames, and blocks of several: taken out of use by their owner, moved one by one, and put back if they were
//! not moved.

use super::migrate::{Busy, Migrate, MigrateError, Mode};
use super::room::Room;
use crate::units::{BlockId, Order, Pfn};

/// Frames that are isolated before they are moved, except where a pageblock is finished.
///
/// # Linux
/// `COMPACT_CLUSTER_MAX`.
pub const CLUSTER: usize = 32;

/// A block that its owner has taken out of use: a frame, or several that move as a whole.
pub type IsolatedBlock<O> = (BlockId, <O as Migrate>::Isolated);

/// Blocks, most of them single frames, that their owner has taken out of use. Those still here when it is dropped are
/// put back, including those after one whose owner panics.
///
/// Each block has a place, which keeps its number when others leave.
pub struct Cluster<'a, O: Migrate, R: Room<IsolatedBlock<O>>> {
    owner: &'a O,
    mode: Mode,
    blocks: R,
    /// Their frames, those of blocks that have left since included.
    frames: u64,
}

impl<'a, O: Migrate, R: Room<IsolatedBlock<O>>> Cluster<'a, O, R> {
    /// Makes an empty one.
    pub fn new(owner: &'a O, mode: Mode) -> Self {
        Cluster { owner, mode, blocks: R::new(), frames: 0 }
    }

    /// Takes the whole cluster out and leaves an empty one.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let empty = Cluster::new(self.owner, self.mode);
        core::mem::replace(self, empty)
    }

    /// Isolates a frame, or a block as a whole. There must be room.
    ///
    /// # Errors
    /// As [`Migrate::isolate`].
    pub fn isolate(&mut self, block: BlockId) -> Result<(), Busy> {
        let token = match block.order {
            Order::ZERO => self.owner.isolate(block.pfn, self.mode)?,
            _ => self.owner.isolate_block(block, self.mode)?,
        };
        self.blocks.push((block, token));
        self.frames += block.order.frames().0;
        Ok(())
    }

    /// Returns the owner.
    #[must_use]
    pub fn owner(&self) -> &'a O {
        self.owner
    }

    /// Returns the mode that blocks are isolated for.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Changes the mode that blocks count as isolated for.
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// Returns how many frames were isolated, including those that have left since.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Returns whether no frame was isolated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// Returns whether it holds `most` frames or more, or as many blocks as fit.
    #[must_use]
    pub fn has(&self, most: usize) -> bool {
        self.frames >= most as u64 || self.is_full()
    }

    /// Returns whether it holds as many blocks as fit.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.blocks.is_full()
    }

    /// Returns how many frames are still here.
    #[must_use]
    pub fn left(&self) -> usize {
        let left = self.blocks.places().iter().flatten();
        left.map(|(block, _)| block.order.frames().0 as usize).sum()
    }

    /// Returns the first frame that is still here.
    #[must_use]
    pub fn first(&self) -> Option<Pfn> {
        self.blocks.places().iter().flatten().map(|(block, _)| block.pfn).next()
    }

    /// Returns how many places were filled.
    #[must_use]
    pub fn places(&self) -> usize {
        self.blocks.places().len()
    }

    /// Returns the block at a place, if it is still here.
    #[must_use]
    pub fn block(&self, place: usize) -> Option<BlockId> {
        self.blocks.places().get(place)?.as_ref().map(|(block, _)| *block)
    }

    /// Asks the owner to move the block at a place. The block stays here whatever the answer.
    ///
    /// # Errors
    /// As [`Migrate::migrate`]; [`MigrateError::Gone`] where no block is there.
    pub fn migrate(&mut self, place: usize, to: Pfn, mode: Mode) -> Result<(), MigrateError> {
        match self.blocks.places_mut().get_mut(place) {
            Some(Some((_, token))) => self.owner.migrate(token, to, mode),
            _ => Err(MigrateError::Gone),
        }
    }

    /// Takes the block at a place out, to be dropped: it has moved, or there is nothing left to move.
    pub fn remove(&mut self, place: usize) -> Option<IsolatedBlock<O>> {
        self.blocks.places_mut().get_mut(place)?.take()
    }

    /// Returns a block to the place that it was taken from.
    pub fn restore(&mut self, place: usize, isolated: IsolatedBlock<O>) {
        if let Some(slot) = self.blocks.places_mut().get_mut(place) {
            *slot = Some(isolated);
        }
    }

    /// Puts the block at a place back: it will not move.
    pub fn refuse(&mut self, place: usize) {
        if let Some((_, token)) = self.remove(place) {
            self.owner.putback(token);
        }
    }

    /// Puts all blocks back, including those after one whose owner panics.
    pub fn put_back(&mut self) {
        PutBack { owner: self.owner, left: self.blocks.places_mut().iter_mut() }.run();
        self.blocks.clear();
        self.frames = 0;
    }
}

impl<O: Migrate, R: Room<IsolatedBlock<O>>> Drop for Cluster<'_, O, R> {
    fn drop(&mut self) {
        self.put_back();
    }
}

/// Isolated blocks on their way back to their owner.
struct PutBack<'s, O: Migrate> {
    owner: &'s O,
    left: core::slice::IterMut<'s, Option<IsolatedBlock<O>>>,
}

impl<O: Migrate> PutBack<'_, O> {
    fn run(&mut self) {
        for slot in &mut self.left {
            if let Some((_, token)) = slot.take() {
                self.owner.putback(token);
            }
        }
    }
}

impl<O: Migrate> Drop for PutBack<'_, O> {
    /// Continues after the block whose owner panicked.
    fn drop(&mut self) {
        self.run();
    }
}

#[cfg(test)]
mod tests {
    use super::super::room::Slots;
    use super::*;
    use core::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// An owner that counts what is put back, and panics at the second.
    struct Owner(Cell<u32>);

    // SAFETY: it moves nothing.
    unsafe impl Migrate for Owner {
        type Isolated = ();

        fn isolate(&self, _: Pfn, _: Mode) -> Result<(), Busy> {
            Ok(())
        }

        fn migrate(&self, (): &mut (), _: Pfn, _: Mode) -> Result<(), MigrateError> {
            Err(MigrateError::Refused)
        }

        fn putback(&self, (): ()) {
            self.0.set(self.0.get() + 1);
            assert_ne!(self.0.get(), 2, "the owner panics, as the test asked");
        }
    }

    #[test]
    fn a_dropped_cluster_is_put_back_whole_although_its_owner_panics_at_a_block() {
        let owner = Owner(Cell::new(0));
        let mut cluster: Cluster<'_, Owner, Slots<IsolatedBlock<Owner>, 8>> =
            Cluster::new(&owner, Mode::Sync);
        for pfn in (0..5).map(Pfn) {
            cluster.isolate(BlockId { pfn, order: Order::ZERO }).unwrap();
        }
        assert!(catch_unwind(AssertUnwindSafe(|| drop(cluster))).is_err());
        assert_eq!(owner.0.get(), 5);
    }
}
