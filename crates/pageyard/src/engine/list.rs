//! One per-CPU list: a stack of frame numbers, its newest end the hottest.

use super::sync::{A32, A64, APtr, Acquire, Relaxed, Release};
use super::tuning::MOST;
use core::marker::PhantomData;
use core::mem::size_of;

// A list's word: what every hit reads and, with one store, writes.
/// How many items can be added before somebody has to make room: the lowest bits.
const LEFT: u64 = (1 << FIELD) - 1;
/// Bits of the fields for room and for items.
pub(super) const FIELD: u32 = 20;
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
    pub(super) word: A64,
    /// Where the oldest item lies, or would.
    pub(super) oldest: APtr<A32>,
    /// The memory that the window moves in: its first place, and how many there are.
    pub(super) start: APtr<A32>,
    pub(super) places: usize,
    /// Items popped for callers, beyond what `word` says.
    pub(super) popped: A64,
    /// Items pushed that came from the zone.
    pub(super) refilled: A64,
    /// Items taken that went to the zone.
    pub(super) spilled: A64,
    /// How many items make it full.
    pub(super) high: u32,
    /// 1 while somebody uses the list under a try-lock.
    lock: A32,
    memory: PhantomData<&'m [A32]>,
}

impl<'m> Head<'m> {
    pub(super) fn new(items: &'m [A32], high: u32) -> Head<'m> {
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
pub struct List<'a>(pub(super) &'a Head<'a>);

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
