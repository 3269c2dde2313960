//! The bits of frames that follow each other in a pageblock.

use super::frame_map::Masks;
use crate::engine::geometry::{BLOCK_FRAMES, WORD_FRAMES, WORD_MASK, WORDS};

/// Returns the masks of the `n` frames from an offset in a pageblock on.
pub(crate) fn masks_of_stretch(offset: u32, n: u32) -> Masks {
    debug_assert!(n > 0 && offset + n <= BLOCK_FRAMES);
    let mut masks = [0; WORDS];
    for (mask, start) in masks.iter_mut().zip((0..).step_by(WORD_FRAMES as usize)) {
        let from = offset.clamp(start, start + WORD_FRAMES) - start;
        let to = (offset + n).clamp(start, start + WORD_FRAMES) - start;
        if from < to {
            *mask = (u64::MAX >> (64 - (to - from))) << from & WORD_MASK;
        }
    }
    masks
}

#[cfg(all(test, not(pageyard_loom)))]
mod tests {
    use super::*;

    #[test]
    fn bits_of_any_stretch() {
        for (offset, n) in [(0, 512), (0, 1), (511, 1), (63, 2), (64, 64), (1, 510), (100, 300)] {
            let masks = masks_of_stretch(offset, n);
            let is_set = |at: u32| masks[(at / 64) as usize] >> (at % 64) & 1 != 0;
            assert!((0..512).all(|at| is_set(at) == (offset..offset + n).contains(&at)), "{offset}, {n}");
        }
    }
}
