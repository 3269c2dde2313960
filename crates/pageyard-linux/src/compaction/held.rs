//! Free frames of the block that is being emptied: held back until the block is left, so that they merge there.

use super::view::CompactionView;
use pageyard_core::units::{BlockId, Order, Pfn};

/// Words of the largest block whose frames can be held: order 10, Linux's largest.
const WORDS: usize = 1024 / 64;

/// Free frames of the block that is being emptied. To the engine they are allocated blocks of order 0. Those still here
/// when it is dropped go back.
pub(super) struct HeldFrames<'a, M: CompactionView> {
    map: &'a M,
    frames: FrameSet,
}

impl<'a, M: CompactionView> HeldFrames<'a, M> {
    pub(super) fn new(map: &'a M) -> HeldFrames<'a, M> {
        HeldFrames { map, frames: FrameSet::default() }
    }

    /// Adds a frame of the block that starts at `base`; `false` where frames of another block are held.
    pub(super) fn push(&mut self, base: Pfn, pfn: Pfn) -> bool {
        self.frames.push(base, pfn)
    }

    /// Returns the first frame of the block whose frames are held, if any are.
    pub(super) fn base(&self) -> Option<Pfn> {
        self.frames.base()
    }

    /// Returns how many frames are held.
    pub(super) fn len(&self) -> usize {
        self.frames.len
    }

    /// Gives all frames back, so that they merge with their block.
    pub(super) fn release(&mut self) {
        while let Some(pfn) = self.frames.pop() {
            self.map.give_back(BlockId { pfn, order: Order::ZERO });
        }
    }
}

impl<M: CompactionView> Drop for HeldFrames<'_, M> {
    fn drop(&mut self) {
        self.release();
    }
}

/// A set of frames of one block.
#[derive(Default)]
struct FrameSet {
    base: Pfn,
    bits: [u64; WORDS],
    len: usize,
}

impl FrameSet {
    /// Adds a frame of the block that starts at `base`; `false` where frames of another block are here.
    fn push(&mut self, base: Pfn, pfn: Pfn) -> bool {
        let offset = (pfn.0 - base.0) as usize;
        if (self.len > 0 && self.base != base) || offset >= WORDS * 64 {
            return false;
        }
        self.base = base;
        self.len += usize::from(self.bits[offset / 64] >> (offset % 64) & 1 == 0);
        self.bits[offset / 64] |= 1 << (offset % 64);
        true
    }

    /// Takes one frame.
    fn pop(&mut self) -> Option<Pfn> {
        let word = self.bits.iter().position(|w| *w != 0)?;
        let bit = self.bits[word].trailing_zeros();
        self.bits[word] &= self.bits[word] - 1;
        self.len -= 1;
        Some(Pfn(self.base.0 + word as u64 * 64 + u64::from(bit)))
    }

    /// Returns the first frame of the block whose frames are here, if any are.
    fn base(&self) -> Option<Pfn> {
        (self.len > 0).then_some(self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_one_block_only() {
        let mut held = FrameSet::default();
        assert!(held.push(Pfn(512), Pfn(512)) && held.push(Pfn(512), Pfn(1535)));
        assert!(!held.push(Pfn(0), Pfn(3)), "another block");
        assert!(!held.push(Pfn(512), Pfn(1536)), "beyond the largest block");
        assert_eq!(
            (held.len, held.pop(), held.pop(), held.pop()),
            (2, Some(Pfn(512)), Some(Pfn(1535)), None)
        );
        assert!(held.push(Pfn(0), Pfn(3)));
    }
}
