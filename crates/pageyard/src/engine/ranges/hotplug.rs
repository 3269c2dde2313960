//! Memory that goes offline and comes back, or is added later: whole pageblocks.

use crate::engine::map::descriptor::BlockState;
use crate::engine::pcp::percpu::PerCpu;
use crate::engine::yard::Pageyard;
use crate::engine::zone::isolated::{IsolatedRange, by_pageblock};
use pageyard_core::allocator::Cx;
use pageyard_core::clear::Clear;
use pageyard_core::compaction::Migrate;
use pageyard_core::memmap::{ZoneKind, ZoneSpan};
use pageyard_core::migratetype::Migratetype;
use pageyard_core::observer::Observer;
use pageyard_core::range::{ContigError, FrameRange};
use pageyard_core::units::{Frames, PAGEBLOCK_ORDER, Pfn};
use pageyard_core::watermark::{default_min_free_kbytes, watermarks};

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
        self.bring_online(cx, first, frames, false)
    }

    /// Brings pageblocks online for the first time, of which the memory map says that no frame is managed: memory that
    /// was added later, in a region of a zone that the map holds as not managed from the start.
    ///
    /// # Errors
    /// As [`online_range`](Pageyard::online_range), for pageblocks that are not such.
    ///
    /// # Safety
    /// The frames are memory, of the zone's kind and node, and nothing else uses it: from now on they are handed out.
    ///
    /// # Linux
    /// `add_memory`, and `online_pages`. Difference: the zone spans the region from the start, so its metadata is
    /// there.
    pub unsafe fn add_range(&self, cx: &Cx, first: Pfn, frames: Frames) -> Result<(), ContigError> {
        self.bring_online(cx, first, frames, true)
    }

    fn bring_online(&self, cx: &Cx, first: Pfn, frames: Frames, added: bool) -> Result<(), ContigError> {
        let place = self.span_of(cx, FrameRange::new(first, frames))?;
        check_whole(first, frames)?;
        let (zone, pageblocks) = (place.zone, &place.zone.pageblocks);
        let blocks = || by_pageblock(place.first, place.end).map(|(frame, _)| frame.block());
        let can = |state: BlockState| state.bring_online(added);
        if let Some(block) = blocks().find(|block| can(pageblocks.frames.state(*block)).is_none()) {
            return Err(ContigError::Busy { at: pageblocks.pfn(block.first_frame()) });
        }
        let mut brought = Ok(());
        for block in blocks() {
            // Managed before it can be allocated.
            zone.online.change(PAGEBLOCK_ORDER.frames(), true);
            if !pageblocks.transit(block, can) {
                zone.online.change(PAGEBLOCK_ORDER.frames(), false);
                brought = Err(ContigError::Busy { at: pageblocks.pfn(block.first_frame()) });
                break;
            }
        }
        self.settle_watermarks();
        brought
    }

    /// Computes all watermarks anew from what is online.
    ///
    /// # Linux
    /// `init_per_zone_wmark_min`.
    pub(crate) fn settle_watermarks(&self) {
        let mut change = self.main.online.count_change();
        loop {
            let span = |z: usize| {
                let zone = &self.zones[z];
                ZoneSpan { managed: zone.online.managed(), ..zone.pageblocks.span }
            };
            let lowmem = (0..self.zones.len()).map(span).filter(|z| z.kind <= ZoneKind::Normal);
            let lowmem = lowmem.map(|z| z.managed).sum();
            let spans: [_; pageyard_core::memmap::MAX_ZONES] =
                core::array::from_fn(|z| (z < self.zones.len()).then(|| span(z)));
            let knobs = &self.config.watermark;
            let kib = knobs.min_free_kbytes.unwrap_or_else(|| {
                default_min_free_kbytes(spans.iter().flatten(), knobs.transparent_hugepage)
            });
            for (zone, span) in self.zones.iter().zip(spans.iter().flatten()) {
                zone.online.set_marks(watermarks(span, lowmem, kib, knobs.watermark_scale_factor));
            }
            // Of two calls, the one that comes second here has seen the other's change, and stores last.
            let now = self.main.online.changes();
            if now == change {
                return;
            }
            change = now;
        }
    }
}

fn check_whole(first: Pfn, frames: Frames) -> Result<(), ContigError> {
    let whole = first.is_aligned(PAGEBLOCK_ORDER) && (first + frames).is_aligned(PAGEBLOCK_ORDER);
    if whole { Ok(()) } else { Err(ContigError::Misaligned) }
}
