//! The replay's ledger: which block of the engine stands for which recorded block.

use pageyard::{BlockId, FreeError, Order, Pfn, block};
use pageyard_trace::Event;
use std::hint::black_box;

/// The largest order that a recorded block can have.
const LARGEST: Order = Order::of(10);

/// The stand-in for a recorded block. The ledger does not interpret it: in a replay on one thread it is the engine's
/// frame, on several threads the place where that frame will be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stand(pub u32);

impl Stand {
    /// Nothing stands for it: the engine refused the request.
    pub const UNSERVED: Stand = Stand(u32::MAX);
}

/// In a frame's tag: 1 + the order of the block that starts here; 0 if none does.
const ORDER: u8 = 0x0f;

/// In a frame's tag: something stands for it. Most requests are for frames that are not held, which this says without a
/// look at each block that they may be a part of.
const HELD: u8 = 0x10;

/// In a frame's tag: a row allocated a block that starts here, and none freed it. A free of a part that is not the
/// first, and an allocation that covers other blocks' first frames, do not change it: that is how recordings are
/// counted.
const HEAD: u8 = 0x20;

/// The ledger. Recorded blocks are named by their first frame and order. Zeroed memory is an empty one, so that frames
/// that no row names cost little.
pub struct Ledger {
    /// For each recorded frame that starts a block: what stands for it.
    stand: Vec<u32>,
    /// For each recorded frame, in a byte, what most rows need: [`ORDER`], [`HELD`], [`HEAD`].
    tags: Vec<u8>,
    /// Blocks that were freed in parts.
    pub splits: u64,
}

/// Returns the order of the block that starts at the frame of a tag.
#[inline]
fn order_of(tag: u8) -> Option<Order> {
    Order::new((tag & ORDER).checked_sub(1)?)
}

impl Ledger {
    /// Makes an empty ledger for a machine whose frames end at `end`.
    pub fn new(end: Pfn) -> Ledger {
        let frames = end.0 as usize;
        Ledger { stand: vec![0; frames], tags: vec![0; frames], splits: 0 }
    }

    /// Returns whether the ledger has the frame at all.
    pub fn covers(&self, pfn: Pfn, order: Order) -> bool {
        pfn.0.checked_add(order.frames().0).is_some_and(|end| end <= self.tags.len() as u64)
    }

    /// Brings what is known of the blocks of some rows into the cache, all at once. Rows lie anywhere in memory: one
    /// after another, each would wait for it.
    pub fn foresee(&self, events: &[Event]) {
        let mut all = 0;
        for at in events.iter().map(|event| event.pfn as usize) {
            // What stands for a block is read only where there is one: its memory may be untouched.
            let known = self.tags.get(at).filter(|tag| **tag & ORDER != 0).and_then(|_| self.stand.get(at));
            all |= known.copied().unwrap_or(0);
        }
        black_box(all);
    }

    /// Enters a block.
    #[inline]
    pub fn put(&mut self, pfn: Pfn, order: Order, stand: Stand) {
        self.stand[pfn.0 as usize] = stand.0;
        let tags = self.of_block(pfn, order);
        tags.iter_mut().for_each(|tag| *tag |= HELD);
        tags[0] = tags[0] & !ORDER | (1 + order.get());
    }

    /// Takes a block out.
    #[inline]
    fn take(&mut self, pfn: Pfn, order: Order) {
        let tags = self.of_block(pfn, order);
        tags.iter_mut().for_each(|tag| *tag &= !HELD);
        tags[0] &= !ORDER;
    }

    /// Returns the tags of a block's frames: one at least.
    #[inline]
    fn of_block(&mut self, pfn: Pfn, order: Order) -> &mut [u8] {
        let at = pfn.0 as usize;
        match order {
            // Most blocks: no loop.
            Order::ZERO => std::slice::from_mut(&mut self.tags[at]),
            _ => &mut self.tags[at..at + order.frames().0 as usize],
        }
    }

    /// Returns whether something stands for any frame of a block.
    #[inline]
    fn any_held(&mut self, pfn: Pfn, order: Order) -> bool {
        self.of_block(pfn, order).iter().fold(0, |any, tag| any | *tag) & HELD != 0
    }

