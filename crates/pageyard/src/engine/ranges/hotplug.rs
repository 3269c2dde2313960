//! Memory that goes offline and comes back by whole pageblocks, or is added later: by pageblocks, or frame by frame.

use crate::engine::geometry::{BLOCK_FRAMES, FrameIdx};
use crate::engine::map::descriptor::BlockState;
use crate::engine::map::tag::Tag;
use crate::engine::pcp::percpu::PerCpu;
use crate::engine::yard::Pageyard;
use crate::engine::zone::Zone;
use crate::engine::zone::isolated::{IsolatedRange, by_pageblock};
use pageyard_core::allocator::Cx;
use pageyard_core::clear::Clear;
use pageyard_core::compaction::Migrate;
use pageyard_core::error::FreeError;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::observer::Observer;
use pageyard_core::range::{ContigError, FrameRange, RangeError, RangeFault};
use pageyard_core::units::{Frames, Order, PAGEBLOCK_ORDER, Pfn};

impl<'m, P: PerCpu, O: Observer, C: Clear> Pageyard<'m, P, O, C> {
    /// Takes whole pageblocks of one zone offline: `owner` moves what can be moved, and then none of their frames is
    /// managed, until [`online_range`](Pageyard::online_range). The zone's managed frames and all watermarks follow.
    ///
    /// # Errors
    /// [`ContigError::Misaligned`] where the range does not begin and end at pageblocks; [`ContigError::Busy`] where
    /// one of these is part of a contiguous area; otherwise as [`alloc_contig_range`](Pageyard::alloc_contig_range).
    /// Nothing went offline; what was moved stays moved.
    ///
    /// # Concurrency
    /// As [`alloc_contig_range`](Pageyard::alloc_contig_range).
    ///
    /// # Panics
    /// Where `owner` panics, nothing went offline.
    ///
    /// # Linux
    /// `offline_pages`. Differences: by pageblock instead of by section; `lowmem_reserve` and the sizes of per-CPU
    /// lists stay as they are.
    pub fn offline_range<M: Migrate>(
        &self,
        cx: &Cx,
        first: Pfn,
        frames: Frames,
        owner: &M,
    ) -> Result<(), ContigError> {
        let place = self.place(cx, FrameRange::new(first, frames))?;
        check_whole(first, frames)?;
        let (zone, pageblocks) = (place.zone, &place.zone.pageblocks);
        let blocks = || by_pageblock(place.first, place.end).map(|(frame, _)| frame.block());
        let isolated = IsolatedRange::of(place)?;
        let is_lent = |state: BlockState| state.has_type(Migratetype::Cma);
        if let Some(block) = blocks().find(|block| is_lent(pageblocks.frames.state(*block))) {
            return Err(ContigError::Busy { at: pageblocks.pfn(block.first_frame()) });
        }
        let claimed = self.empty_and_claim(cx, place, owner)?;
        for block in blocks() {
            pageblocks.convert_owned(block, Migratetype::Movable);
            // It is this call's, claimed as a whole; but another one may have ended its isolation.
            while !pageblocks.transit(block, BlockState::take_offline) {
                pageblocks.isolate(block);
            }
        }
        // What is offline is neither claimed nor isolated: another call may have it online again.
        core::mem::forget((claimed, isolated));
        zone.online.change(frames, false);
        self.settle_watermarks();
        Ok(())
    }

    /// Brings pageblocks online that [`offline_range`](Pageyard::offline_range) took offline: they are free and
    /// movable. The zone's managed frames and all watermarks follow.
    ///
    /// # Errors
    /// [`ContigError::Busy`] names the first frame of a pageblock that is not offline: nothing changed, unless another
    /// call brought it online at the same moment; then those before it are online. [`ContigError::Misaligned`],
    /// [`ContigError::BadRange`], [`ContigError::OutsideArena`], [`ContigError::NoSuchCpu`] as there.
    ///
    /// # Concurrency
    /// Lock-free. Of two calls that bring one pageblock online, one does.
    ///
    /// # Linux
    /// `online_pages`.
    pub fn online_range(&self, cx: &Cx, first: Pfn, frames: Frames) -> Result<(), ContigError> {
        let place = self.span_of(cx, FrameRange::new(first, frames))?;
        check_whole(first, frames)?;
        let (zone, pageblocks) = (place.zone, &place.zone.pageblocks);
        let blocks = || by_pageblock(place.first, place.end).map(|(frame, _)| frame.block());
        if let Some(block) = blocks().find(|block| pageblocks.frames.state(*block).bring_online().is_none()) {
            return Err(ContigError::Busy { at: pageblocks.pfn(block.first_frame()) });
        }
        let mut brought = Ok(());
        for block in blocks() {
            // Managed before it can be allocated.
            zone.online.change(PAGEBLOCK_ORDER.frames(), true);
            if !pageblocks.transit(block, BlockState::bring_online) {
                zone.online.change(PAGEBLOCK_ORDER.frames(), false);
                brought = Err(ContigError::Busy { at: pageblocks.pfn(block.first_frame()) });
                break;
            }
        }
        self.settle_watermarks();
        brought
    }

