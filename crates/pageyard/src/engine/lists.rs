//! The memory of the per-CPU lists, and what one list is: a ring of frame numbers, its newest end the hottest.

use super::geometry::{BLOCK_ORDER, WORD_ORDER};
use super::sync::{A32, Acquire, Carver, Line, Relaxed, Release};
use crate::migratetype::Migratetype;
use crate::units::Frames;

/// The largest of the small orders that lists hold.
///
/// # Linux
/// `PAGE_ALLOC_COSTLY_ORDER`.
const SMALL: u8 = if cfg!(loom) { WORD_ORDER } else { 3 };
/// Types that lists hold.
const TYPES: usize = Migratetype::REQUESTED.len();
/// Sizes that lists hold: the small orders, and a pageblock.
const SIZES: usize = SMALL as usize + 2;
/// Lists of one CPU in one zone.
pub(crate) const LISTS: usize = SIZES * TYPES;

/// Returns the number of the list of an order and a type, or `None` where there is none.
#[inline(always)]
pub(crate) fn list_of(order: u8, ty: u8) -> Option<usize> {
    let first = FIRST[(order & 31) as usize];
    if first != NO_LIST && (ty as usize) < TYPES { Some(first as usize + ty as usize) } else { None }
}

const NO_LIST: u8 = u8::MAX;

/// By order, the list of its first type.
static FIRST: [u8; 32] = {
    let mut first = [NO_LIST; 32];
    let mut size = 0;
    while size < SIZES {
        first[if size < SIZES - 1 { size } else { BLOCK_ORDER as usize }] = (size * TYPES) as u8;
        size += 1;
    }
    first
};

/// Returns the order that a list holds.
pub(crate) const fn order_of(list: usize) -> u8 {
    let size = list / TYPES;
    if size < SIZES - 1 { size as u8 } else { BLOCK_ORDER }
}

/// How large the lists of a zone become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tuning {
    /// Frames that a list of single frames holds before it spills.
    pub(crate) high: u32,
    /// Frames that move at a time.
    pub(crate) batch: u32,
}

/// The largest `high`, so that a list has a size: a few more than the largest that a recorded host shows.
const MOST: u64 = 1 << 18;

impl Tuning {
    /// Returns the tuning of a zone.
    ///
    /// # Linux
    /// `zone_batchsize` and `zone_highsize` of 6.1: a batch is a 4096th of the zone, at most 64, one and a half times
    /// that, rounded down to one less than a power of two; `high` is the low watermark, or the zone's share that
    /// `percpu_pagelist_high_fraction` names, divided by the CPUs, and at least four batches. Difference: a batch of
    /// 63 is 64 here, a word of free bits.
    pub(crate) fn of(managed: Frames, low: Frames, cpus: u64, high_fraction: u64) -> Tuning {
        let quarter = (managed.0 / 1024).min(256) / 4;
        let batch = (quarter + quarter / 2).max(1);
        let batch = 1u64 << batch.ilog2();
        let share = managed.0.checked_div(high_fraction).unwrap_or(low.0);
        let high = (share / cpus).max(4 * batch).min(MOST);
        Tuning { high: high as u32, batch: batch as u32 }
    }

    /// No lists: every request goes to its zone.
    pub(crate) const NONE: Tuning = Tuning { high: 0, batch: 1 };

    /// Returns how many blocks a list of `order` holds before it spills.
    ///
    /// # Linux
    /// There all lists of a CPU share one count; here those of orders above 0 have a share each, so that a push
    /// writes one cache line.
    pub(crate) const fn high_of(self, order: u8) -> u32 {
        match order {
            0 => self.high,
            BLOCK_ORDER => {
                let n = self.high >> BLOCK_ORDER;
                if n > 8 { 8 } else { n }
            }
            _ => (self.high / 4) >> order,
        }
    }

    /// Returns how many blocks of `order` are claimed when a list is empty.
    pub(crate) const fn refill_of(self, order: u8) -> u32 {
        let n = self.batch >> order;
        let high = self.high_of(order);
        let n = if n < high { n } else { high };
        if n == 0 { 1 } else { n }
    }

    /// Returns how many places the ring of `order` has: a power of two above what it holds and takes at once.
    const fn places(self, order: u8) -> usize {
        let high = self.high_of(order);
        if high == 0 { 0 } else { (high + super::geometry::BATCH as u32).next_power_of_two() as usize }
    }
}

// The words of a list's header.
/// Number of the oldest item's place in the low half, how many items there are in the high half.
const RING: usize = 0;
/// 1 while somebody uses the list under a try-lock.
const LOCK: usize = 1;
/// Places minus one in the low half, how many items make it full in the high half.
const LIMITS: usize = 2;
/// The first place's index.
const OFFSET: usize = 3;
/// Items popped one at a time, or in bulk, for callers.
const POPPED: usize = 4;
/// Items pushed that came from the zone.
const REFILLED: usize = 5;
/// Items taken that went to the zone.
const SPILLED: usize = 6;

