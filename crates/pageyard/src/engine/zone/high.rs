//! Blocks above a pageblock's order: aligned runs of whole pageblocks; and sweeps, which trust no index.

use super::pageblocks::{Got, Pageblocks, Take, Want};
use crate::engine::geometry::{BLOCK_ORDER, BlockIdx, LARGEST};
use crate::engine::map::descriptor::BlockState;
use crate::engine::map::tag::Tag;
use crate::engine::map::tree::SearchEffort;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::units::{CpuId, Order};
use pageyard_sync::Relaxed;

/// Times that a claim follows the index to a run that turns out to be broken, before a sweep.
const RUN_TRIES: usize = 16;

impl Pageblocks<'_> {
    /// Claims a block of an order above a pageblock's for a type; returns its first pageblock.
    pub(crate) fn claim_run(
        &self,
        order: Order,
        ty: Migratetype,
        cpu: CpuId,
        effort: &mut SearchEffort,
    ) -> Option<BlockIdx> {
        if order > LARGEST {
            return None;
        }
        let start = cpu.index() << (order.get() - BLOCK_ORDER);
        let start = BlockIdx::new(start % self.frames.len());
        for _ in 0..RUN_TRIES {
            let Some(first) = self.index.find_run(order, start, effort) else {
                if self.let_go_of_emptied() {
                    continue;
                }
                return None;
            };
            effort.step();
            if self.claim_run_at(first, order, ty, false) {
                return Some(first);
            }
            // One of them is not whole any more, and the thread that took of it may have stopped before it said so.
            let run =
                first.run(1 << (order.get() - BLOCK_ORDER)).filter(|block| block.get() < self.frames.len());
            run.for_each(|block| self.index.settle_broken(&self.frames, block));
        }
        None
    }

    /// Claims the pageblocks of one aligned run in ascending order; where one of them is not whole, gives back exactly
    /// those before it.
    ///
    /// Until all are claimed each is a pageblock allocated as a whole that no tag names. A thread that dies in between
    /// therefore leaves nothing that a recount from the tags would not find.
    pub(crate) fn claim_run_at(&self, first: BlockIdx, order: Order, to: Migratetype, exact: bool) -> bool {
        let blocks = 1 << (order.get() - BLOCK_ORDER);
        if first.get() + blocks > self.frames.len() {
            return false;
        }
        // An exact claim takes what it is told to; others do not break up what is reserved.
        let claim = |s: BlockState| if exact || s.has_requested_type() { s.claim_whole() } else { None };
        let mut zero = true;
        for block in first.run(blocks) {
            let Some(change) = self.frames.update(block, claim) else {
                for mine in first.run(block.get() - first.get()) {
                    self.frames.set_tag(mine.first_frame(), Tag::Free);
                    self.free.add(self.release_whole(mine, false));
                }
                return false;
            };
            self.changed(block, change);
            self.settle_whole_zero(block, change.old);
            zero &= self.frames.tag(block.first_frame()) == Tag::FreeZero;
            if block > first {
                self.frames.set_tag(block.first_frame(), Tag::Free);
            }
        }
        if !zero {
            self.frames.set_tag(first.first_frame(), Tag::Free);
        }
        for block in first.run(blocks) {
            self.convert_owned(block, to);
        }
        true
    }

    /// Changes the type of a pageblock that is claimed as a whole, or isolated, unless it belongs to a contiguous area.
    pub(crate) fn convert_owned(&self, block: BlockIdx, to: Migratetype) {
        let from = self.frames.state(block).migratetype();
        if from == Migratetype::Cma {
            return;
        }
        if self.set_type(block, from, to) && from == Migratetype::HighAtomic {
            // ORDER: Relaxed: a count orders nothing.
            self.highatomic_blocks().fetch_add(u64::MAX, Relaxed);
        }
    }

    /// Looks at every descriptor for something that fits, of the types in `types`, and claims it.
    #[cold]
    pub(crate) fn sweep(&self, want: Want, types: &[Migratetype], effort: &mut SearchEffort) -> Option<Got> {
        for ty in types {
            let how = if *ty == want.ty { Take::Same } else { Take::Borrow { from: *ty } };
            for block in self.frames.all() {
                effort.step();
                let s = self.frames.state(block);
                if s.has_type(*ty)
                    && s.serves(want.order)
                    && let Some(got) = self.claim_of(block, want, how, false)
                {
                    return Some(got);
                }
            }
        }
        None
    }

    /// Looks at every aligned run of whole pageblocks, and claims one.
    #[cold]
    pub(crate) fn sweep_runs(&self, order: Order, ty: Migratetype) -> Option<BlockIdx> {
        let first = self.runs_of(order).find(|first| self.claim_run_at(*first, order, ty, false))?;
        Some(first)
    }

    /// Iterates over the first pageblocks of the aligned runs that look whole.
    fn runs_of(&self, order: Order) -> impl Iterator<Item = BlockIdx> {
        let blocks = 1usize << (order.get() - BLOCK_ORDER);
        let first = self.index.first_run(order);
        (first.get()..self.frames.len()).step_by(blocks).map(BlockIdx::new).filter(move |first| {
            first.get() + blocks <= self.frames.len()
                && first.run(blocks).all(|b| {
                    let s = self.frames.state(b);
                    s.has_requested_type() && s.claim_whole().is_some()
                })
        })
    }
}
