//! A range by its frame numbers: emptied, claimed, handed out.

use crate::engine::evacuate::{Evacuation, Stuck, Supply};
use crate::engine::geometry::{FrameIdx, LARGEST};
use crate::engine::held::{HeldBlock, Stock};
use crate::engine::map::tree::SearchEffort;
use crate::engine::pcp::percpu::PerCpu;
use crate::engine::yard::Pageyard;
use crate::engine::zone::Zone;
use crate::engine::zone::isolated::{ClaimedRange, IsolatedRange, ZoneRange};
use crate::engine::zone::marks::Mark;
use crate::engine::zone::pageblocks::{Got, Want};
use pageyard_core::allocator::Cx;
use pageyard_core::block::blocks;
use pageyard_core::clear::{Caches, Clear};
use pageyard_core::compaction::{Migrate, Mode};
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

impl<'m, P: PerCpu, O: Observer, C: Clear> Pageyard<'m, P, O, C> {
    /// Allocates exactly this range of one zone: takes its pageblocks out of allocation, empties the per-CPU lists, has
    /// `owner` move used frames elsewhere, claims all frames, and takes the pageblocks back into allocation.
    ///
    /// The caller has live blocks, the fewest aligned ones that the range consists of, to be freed by
    /// [`free_range`](Pageyard::free_range) in any parts. Pageblocks keep their types; `migratetype` is what the
    /// observer is told. Watermarks do not apply to the range, but to the frames that its contents move to.
    /// [`NoHelp`](pageyard_core::reclaim::NoHelp) is an owner that moves nothing: then the range has to be free.
    ///
    /// # Errors
    /// [`ContigError`] says which frame was in the way. Nothing is allocated, and all pageblocks are in allocation as
    /// before; what was moved until then stays moved. A live block of several frames moves if the range contains it
    /// entirely and its owner [moves blocks](Migrate::MOVES_BLOCKS).
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
    /// `alloc_contig_range`. Difference: free frames are claimed under isolation instead of being taken off lists.
    pub fn alloc_contig_range<M: Migrate>(
        &self,
        cx: &Cx,
        first: Pfn,
        frames: Frames,
        migratetype: Migratetype,
        owner: &M,
    ) -> Result<(), ContigError> {
        let place = self.place(cx, FrameRange::new(first, frames))?;
        let isolated = IsolatedRange::of(place)?;
        let claimed = self.empty_and_claim(cx, place, owner)?;
        self.hand_out_range(cx, claimed, migratetype);
        drop(isolated);
        Ok(())
    }

    /// Finds the zone of a range, all of whose frames are managed.
    pub(super) fn place(&self, cx: &Cx, range: FrameRange) -> Result<ZoneRange<'m, 'm>, ContigError> {
        let place = self.span_of(cx, range)?;
        let pageblocks = &place.zone.pageblocks;
        let mut frames = place.first.run(range.frames.0 as usize);
        match frames.find(|frame| !pageblocks.is_managed(*frame)) {
            Some(frame) => Err(ContigError::OutsideArena { at: pageblocks.pfn(frame) }),
            None => Ok(place),
        }
    }

    /// Finds the zone that spans a range.
    pub(super) fn span_of(&self, cx: &Cx, range: FrameRange) -> Result<ZoneRange<'m, 'm>, ContigError> {
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
        Ok(ZoneRange { zone, first, end: first.plus(range.frames.0 as usize) })
    }

