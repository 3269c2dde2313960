//! The memory of the per-CPU lists, and what one list is: a stack of frame numbers, its newest end the hottest.

use super::geometry::{BLOCK_ORDER, WORD_ORDER};
use super::sync::{A32, A64, APtr, Acquire, Carver, Relaxed, Release, SeqCst};
use crate::error::MapError;
use crate::migratetype::Migratetype;
use crate::units::{CpuId, Frames};
use core::marker::PhantomData;
use core::mem::size_of;

/// The largest of the small orders that lists hold.
///
/// # Linux
/// `PAGE_ALLOC_COSTLY_ORDER`.
const SMALL: u8 = if cfg!(loom) { WORD_ORDER } else { 3 };
/// Places for types: a list's type is the number that a descriptor stores, so that a free needs no arithmetic. The
/// place of the reserve for high orders has lists that hold nothing.
const TYPES: usize = 4;
/// Sizes that lists hold: the small orders, and a pageblock.
const SIZES: usize = SMALL as usize + 2;
/// Lists of one CPU in one zone.
pub(crate) const LISTS: usize = SIZES * TYPES;

/// Returns the number of the list of an order and a type, or `None` where there is none.
#[inline(always)]
pub(crate) fn list_of(order: u8, ty: u8) -> Option<usize> {
    let stored = (ty ^ Migratetype::Movable as u8) as usize;
    let size = if order <= SMALL {
        order as usize
    } else if order == BLOCK_ORDER {
        SIZES - 1
    } else {
        return None;
    };
    if stored < TYPES { Some(size * TYPES + stored) } else { None }
}

/// Returns the order that a list holds.
pub(crate) const fn order_of(list: usize) -> u8 {
    let size = list / TYPES;
    if size < SIZES - 1 { size as u8 } else { BLOCK_ORDER }
}

/// Says whether a list's type is one that requests have.
const fn is_requested(list: usize) -> bool {
    (list % TYPES) as u8 ^ Migratetype::Movable as u8 != Migratetype::HighAtomic as u8
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

/// The most pageblocks that a list holds.
pub(crate) const MOST_WHOLES: usize = 16;

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
                // Two at a time under the model checker, whose zones are too small for a list of them otherwise.
                let n = if cfg!(loom) && self.high > 0 { 4 } else { self.high >> BLOCK_ORDER };
                if n > MOST_WHOLES as u32 { MOST_WHOLES as u32 } else { n }
            }
            _ => (self.high / 4) >> order,
        }
    }

    /// Returns how many blocks of `order` are claimed when a list is empty.
    pub(crate) const fn refill_of(self, order: u8) -> u32 {
        let high = self.high_of(order);
        // Half of the pageblocks that a list holds: they cost one write of the index and the counts together.
        let n = if order == BLOCK_ORDER { high / 2 } else { self.batch >> order };
        let n = if n < high { n } else { high };
        if n == 0 { 1 } else { n }
    }

    /// Returns how many places the window of `order` moves in: so many that it moves back seldom, and then to where it
    /// was not.
    const fn places(self, order: u8) -> usize {
        let high = self.high_of(order);
        if high == 0 { 0 } else { 2 * high as usize + super::geometry::BATCH }
    }
}

// A list's word: what every hit reads and, with one store, writes.
/// How many items can be added before somebody has to make room: the lowest bits.
const LEFT: u64 = (1 << FIELD) - 1;
/// Bits of the fields for room and for items.
const FIELD: u32 = 20;
/// Where the number of items popped for callers begins; it runs over into [`Head::popped`].
const POPPED_SHIFT: u32 = 2 * FIELD;
/// What a pop adds: one more popped, one item fewer, room for one more.
const POP: u64 = (1 << POPPED_SHIFT) - (1 << FIELD) + 1;
/// What a push adds: one item more, room for one fewer.
const PUSH: u64 = (1 << FIELD) - 1;

const _: () = assert!(2 * MOST + 64 < 1 << FIELD);

#[inline(always)]
const fn count(word: u64) -> usize {
    (word >> FIELD) as usize & LEFT as usize
}

