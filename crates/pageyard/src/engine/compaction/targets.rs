//! Where compaction moves frames to.

use super::lease::{Lease, Role};
use crate::engine::evacuate::Supply;
use crate::engine::geometry::BlockIdx;
use crate::engine::held::{HeldBlock, Stock};
use crate::engine::pcp::percpu::PerCpu;
use crate::engine::yard::Pageyard;
use crate::engine::zone::Zone;
use crate::engine::zone::choose::{Plan, TRIES};
use crate::engine::zone::hints::Cursor;
use crate::engine::zone::pageblocks::{Got, Take, Want};
use core::ops::Range;
use pageyard_core::allocator::Cx;
use pageyard_core::clear::Clear;
use pageyard_core::compaction::{Migrate, Mode};
use pageyard_core::observer::Observer;
use pageyard_core::units::{Order, PageblockId};

/// How often a compaction waits before it isolates a cluster, where too many frames are isolated. Linux waits for ever.
const MOST_WAITS: u32 = 1024;

/// Free frames of one zone, from the pageblocks that are best filled. The pageblock that the frames in stock came from
/// is leased until they are used up.
pub(super) struct Targets<'y, 'm, P: PerCpu, O: Observer, C: Clear, M> {
    pub(super) yard: &'y Pageyard<'m, P, O, C>,
    pub(super) zone: &'y Zone<'m>,
    pub(super) owner: &'y M,
    pub(super) cx: Cx,
    pub(super) plan: Plan,
    /// The pageblocks that are being emptied.
    pub(super) emptied: Range<BlockIdx>,
    pub(super) lease: Option<Lease<'y, 'm, P, O, C>>,
    /// Frames that were taken.
    pub(super) taken: u64,
}

impl<'y, 'm, P: PerCpu, O: Observer, C: Clear, M> Targets<'y, 'm, P, O, C, M> {
    /// Returns whether frames of a pageblock may be in stock.
    pub(super) fn fills(&self, block: PageblockId) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.block == block)
    }

    /// Claims up to `most` free blocks of one pageblock, which is leased from then on; the stock is empty.
    fn claim(&mut self, order: Order, most: usize) -> Option<Got> {
        self.lease = None;
        let pageblocks = &self.zone.pageblocks;
        let spare = pageblocks.free().saturating_sub(self.zone.online.low().0.saturating_add(1));
        let blocks = (spare >> order.get()).min(most as u64) as u32;
        if blocks == 0 {
            return None;
        }
        for _ in 0..TRIES {
            let next = |step| self.zone.choices.next(Cursor::Target, pageblocks.frames.len(), step);
            let block = pageblocks.choose_target(order, &self.emptied, next)?;
            let id = pageblocks.pfn(block.first_frame()).pageblock();
            // If another compactor has got it meanwhile, another pageblock is chosen.
            let Some(lease) = Lease::of(self.yard, id, Role::Target, self.plan.by) else { continue };
            let ty = pageblocks.frames.state(block).migratetype();
            let claim = Want { ty, order, blocks, cpu: self.cx.cpu };
            let Some(got) = pageblocks.claim_of(block, claim, Take::Same, false) else { continue };
            pageblocks.free.add(got.claimed);
            self.lease = Some(lease);
            return Some(got);
        }
        None
    }
}

impl<'y, 'm, P: PerCpu, O: Observer, C: Clear, M: Migrate> Supply<'y, 'm, P, O, C>
    for Targets<'y, 'm, P, O, C, M>
{
    fn refill(&mut self, stock: &mut Stock<'y, 'm, P, O, C>, want: usize) {
        let room = stock.room();
        if let Some(got) = self.claim(Order::ZERO, want.min(room)) {
            stock.add(self.zone, got.block, &got.masks);
            self.taken += (room - stock.room()) as u64;
        }
    }

    fn block(&mut self, order: Order) -> Option<HeldBlock<'y, 'm, P, O, C>> {
        let got = self.claim(order, 1)?;
        self.taken += order.frames().0;
        HeldBlock::new(self.yard, self.zone, got.block, &got.masks, order)
    }

    /// # Linux
    /// The beginning of `isolate_migratepages_block`: `too_many_isolated`, and `compact_should_abort` until 5.0.
    fn goes_on(&self) -> bool {
        let waits = self.plan.mode != Mode::Async;
        let is_too_much = || {
            let listed = self.owner.listed(self.zone.pageblocks.id);
            listed.is_some_and(|l| l.isolated.0 > l.listed.0 / 2)
        };
        let mut left = MOST_WAITS;
        while is_too_much() {
            if !waits || left == 0 || !self.owner.wait_for_isolated() {
                return false;
            }
            left -= 1;
        }
        waits || !self.owner.must_yield()
    }
}
