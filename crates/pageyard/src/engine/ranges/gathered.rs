//! Blocks whose tags were won, on their way back.

use crate::engine::geometry::{BATCH, BLOCK_ORDER, BlockIdx, FrameIdx, PAGEBLOCK, WORDS};
use crate::engine::map::frame_map::Masks;
use crate::engine::map::stretch::masks_of_stretch;
use crate::engine::pcp::percpu::PerCpu;
use crate::engine::pcp::tuning::MOST_WHOLES;
use crate::engine::yard::Pageyard;
use crate::engine::zone::Zone;
use crate::engine::zone::current::By;
use pageyard_core::clear::Clear;
use pageyard_core::observer::Observer;
use pageyard_core::stats::Counter;
use pageyard_core::units::{CpuId, Order};

/// Blocks up to which each is pushed by itself: pushing several at a time has a fixed part.
const FEW: usize = 2;
/// Pageblocks up to which they go into a list: it holds few, and gives them to the zone as this would.
const FEW_WHOLES: usize = MOST_WHOLES / 4;

/// Where blocks go whose tags were won: up to [`BATCH`] that follow each other into the CPU's list, as `free_bulk` puts
/// them there; more, and those that no list takes, to the zone with all others of their pageblock, in one transition of
/// its descriptor.
///
/// Frames that wait for that are here. They go to the zone when it is dropped.
pub(super) struct Gathered<'a, 'm, P: PerCpu, O: Observer, C: Clear> {
    yard: &'a Pageyard<'m, P, O, C>,
    zone: &'a Zone<'m>,
    cpu: CpuId,
    block: BlockIdx,
    /// Frames of that pageblock, and how many.
    masks: Masks,
    frames: u32,
}

impl<'a, 'm, P: PerCpu, O: Observer, C: Clear> Gathered<'a, 'm, P, O, C> {
    pub(super) fn new(yard: &'a Pageyard<'m, P, O, C>, zone: &'a Zone<'m>, cpu: CpuId) -> Self {
        Gathered { yard, zone, cpu, block: BlockIdx::new(0), masks: [0; WORDS], frames: 0 }
    }

    /// Takes `n` blocks of one order that follow each other, and, below a pageblock's order, are of one pageblock.
    pub(super) fn add(&mut self, first: FrameIdx, n: usize, order: Order) {
        if order >= PAGEBLOCK {
            return self.add_wholes(first, n, order);
        }
        if first.block() != self.block {
            self.give();
            self.block = first.block();
        }
        if self.frames == 0 && n <= BATCH && self.push(first, n, order) {
            return;
        }
        let frames = (n << order.get()) as u32;
        let masks = masks_of_stretch(first.offset(), frames);
        self.masks.iter_mut().zip(masks).for_each(|(all, mask)| *all |= mask);
        self.frames += frames;
    }

    /// Puts blocks of one pageblock into their list, if there is one.
    fn push(&self, first: FrameIdx, n: usize, order: Order) -> bool {
        let (zone, pageblocks) = (self.zone, &self.zone.pageblocks);
        if n <= FEW && zone.has_list(order) {
            for at in 0..n {
                self.yard.free_won(zone, self.cpu, first.plus(at << order.get()), order);
            }
            return true;
        }
        // Before the descriptor: a push of several asks whether a pageblock was isolated since.
        let watch = pageblocks.watch_isolations();
        let code = pageblocks.frames.state(first.block()).list_code();
        let Some(list) = zone.list(order, code) else { return false };
        let mut items = [0; BATCH];
        for (at, item) in items[..n].iter_mut().enumerate() {
            *item = first.plus(at << order.get()).item();
        }
        self.yard.push_won(zone, self.cpu, list, order, &items[..n], watch);
        true
    }

    /// Takes pageblocks, or runs of them: a few through their list, others with one write of the index and the counts
    /// for as many as lie in one word of it.
    #[cold]
    fn add_wholes(&self, first: FrameIdx, n: usize, order: Order) {
        let (zone, blocks) = (self.zone, n << (order.get() - BLOCK_ORDER));
        if order == PAGEBLOCK && n <= FEW_WHOLES {
            // One by one: each is of a type of its own, and may be isolated.
            for block in first.block().run(n) {
                self.yard.free_won(zone, self.cpu, block.first_frame(), order);
            }
            return;
        }
        self.yard.count(self.cpu, Counter::Pgfree, (blocks << BLOCK_ORDER) as u64);
        let mut items = [0; MOST_WHOLES];
        let mut run = first.block().run(blocks);
        loop {
            let mut len = 0;
            for (item, block) in items.iter_mut().zip(&mut run) {
                *item = block.first_frame().item();
                len += 1;
            }
            self.yard.add_free(zone, self.cpu, zone.pageblocks.release_wholes(&items[..len]));
            if len < MOST_WHOLES {
                return;
            }
        }
    }

    /// Gives what waits to the zone.
    fn give(&mut self) {
        let frames = core::mem::take(&mut self.frames);
        if frames > 0 {
            let masks = core::mem::replace(&mut self.masks, [0; WORDS]);
            self.yard.count(self.cpu, Counter::Pgfree, frames.into());
            let released = self.zone.pageblocks.release(self.block, frames, &masks, false, By::NONE);
            self.yard.add_free(self.zone, self.cpu, released.freed);
        }
    }
}

impl<P: PerCpu, O: Observer, C: Clear> Drop for Gathered<'_, '_, P, O, C> {
    fn drop(&mut self) {
        self.give();
    }
}
