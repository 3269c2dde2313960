//! One per-CPU list: a stack of frame numbers, hottest at its newest end.

use super::tuning::MOST;
use core::mem::size_of;
use core::ptr::NonNull;
use pageyard_sync::{A32, A64, Acquire, Relaxed, Release};

// A list's word: what every hit reads and, with one store, writes. From the lowest bits on: how many items can be
// added, how many there are, where the newest ends, how many were popped for callers.
/// Bits of the field for room, and of that for items.
pub(super) const FIELD: u32 = 15;
/// Bits of the field for the newest item's end.
pub(super) const END: u32 = 24;
/// How many items can be added before room must be made.
const LEFT: u64 = (1 << FIELD) - 1;
/// The field of items, where it lies.
const ITEMS: u64 = LEFT << FIELD;
const END_SHIFT: u32 = 2 * FIELD;
/// Lowest bit of the count of items popped for callers. It overflows into [`Head::popped`].
const POPPED_SHIFT: u32 = END_SHIFT + END;
/// Four-byte words that an item takes: one, except under the model checker.
pub(super) const STEP: usize = size_of::<A32>() / 4;
/// The addend of a push: one more item, ending one step later, and room for one fewer.
const PUSH: u64 = ((STEP as u64) << END_SHIFT) + (1 << FIELD) - 1;
/// The addend of a pop: one more popped, and the opposite of a push.
const POP: u64 = (1 << POPPED_SHIFT) - PUSH;

/// Pops that the word can count, and so the most that one call takes.
const MOST_POPS: usize = (1 << (64 - POPPED_SHIFT)) - 1;

const _: () = assert!(MOST <= LEFT && STEP * 4 == size_of::<A32>());

#[inline(always)]
const fn count(word: u64) -> usize {
    (word >> FIELD & LEFT) as usize
}

/// Returns the end of the newest item, in four-byte words from the header.
#[inline(always)]
const fn end(word: u64) -> usize {
    (word >> END_SHIFT) as usize & ((1 << END) - 1)
}

/// One per-CPU list: a window of frame numbers, relative to the zone's first pageblock, that moves up a stretch of
/// memory as its oldest items go to the zone, and back to the start when it reaches the end.
///
/// Everything that a hit touches is in one cache line. A hit's cost is its loads: it makes two here, because the word
/// says where the newest item lies.
#[repr(C, align(64))]
pub(crate) struct Head<'m> {
    /// Room, items, the newest one's end, and pops. One store of it is what makes any change.
    pub(super) word: A64,
    /// The memory that the window moves in: its first place, in four-byte words from here, and the number of places.
    pub(super) start: A32,
    pub(super) places: u32,
    memory: &'m [A32],
    /// Items popped for callers, beyond what `word` says.
    pub(super) popped: A64,
    /// Items pushed that came from the zone.
    pub(super) refilled: A64,
    /// Items taken that went to the zone.
    pub(super) spilled: A64,
    /// The number of items at which it is full.
    pub(super) high: u32,
    /// 1 while the list is in use under a try-lock.
    lock: A32,
}

impl<'m> Head<'m> {
    /// Makes the header of a list that is empty, and full until it is [`open`](List::open).
    pub(super) fn new(memory: &'m [A32], high: u32) -> Head<'m> {
        Head {
            word: A64::new(0),
            start: A32::new(0),
            places: memory.len() as u32,
            memory,
            popped: A64::new(0),
            refilled: A64::new(0),
            spilled: A64::new(0),
            high,
            lock: A32::new(0),
        }
    }
}

/// One per-CPU list.
///
/// Its operations are sequences of plain loads and stores. They are correct only while the list has one user: a
/// [`PerCpu`](crate::engine::PerCpu) ensures that.
// A pointer, because a reference would not reach the items after the header.
#[derive(Clone, Copy)]
pub struct List<'a>(NonNull<Head<'a>>);

// ORDER: Relaxed, everywhere below: whatever keeps others from the list orders its uses.
#[inline(always)]
fn add(word: &A64, n: u64) {
    word.store(word.load(Relaxed).wrapping_add(n), Relaxed);
}

