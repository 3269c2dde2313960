//! Memory that a guest of a confidential machine must accept before it touches it: pageblock by pageblock, when a
//! request finds nothing else in a zone.

use crate::engine::geometry::{BLOCK_FRAMES, FrameIdx};
use crate::engine::map::descriptor::BlockState;
use crate::engine::pcp::percpu::PerCpu;
use crate::engine::yard::Pageyard;
use crate::engine::zone::Zone;
use crate::engine::zone::isolated::by_pageblock;
use pageyard_core::allocator::Cx;
use pageyard_core::clear::Clear;
use pageyard_core::error::FreeError;
use pageyard_core::observer::Observer;
use pageyard_core::range::{FrameRange, RangeError, RangeFault};
use pageyard_core::units::{Frames, Pfn};

impl<'m, P: PerCpu, O: Observer, C: Clear> Pageyard<'m, P, O, C> {
    /// Adds memory that must be accepted before it is touched: frames of a zone that the memory map holds as not
    /// managed, or that lie in one of its holes. Whole pageblocks are accepted, by [`Config::accept`], when a request
    /// finds too little in their zone, the lowest first; only then are they managed. Frames at the ends that do not
    /// fill a pageblock are accepted and added at once.
    ///
    /// A pageblock that is not accepted is a hole from then on, which [`add_range`](Pageyard::add_range) can add. Until
    /// it is accepted, no call on ranges reaches it.
    ///
    /// # Errors
    /// [`RangeFault::Managed`] for a frame that is managed, or was added already; [`RangeFault::NotAccepted`] for one
    /// at an end that was not accepted, and where nothing accepts; otherwise as [`add_range`](Pageyard::add_range).
    /// Frames in front of it were added.
    ///
    /// # Safety
    /// As [`add_range`](Pageyard::add_range), once it is accepted.
    ///
    /// # Concurrency
    /// As [`add_range`](Pageyard::add_range), except that it spins while another call adds frames to a pageblock that
    /// this range covers in part. A request skips pageblocks that other calls are accepting, and fails if none is left.
    /// [`Config::accept`] runs in the context of the request, which may be an interrupt handler.
    ///
    /// # Panics
    /// If the callback panics, frames at an end are not added, and those in front of them are. If it panics in a
    /// request, its pageblock is refused.
    ///
    /// # Linux
    /// `cond_accept_memory`. Difference: what is not accepted yet is not managed.
    ///
    /// [`Config::accept`]: crate::Config::accept
    pub unsafe fn add_unaccepted(&self, cx: &Cx, first: Pfn, frames: Frames) -> Result<(), RangeError> {
        // Where the range is not one of a zone, freeing it says why.
        let Ok(place) = self.span_of(cx, FrameRange::new(first, frames)) else {
            return self.free_range(cx, first, frames);
        };
        let pageblocks = &place.zone.pageblocks;
        let mut freed = Frames::ZERO;
        for (part, n) in by_pageblock(place.first, place.end) {
            let stopped = |why| RangeError { at: pageblocks.pfn(part), freed, why };
            if n == BLOCK_FRAMES {
                self.put_aside(place.zone, part).map_err(stopped)?;
            } else {
                let state = || pageblocks.frames.state(part.block());
                // What becomes of it decides whether these frames are new.
                while state().is_opening() {
                    core::hint::spin_loop();
                }
                if state().is_hole() && state().is_huge() {
                    return Err(stopped(RangeFault::Free(FreeError::OutsideArena)));
                }
                let managed = part.run(n as usize).any(|frame| pageblocks.is_managed(frame));
                if managed || state().is_unaccepted() {
                    return Err(stopped(RangeFault::Managed));
                }
                let range = FrameRange::new(pageblocks.pfn(part), Frames(n.into()));
                if !self.config.accept.is_some_and(|accept| (accept.0)(range)) {
                    return Err(stopped(RangeFault::NotAccepted));
                }
                // SAFETY: the caller's promise; it is accepted.
                let added = range.while_busy(|part| unsafe { self.add_range(cx, part.first, part.frames) });
                added.map_err(|why| RangeError { freed: freed + why.freed, ..why })?;
            }
            freed += Frames(n.into());
        }
        Ok(())
    }

    /// Returns how much memory is yet to be accepted.
    pub fn unaccepted(&self) -> Frames {
        Frames(self.zones.iter().map(|zone| zone.unaccepted.left() * u64::from(BLOCK_FRAMES)).sum())
    }

    /// Notes that a pageblock is to be accepted.
    fn put_aside(&self, zone: &Zone<'_>, first: FrameIdx) -> Result<(), RangeFault> {
        if self.config.accept.is_none() {
            return Err(RangeFault::NotAccepted);
        }
        zone.unaccepted.add(first.block());
        if zone.pageblocks.transit(first.block(), BlockState::put_aside) {
            return Ok(());
        }
        zone.unaccepted.remove();
        Err(RangeFault::Managed)
    }
}
