//! What comes back from other CPUs: a ring that many write and one reads.
//!
//! A slot holds a number or nothing. A writer's one compare-and-swap fills an empty slot, and is what commits; the reader empties
//! slots with plain stores, because writers never touch a full one. Where writers begin is only a hint, written without a locked
//! instruction: two of them may write it over each other, so it can lag. A writer that finds slots taken goes on a few; the reader,
//! which follows the hint, finds what lies beside it a lap later at the latest. Order is not promised; a pool needs none.
//!
//! A writer that stops before its compare-and-swap has done nothing; one that stops after it has done all that matters.

use crate::engine::sync::{A32, Acquire, Relaxed, Release, SeqCst};

/// Slots that a writer tries before it takes the ring for full.
const TRIES: u32 = 4;

/// Nothing.
const EMPTY: u32 = 0;

/// A word with cache lines of its own.
#[repr(align(128))]
struct Line(A32);

/// The ring.
pub(super) struct Ring<'m> {
    slots: &'m [A32],
    /// Where writers begin: a hint.
    tail: Line,
    /// Where the reader goes on: its own, an atomic only because readers follow one another on different threads.
    head: Line,
}

impl<'m> Ring<'m> {
    /// Makes a ring of slots, a power of two of them, all empty.
    pub fn new(slots: &'m [A32]) -> Ring<'m> {
        Ring { slots, tail: Line(A32::new(0)), head: Line(A32::new(0)) }
    }

    #[inline(always)]
    fn slot(&self, nth: u32) -> &A32 {
        &self.slots[nth as usize & (self.slots.len() - 1)]
    }

    /// Writes a number, which is not 0. Returns the slot, or `None` where there is no room. One locked instruction.
    #[inline]
    pub fn push(&self, number: u32) -> Option<u32> {
        // ORDER: Relaxed: a hint.
        let from = self.tail.0.load(Relaxed);
        for nth in (0..TRIES).map(|i| from.wrapping_add(i)) {
            let slot = self.slot(nth);
            // ORDER: SeqCst: Release for the reader that takes the number; and the pool looks whether it was closed after this, while
            // whoever closes it says so before looking here. Relaxed where it fails: nothing was learnt.
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
        // ORDER: SeqCst, as in `push`: one of this and the sweep of whoever closes gets it.
        self.slot(nth).compare_exchange(number, EMPTY, SeqCst, Relaxed).is_ok()
    }

    /// Takes up to `out.len()` numbers; returns how many, from the front. For the one reader.
    pub fn take(&self, out: &mut [u32]) -> usize {
        // ORDER: Relaxed: the reader's own; the next reader gets it with the right to read.
        let mut nth = self.head.0.load(Relaxed);
        let (mut got, mut skipped) = (0, 0);
        while got < out.len() && skipped < self.slots.len() {
            let slot = self.slot(nth);
            // ORDER: Acquire pairs with the SeqCst in `push`: what the writer did with the page is over.
            let mut number = slot.load(Acquire);
            if number == EMPTY {
                // ORDER: Acquire pairs with the Release in `push`: what the hint says is written, a second look sees.
                if self.tail.0.load(Acquire) == nth {
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

    /// Counts what is in it.
    pub fn count(&self) -> usize {
        // ORDER: Relaxed: an estimate.
        self.slots.iter().filter(|slot| slot.load(Relaxed) != EMPTY).count()
    }
}
