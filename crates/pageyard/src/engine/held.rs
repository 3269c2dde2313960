//! Frames that the engine holds for itself while it moves others: no caller knows of them. No step here is new to the
//! protocol: they are claimed and released as in any call, and are allocated blocks meanwhile.

use super::geometry::{BlockIdx, LARGEST, WORD_ORDER};
use super::map::frame_map::{Masks, for_each_down};
use super::map::tag::Tag;
use super::pcp::percpu::PerCpu;
use super::words::runs;
use super::yard::Pageyard;
use super::zone::Zone;
use super::zone::current::By;
use pageyard_core::block::holders;
use pageyard_core::clear::Clear;
use pageyard_core::compaction::{CLUSTER, FrameState};
use pageyard_core::observer::Observer;
use pageyard_core::units::{BlockId, Order, Pfn};

impl<P: PerCpu, O: Observer, C: Clear> Pageyard<'_, P, O, C> {
    /// [`Internals::frame`](super::internals::Internals::frame).
    pub(crate) fn frame(&self, pfn: Pfn) -> FrameState {
        let Some((zone, frame)) = self.zone_of(pfn) else { return FrameState::Hole };
        let pageblocks = &zone.pageblocks;
        let s = pageblocks.frames.state(frame.block());
        if s.is_hole() {
            return FrameState::Hole;
        }
        let free = pageblocks.frames.free_bits(frame.block(), frame.word());
        let bit = frame.bit();
        if !s.is_huge() && free >> bit & 1 != 0 {
            let most = WORD_ORDER.min(bit.trailing_zeros().min(u32::from(WORD_ORDER)) as u8);
            let order = (0..=most).rev().find(|k| runs(free, *k) >> bit & 1 != 0).unwrap_or(0);
            return FrameState::Free(Order::of(order));
        }
        match pageblocks.frames.tag(frame) {
            Tag::Allocated(order) | Tag::AllocatedZero(order) => FrameState::Allocated(order),
            Tag::Hole => FrameState::Hole,
            Tag::Splitting => FrameState::Tail,
            Tag::Free | Tag::FreeZero => {
                let inside = holders(pfn, LARGEST).skip(1).any(|b| {
                    let head = pageblocks.frame_of(b.pfn).map(|head| pageblocks.frames.tag(head));
                    head.and_then(Tag::allocated).is_some_and(|order| order >= b.order)
                });
                if inside { FrameState::Tail } else { FrameState::Cached }
            }
        }
    }

    /// Returns a block of less than a pageblock to its zone, past the lists, unless a wrong free has taken it.
    ///
    /// Neither this nor the claim of a target is counted as a free or an allocation.
    ///
    /// # Linux
    /// Difference: there the free of a moved frame counts, in `pgfree`, and the target's allocation does not.
    pub(super) fn give_back(&self, block: BlockId) {
        let Some((zone, frame)) = self.zone_of(block.pfn) else { return };
        if self.win_block(&zone.pageblocks, frame, block.order, Tag::Free).is_ok() {
            zone.pageblocks.free.add(zone.pageblocks.release_block(frame, block.order, false, By::NONE));
        }
    }
}

/// Free frames to move others to. Those that were not used go back.
pub(crate) struct Stock<'y, 'm, P: PerCpu, O: Observer, C: Clear> {
    yard: &'y Pageyard<'m, P, O, C>,
    frames: [Pfn; CLUSTER],
    len: usize,
}

impl<'y, 'm, P: PerCpu, O: Observer, C: Clear> Stock<'y, 'm, P, O, C> {
    pub(super) fn new(yard: &'y Pageyard<'m, P, O, C>) -> Self {
        Stock { yard, frames: [Pfn(0); CLUSTER], len: 0 }
    }

    /// Adds frames of a pageblock that were just claimed: no more than fit, or the rest goes back.
    pub(super) fn add(&mut self, zone: &Zone<'_>, block: BlockIdx, masks: &Masks) {
        for_each_down(masks, Order::ZERO, |offset| {
            let frame = block.frame(offset);
            zone.pageblocks.frames.allocate_tag(frame, Order::ZERO);
            let pfn = zone.pageblocks.pfn(frame);
            match self.frames.get_mut(self.len) {
                Some(place) => (*place, self.len) = (pfn, self.len + 1),
                None => self.yard.give_back(single(pfn)),
            }
        });
    }

    /// Returns how many more frames fit.
    pub(super) fn room(&self) -> usize {
        CLUSTER - self.len
    }

    /// Returns the frame that is used next, which stays here until it is [taken](Self::take).
    pub(super) fn next(&self) -> Option<Pfn> {
        self.frames[..self.len].last().copied()
    }

    /// Takes it out: it has an owner now.
    pub(super) fn take(&mut self) {
        self.len = self.len.saturating_sub(1);
    }

    /// Gives all of them back.
    pub(super) fn release(&mut self) {
        while let Some(pfn) = self.next() {
            self.take();
            self.yard.give_back(single(pfn));
        }
    }
}

impl<P: PerCpu, O: Observer, C: Clear> Drop for Stock<'_, '_, P, O, C> {
    fn drop(&mut self) {
        self.release();
    }
}

fn single(pfn: Pfn) -> BlockId {
    BlockId { pfn, order: Order::ZERO }
}

