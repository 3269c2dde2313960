//! Which blocks the recorded allocations hold.

use std::collections::HashMap;

/// Blocks by their first frame, with their order.
///
/// Memory is that of the blocks held at once: a long trace of short-lived blocks stays small.
#[derive(Default)]
pub(super) struct LiveBlocks {
    blocks: HashMap<u64, u8>,
}

/// The relation of a free to the live blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freed {
    /// A held block.
    Whole,
    /// The start of a held block, with another order.
    OtherOrder,
    /// No frame that a held block starts at.
    Unknown,
}

impl LiveBlocks {
    /// Records an allocation, and returns whether a block that starts there was still held.
    pub(super) fn allocate(&mut self, pfn: u64, order: u8) -> bool {
        self.blocks.insert(pfn, order).is_some()
    }

    /// Records a free.
    pub(super) fn free(&mut self, pfn: u64, order: u8) -> Freed {
        match self.blocks.remove(&pfn) {
            None => Freed::Unknown,
            Some(held) if held == order => Freed::Whole,
            Some(_) => Freed::OtherOrder,
        }
    }

    /// Returns how many blocks are held.
    pub(super) fn len(&self) -> u64 {
        self.blocks.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_pairs_with_the_allocation_of_the_same_first_frame() {
        let mut held = LiveBlocks::default();
        assert!(!held.allocate(8, 3));
        assert_eq!(held.free(9, 0), Freed::Unknown, "a later part of a block is not its start");
        assert_eq!(held.free(8, 0), Freed::OtherOrder);
        assert_eq!(held.free(8, 3), Freed::Unknown);
        assert!(!held.allocate(8, 0));
        assert!(held.allocate(8, 1), "the first one's free was not recorded");
        assert_eq!(held.free(8, 1), Freed::Whole);
        assert_eq!(held.len(), 0);
    }
}
