//! Free frames that compaction holds, in stores that grow: Linux isolates up to a pageblock at once.

use super::choices::TargetOrder;
use crate::tag::NR_PAGE_ORDERS;
use pageyard_core::compaction::Room;
use pageyard_core::{BlockId, Frames, Order, Pfn};
use std::collections::VecDeque;

/// Isolated frames, and targets that they are paired with.
pub struct Places<T>(Vec<Option<T>>);

impl<T> Room<T> for Places<T> {
    fn new() -> Self {
        Places(Vec::new())
    }

    fn push(&mut self, thing: T) {
        self.0.push(Some(thing));
    }

    fn is_full(&self) -> bool {
        false
    }

    fn places(&self) -> &[Option<T>] {
        &self.0
    }

    fn places_mut(&mut self) -> &mut [Option<T>] {
        &mut self.0
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// Free frames to move to, in lists by order.
///
/// # Linux
/// `freepages` of `struct compact_control`: until 6.8 one list of single frames, the last one found first
/// (`split_map_pages`); since then a list for each order.
pub struct HeldFrees {
    /// The next block to take is at the front.
    lists: [VecDeque<Pfn>; NR_PAGE_ORDERS],
    frames: u64,
    order: TargetOrder,
}

impl HeldFrees {
    /// Returns the smallest order that there is a block of.
    fn smallest(&self) -> Option<usize> {
        self.smallest_from(0)
    }

    /// Returns the smallest order from one on that there is a block of.
    fn smallest_from(&self, order: usize) -> Option<usize> {
        (order..self.lists.len()).find(|n| !self.lists[*n].is_empty())
    }

    /// Takes the first block of the smallest order that is large enough, and halves it until it fits.
    ///
    /// # Linux
    /// `compaction_alloc`.
    fn take_smallest(&mut self, order: Order) -> Option<Pfn> {
        let smallest = self.smallest_from(order.index())?;
        let pfn = self.lists[smallest].pop_front()?;
        // What is left of a block is halves of it, each before what is there.
        for half in (order.index()..smallest).rev() {
            self.lists[half].push_front(pfn + Order::of(half as u8).frames());
        }
        self.frames -= order.frames().0;
        Some(pfn)
    }
}

impl HeldFrees {
    /// Makes an empty store whose frames are used in this order.
    #[must_use]
    pub fn new(order: TargetOrder) -> HeldFrees {
        HeldFrees { lists: Default::default(), frames: 0, order }
    }

    /// Adds a frame.
    pub fn push(&mut self, pfn: Pfn) {
        self.push_block(BlockId { pfn, order: Order::ZERO });
    }

    /// Adds every frame of a block.
    pub fn push_block(&mut self, block: BlockId) {
        self.frames += block.order.frames().0;
        match self.order {
            TargetOrder::LastFirst => {
                for n in 0..block.order.frames().0 {
                    self.lists[0].push_front(block.pfn + Frames(n));
                }
            }
            TargetOrder::SmallestFirst => self.lists[block.order.index()].push_back(block.pfn),
        }
    }

    /// Returns the next frame to be used, which stays here.
    #[must_use]
    pub fn next(&self) -> Option<Pfn> {
        self.lists[self.smallest()?].front().copied()
    }

    /// Takes the next frame to be used.
    ///
    /// # Linux
    /// `compaction_alloc`. Until 6.8 blocks are split into single frames, put in front of what is there; since 6.9 they
    /// are kept by order, and the smallest that fits is split from its lower end.
    pub fn take(&mut self) -> Option<Pfn> {
        self.take_smallest(Order::ZERO)
    }

    /// Returns a frame that was taken and not used: it is the next one.
    pub fn put_back(&mut self, pfn: Pfn) {
        self.put_back_block(BlockId { pfn, order: Order::ZERO });
    }

    /// Returns whether there is a block of this order, or a larger one.
    #[must_use]
    pub fn has(&self, order: Order) -> bool {
        self.smallest_from(order.index()).is_some()
    }

    /// Takes a block of this order, out of the smallest that has one.
    pub fn take_of(&mut self, order: Order) -> Option<Pfn> {
        self.take_smallest(order)
    }

    /// Returns a block that was taken and not used: it is the next one of its order.
    pub fn put_back_block(&mut self, block: BlockId) {
        self.frames += block.order.frames().0;
        self.lists[block.order.index()].push_front(block.pfn);
    }

    /// Takes a block that is given back, in one piece.
    ///
    /// # Linux
    /// `release_freepages`, later `release_free_list`.
    pub fn take_block(&mut self) -> Option<BlockId> {
        let order = Order::of(self.smallest()? as u8);
        let pfn = self.lists[order.index()].pop_front()?;
        self.frames -= order.frames().0;
        Some(BlockId { pfn, order })
    }

    /// Returns how many frames it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frames as usize
    }

    /// Returns whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stock(order: TargetOrder) -> HeldFrees {
        let mut stock = HeldFrees::new(order);
        for (pfn, order) in [(8, 2), (0, 1), (16, 0), (2, 1)] {
            stock.push_block(BlockId { pfn: Pfn(pfn), order: Order::of(order) });
        }
        stock
    }

    fn all(mut stock: HeldFrees) -> Vec<u64> {
        std::iter::from_fn(|| {
            let next = stock.next();
            assert_eq!(next, stock.take());
            next.map(|pfn| pfn.0)
        })
        .collect()
    }

    #[test]
    fn single_frames_are_used_from_the_last_one_found_and_blocks_from_the_smallest() {
        assert_eq!(all(stock(TargetOrder::LastFirst)), [3, 2, 16, 1, 0, 11, 10, 9, 8]);
        assert_eq!(all(stock(TargetOrder::SmallestFirst)), [16, 0, 1, 2, 3, 8, 9, 10, 11]);
    }

    #[test]
    fn what_is_put_back_is_next_and_blocks_go_back_in_one_piece() {
        let mut s = stock(TargetOrder::SmallestFirst);
        for _ in 0..6 {
            s.take();
        }
        // Of the block of four, 8 was taken: 9, and 10 with 11, are left.
        s.put_back(Pfn(8));
        s.put_back(Pfn(3));
        assert_eq!((s.next(), s.len()), (Some(Pfn(3)), 5));
        let blocks: Vec<_> =
            std::iter::from_fn(|| s.take_block()).map(|b| (b.pfn.0, b.order.get())).collect();
        assert_eq!(blocks, [(3, 0), (8, 0), (9, 0), (10, 1)]);
        assert!(s.is_empty());
    }
}