    /// Moves what can be moved out of a range that is isolated, and claims all of it.
    pub(super) fn empty_and_claim<'z, M: Migrate>(
        &self,
        cx: &Cx,
        place: ZoneRange<'z, 'm>,
        owner: &M,
    ) -> Result<ClaimedRange<'z, 'm>, ContigError> {
        let ZoneRange { zone, first, end } = place;
        let pageblocks = &zone.pageblocks;
        let range = || pageblocks.pfn(first)..pageblocks.pfn(end);
        let mut stuck = ContigError::NoTarget;
        for _ in 0..PASSES {
            self.drain_reached(cx.cpu);
            // Before anything moves: a block that cannot move.
            let is_large = |frame: &FrameIdx| pageblocks.frames.tag(*frame).allocated() > Some(Order::ZERO);
            let large = first.run(end.get() - first.get()).find(is_large);
            let mut evacuation = Evacuation::new(self, owner, Mode::Sync, false);
            let cannot_move = match large {
                Some(_) if M::MOVES_BLOCKS => evacuation.probe(range()).err(),
                Some(frame) => Some(Stuck::At(pageblocks.pfn(frame))),
                None => None,
            };
            if let Some(Stuck::At(at)) = cannot_move {
                stuck = ContigError::Busy { at };
                continue;
            }
            stuck = match evacuation.run(range(), &mut AnyZone { yard: self, cx }) {
                Err(Stuck::At(at)) => ContigError::Busy { at },
                Err(Stuck::NoTarget | Stuck::Contended) => ContigError::NoTarget,
                Ok(()) => match ClaimedRange::claim(place) {
                    Ok(claimed) => return Ok(claimed),
                    Err(at) => ContigError::Busy { at: pageblocks.pfn(at) },
                },
            };
        }
        Err(stuck)
    }

    /// Makes what was claimed live blocks of the caller.
    fn hand_out_range(&self, cx: &Cx, mut claimed: ClaimedRange<'_, 'm>, migratetype: Migratetype) {
        let ZoneRange { zone, first, end } = claimed.place;
        let frames = Frames((end.get() - first.get()) as u64);
        for block in blocks(zone.pageblocks.pfn(first), frames, LARGEST) {
            let frame = claimed.place.first;
            claimed.place.first = frame.plus(block.order.frames().0 as usize);
            self.hand_out(zone, cx, frame, block.order, migratetype);
            if C::ACTIVE && self.config.init_on_alloc {
                self.clear_one(block.pfn, block.order, Caches::Cold);
            }
        }
    }
}

/// Free frames as an allocation of movable frames would take them: from any zone.
struct AnyZone<'y, 'm, P: PerCpu, O: Observer, C: Clear> {
    yard: &'y Pageyard<'m, P, O, C>,
    cx: &'y Cx,
}

impl<'y, 'm, P: PerCpu, O: Observer, C: Clear> AnyZone<'y, 'm, P, O, C> {
    fn claim(&self, order: Order, most: usize) -> Option<(&'y Zone<'m>, Got)> {
        let request = Request::new(order, Migratetype::Movable);
        let (yard, cpu) = (self.yard, self.cx.cpu);
        let want = Want { ty: Migratetype::Movable, order, blocks: most as u32, cpu };
        for zone in yard.walk(cpu, &request).filter(|zone| zone.passes(&request, Mark::Min)) {
            let (pageblocks, mut effort) = (&zone.pageblocks, SearchEffort::default());
            let stolen = |effort: &mut SearchEffort| pageblocks.steal(want, effort).map(|(got, _)| got);
            if let Some(got) = pageblocks.claim(want, &mut effort).or_else(|| stolen(&mut effort)) {
                yard.add_free(zone, cpu, got.claimed);
                return Some((zone, got));
            }
        }
        None
    }
}

impl<'y, 'm, P: PerCpu, O: Observer, C: Clear> Supply<'y, 'm, P, O, C> for AnyZone<'y, 'm, P, O, C> {
    fn refill(&mut self, stock: &mut Stock<'y, 'm, P, O, C>, _: usize) {
        if let Some((zone, got)) = self.claim(Order::ZERO, stock.room()) {
            stock.add(zone, got.block, &got.masks);
        }
    }

    fn block(&mut self, order: Order) -> Option<HeldBlock<'y, 'm, P, O, C>> {
        let (zone, got) = self.claim(order, 1)?;
        HeldBlock::new(self.yard, zone, got.block, &got.masks, order)
    }
}
