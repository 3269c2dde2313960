//! The state of each frame, one byte each: the one place where a second free is caught. Layer: parts of a zone.

use pageyard_core::{Frames, Migratetype, Order};
use std::sync::atomic::{AtomicU8, Ordering};

/// The largest order of the reference: Linux's `MAX_PAGE_ORDER` on x86-64.
pub const MAX_PAGE_ORDER: Order = Order::of(10);

/// Orders that the reference has lists for.
pub const NR_PAGE_ORDERS: usize = MAX_PAGE_ORDER.index() + 1;

/// How a caller holds a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holding {
    /// Whether its contents can be moved.
    pub movable: bool,
    /// Whether its frames are not one page: a scan of memory frame by frame sees each.
    ///
    /// # Linux
    /// A block of several frames that was allocated without `__GFP_COMP`.
    pub loose: bool,
}

impl Holding {
    /// A single frame, or frames that are one page, whose contents stay.
    pub const FIXED: Holding = Holding { movable: false, loose: false };
    /// The same, with contents that can be moved.
    pub const MOVABLE: Holding = Holding { movable: true, loose: false };

    /// Returns how a block of a type is held.
    pub fn of(m: Migratetype) -> Holding {
        if m == Migratetype::Movable { Holding::MOVABLE } else { Holding::FIXED }
    }

    const ALL: [Holding; 4] = [
        Holding::FIXED,
        Holding::MOVABLE,
        Holding { movable: false, loose: true },
        Holding { movable: true, loose: true },
    ];

    const fn number(self) -> u8 {
        self.movable as u8 | (self.loose as u8) << 1
    }
}

/// The state of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tag {
    /// Not managed.
    Hole,
    /// Part of a block that starts at a lower frame, or in transition between two other states.
    Inside,
    /// The first frame of a block on a free list, and on which list.
    Buddy(Order, Migratetype),
    /// The first frame of a block in a per-CPU list, and the type it was cached with: where it goes when it is drained,
    /// until 6.10.
    Cached(Order, Migratetype),
    /// The first frame of a block that a caller holds, and how.
    Allocated(Order, Holding),
    /// The first frame of a block that was freed while the zone's lists could not be changed: the next free to the zone
    /// takes it along.
    Late(Order),
}

const INSIDE: u8 = 1;
const CACHED: u8 = 2;
const ALLOCATED: u8 = CACHED + (NR_PAGE_ORDERS * Migratetype::COUNT) as u8;
const BUDDY: u8 = ALLOCATED + (NR_PAGE_ORDERS * Holding::ALL.len()) as u8;
const LATE: u8 = BUDDY + (NR_PAGE_ORDERS * Migratetype::COUNT) as u8;

/// Numbers a block of an order and a type.
const fn listed(base: u8, order: Order, m: Migratetype) -> u8 {
    base + m as u8 * NR_PAGE_ORDERS as u8 + order.get()
}

/// Undoes [`listed`].
fn unlisted(n: u8) -> (Order, Migratetype) {
    let orders = NR_PAGE_ORDERS as u8;
    (Order::of(n % orders), Migratetype::ALL[(n / orders) as usize])
}

impl Tag {
    #[inline]
    const fn encode(self) -> u8 {
        match self {
            Tag::Hole => 0,
            Tag::Inside => INSIDE,
            Tag::Cached(order, m) => listed(CACHED, order, m),
            Tag::Allocated(order, held) => ALLOCATED + held.number() * NR_PAGE_ORDERS as u8 + order.get(),
            Tag::Buddy(order, m) => listed(BUDDY, order, m),
            Tag::Late(order) => LATE + order.get(),
        }
    }

    #[inline]
    fn decode(raw: u8) -> Tag {
        match raw {
            0 => Tag::Hole,
            INSIDE => Tag::Inside,
            CACHED..ALLOCATED => {
                let (order, m) = unlisted(raw - CACHED);
                Tag::Cached(order, m)
            }
            ALLOCATED..BUDDY => {
                let (n, orders) = (raw - ALLOCATED, NR_PAGE_ORDERS as u8);
                Tag::Allocated(Order::of(n % orders), Holding::ALL[usize::from(n / orders)])
            }
            BUDDY..LATE => {
                let (order, m) = unlisted(raw - BUDDY);
                Tag::Buddy(order, m)
            }
            _ => Tag::Late(Order::of((raw - LATE) % NR_PAGE_ORDERS as u8)),
        }
    }

    /// Returns how many frames the block has that starts here; one for frames that start none.
    pub fn frames(self) -> Frames {
        match self {
            Tag::Hole | Tag::Inside => Frames(1),
            Tag::Buddy(order, _) | Tag::Cached(order, _) | Tag::Allocated(order, _) | Tag::Late(order) => {
                order.frames()
            }
        }
    }
}

/// The tags of one zone, indexed by a frame's distance from the zone's start.
pub struct Tags(Vec<AtomicU8>);

impl Tags {
    /// Makes tags for a zone in which nothing is managed yet.
    pub fn new(frames: usize) -> Tags {
        Tags(std::iter::repeat_with(|| AtomicU8::new(Tag::Hole.encode())).take(frames).collect())
    }

    /// Returns how many frames there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Reads a tag. Frames beyond the zone are holes.
    #[inline]
    pub fn get(&self, frame: u64) -> Tag {
        // ORDER: Acquire pairs with the Release in `set` and `swap`: a thread that sees a block's state sees the states
        // of its other frames, which were written first.
        self.0.get(frame as usize).map_or(Tag::Hole, |t| Tag::decode(t.load(Ordering::Acquire)))
    }

    /// Writes the tag of a frame that only the caller can change: it holds the zone lock, or owns the block.
    #[inline]
    pub fn set(&self, frame: u64, tag: Tag) {
        // ORDER: Release pairs with the Acquire in `get` and `swap`.
        self.0[frame as usize].store(tag.encode(), Ordering::Release);
    }

    /// Changes a tag if it is still `from`: of two frees of one block, one gets `true`.
    #[inline]
    pub fn swap(&self, frame: u64, from: Tag, to: Tag) -> bool {
        // ORDER: AcqRel pairs with `set` and with other swaps of the same tag; a failed swap reads nothing that is
        // used.
        self.0[frame as usize]
            .compare_exchange(from.encode(), to.encode(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tag_is_a_byte_and_back() {
        let mut all = vec![Tag::Hole, Tag::Inside];
        for order in Order::ZERO.up_to(MAX_PAGE_ORDER) {
            all.extend(Holding::ALL.map(|held| Tag::Allocated(order, held)));
            all.extend(Migratetype::ALL.map(|m| Tag::Buddy(order, m)));
            all.extend(Migratetype::ALL.map(|m| Tag::Cached(order, m)));
            all.push(Tag::Late(order));
        }
        let bytes: std::collections::HashSet<u8> = all.iter().map(|t| t.encode()).collect();
        assert_eq!(bytes.len(), all.len());
        assert!(all.iter().all(|t| Tag::decode(t.encode()) == *t));
    }

    #[test]
    fn of_two_swaps_from_the_same_state_one_wins() {
        let tags = Tags::new(1);
        let (held, cached) =
            (Tag::Allocated(Order::ZERO, Holding::FIXED), Tag::Cached(Order::ZERO, Migratetype::Movable));
        tags.set(0, held);
        assert!(tags.swap(0, held, cached));
        assert!(!tags.swap(0, held, cached));
        assert_eq!(tags.get(1), Tag::Hole);
    }
}