/// A free block of several frames to move another to. If it is not used, it goes back.
pub(crate) struct HeldBlock<'y, 'm, P: PerCpu, O: Observer, C: Clear> {
    yard: &'y Pageyard<'m, P, O, C>,
    block: BlockId,
}

impl<'y, 'm, P: PerCpu, O: Observer, C: Clear> HeldBlock<'y, 'm, P, O, C> {
    /// Makes one of what was just claimed of a pageblock: one block of `order`.
    pub(super) fn new(
        yard: &'y Pageyard<'m, P, O, C>,
        zone: &Zone<'_>,
        block: BlockIdx,
        masks: &Masks,
        order: Order,
    ) -> Option<Self> {
        let mut held = None;
        for_each_down(masks, order, |offset| {
            let frame = block.frame(offset);
            zone.pageblocks.frames.allocate_tag(frame, order);
            held = Some(HeldBlock { yard, block: BlockId { pfn: zone.pageblocks.pfn(frame), order } });
        });
        held
    }

    /// Returns its first frame.
    pub(super) fn first(&self) -> Pfn {
        self.block.pfn
    }

    /// Gives it to its new owner.
    pub(super) fn take(self) {
        core::mem::forget(self);
    }
}

impl<P: PerCpu, O: Observer, C: Clear> Drop for HeldBlock<'_, '_, P, O, C> {
    fn drop(&mut self) {
        self.yard.give_back(self.block);
    }
}

#[cfg(all(test, not(any(pageyard_loom, pageyard_shuttle))))]
mod tests {
    use super::*;
    use crate::engine::config::Config;
    use crate::engine::geometry::FrameIdx;
    use crate::engine::pcp::percpu::TryLock;
    use crate::engine::zone::pageblocks::{Take, Want};
    use pageyard_core::allocator::Cx;
    use pageyard_core::memmap::{MemoryMap, Region, ZoneKind};
    use pageyard_core::migratetype::Migratetype;
    use pageyard_core::request::Request;
    use pageyard_core::units::{CpuId, Frames, NodeId};
    use pageyard_core::watermark::WatermarkKnobs;
    use pageyard_sync::Metadata;

    const CX: Cx = Cx::on(CpuId(0));
    const MOVABLE: Migratetype = Migratetype::Movable;

    type Yard<'m> = Pageyard<'m, TryLock>;

    /// Runs a test on one pageblock of zeros but for its first frame, which is in use.
    fn with_zeros(test: impl FnOnce(&Yard<'_>)) {
        let regions = [Region::managed(Pfn(0), Frames(512), NodeId(0), ZoneKind::Normal)];
        let watermark = WatermarkKnobs { min_free_kbytes: Some(0), ..WatermarkKnobs::default() };
        let config = Config { watermark, pcp: false, ..Config::new(1) };
        let (map, mut memory) = (MemoryMap::new(&regions).unwrap(), [0u8; 1 << 16]);
        let yard = Pageyard::new(&map, config, TryLock, Metadata::zeroed(&mut memory)).unwrap();
        let all = yard.alloc(&CX, &Request::new(Order::of(9), MOVABLE)).unwrap();
        yard.free_zeroed(&CX, all, Order::of(9)).unwrap();
        assert!(claim(&yard, 0, Order::ZERO));
        test(&yard);
        yard.audit().unwrap();
    }

    /// Claims a block by its number and returns whether the engine calls it zeros.
    fn claim(yard: &Yard<'_>, pfn: u64, order: Order) -> bool {
        yard.claim_exact(&CX, Pfn(pfn), order, MOVABLE).unwrap();
        yard.was_zeroed(Pfn(pfn))
    }

    #[test]
    fn frames_that_were_in_stock_and_went_back_are_not_the_head_of_a_block_of_zeros() {
        with_zeros(|yard| {
            let free = |pfn, order| yard.free(&CX, Pfn(pfn), Order::of(order)).unwrap();
            // Four are claimed for compaction, which uses none.
            let (pageblocks, block) = (&yard.main.pageblocks, FrameIdx::new(0).block());
            let want = Want { ty: MOVABLE, order: Order::ZERO, blocks: 4, cpu: CpuId(0) };
            let got = pageblocks.claim_of(block, want, Take::Same, false).unwrap();
            pageblocks.free.add(got.claimed);
            let mut stock = Stock::new(yard);
            stock.add(yard.main, block, &got.masks);
            assert_eq!((stock.next(), stock.room()), (Some(Pfn(1)), CLUSTER - 4));
            drop(stock);
            yard.audit().unwrap();

            // Its owner writes to frame 3, and frees it.
            claim(yard, 3, Order::ZERO);
            free(3, 0);
            // Now it is the second frame of a block whose first one is clean.
            assert!(!claim(yard, 2, Order::of(1)), "frame 3 was written to");
            free(2, 1);
            // And nothing of this block, which was written to as a whole, is clean any more.
            assert!(
                !claim(yard, 2, Order::ZERO) && !claim(yard, 3, Order::ZERO),
                "frames 2 and 3 were written to"
            );
        });
    }

    #[test]
    fn a_frame_whose_contents_have_moved_is_not_known_to_be_zeros() {
        with_zeros(|yard| {
            assert!(claim(yard, 5, Order::ZERO));
            // Its owner writes to it, and compaction moves what it holds.
            yard.give_back(single(Pfn(5)));
            assert!(!claim(yard, 5, Order::ZERO), "frame 5 was written to");
        });
    }
}
