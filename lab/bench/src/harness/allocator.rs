//! An allocator as the timed loops see it.

use super::memory::Memory;
use pageyard::{Context, Order, PageAllocator, Pfn};

/// Takes and gives back blocks of one order, by number.
pub(crate) trait Allocator {
    /// Takes a block.
    fn take(&self, cpu: usize) -> Option<Pfn>;

    /// Gives a block back.
    fn give(&self, cpu: usize, block: Pfn);

    /// Takes blocks with one call, if the allocator has such a call; returns how many, from the front.
    #[inline(always)]
    fn take_many(&self, cpu: usize, out: &mut [Pfn]) -> usize {
        let mut taken = 0;
        while let Some(slot) = out.get_mut(taken) {
            let Some(block) = self.take(cpu) else { break };
            *slot = block;
            taken += 1;
        }
        taken
    }

    /// Gives blocks back with one call, where there is such a call.
    #[inline(always)]
    fn give_many(&self, cpu: usize, blocks: &[Pfn]) {
        blocks.iter().for_each(|block| self.give(cpu, *block));
    }

    /// Takes a block in this context; an allocator that knows of none serves all alike.
    #[inline(always)]
    fn take_in(&self, cpu: usize, _: Context) -> Option<Pfn> {
        self.take(cpu)
    }

    /// Gives a block back in this context, likewise.
    #[inline(always)]
    fn give_in(&self, cpu: usize, _: Context, block: Pfn) {
        self.give(cpu, block);
    }

    /// Takes a block of this order, for a mixed load; an allocator of blocks of one order takes none.
    #[inline(always)]
    fn take_of(&self, _cpu: usize, _: Order) -> Option<Pfn> {
        None
    }

    /// Gives such a block back.
    #[inline(always)]
    fn give_of(&self, _cpu: usize, _block: Pfn, _: Order) {}

    /// Writes a word of each frame of such a block: of `memory`, where the allocator has none of its own.
    #[inline(always)]
    fn touch(&self, memory: &Memory, block: Pfn, order: Order) {
        memory.touch(block, order);
    }

    /// Returns refills and spills so far, or `None` where they cannot be seen.
    fn moves(&self) -> Option<(u64, u64)> {
        Some((0, 0))
    }

    /// Returns whether a free of a block by the calling thread would be checked without a locked instruction; `None`
    /// where that is not known.
    fn is_biased_here(&self, _: Pfn) -> Option<bool> {
        None
    }

    /// Returns how often a pageblock's bias was taken back so far, likewise.
    fn revocations(&self) -> Option<u64> {
        None
    }

    /// Returns the engine that it is, if it is one of the project's.
    fn engine(&self) -> Option<&dyn PageAllocator> {
        None
    }
}
