//! Which blocks are live, and what is known of freed frames. It knows no stacks: events are whatever the caller has.

use pageyard_core::migratetype::Migratetype;
use pageyard_core::units::{BlockId, Order, Pfn};
use std::collections::{BTreeMap, HashMap};

/// A block that is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Live<E> {
    pub(super) order: Order,
    pub(super) migratetype: Migratetype,
    pub(super) allocated: E,
}

/// The block that freed frames belonged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Freed<E> {
    pub(super) first: Pfn,
    /// The block; none where it was freed before it was known that it had moved there.
    pub(super) block: Option<Live<E>>,
    pub(super) freed: E,
}

/// Blocks by their first frames, and freed frames by ranges.
#[derive(Debug)]
pub(super) struct Table<E> {
    live: BTreeMap<u64, Live<E>>,
    /// From a frame to the frame behind the last one. No two overlap, and none overlaps a live block.
    freed: BTreeMap<u64, (u64, Freed<E>)>,
    /// Blocks that compaction moved somewhere, and that were freed there before the observer was told.
    early: HashMap<u64, Order>,
}

impl<E: Copy> Table<E> {
    pub(super) fn new() -> Table<E> {
        Table { live: BTreeMap::new(), freed: BTreeMap::new(), early: HashMap::new() }
    }

    pub(super) fn allocated(&mut self, pfn: Pfn, block: Live<E>) {
        self.cut(pfn.0, pfn.0 + block.order.frames().0);
        self.live.insert(pfn.0, block);
    }

    pub(super) fn freed(&mut self, pfn: Pfn, order: Order, freed: E) {
        let block = self.live.remove(&pfn.0);
        if block.is_none() {
            self.early.insert(pfn.0, order);
        }
        self.note_freed(pfn, order, Freed { first: pfn, block, freed });
    }

    pub(super) fn split(&mut self, pfn: Pfn, from: Order, to: Order) {
        if let Some(block) = self.live.remove(&pfn.0) {
            for part in (pfn.0..pfn.0 + from.frames().0).step_by(to.frames().0 as usize) {
                self.live.insert(part, Live { order: to, ..block });
            }
        }
    }

    /// A live block is elsewhere now; `moved` is what moved it, which the frames it left were freed by.
    pub(super) fn migrated(&mut self, from: BlockId, to: Pfn, moved: E) {
        let block = self.live.remove(&from.pfn.0);
        let is_freed = self.early.remove(&to.0).is_some();
        if let Some(block) = block
            && !is_freed
        {
            self.allocated(to, block);
        }
        self.note_freed(from.pfn, from.order, Freed { first: from.pfn, block, freed: moved });
    }

    fn note_freed(&mut self, pfn: Pfn, order: Order, freed: Freed<E>) {
        let end = pfn.0 + order.frames().0;
        self.cut(pfn.0, end);
        self.freed.insert(pfn.0, (end, freed));
    }

    /// Forgets what is known of freed frames in a range.
    fn cut(&mut self, start: u64, end: u64) {
        // One that begins before the range keeps what is in front of it, and behind it.
        if let Some((first, (last, freed))) = self.freed.range_mut(..start).next_back()
            && *last > start
        {
            let (last, freed) = (std::mem::replace(last, start), *freed);
            debug_assert!(*first < start);
            if last > end {
                self.freed.insert(end, (last, freed));
                return;
            }
        }
        while let Some((first, (last, freed))) = self.freed.range(start..end).next().map(|(f, r)| (*f, *r)) {
            self.freed.remove(&first);
            if last > end {
                self.freed.insert(end, (last, freed));
            }
        }
    }

    /// Returns the live block that a frame is of.
    pub(super) fn live_at(&self, pfn: Pfn) -> Option<(Pfn, Live<E>)> {
        let (first, block) = self.live.range(..=pfn.0).next_back()?;
        (pfn.0 < first + block.order.frames().0).then_some((Pfn(*first), *block))
    }

    /// Returns what is known of the last time that a frame was freed.
    pub(super) fn freed_at(&self, pfn: Pfn) -> Option<Freed<E>> {
        let (_, (end, freed)) = self.freed.range(..=pfn.0).next_back()?;
        (pfn.0 < *end).then_some(*freed)
    }

