//! The list of slots that are in no use: its head, in one word.

use super::slot::Slot;

/// The first free slot, and how often the list has changed, packed so that one compare-and-swap takes a slot or puts
/// one back.
///
/// The count keeps a thread that was stopped between reading the head and replacing it from succeeding on a head that
/// has come back: it has all the bits that slot numbers leave free, 45 in an arena of 1 GiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head(pub u64);

impl Head {
    /// The list of a new table: every slot from 1 on, each followed by the next, without a word written.
    pub const NEW: Head = Head(1);

    /// Returns how many bits a slot number takes in a table with numbers up to `slots + 1`.
    pub const fn bits(slots: u64) -> u32 {
        u64::BITS - (slots + 1).leading_zeros()
    }

    /// Returns the first free slot, or a number above `slots` if there is none.
    pub const fn first(self, bits: u32) -> u64 {
        self.0 & ((1 << bits) - 1)
    }

    /// Replaces the first slot and counts the change.
    pub const fn becomes(self, first: u64, bits: u32) -> Head {
        Head((((self.0 >> bits) + 1) << bits) | first)
    }
}

/// Returns the slot after a free one, which `word` says: the number that was noted, or the next number for a slot that
/// was never in use.
pub(crate) fn next_of(first: u64, word: Slot) -> u64 {
    word.next_free().unwrap_or(first + 1)
}