const ONE: u64 = 1 << 32;

/// One per-CPU list: a ring of frame numbers, relative to the zone's first pageblock.
///
/// Its operations are sequences of plain loads and stores. They are correct only while nobody else uses the list:
/// a [`PerCpu`](super::PerCpu) sees to that.
#[derive(Clone, Copy)]
pub struct List<'a> {
    head: &'a Line,
    items: &'a [A32],
}

impl List<'_> {
    // ORDER: Relaxed, everywhere below: whatever keeps others from the list orders its uses.

    #[inline(always)]
    fn add(&self, word: usize, n: u64) {
        self.head.0[word].store(self.head.0[word].load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Takes the list, unless somebody has it.
    #[inline(always)]
    #[must_use]
    pub fn try_lock(&self) -> bool {
        // ORDER: Acquire pairs with the Release in `unlock`.
        self.head.0[LOCK].compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    /// Gives the list back.
    #[inline(always)]
    pub fn unlock(&self) {
        // ORDER: Release pairs with the Acquire in `try_lock`.
        self.head.0[LOCK].store(0, Release);
    }

    /// Takes the newest item.
    #[inline(always)]
    #[must_use]
    pub fn pop(&self) -> Option<u32> {
        let ring = self.head.0[RING].load(Relaxed);
        let last = (ring >> 32).checked_sub(1)?;
        let mask = self.head.0[LIMITS].load(Relaxed) as u32;
        let place = (ring as u32).wrapping_add(last as u32) & mask;
        let item = self.items[self.head.0[OFFSET].load(Relaxed) as usize + place as usize].load(Relaxed);
        self.head.0[RING].store(ring - ONE, Relaxed);
        self.add(POPPED, 1);
        Some(item)
    }

    /// Adds an item; `false` where the list is full.
    #[inline(always)]
    #[must_use]
    pub fn push(&self, item: u32) -> bool {
        let ring = self.head.0[RING].load(Relaxed);
        let limits = self.head.0[LIMITS].load(Relaxed);
        if ring >> 32 >= limits >> 32 {
            return false;
        }
        let place = (ring as u32).wrapping_add((ring >> 32) as u32) & limits as u32;
        self.items[self.head.0[OFFSET].load(Relaxed) as usize + place as usize].store(item, Relaxed);
        self.head.0[RING].store(ring + ONE, Relaxed);
        true
    }

    /// Takes the newest items, newest first; returns how many.
    #[must_use]
    pub fn pop_many(&self, out: &mut [u32]) -> usize {
        let ring = self.head.0[RING].load(Relaxed);
        let n = (ring >> 32).min(out.len() as u64);
        let mask = self.head.0[LIMITS].load(Relaxed) as u32;
        let offset = self.head.0[OFFSET].load(Relaxed) as usize;
        let end = (ring as u32).wrapping_add((ring >> 32) as u32);
        for (i, slot) in out[..n as usize].iter_mut().enumerate() {
            let place = end.wrapping_sub(1 + i as u32) & mask;
            *slot = self.items[offset + place as usize].load(Relaxed);
        }
        self.head.0[RING].store(ring - n * ONE, Relaxed);
        self.add(POPPED, n);
        n as usize
    }

    /// Takes the oldest items, oldest first, for the zone; returns how many.
    #[must_use]
    pub fn pop_oldest(&self, out: &mut [u32]) -> usize {
        let ring = self.head.0[RING].load(Relaxed);
        let n = (ring >> 32).min(out.len() as u64);
        let mask = self.head.0[LIMITS].load(Relaxed) as u32;
        let offset = self.head.0[OFFSET].load(Relaxed) as usize;
        for (i, slot) in out[..n as usize].iter_mut().enumerate() {
            let place = (ring as u32).wrapping_add(i as u32) & mask;
            *slot = self.items[offset + place as usize].load(Relaxed);
        }
        let oldest = (ring as u32).wrapping_add(n as u32) & mask;
        self.head.0[RING].store((((ring >> 32) - n) << 32) | u64::from(oldest), Relaxed);
        self.add(SPILLED, n);
        n as usize
    }

    /// Adds items that came from the zone, the last of them the newest; returns how many fitted, from the front.
    #[must_use]
    pub fn refill(&self, items: &[u32]) -> usize {
        let n = self.extend(items);
        self.add(REFILLED, n as u64);
        n
    }

    /// Adds items that callers freed, the last of them the newest; returns how many fitted, from the front.
    #[must_use]
    pub fn extend(&self, items: &[u32]) -> usize {
        let ring = self.head.0[RING].load(Relaxed);
        let limits = self.head.0[LIMITS].load(Relaxed);
        let room = (limits >> 32).saturating_sub(ring >> 32);
        let n = room.min(items.len() as u64);
        let offset = self.head.0[OFFSET].load(Relaxed) as usize;
        let end = (ring as u32).wrapping_add((ring >> 32) as u32);
        for (i, item) in items[..n as usize].iter().enumerate() {
            let place = end.wrapping_add(i as u32) & limits as u32;
            self.items[offset + place as usize].store(*item, Relaxed);
        }
        self.head.0[RING].store(ring + n * ONE, Relaxed);
        n as usize
    }

    /// Returns how many items it holds: a hint, unless nobody else uses it.
    #[must_use]
    pub fn len(&self) -> usize {
        (self.head.0[RING].load(Relaxed) >> 32) as usize
    }

    /// Says whether it holds none: a hint, unless nobody else uses it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many items it held that callers took, and that they gave.
    pub(crate) fn traffic(&self) -> (u64, u64) {
        let word = |w: usize| self.head.0[w].load(Relaxed);
        let popped = word(POPPED);
        let pushed = (popped + word(SPILLED) + self.len() as u64).wrapping_sub(word(REFILLED));
        (popped, pushed)
    }

    /// Calls `visit` with each item, while nobody else uses the list.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(u32)) {
        let ring = self.head.0[RING].load(Relaxed);
        let mask = self.head.0[LIMITS].load(Relaxed) as u32;
        let offset = self.head.0[OFFSET].load(Relaxed) as usize;
        for i in 0..(ring >> 32) as u32 {
            let place = (ring as u32).wrapping_add(i) & mask;
            visit(self.items[offset + place as usize].load(Relaxed));
        }
    }
}

/// The lists of a zone, of all CPUs.
pub(crate) struct Lists<'m> {
    heads: &'m [Line],
    items: &'m [A32],
    pub(crate) tuning: Tuning,
}