    /// Returns every live block, by its first frame.
    pub(super) fn live(&self) -> impl Iterator<Item = (Pfn, &Live<E>)> {
        self.live.iter().map(|(pfn, block)| (Pfn(*pfn), block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(order: u8, allocated: u32) -> Live<u32> {
        Live { order: Order::of(order), migratetype: Migratetype::Movable, allocated }
    }

    #[test]
    fn each_frame_knows_its_block_and_who_freed_it_as_a_model_of_single_frames_does() {
        const FRAMES: usize = 64;
        let mut rng = fastrand::Rng::with_seed(0x0e0e);
        let mut table = Table::new();
        let mut live: [Option<(u64, u32)>; FRAMES] = [None; FRAMES];
        let mut freed: [Option<(u64, u32)>; FRAMES] = [None; FRAMES];
        let mut held: Vec<(u64, u8)> = Vec::new();
        let mut moves = 0;
        for event in 0..20_000u32 {
            let order = rng.u8(..4);
            let size = 1 << order;
            let at = rng.u64(..FRAMES as u64) / size * size;
            let range = |first: u64, order: u8| first as usize..first as usize + (1 << order);
            let is_free = range(at, order).all(|frame| live[frame].is_none());
            let pick = (!held.is_empty()).then(|| rng.usize(..held.len()));
            match (rng.u8(..4), pick) {
                (0 | 1, _) if is_free => {
                    table.allocated(Pfn(at), block(order, event));
                    range(at, order)
                        .for_each(|frame| (live[frame], freed[frame]) = (Some((at, event)), None));
                    held.push((at, order));
                }
                (2, Some(nth)) => {
                    let (first, order) = held.swap_remove(nth);
                    table.freed(Pfn(first), Order::of(order), event);
                    range(first, order)
                        .for_each(|frame| (live[frame], freed[frame]) = (None, Some((first, event))));
                }
                (3, Some(nth)) if held[nth].1 == order && is_free => {
                    let (first, order) = held[nth];
                    let owner = live[first as usize].unwrap().1;
                    table.migrated(BlockId { pfn: Pfn(first), order: Order::of(order) }, Pfn(at), event);
                    range(first, order)
                        .for_each(|frame| (live[frame], freed[frame]) = (None, Some((first, event))));
                    range(at, order)
                        .for_each(|frame| (live[frame], freed[frame]) = (Some((at, owner)), None));
                    held[nth].0 = at;
                    moves += 1;
                }
                (3, Some(nth)) if held[nth].1 > 0 => {
                    let (first, order) = held.swap_remove(nth);
                    let owner = live[first as usize].unwrap().1;
                    table.split(Pfn(first), Order::of(order), Order::ZERO);
                    for frame in range(first, order) {
                        live[frame] = Some((frame as u64, owner));
                        held.push((frame as u64, 0));
                    }
                }
                _ => {}
            }
            for frame in 0..FRAMES {
                let pfn = Pfn(frame as u64);
                let seen = table.live_at(pfn).map(|(first, block)| (first.0, block.allocated));
                assert_eq!(seen, live[frame], "event {event}, frame {frame}");
                let seen = table.freed_at(pfn).map(|freed| (freed.first.0, freed.freed));
                assert_eq!(seen, freed[frame], "event {event}, freed frame {frame}");
            }
        }
        assert!(moves > 100, "{moves}");
    }

    #[test]
    fn a_block_that_is_freed_before_its_move_is_told_is_not_live_afterwards() {
        let mut table = Table::new();
        table.allocated(Pfn(0), block(0, 1));
        table.freed(Pfn(8), Order::ZERO, 2);
        assert_eq!(table.freed_at(Pfn(8)).unwrap().block, None);
        // Someone else has it already.
        table.allocated(Pfn(8), block(0, 3));
        table.migrated(BlockId { pfn: Pfn(0), order: Order::ZERO }, Pfn(8), 4);
        assert_eq!(table.live().map(|(pfn, live)| (pfn.0, live.allocated)).collect::<Vec<_>>(), [(8, 3)]);
        assert_eq!(table.freed_at(Pfn(0)).unwrap().freed, 4);
    }
}
