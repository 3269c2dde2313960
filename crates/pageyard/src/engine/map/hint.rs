//! The hint: a descriptor keeps the largest run of its pageblock's free bits, and the index goes by it. Here the bits
//! are looked at, to raise it behind a release and to lower it behind a claim. `docs/design/frame-map.md` says why it
//! holds.

use super::descriptor::BlockState;
use super::frame_map::{Change, FrameMap};
use crate::engine::geometry::{BLOCK_ORDER, BlockIdx, FrameIdx, WORD_MASK, WORD_ORDER, WORDS};
use crate::engine::words::{largest, largest_of};
use pageyard_sync::{A64, SeqCst, store_load_fence};

/// Attempts to correct a hint before giving up.
const HINT_TRIES: usize = 8;

impl FrameMap<'_> {
    /// Returns the largest run in a pageblock in which a word has just become entirely free, or 0 where none can exceed
    /// `hint`.
    #[inline(always)]
    pub(super) fn run_above_hint(&self, block: BlockIdx, hint: u8) -> u8 {
        if hint >= BLOCK_ORDER - 1 { 0 } else { self.run_around(block) }
    }

    /// Returns the largest run in a pageblock in which a word has just become entirely free.
    pub(super) fn run_around(&self, block: BlockIdx) -> u8 {
        store_load_fence();
        self.scan(block).map_or(WORD_ORDER, |run| run.min(BLOCK_ORDER - 1))
    }

    /// Returns the largest run of free bits in a pageblock.
    pub(crate) fn scan(&self, block: BlockIdx) -> Option<u8> {
        self.scan_for(block, u8::MAX)
    }

    /// Returns a run of free bits in a pageblock, of at least order `enough` if there is one: the largest, or the first
    /// that was found.
    fn scan_for(&self, block: BlockIdx, enough: u8) -> Option<u8> {
        let words = &self.bits[block.get() * WORDS..][..WORDS];
        // ORDER: SeqCst, as in `free_bits`.
        let free = |word: &A64| !word.load(SeqCst) & WORD_MASK;
        let mut full = 0u64;
        for (w, word) in words.iter().enumerate() {
            full |= u64::from(free(word) == WORD_MASK) << w;
        }
        if full != 0 {
            return Some(largest_of(full, BLOCK_ORDER - WORD_ORDER) + WORD_ORDER);
        }
        let mut best = None;
        for word in words {
            best = best.max(largest(free(word)));
            if best >= Some(enough) {
                break;
            }
        }
        best
    }

    /// Returns whether a pageblock, of which a frame was taken, has a run of the order that its hint says, or a larger
    /// one.
    pub(crate) fn keeps_hint(&self, taken: FrameIdx, hint: u8) -> bool {
        (hint == BLOCK_ORDER - 1 && self.other_half_is_free(taken))
            || self.scan_for(taken.block(), hint) >= Some(hint)
    }

    /// Returns whether the half of a pageblock that a frame does not belong to is free: no hint is too large then.
    pub(crate) fn other_half_is_free(&self, frame: FrameIdx) -> bool {
        const HALF: usize = WORDS / 2;
        let other = frame.block().get() * WORDS + if frame.word() < HALF { HALF } else { 0 };
        // ORDER: SeqCst, as in `free_bits`.
        self.bits[other..][..HALF].iter().all(|word| word.load(SeqCst) & WORD_MASK == 0)
    }

    /// Lowers a descriptor's hint to the truth; returns the descriptor before and after that.
    ///
    /// The compare-and-swap fails if anything was released since the bits were read, because that bumps the sequence.
    pub(crate) fn correct_hint(&self, block: BlockIdx) -> Change {
        let mut state = self.state(block);
        for _ in 0..HINT_TRIES {
            // No call looks at the bits of a huge pageblock.
            if state.is_whole() || state.is_huge() || state.hint() == 0 {
                return Change { old: state, new: state };
            }
            // Even where nothing is free for a claim: bits may still be set, for reservations that have not taken them
            // yet and releases that are not counted yet, and only their runs say how far the hint may be lowered.
            let run = self.scan_for(block, state.hint()).unwrap_or(0);
            if run >= state.hint() {
                return Change { old: state, new: state };
            }
            let lower = state.with_hint(run);
            // ORDER: SeqCst, as in `update`, and on failure too: the next scan must see the bits that were given before
            // the transition that was read instead.
            match self.descriptor(block).compare_exchange(state.bits(), lower.bits(), SeqCst, SeqCst) {
                Ok(_) => return Change { old: state, new: lower },
                Err(now) => state = BlockState::from_bits(now),
            }
        }
        Change { old: state, new: state }
    }
}
