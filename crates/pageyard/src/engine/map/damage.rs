//! Words with flipped bits, as another process that shares the metadata could leave them: for tests.

use core::sync::atomic::AtomicBool;
use pageyard_sync::{A8, A64, Relaxed};

/// Whether any instance of this process was damaged. Only assertions of a build for tests ask.
static DONE: AtomicBool = AtomicBool::new(false);

/// Returns whether any instance of this process was damaged: what is asserted of others does not hold of it.
pub(crate) fn is_done() -> bool {
    // ORDER: Relaxed: nothing else runs while words are damaged.
    DONE.load(Relaxed)
}

/// A part of the metadata that damage is survived in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetadataPart {
    /// Which frames are free, a bit each.
    Bits,
    /// A byte for each frame: whether a live block starts there.
    Tags,
    /// A word for each pageblock: its counters and state.
    Descriptors,
    /// A word for each pageblock: how its tags are won.
    Biases,
    /// Which pageblocks can serve what.
    Index,
}

impl MetadataPart {
    /// Every part.
    pub const ALL: [MetadataPart; 5] = [
        MetadataPart::Bits,
        MetadataPart::Tags,
        MetadataPart::Descriptors,
        MetadataPart::Biases,
        MetadataPart::Index,
    ];
}

/// Flips bits of one of these words, counted round.
pub(super) fn flip(words: &[A64], nth: usize, flip: u64) {
    // ORDER: Relaxed, here and below: nothing else runs.
    DONE.store(true, Relaxed);
    let word = &words[nth % words.len()];
    word.store(word.load(Relaxed) ^ flip, Relaxed);
}

/// Flips the lowest eight of these bits in one of these bytes, counted round.
pub(super) fn flip_byte(bytes: &[A8], nth: usize, flip: u64) {
    // ORDER: as above.
    DONE.store(true, Relaxed);
    let byte = &bytes[nth % bytes.len()];
    byte.store(byte.load(Relaxed) ^ flip as u8, Relaxed);
}
