//! A range by its frame numbers: emptied, claimed, handed out.

use crate::engine::compaction_view::Claimed;
use crate::engine::geometry::{BlockIdx, FrameIdx, MAX_ORDER};
use crate::engine::map::tree::SearchEffort;
use crate::engine::pcp::percpu::PerCpu;
use crate::engine::yard::Pageyard;
use crate::engine::zone::Zone;
use crate::engine::zone::isolated::by_pageblock;
use crate::engine::zone::marks::Mark;
use crate::engine::zone::pageblocks::{Pageblocks, Want};
use pageyard_core::allocator::Cx;
use pageyard_core::block::blocks;
use pageyard_core::clear::{Caches, Clear};
use pageyard_core::compaction::{FreeStock, Migrate, Mode, Stock, Stuck, evacuate};
use pageyard_core::migratetype::Migratetype;
use pageyard_core::observer::Observer;
use pageyard_core::range::{ContigError, FrameRange};
use pageyard_core::request::Request;
use pageyard_core::units::{Frames, Order, Pfn};

/// Times that the range is emptied and claimed before it counts as busy: frames that were on their way somewhere the
/// first time have arrived the next.
///
/// # Linux
/// `__alloc_contig_migrate_range` tries five times.
const PASSES: u32 = 5;

/// A range of one zone, as the calls of this file hand it on.
#[derive(Clone, Copy)]
pub(super) struct Place<'z, 'm> {
    pub(super) zone: &'z Zone<'m>,
    pub(super) first: FrameIdx,
    pub(super) end: FrameIdx,
}

impl<'m, P: PerCpu, O: Observer, C: Clear> Pageyard<'m, P, O, C> {
    /// Allocates exactly this range of one zone: takes its pageblocks out of allocation, empties the per-CPU lists, has
    /// `owner` move each single frame in use elsewhere, claims all frames, and takes the pageblocks back into
    /// allocation.
    ///
    /// The caller has live blocks, the fewest aligned ones that the range consists of, to be freed by
    /// [`free_range`](Pageyard::free_range) in any parts. Pageblocks keep their types; `migratetype` is what the
    /// observer is told. Watermarks do not apply to the range, but to the frames that its contents move to.
    /// [`NoHelp`](pageyard_core::reclaim::NoHelp) is an owner that moves nothing: then the range has to be free.
    ///
    /// # Errors
    /// [`ContigError`] says which frame was in the way. Nothing is allocated, and all pageblocks are in allocation as
    /// before; what was moved until then stays moved. A live block of several frames does not move.
    ///
    /// # Concurrency
    /// Lock-free. Other calls go on, and are served from other pageblocks. Two calls whose ranges have a pageblock in
    /// common exclude each other: one gets [`ContigError::Isolated`], and nothing waits for the other.
    /// [`ContigError::Busy`] can be temporary, where another thread holds a list or was about to allocate the frame.
    /// Under [`Exclusive::by_cpu`](crate::Exclusive::by_cpu) frames in the lists of other CPUs are busy: those drain
    /// their own.
    ///
    /// # Panics
    /// Where `owner` panics, the frames that it has not moved are put back, nothing is allocated, and the pageblocks
    /// are in allocation. Where the observer panics, the block that it was being told of and those before it are live
    /// and have no owner; the rest is free.
    ///
    /// # Linux
    /// `alloc_contig_range`. Differences: free frames are claimed under isolation instead of being taken off lists, and
    /// blocks of several frames are not migrated.
    pub fn alloc_contig_range<M: Migrate>(
        &self,
        cx: &Cx,
        first: Pfn,
        frames: Frames,
        migratetype: Migratetype,
        owner: &M,
    ) -> Result<(), ContigError> {
        let place = self.place(cx, FrameRange::new(first, frames))?;
        let isolated = Isolated::of(place)?;
        let claimed = self.empty_and_claim(cx, place, owner)?;
        self.hand_out_range(cx, claimed, migratetype);
        drop(isolated);
        Ok(())
    }

    /// Finds the zone of a range, all of whose frames are managed.
    pub(super) fn place(&self, cx: &Cx, range: FrameRange) -> Result<Place<'m, 'm>, ContigError> {
        let place = self.span_of(cx, range)?;
        let pageblocks = &place.zone.pageblocks;
        let mut frames = place.first.run(range.frames.0 as usize);
        match frames.find(|frame| !pageblocks.is_managed(*frame)) {
            Some(frame) => Err(ContigError::OutsideArena { at: pageblocks.pfn(frame) }),
            None => Ok(place),
        }
    }

    /// Finds the zone that spans a range.
    pub(super) fn span_of(&self, cx: &Cx, range: FrameRange) -> Result<Place<'m, 'm>, ContigError> {
        if !self.has_cpu(cx.cpu) {
            return Err(ContigError::NoSuchCpu);
        }
        let Some(end) = range.end().filter(|end| *end > range.first) else {
            return Err(ContigError::BadRange);
        };
        let outside = |at| ContigError::OutsideArena { at };
        let (zone, first) = self.zone_of(range.first).ok_or(outside(range.first))?;
        let zone_end = zone.pageblocks.span.end();
        if end > zone_end {
            return Err(outside(zone_end));
        }
        Ok(Place { zone, first, end: first.plus(range.frames.0 as usize) })
    }