impl<'a> List<'a> {
    /// Makes the list of a header.
    ///
    /// # Safety
    /// The pointer leads to the header, and to the memory of its items, for as long as `'a`.
    #[inline(always)]
    pub(super) unsafe fn of(head: NonNull<Head<'a>>) -> List<'a> {
        List(head)
    }

    #[inline(always)]
    fn head(&self) -> &'a Head<'a> {
        // SAFETY: `of`.
        unsafe { self.0.as_ref() }
    }

    /// Opens a new list once its header is in its final place, before its memory.
    pub(super) fn open(&self) {
        let head = self.head();
        let at = (head.memory.as_ptr() as usize - self.0.as_ptr() as usize) / 4;
        assert!(at + head.memory.len() * STEP < 1 << END, "tuning keeps lists within reach");
        head.start.store(at as u32, Relaxed);
        self.set(0, 0, 0);
    }

    /// Returns the place that lies this many four-byte words after the header.
    #[inline(always)]
    fn place(&self, at: usize) -> &'a A32 {
        let place = self.0.as_ptr().cast::<u32>().wrapping_add(at).cast::<A32>().cast_const();
        debug_assert!(self.head().memory.as_ptr_range().contains(&place));
        // SAFETY: 1. Callers took `at` from the list's word: an item, or room for one, and the word counts no room
        //            beyond the end of the places.
        //         2. The pointer leads there, for as long as `'a`: `of`.
        unsafe { &*place }
    }

    /// Returns the number of the oldest item's place.
    #[inline]
    fn first(&self) -> usize {
        let word = self.head().word.load(Relaxed);
        (end(word) - self.head().start.load(Relaxed) as usize) / STEP - count(word)
    }

