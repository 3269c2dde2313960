//! The return path of whole batches from other CPUs: a ring of groups of 64 slots, which many write and one reads.
//!
//! A writer claims an empty group with a compare-and-swap, writes its numbers with plain stores, and publishes them
//! with a second one: two locked instructions for up to 64 pages. The reader empties a full group with a plain store.
//! The state of a group is one word:
//!
//! | state | becomes | by |
//! |---|---|---|
//! | empty | claimed | a writer |
//! | claimed | full | that writer |
//! | full | empty | the reader |
//! | any of these | sealed, for good | the consumer that closes the pool |
//!
//! Where writers begin, and where the reader goes on, are hints as in `ring`. A writer that finds the groups there
//! taken goes page by page through that ring; the reader skips a group that is claimed. So neither waits for a stopped
//! thread: a group that it claimed stays claimed until it resumes. A consumer that seals a full group gets its numbers;
//! the writer of a claimed group finds it sealed and keeps its pages.

use crate::ring::Line;
use core::sync::atomic::compiler_fence;
use pageyard_sync::{A64, AcqRel, Acquire, Carver, LINE, Relaxed, Release};

/// Pages of a group.
pub(crate) const BATCH: usize = 64;

/// Groups that a writer tries before it goes elsewhere.
const TRIES: u32 = 4;

/// Words of a group: its state, and two numbers each. It has lines of its own; a batch of up to 14 needs only the
/// first.
const WORDS: usize = {
    let words = 1 + BATCH / 2;
    if cfg!(pageyard_loom) { words } else { words.next_multiple_of(LINE / size_of::<u64>()) }
};

/// No number is in the group. Up to 64, a state says how many are.
const EMPTY: u64 = 0;

/// A writer writes its numbers.
const CLAIMED: u64 = u64::MAX - 1;

/// The pool was closed: no writer claims the group any more.
const SEALED: u64 = u64::MAX;

/// The ring.
pub(crate) struct BatchRing<'m> {
    words: &'m [A64],
    /// Where writers begin: a hint.
    tail: Line,
    /// Where the reader goes on.
    head: Line,
}