/// One per-CPU list: a window of frame numbers, relative to the zone's first pageblock, that moves up a stretch of
/// memory as its oldest items go to the zone, and back to the start when it comes to the end.
///
/// Everything that a hit touches is in one cache line. A hit's cost is its loads: it makes three here.
#[repr(C, align(64))]
pub(crate) struct Head<'m> {
    /// Room, items and pops. One store of it is what makes any change.
    word: A64,
    /// Where the oldest item lies, or would.
    oldest: APtr<A32>,
    /// The memory that the window moves in: its first place, and how many there are.
    start: APtr<A32>,
    places: usize,
    /// Items popped for callers, beyond what `word` says.
    popped: A64,
    /// Items pushed that came from the zone.
    refilled: A64,
    /// Items taken that went to the zone.
    spilled: A64,
    /// How many items make it full.
    high: u32,
    /// 1 while somebody uses the list under a try-lock.
    lock: A32,
    memory: PhantomData<&'m [A32]>,
}

impl<'m> Head<'m> {
    fn new(items: &'m [A32], high: u32) -> Head<'m> {
        Head {
            word: A64::new(u64::from(high)),
            oldest: APtr::new(items.as_ptr()),
            start: APtr::new(items.as_ptr()),
            places: items.len(),
            popped: A64::new(0),
            refilled: A64::new(0),
            spilled: A64::new(0),
            high,
            lock: A32::new(0),
            memory: PhantomData,
        }
    }
}

/// One per-CPU list.
///
/// Its operations are sequences of plain loads and stores. They are correct only while nobody else uses the list:
/// a [`PerCpu`](super::PerCpu) sees to that.
#[derive(Clone, Copy)]
pub struct List<'a>(&'a Head<'a>);

// ORDER: Relaxed, everywhere below: whatever keeps others from the list orders its uses.
#[inline(always)]
fn add(word: &A64, n: u64) {
    word.store(word.load(Relaxed).wrapping_add(n), Relaxed);
}

impl<'a> Head<'a> {
    /// Returns the `n`th place after the oldest item.
    #[inline(always)]
    fn place(&self, n: usize) -> &'a A32 {
        let oldest = self.oldest.load(Relaxed);
        debug_assert!(self.first() + n < self.places);
        // SAFETY: 1. `oldest` points into `items`, and `n` places on there is an item, or room for one: callers have
        //            checked that in the list's word, which counts no room beyond the end of `items`.
        //         2. `items` lives as long as `'a`.
        unsafe { &*oldest.add(n) }
    }

    /// Returns the memory that the window moves in.
    fn items(&self) -> &'a [A32] {
        // SAFETY: `new` took both from a slice that lives as long as `'a`, and nobody changes them.
        unsafe { core::slice::from_raw_parts(self.start.load(Relaxed), self.places) }
    }

    /// Returns the number of the place of the oldest item.
    fn first(&self) -> usize {
        (self.oldest.load(Relaxed) as usize - self.start.load(Relaxed) as usize) / size_of::<A32>()
    }

    /// Returns the `n` places from the `at`th after the oldest item on.
    fn places(&self, at: usize, n: usize) -> &[A32] {
        &self.items()[self.first() + at..][..n]
    }

    /// Counts pops that came to more than the word holds.
    #[cold]
    fn carry(&self) {
        add(&self.popped, 1 << (64 - POPPED_SHIFT));
    }

    /// Makes the window one of `count` items from place `first` on.
    fn set(&self, word: u64, first: usize, count: usize) {
        let left = (self.high as usize).saturating_sub(count).min(self.places - first - count);
        let popped = word >> POPPED_SHIFT << POPPED_SHIFT;
        self.oldest.store(self.items()[first..].as_ptr(), Relaxed);
        self.word.store(popped | (count as u64) << FIELD | left as u64, Relaxed);
    }
}

