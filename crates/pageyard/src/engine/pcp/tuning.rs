//! Which per-CPU lists there are, and how large they grow.

use crate::engine::geometry::{BLOCK_ORDER, PAGEBLOCK, WORD_ORDER};
use crate::engine::map::type_code::TypeCode;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::units::{Frames, Order};

/// The largest of the small orders that lists hold.
///
/// # Linux
/// `PAGE_ALLOC_COSTLY_ORDER`.
const SMALL: u8 = if cfg!(pageyard_loom) { WORD_ORDER } else { 3 };
/// Places for types: a list's type is the number that a descriptor stores, so that a free needs no arithmetic. The
/// place of the reserve for high orders has lists that hold nothing.
const TYPES: usize = 4;
/// Sizes that lists hold: the small orders, and a pageblock.
const SIZES: usize = SMALL as usize + 2;
/// Lists of one CPU in one zone.
pub(crate) const LISTS: usize = SIZES * TYPES;

/// The number of a per-CPU list of a zone: blocks of one order, from pageblocks of one type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ListIdx(usize);

impl ListIdx {
    /// A zone's first list.
    pub(crate) const FIRST: ListIdx = ListIdx(0);

    /// Makes the number of a zone's `n`th list, or `None` if a zone has fewer.
    #[must_use]
    pub const fn new(n: usize) -> Option<ListIdx> {
        if n < LISTS { Some(ListIdx(n)) } else { None }
    }

    /// Returns the number, for an array of lists.
    #[must_use]
    #[inline(always)]
    pub const fn get(self) -> usize {
        self.0
    }

    /// Returns the list of the `i`th header of a zone: each CPU has all lists in a row.
    pub(crate) const fn of_head(i: usize) -> ListIdx {
        ListIdx(i % LISTS)
    }

    /// Iterates over all lists of a zone.
    pub fn all() -> impl Iterator<Item = ListIdx> {
        (0..LISTS).map(ListIdx)
    }

    /// Returns the order of the blocks that the list holds.
    #[must_use]
    pub const fn order(self) -> Order {
        let size = self.0 / TYPES;
        if size < SIZES - 1 { Order::of(size as u8) } else { PAGEBLOCK }
    }

    /// Returns whether requests ask for the list's type.
    pub(crate) const fn is_requested(self) -> bool {
        self.0 % TYPES != TypeCode::of(Migratetype::HighAtomic).index()
    }
}

/// Returns the list of an order and a type, or `None` if there is none.
#[inline(always)]
pub(crate) fn list_of(order: Order, code: TypeCode) -> Option<ListIdx> {
    let size = if order.get() <= SMALL {
        order.index()
    } else if order == PAGEBLOCK {
        SIZES - 1
    } else {
        return None;
    };
    if code.index() < TYPES { Some(ListIdx(size * TYPES + code.index())) } else { None }
}

/// Returns whether there are lists of an order.
pub(crate) fn has_list(order: Order) -> bool {
    list_of(order, TypeCode::of(Migratetype::Movable)).is_some()
}

/// How large the lists of a zone grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tuning {
    /// Frames that a list of single frames holds before it spills.
    pub(crate) high: u32,
    /// Frames that move at a time.
    pub(crate) batch: u32,
}

/// The largest `high`: what the fields of a list's word count.
pub(crate) const MOST: u64 = (1 << 15) - 1;

/// Four-byte words that the lists of a zone, of all CPUs, can take: the reach of a list's word.
const REACH: u64 = 1 << 24;

/// The most blocks that move between a list and its zone at a time: it bounds the work of one call.
///
/// # Linux
/// A batch of 63, doubled five times.
const MOST_MOVED: u32 = 2048;

/// The most pageblocks that a list holds.
pub(crate) const MOST_WHOLES: usize = 16;

impl Tuning {
    /// Returns the tuning of a zone.
    ///
    /// # Linux
    /// `zone_batchsize` and `zone_highsize` of 6.1: a batch is a 4096th of the zone, at most 64, one and a half times
    /// that, rounded down to one less than a power of two; `high` is the low watermark, or the zone's share that
    /// `percpu_pagelist_high_fraction` names, divided by the CPUs, and at least four batches. Difference: a batch of
    /// 63 is 64 here, a word of free bits; and `high` is at most 32,767 (128 MiB), less with hundreds of CPUs.
    pub(crate) fn of(managed: Frames, low: Frames, cpus: u64, high_fraction: u64) -> Tuning {
        let quarter = (managed.0 / 1024).min(256) / 4;
        let batch = (quarter + quarter / 2).max(1);
        let batch = 1u64 << batch.ilog2();
        let share = managed.0.checked_div(high_fraction).unwrap_or(low.0);
        // All lists of a CPU, of three types each, take at most nine times `high`, and their headers.
        let most = ((REACH / cpus).saturating_sub(1 << 11) / 9).min(MOST);
        let high = (share / cpus).max(4 * batch).min(most);
        if high < batch {
            return Tuning::NONE;
        }
        Tuning { high: high as u32, batch: batch as u32 }
    }

    /// No lists: every request goes to its zone.
    pub(crate) const NONE: Tuning = Tuning { high: 0, batch: 1 };

