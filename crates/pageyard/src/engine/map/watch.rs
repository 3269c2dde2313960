//! What a push reads again where it commits, so that a list never takes in what was taken out of allocation meanwhile.

use super::descriptor::BlockState;
use crate::engine::sync::{A64, SeqCst};

/// A word that says whether a push may go through, and what it said when the push was prepared.
///
/// A free reads its pageblock's descriptor, chooses a list by it, and pushes. In between the pageblock may be isolated and all
/// lists drained. So the push reads the word once more *inside* what keeps its list to itself: a lock, or a restartable
/// sequence. Isolation writes the word first and drains, or issues a barrier, afterwards: a push either ends before
/// that and is drained, or sees the change and goes to the zone. Neither waits for the other.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    word: &'a A64,
    seen: u64,
}

impl<'a> Watch<'a> {
    /// Watches a pageblock's descriptor, for a push of one block: its type and isolation are in the lowest byte.
    #[inline(always)]
    pub(crate) fn descriptor(word: &'a A64, seen: BlockState) -> Watch<'a> {
        Watch { word, seen: seen.bits() }
    }

    /// Watches a count of changes, for a push of many.
    #[inline(always)]
    pub(crate) fn count(word: &'a A64) -> Watch<'a> {
        // ORDER: SeqCst: it is read before the descriptors that it stands for; who changes one of them counts afterwards.
        Watch { word, seen: word.load(SeqCst) }
    }

    /// Says whether the word's lowest byte is what was seen: what a push of one block asks.
    #[inline(always)]
    #[must_use]
    pub fn stands(self) -> bool {
        // ORDER: SeqCst, as below.
        self.word.load(SeqCst) as u8 == self.seen as u8
    }

    /// Says whether the word is what was seen: what a push of many blocks asks.
    #[inline(always)]
    #[must_use]
    pub fn is_same(self) -> bool {
        // ORDER: SeqCst: after the lock of the list was taken. A drain that found the list free before that has released
        // the lock, and whoever isolated wrote the word before draining: so this sees it.
        self.word.load(SeqCst) == self.seen
    }

    /// Returns where the word lies, for a [`PerCpu`](crate::engine::PerCpu) that is written in assembly.
    #[inline(always)]
    #[must_use]
    pub fn as_ptr(self) -> *const u64 {
        (&raw const *self.word).cast()
    }

    /// Returns what it said.
    #[inline(always)]
    #[must_use]
    pub fn seen(self) -> u64 {
        self.seen
    }
}