impl List<'_> {
    /// Takes the list, unless somebody has it.
    #[inline(always)]
    #[must_use]
    pub fn try_lock(&self) -> bool {
        // ORDER: Acquire pairs with the Release in `unlock`.
        self.0.lock.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    /// Gives the list back.
    #[inline(always)]
    pub fn unlock(&self) {
        // ORDER: Release pairs with the Acquire in `try_lock`.
        self.0.lock.store(0, Release);
    }

    /// Takes the newest item.
    #[inline(always)]
    #[must_use]
    pub fn pop(&self) -> Option<u32> {
        let head = self.0;
        let word = head.word.load(Relaxed);
        let last = count(word).checked_sub(1)?;
        let item = head.place(last).load(Relaxed);
        let (word, carry) = word.overflowing_add(POP);
        head.word.store(word, Relaxed);
        if carry {
            head.carry();
        }
        Some(item)
    }

    /// Adds an item if `win` says so, which is asked only where there is room.
    ///
    /// The list is read before: what `win` does to other memory then waits for nothing.
    #[inline(always)]
    #[must_use]
    pub fn push(&self, item: u32, win: impl FnOnce() -> bool) -> Pushed {
        let head = self.0;
        let word = head.word.load(Relaxed);
        if word & LEFT == 0 {
            return Pushed::NoRoom;
        }
        let place = head.place(count(word));
        if !win() {
            return Pushed::Lost;
        }
        place.store(item, Relaxed);
        head.word.store(word + PUSH, Relaxed);
        Pushed::Kept
    }

    /// Takes the newest items, in no order; returns how many.
    #[must_use]
    pub fn pop_many(&self, out: &mut [u32]) -> usize {
        let head = self.0;
        let word = head.word.load(Relaxed);
        let n = count(word).min(out.len());
        let places = head.places(count(word) - n, n);
        out.iter_mut().zip(places).for_each(|(slot, item)| *slot = item.load(Relaxed));
        let (word, carry) = word.overflowing_add(n as u64 * POP);
        head.word.store(word, Relaxed);
        if carry {
            head.carry();
        }
        n
    }

    /// Takes the oldest items, oldest first, for the zone; returns how many.
    ///
    /// Where there is no room behind the newest item, all of them move back to the start.
    #[must_use]
    pub fn pop_oldest(&self, out: &mut [u32]) -> usize {
        let head = self.0;
        let word = head.word.load(Relaxed);
        let (all, first) = (count(word), head.first());
        let n = all.min(out.len());
        out.iter_mut().zip(head.places(0, n)).for_each(|(slot, item)| *slot = item.load(Relaxed));
        let (rest, mut start) = (all - n, first + n);
        if start + rest == head.places {
            for i in 0..rest {
                head.items()[i].store(head.items()[start + i].load(Relaxed), Relaxed);
            }
            start = 0;
        }
        head.set(word, start, rest);
        add(&head.spilled, n as u64);
        n
    }

    /// Adds items that came from the zone, the last of them the newest; returns how many fitted, from the front.
    #[must_use]
    pub fn refill(&self, items: &[u32]) -> usize {
        let n = self.extend(items);
        add(&self.0.refilled, n as u64);
        n
    }

    /// Adds items that callers freed, the last of them the newest; returns how many fitted, from the front.
    #[must_use]
    pub fn extend(&self, items: &[u32]) -> usize {
        let head = self.0;
        if self.is_empty() {
            head.set(head.word.load(Relaxed), 0, 0);
        }
        let word = head.word.load(Relaxed);
        let n = ((word & LEFT) as usize).min(items.len());
        let places = head.places(count(word), n);
        places.iter().zip(items).for_each(|(place, item)| place.store(*item, Relaxed));
        head.word.store(word + n as u64 * PUSH, Relaxed);
        n
    }

    /// Returns how many items it holds: a hint, unless nobody else uses it.
    #[must_use]
    pub fn len(&self) -> usize {
        count(self.0.word.load(Relaxed))
    }

    /// Says whether it holds none: a hint, unless nobody else uses it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many items it held that callers took, and that they gave.
    pub(crate) fn traffic(&self) -> (u64, u64) {
        let popped = self.0.popped.load(Relaxed) + (self.0.word.load(Relaxed) >> POPPED_SHIFT);
        let out = popped + self.0.spilled.load(Relaxed) + self.len() as u64;
        (popped, out.wrapping_sub(self.0.refilled.load(Relaxed)))
    }

    /// Calls `visit` with each item, while nobody else uses the list.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(u32)) {
        self.0.places(0, self.len()).iter().for_each(|item| visit(item.load(Relaxed)));
    }
}

/// What became of a push.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pushed {
    /// It was won, and is in the list.
    Kept,
    /// It was won, and is nowhere: the list had no room any more.
    Won,
    /// It was not won.
    Lost,
    /// The list is full or in use; nobody was asked.
    NoRoom,
}

/// The lists of a zone, of all CPUs.
#[derive(Clone, Copy)]
pub struct CpuLists<'a> {
    heads: &'a [Head<'a>],
    slots: &'a [A64],
}

impl<'a> CpuLists<'a> {
    /// Lists of one CPU.
    pub const EACH: usize = LISTS;

