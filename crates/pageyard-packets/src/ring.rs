//! The return path from other CPUs: a ring that many write and one reads.
//!
//! A slot holds a number or nothing. A writer's one compare-and-swap fills an empty slot, and is what commits; the
//! reader empties slots with plain stores, because writers never touch a full one. Where writers begin is only a hint,
//! written without a locked instruction: two of them may write it over each other, so it can lag. A writer that finds
//! slots taken goes on a few, and then tries where the reader is; the reader, which follows the hint, finds what lies
//! beside it when it comes round, or when it looks everywhere. Order is not promised; a pool needs none.
//!
//! A writer that stops before its compare-and-swap has done nothing; one that stops after it has done all that matters.

use pageyard_sync::{A32, Acquire, Relaxed, Release, SeqCst};

/// The most slots that a ring has.
pub(crate) const MOST_SLOTS: u32 = 1 << 20;

/// Slots that a writer tries before it takes the ring for full.
const TRIES: u32 = 4;

/// Nothing.
const EMPTY: u32 = 0;

/// A word with cache lines of its own.
#[repr(align(128))]
pub(crate) struct Line(pub A32);

impl Line {
    pub fn new() -> Line {
        Line(A32::new(0))
    }
}

/// The ring.
pub(crate) struct Ring<'m> {
    slots: &'m [A32],
    /// Where writers begin: a hint.
    tail: Line,
    /// Where the reader goes on: its own, an atomic only because readers follow one another on different threads.
    head: Line,
}

impl<'m> Ring<'m> {
    /// Makes a ring of slots, a power of two of them, all empty.
    pub fn new(slots: &'m [A32]) -> Ring<'m> {
        Ring { slots, tail: Line::new(), head: Line::new() }
    }

    #[inline(always)]
    fn slot(&self, nth: u32) -> &A32 {
        &self.slots[nth as usize & (self.slots.len() - 1)]
    }

    /// Writes a number, which is not 0. Returns the slot, or `None` where there is no room. One locked instruction.
    #[inline]
    pub fn push(&self, number: u32) -> Option<u32> {
        // ORDER: Relaxed: hints.
        self.push_from(self.tail.0.load(Relaxed), number)
            // Where writers begin may lag by much: what is in front of the reader is empty unless the ring is full.
            .or_else(|| self.push_from(self.head.0.load(Relaxed), number))
    }

    /// Writes a number to one of a few slots.
    #[inline]
    fn push_from(&self, from: u32, number: u32) -> Option<u32> {
        for nth in (0..TRIES).map(|i| from.wrapping_add(i)) {
            let slot = self.slot(nth);
            // ORDER: SeqCst: Release for the reader that takes the number; and the pool looks whether it was closed
            // after this, while the consumer says that it closes it before looking here. Relaxed where it fails:
            // nothing was learnt.
            if slot.load(Relaxed) == EMPTY && slot.compare_exchange(EMPTY, number, SeqCst, Relaxed).is_ok() {
                // ORDER: Release pairs with the Acquire in `take`: a reader that sees this sees the slot full.
                self.tail.0.store(nth.wrapping_add(1), Release);
                return Some(nth);
            }
        }
        None
    }

    /// Takes a number back out of the slot that it was written to, if it is still there.
    pub fn undo(&self, nth: u32, number: u32) -> bool {
        // ORDER: SeqCst, as in `push`: one of this and the closing consumer's sweep gets it.
        self.slot(nth).compare_exchange(number, EMPTY, SeqCst, Relaxed).is_ok()
    }

    /// Takes up to `out.len()` numbers from where the hint leads; returns how many, from the front. For the one reader.
    pub fn take(&self, out: &mut [u32]) -> usize {
        // Places, not how often the reader and the writers came round: the reader can be a lap ahead of a hint that
        // lagged.
        let mask = self.slots.len() as u32 - 1;
        // ORDER: Acquire pairs with the Release in `push`: what the hint says is written, a second look sees.
        self.take_until(out, |nth| (self.tail.0.load(Acquire) ^ nth) & mask == 0)
    }

    /// Takes up to `out.len()` numbers, wherever they lie. For the one reader.
    pub fn take_anywhere(&self, out: &mut [u32]) -> usize {
        self.take_until(out, |_| false)
    }

    /// Takes numbers from where the reader is, once round at most, until an empty slot is the end.
    fn take_until(&self, out: &mut [u32], is_end: impl Fn(u32) -> bool) -> usize {
        // ORDER: Relaxed: the reader's own; the next reader gets it with the right to read.
        let mut nth = self.head.0.load(Relaxed);
        let (mut got, mut skipped) = (0, 0);
        while got < out.len() && skipped < self.slots.len() {
            let slot = self.slot(nth);
            // ORDER: Acquire pairs with the SeqCst in `push`: what the writer did with the page is over.
            let mut number = slot.load(Acquire);
            if number == EMPTY {
                if is_end(nth) {
                    break;
                }
                number = slot.load(Acquire);
            }
            nth = nth.wrapping_add(1);
            if number == EMPTY {
                // The hint lags: what it does not lead to lies further on.
                skipped += 1;
                continue;
            }
            // ORDER: Release pairs with the compare-and-swap of the next writer: the reader is done with the slot.
            slot.store(EMPTY, Release);
            out[got] = number;
            got += 1;
        }
        self.head.0.store(nth, Relaxed);
        got
    }

    /// Takes every number there is, wherever it lies, while others may write.
    pub fn sweep(&self, mut each: impl FnMut(u32)) {
        for slot in self.slots {
            // ORDER: SeqCst, as in `push`.
            let number = slot.load(SeqCst);
            if number != EMPTY && slot.compare_exchange(number, EMPTY, SeqCst, Relaxed).is_ok() {
                each(number);
            }
        }
    }

    /// Returns whether a number is in it.
    pub fn holds(&self, number: u32) -> bool {
        // ORDER: Relaxed: asked while no one writes.
        self.slots.iter().any(|slot| slot.load(Relaxed) == number)
    }

    /// Counts what is in it.
    pub fn count(&self) -> usize {
        // ORDER: Relaxed: an estimate.
        self.slots.iter().filter(|slot| slot.load(Relaxed) != EMPTY).count()
    }
}

#[cfg(all(test, not(any(pageyard_loom, pageyard_shuttle))))]
mod tests {
    use super::*;

