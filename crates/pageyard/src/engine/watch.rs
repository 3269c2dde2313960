//! What a push reads again where it commits, so that a list never takes in what was taken out of allocation meanwhile.

use super::state::ISOLATED;
use super::sync::{A64, SeqCst};

/// A word that says whether a push may go through.
///
/// A free reads its pageblock's descriptor, chooses a list by it, and pushes. In between the pageblock may be isolated and all
/// lists drained. So the push reads the word once more *inside* what keeps its list to itself: a lock, or a restartable
/// sequence. Isolation writes the word first and drains, or issues a barrier, afterwards: a push either ends before
/// that and is drained, or sees the change and goes to the zone. Neither waits for the other.
// A slice and a place in it, not a reference: a push that was inlined has both in registers.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    words: &'a [A64],
    at: usize,
    seen: u64,
}

impl<'a> Watch<'a> {
    /// Bits of a descriptor's lowest byte that keep blocks out of lists.
    pub const OUT: u8 = ISOLATED as u8;

    /// Watches a pageblock's descriptor, for a push of one block.
    ///
    /// # Safety
    /// `at` is a place of `words`.
    #[inline(always)]
    pub(crate) unsafe fn descriptor(words: &'a [A64], at: usize) -> Watch<'a> {
        debug_assert!(at < words.len());
        Watch { words, at, seen: 0 }
    }

    /// Watches a count of changes, for a push of many.
    #[inline(always)]
    pub(crate) fn count(word: &'a A64) -> Watch<'a> {
        // ORDER: SeqCst: it is read before the descriptors that it stands for; isolation counts after it has changed one.
        Watch { words: core::slice::from_ref(word), at: 0, seen: word.load(SeqCst) }
    }

    #[inline(always)]
    fn word(self) -> &'a A64 {
        // SAFETY: `at` is a place of `words`: `descriptor` has that promised, and `count` has one word.
        unsafe { self.words.get_unchecked(self.at) }
    }

    /// Says whether none of the bits [`OUT`](Watch::OUT) is set in the word's lowest byte: what a push of one block asks.
    #[inline(always)]
    #[must_use]
    pub fn stands(self) -> bool {
        // ORDER: SeqCst, as below.
        self.word().load(SeqCst) as u8 & Self::OUT == 0
    }

    /// Says whether the word is what it was: what a push of many blocks asks.
    #[inline(always)]
    #[must_use]
    pub fn is_same(self) -> bool {
        // ORDER: SeqCst: after the lock of the list was taken. A drain that found the list free before that has released
        // the lock, and isolation wrote the word before the drain: so this sees it.
        self.word().load(SeqCst) == self.seen
    }

    /// Returns words and the place of the one to watch among them, for a [`PerCpu`](super::PerCpu) that is written in
    /// assembly.
    #[inline(always)]
    #[must_use]
    pub fn raw(self) -> (*const u64, usize) {
        (self.words.as_ptr().cast(), self.at)
    }

    /// Returns what the word was.
    #[inline(always)]
    #[must_use]
    pub fn seen(self) -> u64 {
        self.seen
    }
}