    /// Finds the block that holds a frame.
    fn holder(&self, pfn: Pfn) -> Option<BlockId> {
        block::holders(pfn, LARGEST).find_map(|b| {
            let order = order_of(self.tags[b.pfn.0 as usize])?;
            (order >= b.order).then_some(BlockId { pfn: b.pfn, order })
        })
    }

    /// Takes everything out of the ledger that the block covers; `each` gets the parts. An entry that reaches beyond
    /// the block is halved until it does not: `halve` gets what stands for a block and its order, and returns what
    /// stands for its halves.
    ///
    /// # Errors
    /// [`FreeError`] where `halve` fails; nothing that was not given to `each` left the ledger.
    pub fn remove<C>(
        &mut self,
        pfn: Pfn,
        order: Order,
        caller: &mut C,
        mut halve: impl FnMut(&mut C, Stand, Order) -> Result<(Stand, Stand), FreeError>,
        mut each: impl FnMut(&mut C, Stand, Order),
    ) -> Result<u64, FreeError> {
        // The block itself, as most frees name it, or nothing of it.
        if self.tags[pfn.0 as usize] & ORDER == 1 + order.get() {
            self.take(pfn, order);
            each(caller, Stand(self.stand[pfn.0 as usize]), order);
            return Ok(1);
        }
        if !self.any_held(pfn, order) {
            return Ok(0);
        }
        self.cut_out(pfn, order, caller, &mut halve)?;
        let end = pfn + order.frames();
        let (mut at, mut parts) = (pfn, 0);
        while at < end {
            let Some(b) = self.holder(at) else {
                at = Pfn(at.0 + 1);
                continue;
            };
            self.take(b.pfn, b.order);
            each(caller, Stand(self.stand[b.pfn.0 as usize]), b.order);
            parts += 1;
            at = b.pfn + b.order.frames();
        }
        Ok(parts)
    }

    /// Renames everything in the block at `from` to the frames at `to`, where nothing is; `halve` as for
    /// [`Ledger::remove`]. `each` gets what stands for a part, its order and its old and new frame, and returns what
    /// stands for it from then on. Returns how many parts that were.
    ///
    /// # Errors
    /// [`FreeError`] where `halve` fails; nothing is renamed then.
    pub fn rename<C>(
        &mut self,
        from: Pfn,
        to: Pfn,
        order: Order,
        caller: &mut C,
        mut halve: impl FnMut(&mut C, Stand, Order) -> Result<(Stand, Stand), FreeError>,
        mut each: impl FnMut(&mut C, Stand, Order, (Pfn, Pfn)) -> Stand,
    ) -> Result<u64, FreeError> {
        self.cut_out(from, order, caller, &mut halve)?;
        let mut parts = 0;
        for i in 0..order.frames().0 {
            let (old, new) = (Pfn(from.0 + i), Pfn(to.0 + i));
            if let Some(part) = order_of(self.tags[old.0 as usize]) {
                let stand = Stand(self.stand[old.0 as usize]);
                self.take(old, part);
                self.put(new, part, each(caller, stand, part, (old, new)));
                parts += 1;
            }
            if self.note_free(old) {
                self.note_alloc(new);
            }
        }
        Ok(parts)
    }

    /// Halves what reaches beyond a block until it does not.
    fn cut_out<C>(
        &mut self,
        pfn: Pfn,
        order: Order,
        caller: &mut C,
        halve: &mut impl FnMut(&mut C, Stand, Order) -> Result<(Stand, Stand), FreeError>,
    ) -> Result<(), FreeError> {
        // Blocks are aligned, so a block that reaches beyond this one contains all of it.
        while let Some(b) = self.holder(pfn).filter(|b| b.order > order)
            && let Some(half) = b.order.smaller()
        {
            let (lower, upper) = halve(caller, Stand(self.stand[b.pfn.0 as usize]), b.order)?;
            self.put(b.pfn, half, lower);
            self.put(b.pfn + half.frames(), half, upper);
            self.splits += 1;
        }
        Ok(())
    }

    /// Notes that a row allocates a block here; says whether an earlier row did and none freed it.
    #[inline]
    pub fn note_alloc(&mut self, pfn: Pfn) -> bool {
        let tag = &mut self.tags[pfn.0 as usize];
        let known = *tag & HEAD != 0;
        *tag |= HEAD;
        known
    }

