//! Free lists: doubly linked through an array beside the memory, by order and migratetype. Layer: parts of a zone.

use crate::tag::NR_PAGE_ORDERS;
use pageyard_core::{Migratetype, Order};

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Link {
    next: u32,
    prev: u32,
}

#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
    len: u64,
}

/// An empty list.
const NONE: List = List { head: NIL, tail: NIL, len: 0 };

/// The end of a list to which a block goes: blocks are taken from the head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Next to be taken.
    Head,
    /// Last to be taken.
    Tail,
}

/// The free lists of one zone. Frames are numbered from the zone's start.
pub struct FreeLists {
    links: Vec<Link>,
    lists: [[List; Migratetype::COUNT]; NR_PAGE_ORDERS],
}

impl FreeLists {
    /// Makes empty lists for a zone of `frames` frames.
    pub fn new(frames: usize) -> FreeLists {
        FreeLists {
            links: vec![Link { next: NIL, prev: NIL }; frames],
            lists: [[NONE; Migratetype::COUNT]; NR_PAGE_ORDERS],
        }
    }

    /// Empties every list.
    pub fn clear(&mut self) {
        self.lists = [[NONE; Migratetype::COUNT]; NR_PAGE_ORDERS];
    }

    /// Returns the bytes that the links take.
    pub fn bytes(&self) -> usize {
        self.links.len() * size_of::<Link>()
    }

    /// Returns the number of blocks on a list.
    pub fn len(&self, order: Order, m: Migratetype) -> u64 {
        self.lists[order.index()][m.index()].len
    }

    /// Returns whether a list has no blocks.
    pub fn is_empty(&self, order: Order, m: Migratetype) -> bool {
        self.len(order, m) == 0
    }

    /// Returns the first block of a list.
    pub fn first(&self, order: Order, m: Migratetype) -> Option<u64> {
        let head = self.lists[order.index()][m.index()].head;
        (head != NIL).then_some(u64::from(head))
    }

    /// Adds a block.
    pub fn add(&mut self, frame: u64, order: Order, m: Migratetype, end: End) {
        let at = frame as u32;
        let list = &mut self.lists[order.index()][m.index()];
        list.len += 1;
        let link = match end {
            End::Head => Link { next: list.head, prev: NIL },
            End::Tail => Link { next: NIL, prev: list.tail },
        };
        self.links[at as usize] = link;
        match link.next {
            NIL => list.tail = at,
            next => self.links[next as usize].prev = at,
        }
        match link.prev {
            NIL => list.head = at,
            prev => self.links[prev as usize].next = at,
        }
    }

    /// Takes a block off the list it is on.
    pub fn remove(&mut self, frame: u64, order: Order, m: Migratetype) {
        let Link { next, prev } = self.links[frame as usize];
        let list = &mut self.lists[order.index()][m.index()];
        list.len -= 1;
        match next {
            NIL => list.tail = prev,
            next => self.links[next as usize].prev = prev,
        }
        match prev {
            NIL => list.head = next,
            prev => self.links[prev as usize].next = next,
        }
    }

    /// Turns a list so that a block which is on it becomes the first or the last one; the others follow in the order in
    /// which they stand, round from the end to the beginning.
    pub fn turn(&mut self, frame: u64, order: Order, m: Migratetype, becomes: End) {
        let at = frame as u32;
        let List { head, tail, .. } = self.lists[order.index()][m.index()];
        let Link { next, prev } = self.links[at as usize];
        let (first, last) = match becomes {
            End::Head => (at, prev),
            End::Tail => (next, at),
        };
        if first == NIL || last == NIL {
            return;
        }
        self.links[tail as usize].next = head;
        self.links[head as usize].prev = tail;
        self.links[first as usize].prev = NIL;
        self.links[last as usize].next = NIL;
        let list = &mut self.lists[order.index()][m.index()];
        (list.head, list.tail) = (first, last);
    }

    /// Iterates over the blocks of a list, tail first, and stops after the number that the list records.
    pub fn iter_back(&self, order: Order, m: Migratetype) -> impl Iterator<Item = u64> + '_ {
        let list = self.lists[order.index()][m.index()];
        let mut at = list.tail;
        (0..list.len).map_while(move |_| {
            let frame = (at != NIL).then_some(u64::from(at))?;
            at = self.links[at as usize].prev;
            Some(frame)
        })
    }

    /// Iterates over the blocks of a list, head first, and stops after the number that the list records.
    pub fn iter(&self, order: Order, m: Migratetype) -> impl Iterator<Item = u64> + '_ {
        let list = self.lists[order.index()][m.index()];
        let mut at = list.head;
        (0..list.len).map_while(move |_| {
            let frame = (at != NIL).then_some(u64::from(at))?;
            at = self.links[at as usize].next;
            Some(frame)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const O: Order = Order::ZERO;
    const M: Migratetype = Migratetype::Movable;

    #[test]
    fn a_list_turns_round_and_loses_nothing() {
        let mut l = FreeLists::new(8);
        (0..5).for_each(|frame| l.add(frame, O, M, End::Tail));
        let both = |l: &FreeLists| {
            let mut back: Vec<_> = l.iter_back(O, M).collect();
            back.reverse();
            assert_eq!(back, l.iter(O, M).collect::<Vec<_>>());
            back
        };
        l.turn(3, O, M, End::Head);
        assert_eq!(both(&l), [3, 4, 0, 1, 2]);
        l.turn(3, O, M, End::Head);
        assert_eq!(both(&l), [3, 4, 0, 1, 2], "it is the first already");
        l.turn(4, O, M, End::Tail);
        assert_eq!(both(&l), [0, 1, 2, 3, 4]);
        l.turn(4, O, M, End::Tail);
        assert_eq!(both(&l), [0, 1, 2, 3, 4], "it is the last already");
        l.remove(2, O, M);
        l.add(2, O, M, End::Head);
        assert_eq!(both(&l), [2, 0, 1, 3, 4]);
    }

    #[test]
    fn ends_and_middles() {
        let mut l = FreeLists::new(8);
        l.add(1, O, M, End::Head);
        l.add(2, O, M, End::Head);
        l.add(3, O, M, End::Tail);
        assert_eq!(l.iter(O, M).collect::<Vec<_>>(), [2, 1, 3]);
        l.remove(1, O, M);
        assert_eq!(l.iter(O, M).collect::<Vec<_>>(), [2, 3]);
        l.remove(3, O, M);
        l.add(4, O, M, End::Tail);
        assert_eq!(l.iter(O, M).collect::<Vec<_>>(), [2, 4]);
        l.remove(2, O, M);
        l.remove(4, O, M);
        assert!(l.is_empty(O, M) && l.first(O, M).is_none());
        l.add(0, O, M, End::Tail);
        assert_eq!(l.first(O, M), Some(0), "frame 0 is a frame like any other");
    }
}
