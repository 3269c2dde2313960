//! A second opinion on ownership: one word a frame, written by owners, that shares nothing with an engine.

use pageyard::{BlockId, Pfn};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

/// The owner of a frame: zero is none.
pub(super) type Owner = u32;

/// The owner's words and the contents of all frames.
pub(super) struct Oracle {
    owners: Box<[AtomicU32]>,
    /// Whether a frame may hold anything but zeros.
    dirty: Box<[AtomicBool]>,
}

/// Returns the number of a thread as an owner.
pub(super) fn thread(me: u32) -> Owner {
    2 * me + 1
}

/// Returns the number of a thread's signal handler as an owner.
pub(super) fn handler(me: u32) -> Owner {
    2 * me + 2
}

/// Returns the number of the shared owner's slot as an owner.
pub(super) fn slot(at: u32) -> Owner {
    1 << 31 | at
}

impl Oracle {
    pub(super) fn new(frames: u64) -> Oracle {
        Oracle {
            owners: (0..frames).map(|_| AtomicU32::new(0)).collect(),
            dirty: (0..frames).map(|_| AtomicBool::new(true)).collect(),
        }
    }

    /// Changes the owner of every frame of a block; names the first frame that had another owner, and that owner.
    pub(super) fn change(&self, block: BlockId, from: Owner, to: Owner) -> Result<(), (u64, Owner)> {
        for pfn in block.pfn.0..block.pfn.0 + block.order.frames().0 {
            let Some(word) = self.owners.get(pfn as usize) else { return Err((pfn, Owner::MAX)) };
            word.compare_exchange(from, to, SeqCst, SeqCst).map_err(|other| (pfn, other))?;
        }
        Ok(())
    }

    /// Returns the owner of a frame.
    pub(super) fn owner(&self, pfn: Pfn) -> Owner {
        self.owners.get(pfn.0 as usize).map_or(0, |w| w.load(SeqCst))
    }

    /// Returns the first frame of a block that has an owner, and that owner.
    pub(super) fn first_owned(&self, block: BlockId) -> Option<(u64, Owner)> {
        let frames = block.pfn.0..block.pfn.0 + block.order.frames().0;
        frames.map(|pfn| (pfn, self.owner(Pfn(pfn)))).find(|(_, owner)| *owner != 0)
    }

    /// Counts the frames that have an owner.
    pub(super) fn owned(&self) -> u64 {
        self.owners.iter().filter(|w| w.load(SeqCst) != 0).count() as u64
    }

    /// Writes to a block that its owner holds: zeros, or anything.
    pub(super) fn fill(&self, block: BlockId, dirty: bool) {
        let first = block.pfn.0 as usize;
        self.dirty[first..first + block.order.frames().0 as usize]
            .iter()
            .for_each(|d| d.store(dirty, SeqCst));
    }

    /// Returns the first frame of a block that may hold anything but zeros.
    pub(super) fn first_dirty(&self, block: BlockId) -> Option<u64> {
        (block.pfn.0..block.pfn.0 + block.order.frames().0).find(|pfn| self.dirty[*pfn as usize].load(SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::Order;

    #[test]
    fn a_second_owner_is_named() {
        let oracle = Oracle::new(16);
        let block = |pfn, order| BlockId { pfn: Pfn(pfn), order: Order::of(order) };
        assert_eq!(oracle.change(block(5, 0), 0, thread(1)), Ok(()));
        assert_eq!(oracle.change(block(4, 1), 0, thread(2)), Err((5, thread(1))));
        assert_eq!(oracle.change(block(15, 1), 0, thread(2)), Err((16, Owner::MAX)));
        assert_eq!((oracle.owner(Pfn(4)), oracle.owned()), (thread(2), 3));
    }

    #[test]
    fn contents_are_zero_only_where_they_were_cleared() {
        let oracle = Oracle::new(8);
        let block = BlockId { pfn: Pfn(4), order: Order::of(2) };
        assert_eq!(oracle.first_dirty(block), Some(4));
        oracle.fill(block, false);
        oracle.fill(BlockId { pfn: Pfn(6), order: Order::ZERO }, true);
        assert_eq!(oracle.first_dirty(block), Some(6));
    }
}