    /// Notes that a row frees a block here; says whether an earlier row allocated it.
    #[inline]
    pub fn note_free(&mut self, pfn: Pfn) -> bool {
        let tag = &mut self.tags[pfn.0 as usize];
        let known = *tag & HEAD != 0;
        *tag &= !HEAD;
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Removes a block from a ledger in which stands are frame numbers, and returns the parts.
    fn remove(ledger: &mut Ledger, pfn: u64, order: u8) -> Vec<(u32, u8)> {
        let mut parts = Vec::new();
        let halve = |_: &mut Vec<_>, s: Stand, o: Order| Ok((s, Stand(s.0 + (1 << (o.get() - 1)))));
        ledger
            .remove(Pfn(pfn), Order::of(order), &mut parts, halve, |p, s, o| p.push((s.0, o.get())))
            .unwrap();
        parts
    }

    #[test]
    fn a_part_is_cut_out_and_the_rest_stays() {
        let mut l = Ledger::new(Pfn(2048));
        l.put(Pfn(512), Order::of(9), Stand(5120));
        assert_eq!(remove(&mut l, 512 + 37, 0), [(5120 + 37, 0)]);
        assert_eq!(l.splits, 9);
        let rest: u64 = remove(&mut l, 512, 9).iter().map(|(_, o)| 1 << o).sum();
        assert_eq!(rest, 511);
        assert!(remove(&mut l, 512, 9).is_empty());
    }

    #[test]
    fn a_larger_block_takes_all_that_is_in_it() {
        let mut l = Ledger::new(Pfn(64));
        l.put(Pfn(4), Order::ZERO, Stand(1));
        l.put(Pfn(6), Order::of(1), Stand(2));
        assert_eq!(remove(&mut l, 4, 2), [(1, 0), (2, 1)]);
    }

    #[test]
    fn what_moved_is_found_under_its_new_name_alone() {
        let mut l = Ledger::new(Pfn(64));
        l.put(Pfn(8), Order::of(2), Stand(40));
        l.put(Pfn(20), Order::ZERO, Stand(7));
        l.note_alloc(Pfn(20));
        let halve = |_: &mut (), s: Stand, o: Order| Ok((s, Stand(s.0 + (1 << (o.get() - 1)))));
        let stays = |_: &mut (), s: Stand, _: Order, _: (Pfn, Pfn)| s;
        assert_eq!(l.rename(Pfn(9), Pfn(32), Order::ZERO, &mut (), halve, stays), Ok(1));
        assert_eq!(l.rename(Pfn(20), Pfn(48), Order::of(2), &mut (), halve, stays), Ok(1));
        assert_eq!(l.rename(Pfn(56), Pfn(60), Order::of(2), &mut (), halve, stays), Ok(0));
        assert_eq!(remove(&mut l, 8, 2), [(40, 0), (42, 1)]);
        assert_eq!(remove(&mut l, 32, 0), [(41, 0)]);
        assert_eq!((l.note_free(Pfn(20)), l.note_free(Pfn(48))), (false, true));
        assert!(remove(&mut l, 20, 2).is_empty());
        assert_eq!(remove(&mut l, 48, 2), [(7, 0)]);
    }

    #[test]
    fn what_rows_allocated_and_what_is_held_are_apart() {
        let mut l = Ledger::new(Pfn(64));
        assert!(!l.note_alloc(Pfn(8)));
        l.put(Pfn(8), Order::of(3), Stand(40));
        assert_eq!(remove(&mut l, 8, 3), [(40, 3)]);
        assert!(l.note_alloc(Pfn(8)), "no row freed it");
        l.put(Pfn(8), Order::ZERO, Stand(7));
        assert!(l.note_free(Pfn(8)) && !l.note_free(Pfn(8)));
        assert_eq!(remove(&mut l, 8, 0), [(7, 0)], "it is held until it is removed");
        assert!(remove(&mut l, 8, 3).is_empty());
    }

    #[test]
    fn the_first_and_the_last_frame_are_frames() {
        let mut l = Ledger::new(Pfn(1024));
        l.put(Pfn(0), Order::of(10), Stand(0));
        assert_eq!(remove(&mut l, 1023, 0), [(1023, 0)]);
        assert!(l.covers(Pfn(1023), Order::ZERO) && !l.covers(Pfn(1023), Order::of(1)));
        assert!(!l.covers(Pfn(u64::MAX), Order::ZERO));
    }
}