    /// Moves what can be moved out of a range that is isolated, and claims all of it.
    pub(super) fn empty_and_claim<'z, M: Migrate>(
        &self,
        cx: &Cx,
        place: Place<'z, 'm>,
        owner: &M,
    ) -> Result<ClaimedRange<'z, 'm>, ContigError> {
        let Place { zone, first, end } = place;
        let pageblocks = &zone.pageblocks;
        let range = || pageblocks.pfn(first)..pageblocks.pfn(end);
        let mut stuck = ContigError::NoTarget;
        for _ in 0..PASSES {
            self.drain_reached(cx.cpu);
            // Before anything moves: a block that cannot move.
            let is_large = |frame: &FrameIdx| pageblocks.frames.tag(*frame).allocated() > Some(Order::ZERO);
            if let Some(frame) = first.run(end.get() - first.get()).find(is_large) {
                stuck = ContigError::Busy { at: pageblocks.pfn(frame) };
                continue;
            }
            let moved = evacuate(self, owner, cx, range(), Mode::Sync, |stock| self.stock_up(cx, stock));
            stuck = match moved {
                Err(Stuck::At(at)) => ContigError::Busy { at },
                Err(Stuck::NoTarget) => ContigError::NoTarget,
                Ok(_) => match ClaimedRange::claim(place) {
                    Ok(claimed) => return Ok(claimed),
                    Err(at) => ContigError::Busy { at: pageblocks.pfn(at) },
                },
            };
        }
        Err(stuck)
    }

    /// Adds free frames to a stock, as an allocation of movable frames would take them.
    fn stock_up(&self, cx: &Cx, stock: &mut FreeStock) {
        let request = Request::new(Order::ZERO, Migratetype::Movable);
        let room = (FreeStock::MOST - stock.len()) as u32;
        let want = Want { ty: Migratetype::Movable as u8, order: 0, blocks: room, cpu: cx.cpu };
        for zone in self.walk(cx.cpu, &request).filter(|zone| zone.passes(&request, Mark::Min)) {
            let (pageblocks, mut effort) = (&zone.pageblocks, SearchEffort::default());
            let stolen = |effort: &mut SearchEffort| pageblocks.steal(want, effort).map(|(got, _)| got);
            let Some(got) = pageblocks.claim(want, &mut effort).or_else(|| stolen(&mut effort)) else {
                continue;
            };
            self.add_free(zone, cx.cpu, got.claimed);
            let mut claimed = Claimed { pageblocks, block: got.block, left: got.masks };
            while !stock.is_full()
                && let Some(frame) = claimed.next()
            {
                let _fits = stock.push(self.hold(zone, frame));
            }
            return;
        }
    }

    /// Makes what was claimed live blocks of the caller.
    fn hand_out_range(&self, cx: &Cx, mut claimed: ClaimedRange<'_, 'm>, migratetype: Migratetype) {
        let Place { zone, first, end } = claimed.place;
        let frames = Frames((end.get() - first.get()) as u64);
        for block in blocks(zone.pageblocks.pfn(first), frames, Order::of(MAX_ORDER)) {
            let frame = claimed.place.first;
            claimed.place.first = frame.plus(block.order.frames().0 as usize);
            self.hand_out(zone, cx, frame, block.order, migratetype);
            if C::ACTIVE && self.config.init_on_alloc {
                self.clear_one(block.pfn, block.order, Caches::Cold);
            }
        }
    }
}

/// Pageblocks that this call has taken out of allocation. They go back where it is dropped.
pub(super) struct Isolated<'z, 'm> {
    pageblocks: &'z Pageblocks<'m>,
    first: BlockIdx,
    count: usize,
}

impl<'z, 'm> Isolated<'z, 'm> {
    /// Takes the pageblocks of a range out of allocation: all, or none where another call has taken one.
    pub(super) fn of(place: Place<'z, 'm>) -> Result<Isolated<'z, 'm>, ContigError> {
        let pageblocks = &place.zone.pageblocks;
        let mut isolated = Isolated { pageblocks, first: place.first.block(), count: 0 };
        for (frame, _) in by_pageblock(place.first, place.end) {
            if !pageblocks.isolate(frame.block()) {
                return Err(ContigError::Isolated { at: pageblocks.pfn(frame) });
            }
            isolated.count += 1;
        }
        Ok(isolated)
    }
}

impl Drop for Isolated<'_, '_> {
    fn drop(&mut self) {
        for block in self.first.run(self.count) {
            self.pageblocks.restore(block);
        }
    }
}

/// Frames that were claimed and have no tag. Those from `place.first` on go back where it is dropped.
pub(super) struct ClaimedRange<'z, 'm> {
    pub(super) place: Place<'z, 'm>,
}

impl<'z, 'm> ClaimedRange<'z, 'm> {
    /// Claims a range that is isolated.
    ///
    /// # Errors
    /// A frame that is not free, or the first in the pageblock of one that was not; nothing is claimed.
    fn claim(place: Place<'z, 'm>) -> Result<ClaimedRange<'z, 'm>, FrameIdx> {
        let pageblocks = &place.zone.pageblocks;
        let mut claimed = ClaimedRange { place: Place { end: place.first, ..place } };
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
