//! Contiguous areas: whole pageblocks that movable requests use until the area's owner wants frames of them.

use crate::engine::geometry::FrameIdx;
use crate::engine::pcp::percpu::PerCpu;
use crate::engine::yard::Pageyard;
use crate::engine::zone::isolated::{IsolatedRange, by_pageblock};
use pageyard_core::allocator::Cx;
use pageyard_core::clear::Clear;
use pageyard_core::compaction::Migrate;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::observer::Observer;
use pageyard_core::range::{ContigError, FrameRange};
use pageyard_core::units::{Frames, Order, PAGEBLOCK_ORDER, Pfn};

/// A contiguous area of one instance, as [`Pageyard::declare_cma`] made it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CmaArea {
    range: FrameRange,
}

impl CmaArea {
    /// Returns its frames.
    #[must_use]
    pub const fn range(self) -> FrameRange {
        self.range
    }
}

impl<P: PerCpu, O: Observer, C: Clear> Pageyard<'_, P, O, C> {
    /// Makes a contiguous area of whole pageblocks of one zone: from then on only movable requests are served from it,
    /// and [`alloc_cma`](Pageyard::alloc_cma). An area stays one.
    ///
    /// Best done right after construction: blocks that are in use already stay where they are, and those that do not
    /// move keep their place from being allocated.
    ///
    /// # Errors
    /// [`ContigError::Misaligned`] where it does not begin and end at pageblocks; [`ContigError::Busy`] where one of
    /// these belongs to an area, or a per-CPU list could not be emptied because it was in use, or is another CPU's
    /// under [`Exclusive::by_cpu`](crate::Exclusive::by_cpu); otherwise as
    /// [`alloc_contig_range`](Pageyard::alloc_contig_range). Nothing changed.
    ///
    /// # Concurrency
    /// Lock-free; other calls go on.
    ///
    /// # Linux
    /// `cma_init_reserved_mem`. Difference: the frames need not have been reserved.
    pub fn declare_cma(&self, cx: &Cx, first: Pfn, frames: Frames) -> Result<CmaArea, ContigError> {
        let range = FrameRange::new(first, frames);
        let place = self.place(cx, range)?;
        if !first.is_aligned(PAGEBLOCK_ORDER) || !(first + frames).is_aligned(PAGEBLOCK_ORDER) {
            return Err(ContigError::Misaligned);
        }
        let pageblocks = &place.zone.pageblocks;
        let _isolated = IsolatedRange::of(place)?;
        let blocks = || by_pageblock(place.first, place.end).map(|(frame, _)| frame);
        let is_lent =
            |frame: &FrameIdx| pageblocks.frames.state(frame.block()).migratetype() == Migratetype::Cma;
        if let Some(frame) = blocks().find(is_lent) {
            return Err(ContigError::Busy { at: pageblocks.pfn(frame) });
        }
        // What lies in lists of other types would be handed out to requests that are not movable.
        if !self.drain_reached(cx.cpu).is_complete() {
            return Err(ContigError::Busy { at: first });
        }
        blocks().for_each(|frame| pageblocks.lend(frame.block()));
        Ok(CmaArea { range })
    }

    /// Allocates `frames` frames that follow each other from a contiguous area, the first one aligned to `align`;
    /// returns the first. `owner` moves what movable requests have put there. To be freed by
    /// [`free_range`](Pageyard::free_range), in any parts.
    ///
    /// # Errors
    /// [`ContigError::BadRange`] for no frames, or more than the area has; otherwise why the last place that was tried
    /// was refused. Nothing is allocated.
    ///
    /// # Concurrency
    /// As [`alloc_contig_range`](Pageyard::alloc_contig_range): of two calls that try one pageblock at the same time,
    /// one goes on to the next, and is refused with [`ContigError::Isolated`] if there is none.
    ///
    /// # Complexity
    /// From the start of the area, place by place: a frame that does not move costs the frames of the range before it.
    ///
    /// # Linux
    /// `cma_alloc`. Differences: there is no bitmap of what was allocated, and no mutex.
    pub fn alloc_cma<M: Migrate>(
        &self,
        cx: &Cx,
        area: CmaArea,
        frames: Frames,
        align: Order,
        owner: &M,
    ) -> Result<Pfn, ContigError> {
        let FrameRange { first, frames: all } = area.range;
        if frames == Frames::ZERO || frames > all {
            return Err(ContigError::BadRange);
        }
        let mut why = ContigError::BadRange;
        let mut at = first.align_up(align);
        // No sum here is past the largest frame number: the area is in a zone.
        while at + frames <= first + all {
            match self.alloc_contig_range(cx, at, frames, Migratetype::Cma, owner) {
                Ok(()) => return Ok(at),
                Err(error) => why = error,
            }
            let past = match why {
                ContigError::Busy { at } => at + Frames(1),
                ContigError::Isolated { at } => at.pageblock().start() + PAGEBLOCK_ORDER.frames(),
                _ => return Err(why),
            };
            at = past.align_up(align);
        }
        Err(why)
    }
}
