//! Free frames that a compactor holds to move others to.

use super::knobs::TargetOrder;
use crate::units::{BlockId, Order, Pfn};

/// A run of free frames: a block that was taken whole, or what is left of it.
#[derive(Clone, Copy)]
struct Run {
    first: Pfn,
    frames: u64,
}

/// Free frames held by a compactor, in the order in which they are used.
///
/// To the engine they are allocated blocks of order 0 that only the compactor knows of.
pub trait Stock {
    /// Makes an empty stock whose frames are used in this order.
    fn new(order: TargetOrder) -> Self;

    /// Adds a frame; `false` where there is no room.
    #[must_use = "a frame that did not fit is still the caller's"]
    fn push(&mut self, pfn: Pfn) -> bool {
        self.push_block(BlockId { pfn, order: Order::ZERO })
    }

    /// Adds every frame of a block; `false` where there is no room.
    #[must_use = "a block that did not fit is still the caller's"]
    fn push_block(&mut self, block: BlockId) -> bool;

    /// Returns the next frame to be used, which stays here.
    fn next(&self) -> Option<Pfn>;

    /// Takes the next frame to be used.
    fn take(&mut self) -> Option<Pfn>;

    /// Returns a frame that was taken and not used: it is the next one; `false` where there is no room.
    #[must_use = "a frame that did not fit is still the caller's"]
    fn put_back(&mut self, pfn: Pfn) -> bool;

    /// Says whether a block of an order above 0 can be taken. A stock of single frames has none.
    fn has(&self, order: Order) -> bool {
        let _ = order;
        false
    }

    /// Takes a block of an order above 0, out of the smallest that has one.
    fn take_of(&mut self, order: Order) -> Option<Pfn> {
        let _ = order;
        None
    }

    /// Returns a block that was taken and not used: it is the next one of its order; `false` where there is no room.
    #[must_use = "a block that did not fit is still the caller's"]
    fn put_back_block(&mut self, block: BlockId) -> bool {
        let _ = block;
        false
    }

    /// Takes a block that is given back, in one piece.
    ///
    /// # Linux
    /// `release_freepages`, later `release_free_list`.
    fn take_block(&mut self) -> Option<BlockId>;

    /// Returns how many frames it holds.
    fn len(&self) -> usize;

    /// Says whether it holds none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Says whether no more fit.
    fn is_full(&self) -> bool;
}

/// A stock of a fixed size: at most a cluster of runs.
pub struct FreeStock {
    runs: [Run; FreeStock::MOST],
    used: usize,
    frames: usize,
    order: TargetOrder,
}

impl FreeStock {
    /// The most runs that it holds, and so the most single frames.
    ///
    /// # Linux
    /// `COMPACT_CLUSTER_MAX`.
    pub const MOST: usize = 32;

    fn push_run(&mut self, run: Run) -> bool {
        let Some(slot) = self.runs.get_mut(self.used) else { return false };
        *slot = run;
        self.used += 1;
        self.frames += run.frames as usize;
        true
    }

    /// Returns the run that the next frame comes from.
    fn place(&self) -> Option<usize> {
        match self.order {
            TargetOrder::LastFirst => self.used.checked_sub(1),
            // A run that was begun is shorter than the block it came from, so it goes on being the smallest; of equals
            // the first is taken.
            TargetOrder::SmallestFirst => (0..self.used).min_by_key(|i| self.runs[*i].frames),
        }
    }
}

impl Stock for FreeStock {
    fn new(order: TargetOrder) -> FreeStock {
        FreeStock { runs: [Run { first: Pfn(0), frames: 0 }; FreeStock::MOST], used: 0, frames: 0, order }
    }

    fn push_block(&mut self, block: BlockId) -> bool {
        self.push_run(Run { first: block.pfn, frames: block.order.frames().0 })
    }

    fn next(&self) -> Option<Pfn> {
        let Run { first, frames } = self.runs[self.place()?];
        Some(match self.order {
            TargetOrder::LastFirst => Pfn(first.0 + frames - 1),
            TargetOrder::SmallestFirst => first,
        })
    }

    /// # Linux
    /// `compaction_alloc`. Until 6.8 blocks are split into single frames, put in front of what is there; since 6.9 they
    /// are kept by order, and the smallest that fits is split from its lower end.
    fn take(&mut self) -> Option<Pfn> {
        let (pfn, at) = (self.next()?, self.place()?);
        let run = &mut self.runs[at];
        if self.order == TargetOrder::SmallestFirst {
            run.first.0 += 1;
        }
        run.frames -= 1;
        self.frames -= 1;
        if run.frames == 0 {
            self.runs.copy_within(at + 1..self.used, at);
            self.used -= 1;
        }
        Some(pfn)
    }

    fn put_back(&mut self, pfn: Pfn) -> bool {
        self.push(pfn)
    }

    fn take_block(&mut self) -> Option<BlockId> {
        Some(BlockId { pfn: self.take()?, order: Order::ZERO })
    }

    fn len(&self) -> usize {
        self.frames
    }

    fn is_full(&self) -> bool {
        self.used == FreeStock::MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_full_stock_refuses_and_hands_out_the_last_first() {
        let mut stock = FreeStock::new(TargetOrder::LastFirst);
        assert!((0..32).all(|n| stock.push(Pfn(n))) && stock.is_full() && !stock.push(Pfn(32)));
        assert_eq!((stock.take(), stock.take()), (Some(Pfn(31)), Some(Pfn(30))));
        assert_eq!((stock.len(), stock.is_full()), (30, false));
    }

    fn blocks(order: TargetOrder) -> FreeStock {
        let mut stock = FreeStock::new(order);
        for (pfn, order) in [(8, 2), (0, 1), (16, 0), (2, 1)] {
            assert!(stock.push_block(BlockId { pfn: Pfn(pfn), order: Order::of(order) }));
        }
        stock
    }

    fn all(mut stock: FreeStock) -> Vec<u64> {
        core::iter::from_fn(|| {
            let next = stock.next();
            assert_eq!(next, stock.take());
            next.map(|pfn| pfn.0)
        })
        .collect()
    }

    #[test]
    fn blocks_are_used_from_the_last_one_and_from_its_upper_end() {
        assert_eq!(blocks(TargetOrder::LastFirst).len(), 9);
        assert_eq!(all(blocks(TargetOrder::LastFirst)), [3, 2, 16, 1, 0, 11, 10, 9, 8]);
    }

    #[test]
    fn blocks_are_used_from_the_smallest_one_and_from_its_lower_end() {
        assert_eq!(all(blocks(TargetOrder::SmallestFirst)), [16, 0, 1, 2, 3, 8, 9, 10, 11]);
    }
}