    /// Returns one list of one CPU, or `None` where there is no such CPU.
    #[inline(always)]
    #[must_use]
    pub fn get(self, cpu: CpuId, list: usize) -> Option<List<'a>> {
        debug_assert!(list < LISTS);
        self.heads.get(cpu.index() * LISTS + list).map(List)
    }

    /// Returns where they lie.
    #[inline(always)]
    #[must_use]
    pub fn raw(self) -> RawLists {
        RawLists {
            slots: self.slots.as_ptr().cast(),
            cpus: self.slots.len() as u32,
            heads: self.heads.as_ptr().cast(),
        }
    }

    /// Points a CPU's slot to lists that are empty and full for ever. Says whether it was the caller who did.
    ///
    /// Who reads the slot afterwards finds nothing to take and no room; who read it before may still use the lists.
    #[must_use]
    pub fn detach(self, cpu: CpuId) -> bool {
        let Some(slot) = self.slots.get(cpu.index()) else { return false };
        let (own, nobody) = (distance(cpu.index()), distance(self.slots.len()));
        // ORDER: SeqCst: the fence that the caller issues next follows it.
        slot.compare_exchange(own, nobody, SeqCst, Relaxed).is_ok()
    }

    /// Points a CPU's slot to its lists again, after [`detach`](CpuLists::detach).
    pub fn attach(self, cpu: CpuId) {
        if let Some(slot) = self.slots.get(cpu.index()) {
            // ORDER: Release: who finds the lists again finds them as they were left.
            slot.store(distance(cpu.index()), Release);
        }
    }
}

/// Where the lists of a zone lie, for a [`PerCpu`](super::PerCpu) that is written in assembly.
///
/// A CPU's slot holds the distance in bytes from `heads` to the header of its first list; the header of list *n* lies
/// `n * HEAD` bytes further on. The constants are offsets in a header.
#[derive(Clone, Copy, Debug)]
pub struct RawLists {
    /// The slot of each CPU, a `u64`.
    pub slots: *const u64,
    /// How many CPUs there are.
    pub cpus: u32,
    /// The headers.
    pub heads: *const u8,
}

