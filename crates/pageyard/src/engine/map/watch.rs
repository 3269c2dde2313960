//! The word that a push rereads when it commits, so that no list takes a frame that was taken out of allocation
//! meanwhile.
//!
//! A free reads its pageblock's descriptor, chooses a list by it, and pushes. In between the pageblock may be isolated
//! and all lists drained. So the push rereads a word *inside* whatever keeps its list to itself: a lock, or a
//! restartable sequence. Isolation writes the word first and drains, or issues a barrier, afterwards: a push either
//! ends before that and is drained, or sees the change and goes to the zone. Neither waits for the other.
//!
//! Both types are two words each, which a call passes in registers.

use super::descriptor::ISOLATED;
use core::marker::PhantomData;
use pageyard_sync::{A64, SeqCst};

/// The descriptor of the pageblock that a block lies in, for a push of that block.
#[derive(Clone, Copy)]
pub struct DescriptorWatch<'a> {
    /// The zone's descriptors, and the index of this one: an inlined free has both in registers.
    words: *const A64,
    at: usize,
    lifetime: PhantomData<&'a [A64]>,
}

impl<'a> DescriptorWatch<'a> {
    /// Bits of a descriptor's lowest byte that keep blocks out of lists: isolated, and of a type whose number is four
    /// or more (contiguous areas), which it may have become since the list was chosen.
    pub const OUT: u8 = ISOLATED as u8 | 4;

    /// Watches one of some descriptors.
    ///
    /// # Safety
    /// `at` is a place of `words`, and so is the one behind it, which is the pageblock's [bias](super::bias).
    #[inline(always)]
    pub(crate) unsafe fn of(words: &'a [A64], at: usize) -> DescriptorWatch<'a> {
        debug_assert!(at + 1 < words.len());
        DescriptorWatch { words: words.as_ptr(), at, lifetime: PhantomData }
    }

    /// Returns whether none of the bits [`OUT`](DescriptorWatch::OUT) is set in the word's lowest byte: the check
    /// that a push makes.
    #[inline(always)]
    #[must_use]
    pub fn stands(self) -> bool {
        // SAFETY: the caller of `of` promised that there is such a word, and it is borrowed for `'a`.
        let word = unsafe { &*self.words.add(self.at) };
        // ORDER: SeqCst, as in `Unchanged::stands`.
        word.load(SeqCst) as u8 & Self::OUT == 0
    }

    /// Returns the words, and the place of the one to watch, for a [`PerCpu`](crate::PerCpu) that is written in
    /// assembly.
    #[inline(always)]
    #[must_use]
    pub fn raw(self) -> (*const u64, usize) {
        (self.words.cast(), self.at)
    }
}

/// A count of isolations, for a push of blocks of several pageblocks: read before any of their descriptors was.
#[derive(Clone, Copy)]
pub struct Unchanged<'a> {
    count: &'a A64,
    was: u64,
}

impl<'a> Unchanged<'a> {
    /// Reads the count.
    #[inline(always)]
    pub(crate) fn since(count: &'a A64) -> Unchanged<'a> {
        // ORDER: SeqCst: it is read before the descriptors that it stands for; isolation counts after it has changed
        // one.
        Unchanged { count, was: count.load(SeqCst) }
    }

    /// Returns whether the count is unchanged: the check that a push makes.
    #[inline(always)]
    #[must_use]
    pub fn stands(self) -> bool {
        // ORDER: SeqCst: after the lock of the list was taken. A drain that found the list free before that has
        // released the lock, and isolation wrote the word before the drain: so this sees it.
        self.count.load(SeqCst) == self.was
    }

    /// Returns where the count lies and what it was, for a [`PerCpu`](crate::PerCpu) that is written in assembly.
    #[inline(always)]
    #[must_use]
    pub fn raw(self) -> (*const u64, u64) {
        ((&raw const *self.count).cast(), self.was)
    }
}