    /// Returns `n` places from the `at`th on.
    #[inline]
    fn places(&self, at: usize, n: usize) -> &'a [A32] {
        &self.head().memory[at..][..n]
    }

    /// Counts pops beyond what the word holds.
    #[cold]
    fn carry(&self) {
        add(&self.head().popped, 1 << (64 - POPPED_SHIFT));
    }

    /// Makes the window one of `count` items from place `first` on.
    #[inline]
    fn set(&self, word: u64, first: usize, count: usize) {
        let head = self.head();
        let left = (head.high as usize).saturating_sub(count).min(head.places as usize - first - count);
        let end = head.start.load(Relaxed) as usize + (first + count) * STEP;
        let popped = word >> POPPED_SHIFT << POPPED_SHIFT;
        head.word.store(popped | (end as u64) << END_SHIFT | (count as u64) << FIELD | left as u64, Relaxed);
    }

    /// Takes the list, unless it is in use.
    #[inline(always)]
    #[must_use]
    pub fn try_lock(&self) -> bool {
        // ORDER: Acquire pairs with the Release in `unlock`.
        self.head().lock.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    /// Gives the list back.
    #[inline(always)]
    pub fn unlock(&self) {
        // ORDER: Release pairs with the Acquire in `try_lock`.
        self.head().lock.store(0, Release);
    }

    /// Takes the newest item.
    #[inline(always)]
    #[must_use]
    pub fn pop(&self) -> Option<u32> {
        let head = self.head();
        let word = head.word.load(Relaxed);
        if word & ITEMS == 0 {
            return None;
        }
        let item = self.place(end(word) - STEP).load(Relaxed);
        let (word, carry) = word.overflowing_add(POP);
        head.word.store(word, Relaxed);
        if carry {
            self.carry();
        }
        Some(item)
    }

    /// Adds an item if `win` says so, which is asked only where there is room.
    ///
    /// The list is read first: what `win` does to other memory then waits for nothing.
    #[inline(always)]
    #[must_use]
    pub fn push(&self, item: u32, win: impl FnOnce() -> bool) -> Pushed {
        let head = self.head();
        let word = head.word.load(Relaxed);
        if word & LEFT == 0 {
            return Pushed::NoRoom;
        }
        let place = self.place(end(word));
        if !win() {
            return Pushed::Lost;
        }
        place.store(item, Relaxed);
        head.word.store(word + PUSH, Relaxed);
        Pushed::Kept
    }

    /// Takes the newest items, in no order; returns how many.
    #[inline]
    #[must_use]
    pub fn pop_many(&self, out: &mut [u32]) -> usize {
        let head = self.head();
        let word = head.word.load(Relaxed);
        let n = count(word).min(out.len()).min(MOST_POPS);
        let places = self.places(self.first() + count(word) - n, n);
        out.iter_mut().zip(places).for_each(|(slot, item)| *slot = item.load(Relaxed));
        let (word, carry) = word.overflowing_add(n as u64 * POP);
        head.word.store(word, Relaxed);
        if carry {
            self.carry();
        }
        n
    }

    /// Takes the oldest items, oldest first, for the zone; returns how many.
    ///
    /// Where there is no room after the newest item, all items move back to the start.
    #[inline]
    #[must_use]
    pub fn pop_oldest(&self, out: &mut [u32]) -> usize {
        let head = self.head();
        let word = head.word.load(Relaxed);
        let (all, first) = (count(word), self.first());
        let n = all.min(out.len());
        out.iter_mut().zip(self.places(first, n)).for_each(|(slot, item)| *slot = item.load(Relaxed));
        let (rest, mut start) = (all - n, first + n);
        if start + rest == head.places as usize {
            for (to, from) in self.places(0, rest).iter().zip(self.places(start, rest)) {
                to.store(from.load(Relaxed), Relaxed);
            }
            start = 0;
        }
        self.set(word, start, rest);
        // Atomic: a sequence that ended before its list was taken from its CPU may count only now.
        head.spilled.fetch_add(n as u64, Relaxed);
        n
    }

    /// Adds items that came from the zone, the last of them the newest; returns how many fitted, from the front.
    #[inline]
    #[must_use]
    pub fn refill(&self, items: &[u32]) -> usize {
        let n = self.extend(items);
        add(&self.head().refilled, n as u64);
        n
    }

    /// Adds items that callers freed, the last of them the newest; returns how many fitted, from the front.
    #[inline]
    #[must_use]
    pub fn extend(&self, items: &[u32]) -> usize {
        let head = self.head();
        if self.is_empty() {
            self.set(head.word.load(Relaxed), 0, 0);
        }
        let word = head.word.load(Relaxed);
        let n = ((word & LEFT) as usize).min(items.len());
        let places = self.places(self.first() + count(word), n);
        places.iter().zip(items).for_each(|(place, item)| place.store(*item, Relaxed));
        head.word.store(word + n as u64 * PUSH, Relaxed);
        n
    }

    /// Returns how many items it holds: a hint while others use it.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        count(self.head().word.load(Relaxed))
    }

    /// Returns whether it holds none: a hint while others use it.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Empties it while nothing else runs, and gives it back whoever has it; returns how many items it had, which count
    /// as gone to the zone.
    #[cfg(not(pageyard_loom))]
    pub(super) fn reset(&self) -> usize {
        let n = self.len();
        add(&self.head().spilled, n as u64);
        self.set(self.head().word.load(Relaxed), 0, 0);
        self.unlock();
        n
    }

    /// Returns how many items callers took from it, and how many they gave it: a hint while others use it.
    pub(crate) fn traffic(&self) -> (u64, u64) {
        let popped = self.head().popped.load(Relaxed) + (self.head().word.load(Relaxed) >> POPPED_SHIFT);
        let out = popped + self.head().spilled.load(Relaxed) + self.len() as u64;
        // The two counts are read one after the other: meanwhile more items may have come from the zone than were there
        // before.
        (popped, out.saturating_sub(self.head().refilled.load(Relaxed)))
    }

    /// Calls `visit` with each item. The list must have no other user.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(u32)) {
        self.places(self.first(), self.len()).iter().for_each(|item| visit(item.load(Relaxed)));
    }
}

/// The result of a push.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pushed {
    /// It was won, and is in the list.
    Kept,
    /// It was won, but is in no list: there was no room any more.
    Won,
    /// It was not won.
    Lost,
    /// The list is full or in use; `win` was not asked.
    NoRoom,
}
