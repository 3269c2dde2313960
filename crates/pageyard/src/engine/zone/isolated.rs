//! Pageblocks that a call takes out of allocation, and claims of frames in them: nothing else is served from there.

use super::Zone;
use super::current::By;
use super::pageblocks::Pageblocks;
use crate::engine::geometry::{BLOCK_FRAMES, BlockIdx, FrameIdx};
use crate::engine::map::frame_map::for_each_down;
use crate::engine::map::stretch::masks_of_stretch;
use crate::engine::map::tag::Tag;
use pageyard_core::range::ContigError;
use pageyard_core::units::Order;

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
            for_each_down(&masks, Order::ZERO, |offset| self.frames.set_tag(block.frame(offset), Tag::Free));
        }
        taken
    }

    /// Gives back what [`Pageblocks::claim_isolated`] claimed.
    pub(crate) fn release_isolated(&self, first: FrameIdx, n: u32) {
        if n == BLOCK_FRAMES {
            return self.free.add(self.release_whole(first.block(), false));
        }
        let masks = masks_of_stretch(first.offset(), n);
        self.free.add(self.release(first.block(), n, &masks, false, By::NONE).freed);
    }
}

/// A range of frames of one zone.
#[derive(Clone, Copy)]
pub(crate) struct ZoneRange<'z, 'm> {
    pub(crate) zone: &'z Zone<'m>,
    pub(crate) first: FrameIdx,
    pub(crate) end: FrameIdx,
}

/// Pageblocks that this call has taken out of allocation. They go back where it is dropped.
pub(crate) struct IsolatedRange<'z, 'm> {
    pageblocks: &'z Pageblocks<'m>,
    first: BlockIdx,
    count: usize,
}

impl<'z, 'm> IsolatedRange<'z, 'm> {
    /// Takes the pageblocks of a range out of allocation: all, or none where another call has taken one.
    pub(crate) fn of(place: ZoneRange<'z, 'm>) -> Result<IsolatedRange<'z, 'm>, ContigError> {
        let pageblocks = &place.zone.pageblocks;
        let mut isolated = IsolatedRange { pageblocks, first: place.first.block(), count: 0 };
        for (frame, _) in by_pageblock(place.first, place.end) {
            if !pageblocks.isolate(frame.block()) {
                return Err(ContigError::Isolated { at: pageblocks.pfn(frame) });
            }
            isolated.count += 1;
        }
        Ok(isolated)
    }
}

impl Drop for IsolatedRange<'_, '_> {
    fn drop(&mut self) {
        for block in self.first.run(self.count) {
            self.pageblocks.restore(block);
        }
    }
}

/// Frames that were claimed and have no tag. Those from `place.first` on go back where it is dropped.
pub(crate) struct ClaimedRange<'z, 'm> {
    pub(crate) place: ZoneRange<'z, 'm>,
}

impl<'z, 'm> ClaimedRange<'z, 'm> {
    /// Claims a range that is isolated.
    ///
    /// # Errors
    /// A frame that is not free, or the first in the pageblock of one that was not; nothing is claimed.
    pub(crate) fn claim(place: ZoneRange<'z, 'm>) -> Result<ClaimedRange<'z, 'm>, FrameIdx> {
        let pageblocks = &place.zone.pageblocks;
        let mut claimed = ClaimedRange { place: ZoneRange { end: place.first, ..place } };
        for (frame, n) in by_pageblock(place.first, place.end) {
            if !pageblocks.claim_isolated(frame, n) {
                let is_used = |at: &FrameIdx| {
                    let state = pageblocks.frames.state(at.block());
                    state.is_huge() || pageblocks.frames.free_bits(at.block(), at.word()) >> at.bit() & 1 == 0
                };
                return Err(frame.run(n as usize).find(is_used).unwrap_or(frame));
            }
            claimed.place.end = frame.plus(n as usize);
        }
        Ok(claimed)
    }
}

impl Drop for ClaimedRange<'_, '_> {
    fn drop(&mut self) {
        let pageblocks = &self.place.zone.pageblocks;
        for (frame, n) in by_pageblock(self.place.first, self.place.end) {
            pageblocks.release_isolated(frame, n);
        }
    }
}