impl<'m> Lists<'m> {
    /// Carves the lists of `cpus` CPUs.
    pub(crate) fn carve(carver: &mut Carver<'m>, cpus: usize, tuning: Tuning) -> Lists<'m> {
        let each: usize = (0..LISTS).map(|list| tuning.places(order_of(list))).sum();
        Lists { heads: carver.zeroed(cpus * LISTS), items: carver.zeroed(cpus * each), tuning }
    }

    /// Writes the headers, while nobody else knows of them.
    pub(crate) fn open(&self) {
        let mut offset = 0;
        for (i, Line(head)) in self.heads.iter().enumerate() {
            let order = order_of(i % LISTS);
            let places = self.tuning.places(order);
            let high = u64::from(self.tuning.high_of(order));
            // ORDER: Relaxed: the lists are published by whatever publishes the allocator.
            head[LIMITS].store(high << 32 | (places as u64).saturating_sub(1), Relaxed);
            head[OFFSET].store(offset as u64, Relaxed);
            offset += places;
        }
    }

    /// Returns one list of one CPU.
    #[inline(always)]
    pub(crate) fn get(&self, cpu: usize, list: usize) -> List<'_> {
        List { head: &self.heads[cpu * LISTS + list], items: self.items }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn tuning_follows_linux_6_1() {
        // A host of 16 GiB: batch 63 there; `high` is the low watermark by CPUs.
        let t = Tuning::of(Frames(4 << 20), Frames(12_000), 2, 0);
        assert_eq!((t.batch, t.high), (64, 6000));
        assert_eq!(Tuning::of(Frames(4 << 20), Frames(12_000), 2, 8).high, 1 << 18);
        let tiny = Tuning::of(Frames(1), Frames(0), 1, 0);
        assert_eq!((tiny.batch, tiny.high), (1, 4));
        assert_eq!(Tuning::NONE.places(0), 0);
    }

    #[test]
    fn a_ring_is_newest_first_for_callers_and_oldest_first_for_the_zone() {
        let mut memory = [0u8; 64 * 1024];
        let mut carver = Carver::of(&mut memory);
        let lists = Lists::carve(&mut carver, 2, Tuning { high: 40, batch: 8 });
        assert!(carver.fits());
        lists.open();
        let list = lists.get(1, 0);
        for lap in 0..50 {
            assert_eq!(list.refill(&[1, 2, 3, 4]), 4);
            assert!(list.push(5));
            let mut out = [0; 2];
            assert_eq!(list.pop_oldest(&mut out), 2);
            assert_eq!(out, [1, 2], "lap {lap}");
            assert_eq!(list.pop(), Some(5));
            assert_eq!(list.pop_many(&mut out), 2);
            assert_eq!(out, [4, 3]);
            assert!(list.is_empty() && list.pop().is_none());
        }
        assert_eq!(list.traffic(), (150, 50));
        for i in 0..40 {
            assert!(list.push(i));
        }
        assert!(!list.push(40));
        assert_eq!(list.extend(&[1]), 0);
        assert!(lists.get(0, 0).is_empty());
    }
}
