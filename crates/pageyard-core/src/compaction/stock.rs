//! Free frames that a compactor holds to move others to.

use super::knobs::TargetOrder;
use crate::units::{BlockId, Pfn};

/// A run of free frames: a block that was taken whole, or what is left of it.
#[derive(Clone, Copy)]
struct Run {
    first: Pfn,
    frames: u64,
}

/// Free frames held by a compactor: at most a cluster of runs.
///
/// To the engine they are allocated blocks of order 0 that only the compactor knows of.
pub struct FreeStock {
    runs: [Run; FreeStock::MOST],
    used: usize,
    frames: usize,
}

impl Default for FreeStock {
    fn default() -> Self {
        FreeStock::new()
    }
}

impl FreeStock {
    /// The most runs that it holds, and so the most single frames.
    ///
    /// # Linux
    /// `COMPACT_CLUSTER_MAX`.
    pub const MOST: usize = 32;

    /// Makes an empty stock.
    #[must_use]
    pub const fn new() -> FreeStock {
        FreeStock { runs: [Run { first: Pfn(0), frames: 0 }; FreeStock::MOST], used: 0, frames: 0 }
    }

    /// Adds a frame; `false` where there is no room.
    #[must_use = "a frame that did not fit is still the caller's"]
    pub fn push(&mut self, pfn: Pfn) -> bool {
        self.push_run(Run { first: pfn, frames: 1 })
    }

    /// Adds every frame of a block; `false` where there is no room.
    #[must_use = "a block that did not fit is still the caller's"]
    pub fn push_block(&mut self, block: BlockId) -> bool {
        self.push_run(Run { first: block.pfn, frames: block.order.frames().0 })
    }

    fn push_run(&mut self, run: Run) -> bool {
        let Some(slot) = self.runs.get_mut(self.used) else { return false };
        *slot = run;
        self.used += 1;
        self.frames += run.frames as usize;
        true
    }

    /// Returns the next frame to be used, which stays here.
    #[must_use]
    pub fn next(&self, order: TargetOrder) -> Option<Pfn> {
        let Run { first, frames } = self.runs[self.place(order)?];
        Some(match order {
            TargetOrder::LastFirst => Pfn(first.0 + frames - 1),
            TargetOrder::SmallestFirst => first,
        })
    }

    /// Takes the next frame to be used.
    ///
    /// # Linux
    /// `compaction_alloc`. Until 6.8 blocks are split into single frames, put in front of what is there; since 6.9 they
    /// are kept by order, and the smallest that fits is split from its lower end.
    pub fn take(&mut self, order: TargetOrder) -> Option<Pfn> {
        let (pfn, at) = (self.next(order)?, self.place(order)?);
        let run = &mut self.runs[at];
        if order == TargetOrder::SmallestFirst {
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

    /// Returns the run that the next frame comes from.
    fn place(&self, order: TargetOrder) -> Option<usize> {
        match order {
            TargetOrder::LastFirst => self.used.checked_sub(1),
            // A run that was begun is shorter than the block it came from, so it goes on being the smallest; of equals
            // the first is taken.
            TargetOrder::SmallestFirst => (0..self.used).min_by_key(|i| self.runs[*i].frames),
        }
    }

    /// Returns how many frames it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frames
    }

    /// Says whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// Says whether no more fit.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.used == FreeStock::MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Order;
    use std::vec::Vec;

    #[test]
    fn a_full_stock_refuses_and_hands_out_the_last_first() {
        let mut stock = FreeStock::new();
        assert!((0..32).all(|n| stock.push(Pfn(n))) && stock.is_full() && !stock.push(Pfn(32)));
        let take = |stock: &mut FreeStock| stock.take(TargetOrder::LastFirst);
        assert_eq!((take(&mut stock), take(&mut stock)), (Some(Pfn(31)), Some(Pfn(30))));
        assert_eq!((stock.len(), stock.is_full()), (30, false));
    }

    fn blocks() -> FreeStock {
        let mut stock = FreeStock::new();
        for (pfn, order) in [(8, 2), (0, 1), (16, 0), (2, 1)] {
            assert!(stock.push_block(BlockId { pfn: Pfn(pfn), order: Order::of(order) }));
        }
        stock
    }

    fn all(mut stock: FreeStock, order: TargetOrder) -> Vec<u64> {
        core::iter::from_fn(|| {
            let next = stock.next(order);
            assert_eq!(next, stock.take(order));
            next.map(|pfn| pfn.0)
        })
        .collect()
    }

    #[test]
    fn blocks_are_used_from_the_last_one_and_from_its_upper_end() {
        assert_eq!(blocks().len(), 9);
        assert_eq!(all(blocks(), TargetOrder::LastFirst), [3, 2, 16, 1, 0, 11, 10, 9, 8]);
    }

    #[test]
    fn blocks_are_used_from_the_smallest_one_and_from_its_lower_end() {
        assert_eq!(all(blocks(), TargetOrder::SmallestFirst), [16, 0, 1, 2, 3, 8, 9, 10, 11]);
    }
}