impl<'m> BatchRing<'m> {
    /// Makes a ring of as many groups as `slots` fill, and one at least. `slots` is a power of two.
    pub fn carve(slots: usize, carver: &mut Carver<'m>) -> BatchRing<'m> {
        let groups = (slots / BATCH).max(1);
        BatchRing { words: carver.zeroed(groups * WORDS), tail: Line::new(), head: Line::new() }
    }

    fn groups(&self) -> usize {
        self.words.len() / WORDS
    }

    #[inline(always)]
    fn group(&self, nth: u32) -> usize {
        nth as usize & (self.groups() - 1)
    }

    #[inline(always)]
    fn state(&self, nth: u32) -> &A64 {
        &self.words[self.group(nth) * WORDS]
    }

    #[inline(always)]
    fn numbers(&self, nth: u32, len: usize) -> &[A64] {
        &self.words[self.group(nth) * WORDS + 1..][..len.div_ceil(2)]
    }

    /// Writes the first `len` numbers, one at least; returns whether they are the reader's now. Two locked
    /// instructions.
    #[inline]
    pub fn push(&self, numbers: &[u32; BATCH], len: usize) -> bool {
        // ORDER: Relaxed: hints.
        self.push_from(self.tail.0.load(Relaxed), numbers, len)
            .unwrap_or_else(|| self.push_from(self.head.0.load(Relaxed), numbers, len).unwrap_or(false))
    }

    /// Writes numbers to one of a few groups; none where these are taken.
    #[inline]
    fn push_from(&self, from: u32, numbers: &[u32; BATCH], len: usize) -> Option<bool> {
        for nth in (0..TRIES).map(|i| from.wrapping_add(i)) {
            let state = self.state(nth);
            // ORDER: Acquire pairs with the Release in `take_until`: the reader is done with the numbers. Relaxed where
            // it fails: nothing was learnt.
            if state.load(Relaxed) != EMPTY
                || state.compare_exchange(EMPTY, CLAIMED, Acquire, Relaxed).is_err()
            {
                continue;
            }
            for (word, pair) in self.numbers(nth, len).iter().zip(numbers.as_chunks::<2>().0) {
                // ORDER: Relaxed: published below.
                word.store(u64::from(pair[0]) | u64::from(pair[1]) << 32, Relaxed);
            }
            // ORDER: Release pairs with the Acquire in `take_until` and `seal`: what the writer did with the pages is
            // over. Relaxed where it fails: the pages stay this thread's.
            let is_published = state.compare_exchange(CLAIMED, len as u64, Release, Relaxed).is_ok();
            // ORDER: Release pairs with the Acquire in `take`: a reader that sees this sees the group full.
            self.tail.0.store(nth.wrapping_add(1), Release);
            return Some(is_published);
        }
        None
    }

    /// Takes a batch from where the hint leads; returns how many numbers it has. For the one reader.
    #[inline]
    pub fn take(&self, out: &mut [u32; BATCH]) -> usize {
        let mask = self.groups() as u32 - 1;
        // ORDER: Acquire pairs with the Release in `push_from`: a second look sees every group that the hint says is
        // published.
        self.take_until(out, |nth| (self.tail.0.load(Acquire) ^ nth) & mask == 0)
    }

    /// Takes a batch, wherever it lies. For the one reader.
    pub fn take_anywhere(&self, out: &mut [u32; BATCH]) -> usize {
        self.take_until(out, |_| false)
    }

    /// Takes the first batch from the reader's position on, at most once round; stops at a group that is not full if
    /// `is_end` says so.
    #[inline]
    fn take_until(&self, out: &mut [u32; BATCH], is_end: impl Fn(u32) -> bool) -> usize {
        // ORDER: Relaxed: the reader's own; the next reader gets it with the right to read.
        let mut nth = self.head.0.load(Relaxed);
        let mut got = 0;
        for _ in 0..self.groups() {
            let state = self.state(nth);
            // ORDER: Acquire pairs with the Release in `push_from`: the numbers are there, and what the writer did with
            // the pages is over.
            let mut len = state.load(Acquire);
            if !is_full(len) {
                if is_end(nth) {
                    break;
                }
                len = state.load(Acquire);
            }
            nth = nth.wrapping_add(1);
            if is_full(len) {
                got = len as usize;
                self.read(nth.wrapping_sub(1), got, out);
                // ORDER: Release pairs with the Acquire in `push_from`: the numbers are read.
                state.store(EMPTY, Release);
                // If the reader is killed after this store and before it has recorded the numbers, they are lost, but
                // never taken twice.
                compiler_fence(core::sync::atomic::Ordering::SeqCst);
                break;
            }
        }
        self.head.0.store(nth, Relaxed);
        got
    }

    #[inline(always)]
    fn read(&self, nth: u32, len: usize, out: &mut [u32; BATCH]) {
        for (word, pair) in self.numbers(nth, len).iter().zip(out.as_chunks_mut::<2>().0) {
            // ORDER: Relaxed: published by the state.
            let both = word.load(Relaxed);
            *pair = [both as u32, (both >> 32) as u32];
        }
    }

    /// Takes every number there is, a group at a time, while others may write, and seals the ring.
    pub fn seal(&self, mut each: impl FnMut(&[u32])) {
        for nth in 0..self.groups() as u32 {
            let state = self.state(nth);
            // ORDER: Relaxed: the exchange below decides.
            let mut now = state.load(Relaxed);
            while now != SEALED {
                // ORDER: AcqRel: Acquire as in `take_until`. Release has no partner: nothing was written. Relaxed where
                // it fails: the next round learns it.
                match state.compare_exchange(now, SEALED, AcqRel, Relaxed) {
                    Ok(_) => break,
                    Err(seen) => now = seen,
                }
            }
            if is_full(now) {
                let mut numbers = [0; BATCH];
                self.read(nth, now as usize, &mut numbers);
                each(&numbers[..now as usize]);
            }
        }
    }

    /// Empties the groups that writers claimed and were killed in. No one uses the ring meanwhile.
    pub fn give_up_claims(&self) {
        for state in (0..self.groups() as u32).map(|nth| self.state(nth)) {
            // ORDER: Relaxed: nothing else uses the ring.
            if state.load(Relaxed) == CLAIMED {
                state.store(EMPTY, Relaxed);
            }
        }
    }

    /// Returns whether a number is in it. No one writes meanwhile.
    pub fn holds(&self, number: u32) -> bool {
        let mut numbers = [0; BATCH];
        (0..self.groups() as u32).any(|nth| {
            // ORDER: Relaxed: asked while no one writes.
            let len = self.state(nth).load(Relaxed);
            let len = if is_full(len) { len as usize } else { 0 };
            self.read(nth, len, &mut numbers);
            numbers[..len].contains(&number)
        })
    }

    /// Counts what is in it.
    pub fn count(&self) -> usize {
        // ORDER: Relaxed: an estimate.
        let states = (0..self.groups() as u32).map(|nth| self.state(nth).load(Relaxed));
        states.filter(|state| is_full(*state)).map(|len| len as usize).sum()
    }
}

/// Returns whether a state says that numbers are there.
#[inline(always)]
fn is_full(state: u64) -> bool {
    (1..=BATCH as u64).contains(&state)
}

#[cfg(all(test, not(any(pageyard_loom, pageyard_shuttle))))]
mod tests {
    use super::*;

