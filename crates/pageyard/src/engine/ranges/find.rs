//! Which live block has a frame.

use crate::engine::geometry::{FrameIdx, LARGEST};
use crate::engine::map::tag::Tag;
use crate::engine::zone::pageblocks::Pageblocks;
use pageyard_core::error::FreeError;
use pageyard_core::units::Order;

/// Finds the live block that has a frame: its first frame and its order.
///
/// For a frame whose owner calls, and which only its owner frees, the answer is a block or [`FreeError::Busy`], never
/// "not allocated", even while other parts of the block are split off. Blocks that could have the frame are asked from
/// the largest down, and a split tags the parts before it tags what is left at the head: where the head of the larger
/// block says that it is not that large any more, the tag of the part is there to be read.
///
/// # Errors
/// [`FreeError::OutsideArena`] where the frame is not managed, [`FreeError::Busy`] where a block that may have it is
/// being split, [`FreeError::NotAllocated`] otherwise.
pub(super) fn live_block_with(
    pageblocks: &Pageblocks<'_>,
    frame: FrameIdx,
) -> Result<(FrameIdx, Order), FreeError> {
    let pfn = pageblocks.pfn(frame);
    let mut splitting = false;
    for order in Order::ZERO.up_to(LARGEST).rev() {
        let Some(head) = pageblocks.frame_of(pfn.align_down(order)) else { continue };
        match pageblocks.frames.tag(head) {
            Tag::Allocated(found) | Tag::AllocatedZero(found)
                if found >= order && pageblocks.has_room(head, found) =>
            {
                return Ok((head, found));
            }
            // Of which order, it does not say: it may end before the frame.
            Tag::Splitting => splitting = true,
            _ => {}
        }
    }
    Err(match splitting {
        true => FreeError::Busy,
        false if pageblocks.is_managed(frame) => FreeError::NotAllocated,
        false => FreeError::OutsideArena,
    })
}
