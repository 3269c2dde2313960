//! Words with flipped bits, as another process that shares the metadata could leave them: for tests.

use super::frame_map::FrameMap;
use super::index::Index;
use core::sync::atomic::AtomicBool;
use pageyard_sync::{A64, Relaxed};

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

/// Flips bits in a word of a zone's metadata, counted round; in a tag's byte the lowest eight.
pub(crate) fn flip(frames: &FrameMap<'_>, index: &Index<'_>, part: MetadataPart, nth: usize, flip: u64) {
    let of = |words: &[A64], nth: usize| {
        let word = &words[nth % words.len()];
        // ORDER: Relaxed, here and below: nothing else runs.
        word.store(word.load(Relaxed) ^ flip, Relaxed);
    };
    DONE.store(true, Relaxed);
    match part {
        MetadataPart::Bits => of(frames.bits, nth),
        MetadataPart::Tags => {
            let tag = &frames.tags[nth % frames.tags.len()];
            tag.store(tag.load(Relaxed) ^ flip as u8, Relaxed);
        }
        MetadataPart::Descriptors => of(frames.blocks, nth % frames.len() * 2),
        MetadataPart::Biases => of(frames.blocks, nth % frames.len() * 2 + 1),
        MetadataPart::Index => {
            let (words, roots) = index.words();
            of(if nth.is_multiple_of(8) { roots } else { words }, nth / 8);
        }
    }
}