    fn slots<const N: usize>() -> [A32; N] {
        core::array::from_fn(|_| A32::new(EMPTY))
    }

    #[test]
    fn a_reader_that_passed_the_hint_does_not_look_through_the_ring_each_time() {
        let slots = slots::<1024>();
        let (ring, mut out) = (Ring::new(&slots), [0; 64]);
        // A writer that has filled a slot and is about to move the hint: the reader takes the number first.
        assert!(slots[0].compare_exchange(EMPTY, 99, SeqCst, Relaxed).is_ok());
        assert_eq!(ring.take(&mut out), 1);
        ring.tail.0.store(1, Release);
        let begin = ring.head.0.load(Relaxed);
        for _ in 0..20 {
            (0..10).for_each(|n| assert!(ring.push(n + 1).is_some()));
            assert_eq!(ring.take(&mut out), 10);
        }
        // The slot that the hint lagged by, once.
        assert_eq!(ring.head.0.load(Relaxed) - begin, 201, "as many slots as there were numbers");
    }

    #[test]
    fn what_lies_behind_a_reader_is_found_when_it_looks_everywhere() {
        let slots = slots::<64>();
        let (ring, mut out) = (Ring::new(&slots), [0; 10]);
        (0..10).for_each(|n| assert!(ring.push(n + 1).is_some()));
        assert_eq!(ring.take(&mut out), 10);
        // The hint of the second of ten writers comes late; eight more numbers bring it back to where the reader is.
        ring.tail.0.store(2, Release);
        (0..8).for_each(|n| assert!(ring.push(n + 101).is_some()));
        assert_eq!((ring.take(&mut out), ring.count()), (0, 8));
        assert_eq!((ring.take_anywhere(&mut out), ring.count()), (8, 0));
        out.sort_unstable();
        assert_eq!(out[2..], [101, 102, 103, 104, 105, 106, 107, 108]);
    }

    #[test]
    fn a_hint_that_lags_onto_full_slots_does_not_make_a_ring_full() {
        let slots = slots::<64>();
        let (ring, mut out) = (Ring::new(&slots), [0; 20]);
        (0..40).for_each(|n| assert!(ring.push(n + 1).is_some()));
        assert_eq!(ring.take(&mut out), 20);
        // The hint lags to slots that are still full, and the reader is far from them.
        ring.tail.0.store(30, Release);
        ring.head.0.store(50, Relaxed);
        assert!(ring.push(77).is_some());
        assert_eq!(ring.tail.0.load(Relaxed), 51, "and the hint is right again");
        ring.head.0.store(20, Relaxed);
        let full = (0..100).map_while(|n| ring.push(n + 1)).count();
        assert!(full < 64 && ring.count() <= 64);
    }
}
