//! Whole pageblocks, claimed and released several at a time: each takes one transition of its descriptor, and the
//! counts and the index are written once for those of one index word.

use super::pageblocks::Pageblocks;
use crate::engine::geometry::{BlockIdx, FrameIdx, PAGEBLOCK};
use crate::engine::map::count::FrameDelta;
use crate::engine::map::descriptor::BlockState;
use crate::engine::map::index::Bins;
use crate::engine::map::tree::SearchEffort;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::units::CpuId;

impl Pageblocks<'_> {
    /// Claims up to `out.len()` pageblocks of type `ty` as wholes, which lie in one word of the index, so that the
    /// counts and the index are written once; returns how many, and what to add to the count of free frames.
    pub(crate) fn claim_wholes(
        &self,
        ty: Migratetype,
        cpu: CpuId,
        out: &mut [u32],
        effort: &mut SearchEffort,
    ) -> (usize, FrameDelta) {
        let start = self.start_of(cpu);
        let Some((found, bin)) = self.index.find(ty, Bins::fitting(PAGEBLOCK), start, effort) else {
            return (0, FrameDelta::ZERO);
        };
        if !bin.is_whole() {
            return (0, FrameDelta::ZERO);
        }
        let (mut n, mut claimed, mut settle) = (0, FrameDelta::ZERO, 0);
        for block in self.index.wholes(ty, found) {
            if n == out.len() {
                break;
            }
            effort.step();
            // Taken or not, the index is now wrong about it.
            settle |= self.index.word_of(block).1;
            let claim = |s: BlockState| if s.has_type(ty) { s.claim_whole() } else { None };
            let Some(change) = self.frames.update(block, claim) else { continue };
            claimed += self.count_change(change);
            self.settle_whole_zero(block, change.old);
            out[n] = block.first_frame().item();
            n += 1;
        }
        self.index.settle_wholes(&self.frames, ty, self.index.word_of(found).0, settle);
        (n, claimed)
    }

    /// Claims a pageblock of type `ty` as a whole: `near`, or one after it in its word of the index. Its frames are
    /// still to be taken off the count of free ones. Where there is none, [`Pageblocks::claim`] finds out why.
    #[inline(always)]
    pub(crate) fn claim_whole_near(&self, ty: Migratetype, near: BlockIdx) -> Option<BlockIdx> {
        if near.get() >= self.frames.len() {
            return None;
        }
        let block = self.index.next_whole(ty, near)?;
        let claim = |s: BlockState| if s.has_type(ty) { s.claim_whole() } else { None };
        let change = self.frames.update(block, claim)?;
        self.settle_whole_zero(block, change.old);
        self.index.settle_whole(&self.frames, ty, block);
        Some(block)
    }

    /// Releases pageblocks that were claimed as wholes, in ascending order, and of no known contents; returns what to
    /// add to the count of free frames.
    pub(crate) fn release_wholes(&self, items: &[u32]) -> FrameDelta {
        let mut freed = FrameDelta::ZERO;
        let mut pending: Option<(Migratetype, usize, u64)> = None;
        for item in items {
            let block = FrameIdx::of_item(*item).block();
            let Some(change) = self.frames.update(block, |s| s.release_whole(false)) else { continue };
            freed += self.count_change(change);
            let ty = change.new.migratetype();
            if !change.new.is_binned_whole(ty) {
                self.index.moved(&self.frames, block, change.old, change.new);
                continue;
            }
            let (word, bit) = self.index.word_of(block);
            pending = match pending {
                Some((t, w, bits)) if (t, w) == (ty, word) => Some((t, w, bits | bit)),
                before => {
                    self.settle_pending(before);
                    Some((ty, word, bit))
                }
            };
        }
        self.settle_pending(pending);
        freed
    }

    fn settle_pending(&self, pending: Option<(Migratetype, usize, u64)>) {
        if let Some((ty, word, bits)) = pending {
            self.index.settle_wholes(&self.frames, ty, word, bits);
        }
    }
}