    /// A ring of `groups` groups.
    fn with(groups: usize, test: impl FnOnce(&BatchRing<'_>)) {
        let words: [A64; 8 * WORDS] = core::array::from_fn(|_| A64::new(0));
        test(&BatchRing { words: &words[..groups * WORDS], tail: Line::new(), head: Line::new() });
    }

    fn batch(first: u32) -> [u32; BATCH] {
        core::array::from_fn(|nth| first + nth as u32)
    }

    #[test]
    fn a_batch_comes_out_as_it_went_in() {
        with(2, |ring| {
            for (first, len) in [(1, 64), (100, 3), (200, 1), (300, 63)] {
                assert!(ring.push(&batch(first), len));
                assert_eq!(
                    (ring.count(), ring.holds(first), ring.holds(first + len as u32)),
                    (len, true, false)
                );
                let mut out = [0; BATCH];
                assert_eq!(ring.take(&mut out), len);
                assert_eq!(out[..len], batch(first)[..len]);
                assert_eq!((ring.take(&mut out), ring.take_anywhere(&mut out), ring.count()), (0, 0, 0));
            }
        });
    }

    #[test]
    fn a_ring_has_room_for_as_many_batches_as_it_has_groups() {
        with(4, |ring| {
            assert!((0..4).all(|n| ring.push(&batch(100 * n + 1), 64)));
            assert!(!ring.push(&batch(1), 64));
            let mut out = [0; BATCH];
            assert_eq!((ring.take(&mut out), out[0]), (64, 1));
            assert!(ring.push(&batch(501), 64) && !ring.push(&batch(1), 64));
            let firsts = [(); 4].map(|()| (ring.take(&mut out), out[0]));
            assert_eq!(firsts, [(64, 101), (64, 201), (64, 301), (64, 501)]);
        });
    }

    #[test]
    fn a_group_whose_writer_stopped_is_skipped_by_all() {
        with(4, |ring| {
            assert!(ring.state(1).compare_exchange(EMPTY, CLAIMED, Acquire, Relaxed).is_ok());
            let mut out = [0; BATCH];
            for round in 0..6 {
                assert!(ring.push(&batch(round * 100 + 1), 10));
                assert_eq!((ring.take(&mut out), out[0]), (10, round * 100 + 1));
            }
            assert!((0..3).all(|n| ring.push(&batch(n * 100 + 1), 64)) && !ring.push(&batch(1), 64));
            ring.give_up_claims();
            assert!(ring.push(&batch(1), 64), "and used again once it was given up");
        });
    }

    #[test]
    fn a_writer_whose_group_was_sealed_keeps_its_pages() {
        with(2, |ring| {
            assert!(ring.push(&batch(1), 3));
            let claimed = ring.state(1).compare_exchange(EMPTY, CLAIMED, Acquire, Relaxed);
            let mut all = 0;
            ring.seal(|numbers| all += numbers.iter().sum::<u32>());
            assert_eq!((claimed, all), (Ok(EMPTY), 1 + 2 + 3));
            let published = ring.state(1).compare_exchange(CLAIMED, 5, Release, Relaxed);
            assert_eq!((published, ring.push(&batch(1), 3), ring.count()), (Err(SEALED), false, 0));
            ring.seal(|numbers| panic!("{numbers:?} are there twice"));
        });
    }
}