impl RawLists {
    /// Bytes of a header.
    pub const HEAD: usize = size_of::<Head<'_>>();
    /// A `u64`: from the lowest bits on, how many items can be added, how many there are, [`FIELD`](RawLists::FIELD)
    /// bits each, and how many were popped for callers.
    pub const WORD: usize = core::mem::offset_of!(Head<'_>, word);
    /// Bits of each of the two lower fields of the word.
    pub const FIELD: u32 = FIELD;
    /// A pointer to the oldest item, a `u32`; newer ones lie behind it. It follows the word.
    pub const OLDEST: usize = core::mem::offset_of!(Head<'_>, oldest);
    /// A pointer to the first of the places that items may lie in: twice as many as `HIGH` says, and some.
    pub const START: usize = core::mem::offset_of!(Head<'_>, start);
    /// A `u64`: how many places there are.
    pub const PLACES: usize = core::mem::offset_of!(Head<'_>, places);
    /// A `u32`: how many items make the list full.
    pub const HIGH: usize = core::mem::offset_of!(Head<'_>, high);
    /// A `u64`: items popped for callers that the word does not count.
    pub const POPPED: usize = core::mem::offset_of!(Head<'_>, popped);
    /// A `u64`: items that came from the zone.
    pub const REFILLED: usize = core::mem::offset_of!(Head<'_>, refilled);
    /// A `u64`: items that went to the zone.
    pub const SPILLED: usize = core::mem::offset_of!(Head<'_>, spilled);
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(RawLists::HEAD == 64 && RawLists::WORD == 0 && RawLists::OLDEST == 8);

/// Returns the bytes from the first header to that of a CPU's first list.
const fn distance(cpu: usize) -> u64 {
    (cpu * LISTS * size_of::<Head<'_>>()) as u64
}

/// The lists of a zone, and how large they become.
pub(crate) struct Lists<'m> {
    heads: &'m [Head<'m>],
    slots: &'m [A64],
    pub(crate) tuning: Tuning,
}

impl<'m> Lists<'m> {
    /// Carves the lists of `cpus` CPUs.
    pub(crate) fn carve(carver: &mut Carver<'m>, cpus: usize, tuning: Tuning) -> Lists<'m> {
        // One CPU more, which nobody is: its lists have no room.
        let heads = carver.filled((cpus + 1) * LISTS, |i, carver| {
            let (list, order) = (i % LISTS, order_of(i % LISTS));
            let exists = i < cpus * LISTS && is_requested(list);
            let (places, high) = if exists { (tuning.places(order), tuning.high_of(order)) } else { (0, 0) };
            Head::new(carver.zeroed(places), high)
        });
        let slots = carver.filled(cpus, |cpu, _| A64::new(distance(cpu)));
        Lists { heads, slots, tuning }
    }

    /// Returns the lists of all CPUs.
    #[inline(always)]
    pub(crate) fn all(&self) -> CpuLists<'_> {
        CpuLists { heads: self.heads, slots: self.slots }
    }

    /// Returns one list of one CPU.
    pub(crate) fn get(&self, cpu: usize, list: usize) -> List<'_> {
        List(&self.heads[cpu * LISTS + list])
    }
}

/// Lists that belong to no zone: what a [`PerCpu`](super::PerCpu) is tested on.
pub struct LooseLists<'m>(Lists<'m>);

impl<'m> LooseLists<'m> {
    /// Cuts the lists of `cpus` CPUs from `memory`, which it fills with zeros. A list of single frames holds `high`
    /// items; the others less, or nothing.
    ///
    /// # Errors
    /// [`MapError::MetadataTooSmall`] where `memory` is smaller than it says, counted from its first aligned byte.
    pub fn new(memory: &'m mut [u8], cpus: u32, high: u32) -> Result<LooseLists<'m>, MapError> {
        memory.fill(0);
        let tuning = Tuning { high, batch: 1 };
        let mut counting = Carver::counting();
        Lists::carve(&mut counting, cpus as usize, tuning);
        let mut carver = Carver::of(memory);
        if !carver.has(counting.used()) {
            return Err(MapError::MetadataTooSmall { needed: counting.used() });
        }
        Ok(LooseLists(Lists::carve(&mut carver, cpus as usize, tuning)))
    }

    /// Returns the lists.
    #[must_use]
    pub fn all(&self) -> CpuLists<'_> {
        self.0.all()
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
    fn a_list_is_newest_first_for_callers_and_oldest_first_for_the_zone() {
        let mut memory = [0u8; 64 * 1024];
        let mut carver = Carver::of(&mut memory);
        let lists = Lists::carve(&mut carver, 2, Tuning { high: 40, batch: 8 });
        assert!(carver.fits());
        let list = lists.get(1, 0);
        for lap in 0..50 {
            assert_eq!(list.refill(&[1, 2, 3, 4]), 4);
            assert_eq!(list.push(5, || true), Pushed::Kept);
            let mut out = [0; 2];
            assert_eq!(list.pop_oldest(&mut out), 2);
            assert_eq!(out, [1, 2], "lap {lap}");
            assert_eq!(list.pop(), Some(5));
            assert_eq!(list.pop_many(&mut out), 2);
            assert_eq!(out, [3, 4]);
            assert!(list.is_empty() && list.pop().is_none());
        }
        assert_eq!(list.traffic(), (150, 50));
        for i in 0..40 {
            assert_eq!(list.push(i, || false), Pushed::Lost);
            assert_eq!(list.push(i, || true), Pushed::Kept);
        }
        assert_eq!(list.push(40, || unreachable!()), Pushed::NoRoom);
        assert_eq!(list.extend(&[1]), 0);
        assert!(lists.get(0, 0).is_empty());
    }

    #[test]
    fn a_list_at_its_memorys_end_moves_back_with_its_items_in_order() {
        let mut memory = [0u8; 64 * 1024];
        let mut carver = Carver::of(&mut memory);
        let lists = Lists::carve(&mut carver, 1, Tuning { high: 40, batch: 8 });
        let list = lists.get(0, 0);
        let (mut next, mut oldest) = (0, 0);
        for _ in 0..1000 {
            while list.push(next, || true) == Pushed::Kept {
                next += 1;
            }
            let mut out = [0; 3];
            assert_eq!(list.pop_oldest(&mut out), 3);
            assert_eq!(out, [oldest, oldest + 1, oldest + 2]);
            oldest += 3;
            assert_eq!(list.len() as u32, next - oldest);
        }
    }

    #[test]
    fn a_detached_slot_leads_to_lists_that_are_empty_and_full() {
        let mut memory = [0u8; 64 * 1024];
        let mut carver = Carver::of(&mut memory);
        let lists = Lists::carve(&mut carver, 2, Tuning { high: 40, batch: 8 });
        let slot = || lists.slots[1].load(Relaxed) as usize;
        assert_eq!(slot(), CpuLists::EACH * RawLists::HEAD);
        assert!(
            lists.all().detach(CpuId(1)) && !lists.all().detach(CpuId(1)) && !lists.all().detach(CpuId(2))
        );
        for list in 0..LISTS {
            let list = List(&lists.heads[slot() / RawLists::HEAD + list]);
            assert_eq!((list.pop(), list.push(1, || true)), (None, Pushed::NoRoom));
        }
        lists.all().attach(CpuId(1));
        assert_eq!(slot(), CpuLists::EACH * RawLists::HEAD);
    }
}
