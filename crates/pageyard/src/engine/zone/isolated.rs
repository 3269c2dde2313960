//! Claims of frames in pageblocks that the caller has isolated: nothing else is served from there.

use super::pageblocks::Pageblocks;
use crate::engine::geometry::{BLOCK_FRAMES, FrameIdx};
use crate::engine::map::frame_map::for_each_down;
use crate::engine::map::stretch::masks_of_stretch;
use crate::engine::map::tag::Tag;

/// Returns the parts of a range by pageblock, each its first frame and how many there are.
pub(crate) fn by_pageblock(first: FrameIdx, end: FrameIdx) -> impl Iterator<Item = (FrameIdx, u32)> {
    let mut at = first;
    core::iter::from_fn(move || {
        let n = (BLOCK_FRAMES - at.offset()).min((end.get() - at.get()) as u32);
        let part = (n > 0).then_some((at, n));
        at = at.plus(n as usize);
        part
    })
}

impl Pageblocks<'_> {
    /// Claims `n` frames of an isolated pageblock from a frame on, or the pageblock as a whole; `false` where one of
    /// them is not free. What was known of their contents is forgotten.
    pub(crate) fn claim_isolated(&self, first: FrameIdx, n: u32) -> bool {
        let block = first.block();
        if n == BLOCK_FRAMES {
            let Some(change) = self.frames.update(block, |s| s.claim_whole_isolated()) else { return false };
            self.changed(block, change);
            self.settle_whole_zero(block, change.old);
            self.frames.set_tag(first, Tag::Free);
            return true;
        }
        let masks = masks_of_stretch(first.offset(), n);
        let Some(change) = self.frames.update(block, |s| s.claim_isolated(n)) else { return false };
        let taken = self.frames.claim_bits(block, &masks);
        if !taken {
            self.free.add(self.return_reserved(block, n));
        }
        let hint = self.frames.correct_hint(block);
        self.index.moved(&self.frames, block, hint.old, hint.new);
        self.changed(block, change);
        if taken && hint.new.has_zero() {
            for_each_down(&masks, 0, |offset| self.frames.set_tag(block.frame(offset), Tag::Free));
        }
        taken
    }

    /// Gives back what [`Pageblocks::claim_isolated`] claimed.
    pub(crate) fn release_isolated(&self, first: FrameIdx, n: u32) {
        if n == BLOCK_FRAMES {
            return self.free.add(self.release_whole(first.block(), false));
        }
        let masks = masks_of_stretch(first.offset(), n);
        self.free.add(self.release(first.block(), n, &masks, false, None).freed);
    }
}