    /// Returns how many blocks a list of `order` holds before it spills.
    ///
    /// # Linux
    /// There all lists of a CPU share one count; here those of orders above 0 have a share each, so that a push
    /// writes one cache line.
    pub(crate) const fn high_of(self, order: Order) -> u32 {
        match order.get() {
            0 => self.high,
            BLOCK_ORDER => {
                // Two at a time under the model checker, whose zones are otherwise too small for a list of pageblocks.
                let n = if cfg!(pageyard_loom) && self.high > 0 { 4 } else { self.high >> BLOCK_ORDER };
                if n > MOST_WHOLES as u32 { MOST_WHOLES as u32 } else { n }
            }
            _ => (self.high / 2) >> order.get(),
        }
    }

    /// Returns the orders of which there are lists that hold any, a bit each.
    pub(crate) fn listed(self) -> u32 {
        let has = |order: &Order| has_list(*order) && self.high_of(*order) > 0;
        Order::ZERO.up_to(PAGEBLOCK).filter(has).fold(0, |set, order| set | 1 << order.get())
    }

    /// Returns how many blocks of `order` are claimed when a list is empty.
    pub(crate) const fn refill_of(self, order: Order) -> u32 {
        let high = self.high_of(order);
        // Half of the pageblocks that a list holds: together they cost one write of the index and the counts.
        let n = if order.get() == BLOCK_ORDER { high / 2 } else { self.batch >> order.get() };
        let n = if n < high { n } else { high };
        if n == 0 { 1 } else { n }
    }

    /// Returns how many blocks of `order` move at a time after this many doublings: from an eighth of what a list
    /// holds, or a pageblock's worth, up to a half; of pageblocks, from half to all.
    pub(crate) const fn moved(self, order: Order, doublings: u32) -> u32 {
        let (least, high) = (self.refill_of(order), self.high_of(order));
        let n = if order.get() == BLOCK_ORDER {
            min(least << doublings, high)
        } else {
            let eighth = if high < 8 { 0 } else { 1 << (high / 8).ilog2() };
            let first = min(eighth, crate::engine::geometry::BLOCK_FRAMES >> order.get());
            let first = if first < least { least } else { first };
            min(first << doublings, min(high / 2, MOST_MOVED))
        };
        if n < least { least } else { n }
    }

    /// Returns how many items a scratch area has to hold: as many as move at a time, and the rest of a pageblock.
    pub(crate) fn room(self, doublings: u32) -> usize {
        let most =
            Order::ZERO.up_to(Order::of(SMALL)).map(|order| self.moved(order, doublings)).max().unwrap_or(0)
                as usize;
        if most > crate::engine::geometry::BATCH {
            most + crate::engine::geometry::BLOCK_FRAMES as usize
        } else {
            0
        }
    }

    /// Returns how many places the window of `order` moves in: enough that it seldom moves back, and then to places
    /// outside itself.
    pub(crate) const fn places(self, order: Order) -> usize {
        let high = self.high_of(order);
        if high == 0 { 0 } else { 2 * high as usize + crate::engine::geometry::BATCH }
    }
}

const fn min(a: u32, b: u32) -> u32 {
    if a < b { a } else { b }
}

#[cfg(all(test, not(pageyard_loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_moves_doubles_up_to_half_of_a_list() {
        let t = Tuning { high: 6000, batch: 64 };
        assert_eq!([0, 1, 2, 5].map(|n| t.moved(Order::ZERO, n)), [512, 1024, 2048, 2048]);
        assert_eq!([0, 1, 2, 5].map(|n| t.moved(Order::of(3), n)), [32, 64, 128, 187]);
        assert_eq!([0, 1, 5].map(|n| t.moved(Order::of(9), n)), [5, 10, 11]);
        let small = Tuning { high: 256, batch: 64 };
        assert_eq!([0, 1, 5].map(|n| small.moved(Order::ZERO, n)), [64, 128, 128]);
        assert_eq!([0, 1].map(|n| Tuning::NONE.moved(Order::ZERO, n)), [1, 1]);
        assert_eq!((t.room(5), small.room(5), Tuning::NONE.room(5)), (2048 + 512, 128 + 512, 0));
    }

    #[test]
    fn tuning_follows_linux_6_1() {
        // A host of 16 GiB: batch 63 there; `high` is the low watermark by CPUs.
        let t = Tuning::of(Frames(4 << 20), Frames(12_000), 2, 0);
        assert_eq!((t.batch, t.high), (64, 6000));
        assert_eq!(Tuning::of(Frames(4 << 20), Frames(12_000), 2, 8).high, (1 << 15) - 1);
        assert_eq!(Tuning::of(Frames(4 << 20), Frames(12_000), 2, 200).high, 10_485);
        let tiny = Tuning::of(Frames(1), Frames(0), 1, 0);
        assert_eq!((tiny.batch, tiny.high), (1, 4));
        assert_eq!(Tuning::NONE.places(Order::ZERO), 0);
        assert_eq!(Tuning::of(Frames(4 << 20), Frames(12_000), 1 << 14, 0), Tuning::NONE);
    }

    #[test]
    fn orders_of_which_a_list_holds_none_have_no_list() {
        assert_eq!(Tuning::NONE.listed(), 0);
        // Half of it is for larger blocks: four frames are two blocks of order 1, or one of order 2.
        assert_eq!(Tuning { high: 8, batch: 1 }.listed(), 0b111);
        assert_eq!(Tuning { high: 6000, batch: 64 }.listed(), 0b10_0000_1111);
    }
}
