//! The pages that one CPU keeps of one zone: its lists, what they hold, and the policy they follow. Layer: parts of a
//! zone.

use crate::config::Config;
use crate::events::PcpCounts;
use crate::freelist::End;
use crate::pcp::{Listed, Pcp, Spill, Turns};
use crate::pcp_limits::Limits;
use pageyard_core::{Order, Pfn};
use std::collections::VecDeque;

/// One CPU's pages of one zone.
///
/// # Linux
/// `struct per_cpu_pages`.
pub struct CpuPages {
    /// Decides how many blocks move, and where to.
    pub policy: Pcp,
    /// Holds them.
    pub lists: Lists,
    /// The CPU.
    pub cpu: usize,
    /// Pageblocks that it owns and of which it gave parts back to the zone, longest ago first; also such as it owns no
    /// longer.
    pub returned: Vec<Pfn>,
    pub counts: PcpCounts,
}

impl CpuPages {
    /// Makes a CPU's empty lists, which follow a policy.
    pub fn new(cpu: usize, policy: Pcp, lists: usize) -> CpuPages {
        let lists = Lists::new(lists, policy.room());
        CpuPages { policy, lists, cpu, returned: Vec::new(), counts: PcpCounts::default() }
    }

    /// Lets the lists become longer, or shorter with the next frees.
    pub fn set_limits(&mut self, config: &Config, limits: Limits) {
        self.policy.set_limits(config, limits);
        self.lists.make_room(self.policy.room());
    }
}

/// Lists of free blocks, one for each order and type that a CPU keeps.
pub struct Lists {
    /// Each list's blocks, next to be taken first.
    lists: Vec<VecDeque<Pfn>>,
    /// Frames in all of them.
    held: u64,
}

impl Lists {
    fn new(lists: usize, room: usize) -> Lists {
        Lists { lists: (0..lists).map(|_| VecDeque::with_capacity(room)).collect(), held: 0 }
    }

    fn make_room(&mut self, room: usize) {
        for list in &mut self.lists {
            list.reserve(room.saturating_sub(list.len()));
        }
    }

    /// Returns the frames that all lists hold together.
    #[inline]
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Returns whether a list has no blocks.
    #[inline]
    pub fn is_empty(&self, listed: Listed) -> bool {
        self.lists[listed.list].is_empty()
    }

    /// Takes a block from an end of a list.
    #[inline]
    pub fn take(&mut self, listed: Listed, end: End) -> Option<Pfn> {
        let list = &mut self.lists[listed.list];
        let pfn = match end {
            End::Head => list.pop_front(),
            End::Tail => list.pop_back(),
        }?;
        self.held -= listed.order.frames().0;
        Some(pfn)
    }

    /// Adds a block at an end of a list.
    #[inline]
    pub fn put(&mut self, listed: Listed, pfn: Pfn, end: End) {
        let list = &mut self.lists[listed.list];
        match end {
            End::Head => list.push_front(pfn),
            End::Tail => list.push_back(pfn),
        }
        self.held += listed.order.frames().0;
    }

    /// Takes out the blocks that a spill names, oldest first. `give` takes each away and says how large it was. Returns
    /// how many frames left.
    pub fn spill(&mut self, spill: &Spill, mut give: impl FnMut(Pfn) -> Option<Order>) -> u64 {
        let nr_lists = self.lists.len() as u64;
        let (mut left, mut gone, mut at, mut turns) = (spill.frames.min(self.held), 0, spill.first, 0);
        while left > 0 && turns < 2 * nr_lists {
            turns += 1;
            let mut burst = match spill.turns {
                Turns::Growing if turns < nr_lists => turns,
                Turns::Growing | Turns::Whole | Turns::Largest => u64::MAX,
            };
            let list = &mut self.lists[at];
            if !list.is_empty() {
                turns = 0;
            }
            while left > 0 && burst > 0 {
                let Some(pfn) = list.pop_back() else { break };
                let frames = give(pfn).map_or(0, |order| order.frames().0);
                left = left.saturating_sub(frames.max(1));
                gone += frames;
                burst -= 1;
            }
            let on = if spill.turns == Turns::Largest { self.lists.len() - 1 } else { 1 };
            at = (at + on) % self.lists.len();
        }
        self.held -= gone;
        gone
    }

    /// Iterates over the blocks of a list, next to be taken first.
    pub fn list(&self, list: usize) -> impl Iterator<Item = Pfn> + '_ {
        self.lists[list].iter().copied()
    }

    /// Takes blocks out of a list, whatever becomes of them, and keeps the others in their order.
    pub fn keep(&mut self, listed: Listed, mut keeps: impl FnMut(Pfn) -> bool) {
        let list = &mut self.lists[listed.list];
        let before = list.len();
        list.retain(|pfn| keeps(*pfn));
        self.held -= (before - list.len()) as u64 * listed.order.frames().0;
    }

    /// Empties the lists, whatever becomes of the blocks.
    pub fn clear(&mut self) {
        self.lists.iter_mut().for_each(VecDeque::clear);
        self.held = 0;
    }

    /// Iterates over the blocks in the lists.
    pub fn blocks(&self) -> impl Iterator<Item = Pfn> + '_ {
        self.lists.iter().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Listed = Listed { list: 0, order: Order::ZERO };
    const LAST: Listed = Listed { list: 2, order: Order::ZERO };

    fn spilled(turns: Turns, frames: u64, first: usize) -> Vec<u64> {
        let mut lists = Lists::new(3, 0);
        for pfn in 0..4 {
            lists.put(FIRST, Pfn(pfn), End::Head);
            lists.put(LAST, Pfn(pfn + 10), End::Head);
        }
        let mut out = Vec::new();
        let gone = lists.spill(&Spill { frames, step: frames, first, turns, recheck: false }, |pfn| {
            out.push(pfn.0);
            Some(Order::ZERO)
        });
        assert_eq!((gone, lists.held()), (out.len() as u64, 8 - out.len() as u64));
        out
    }

    #[test]
    fn a_list_is_emptied_before_the_next_one_gives() {
        assert_eq!(spilled(Turns::Whole, 5, 2), [10, 11, 12, 13, 0]);
    }

    #[test]
    fn the_last_list_gives_first_where_its_blocks_are_the_largest() {
        assert_eq!(spilled(Turns::Largest, 5, 2), [10, 11, 12, 13, 0]);
        assert_eq!(spilled(Turns::Largest, 1, 1), [0], "the list before an empty one, not the one after");
    }

    #[test]
    fn turns_grow_with_each_empty_list_passed() {
        // List 1 is empty, so list 2 gives two; then list 0 gives one, and list 2, after list 1, two.
        assert_eq!(spilled(Turns::Growing, 5, 1), [10, 11, 0, 12, 13]);
        assert_eq!(spilled(Turns::Growing, 100, 1).len(), 8, "no more than there is");
    }
}