    /// Adds free memory, frame by frame, at any time: frames of a zone that the memory map holds as not managed, or
    /// that lie in one of its holes, are managed and free afterwards. Frames that are managed already are freed, as by
    /// [`free_range`](Pageyard::free_range).
    ///
    /// # Errors
    /// As [`free_range`](Pageyard::free_range). [`FreeError::Busy`] also where another call adds frames of the same
    /// pageblock; the range can be added again. [`FreeError::OutsideArena`] also for a pageblock that was taken
    /// offline, or is [yet to be accepted](Pageyard::add_unaccepted).
    ///
    /// # Safety
    /// Frames that are not managed yet are memory, of the zone's kind and node, and nothing else uses them: from now on
    /// they are handed out.
    ///
    /// # Concurrency
    /// Lock-free for allocations and frees. A thread that stops in the middle keeps others from adding frames of the
    /// same pageblock, and those that it made managed from being free.
    ///
    /// # Linux
    /// `free_reserved_area`, and `generic_online_page`.
    pub unsafe fn add_range(&self, cx: &Cx, first: Pfn, frames: Frames) -> Result<(), RangeError> {
        // Where the range is not one of a zone, freeing it says why.
        let Ok(place) = self.span_of(cx, FrameRange::new(first, frames)) else {
            return self.free_range(cx, first, frames);
        };
        let (zone, pageblocks) = (place.zone, &place.zone.pageblocks);
        let (mut added, mut freed) = (Frames::ZERO, Frames::ZERO);
        let done = by_pageblock(place.first, place.end).try_for_each(|(part, n)| {
            let at = pageblocks.pfn(part);
            let stopped = |why| RangeError { at, freed, why: RangeFault::Free(why) };
            added += self.manage(zone, part, n).map_err(stopped)?;
            let free = self.free_range(cx, at, Frames(n.into()));
            free.map_err(|why| RangeError { freed: freed + why.freed, ..why })?;
            freed += Frames(n.into());
            Ok(())
        });
        if added > Frames::ZERO {
            self.settle_watermarks();
        }
        done
    }

    /// Makes those of `n` frames of a pageblock managed and allocated that are not managed; returns how many.
    fn manage(&self, zone: &Zone<'_>, first: FrameIdx, n: u32) -> Result<Frames, FreeError> {
        let (pageblocks, frames, block) = (&zone.pageblocks, &zone.pageblocks.frames, first.block());
        // Counted before it is told: an observer that panics leaves the frames to another call that adds them.
        let note = |frame, order: Order| {
            zone.online.change(order.frames(), true);
            self.observer.allocated(pageblocks.pfn(frame), order, Migratetype::Movable);
        };
        if frames.state(block).is_hole() {
            if frames.state(block).is_huge() || frames.state(block).is_unaccepted() {
                return Err(FreeError::OutsideArena);
            }
            if !pageblocks.transit(block, BlockState::begin_opening) {
                return Err(FreeError::Busy);
            }
            let whole = n == BLOCK_FRAMES;
            if whole {
                frames.set_tag(first, Tag::Allocated(PAGEBLOCK_ORDER));
            } else {
                for frame in block.first_frame().run(BLOCK_FRAMES as usize) {
                    frames.set_tag(frame, Tag::Hole);
                }
                // No other call looks at the bits of a hole; what ends it publishes them.
                frames.take_huge(block);
            }
            pageblocks.transit(block, |state| state.end_opening(whole));
            if whole {
                note(first, PAGEBLOCK_ORDER);
                return Ok(PAGEBLOCK_ORDER.frames());
            }
        }
        let mut added = Frames::ZERO;
        for frame in first.run(n as usize) {
            // Nothing else writes the tag of a frame that is not managed, whatever its pageblock's bias.
            if frames.retag(frame, Tag::Hole, Tag::Allocated(Order::ZERO)).is_ok() {
                note(frame, Order::ZERO);
                added += Frames(1);
            }
        }
        Ok(added)
    }
}

fn check_whole(first: Pfn, frames: Frames) -> Result<(), ContigError> {
    let whole = first.is_aligned(PAGEBLOCK_ORDER) && (first + frames).is_aligned(PAGEBLOCK_ORDER);
    if whole { Ok(()) } else { Err(ContigError::Misaligned) }
}
