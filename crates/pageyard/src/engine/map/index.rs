//! The index of a zone: finds pageblocks that can serve a request without reading their descriptors.
//!
//! Each bin holds pageblocks of one migratetype, fullness and fit. Runs of whole pageblocks, for orders above a
//! pageblock's, are looked for in the words of the bins of whole ones.

use super::damage;
use super::descriptor::{BINS, Bin, BlockState, FITS, WHOLE};
use super::frame_map::FrameMap;
use super::tree::{Forest, SearchEffort};
use crate::engine::geometry::{BLOCK_ORDER, BlockIdx, FAN, FAN_ORDER};
use crate::engine::words::runs;
use core::ops::Range;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::units::Order;
use pageyard_sync::{A64, Carver, Relaxed, SeqCst};

/// Types that have bins: all but `Isolate`, which no descriptor has.
const TYPES: usize = Migratetype::COUNT - 1;

/// A set of bins of one type.
#[derive(Clone, Copy)]
pub(crate) struct Bins(u64);

impl Bins {
    /// The bin of whole pageblocks.
    const WHOLE: Bins = Bins(1 << WHOLE);

    /// Returns the bins whose pageblocks fit a block of `order`.
    pub(crate) const fn fitting(order: Order) -> Bins {
        let mut bits = 0;
        let mut fit = order.get();
        while fit < FITS {
            bits |= Bins::of_fit(fit).0;
            fit += 1;
        }
        Bins(bits)
    }

    /// Returns the bins among them whose pageblocks are partly used.
    pub(crate) const fn partly_used(self) -> Bins {
        Bins(self.0 & !Bins::WHOLE.0)
    }

    /// Returns the bins whose pageblocks fit blocks of `fit` and no larger ones.
    pub(crate) const fn of_fit(fit: u8) -> Bins {
        let mut bits = 0;
        let mut class = fit;
        while class < BINS {
            bits |= 1 << class;
            class += FITS;
        }
        Bins(bits)
    }
}

/// The index of a zone.
pub(crate) struct Index<'m> {
    bins: Forest<'m>,
    /// Position of the zone's first pageblock: positions are aligned to the largest order, pageblocks need not be.
    skew: usize,
    /// How many pageblocks there are.
    blocks: usize,
}

impl<'m> Index<'m> {
    /// Carves the index of `blocks` pageblocks, the first of which lies `skew` after a multiple of the largest order.
    pub(crate) fn carve(carver: &mut Carver<'m>, blocks: usize, skew: usize) -> Index<'m> {
        Index { bins: Forest::carve(carver, TYPES, BINS as usize, skew + blocks), skew, blocks }
    }

    /// Returns the word whose bits [`flip`](Index::flip) flips: for tests.
    pub(crate) fn word(&self, nth: usize) -> u64 {
        let (words, roots) = self.bins.words();
        let words = if nth.is_multiple_of(8) { roots } else { words };
        // ORDER: Relaxed: for tests that let nothing else run.
        words[nth / 8 % words.len()].load(Relaxed)
    }

    /// Flips bits of one of its words, counted round, or of one above them: for tests.
    pub(crate) fn flip(&self, nth: usize, flip: u64) {
        let (words, roots) = self.bins.words();
        damage::flip(if nth.is_multiple_of(8) { roots } else { words }, nth / 8, flip);
    }

    /// Fills in the index from the descriptors, before the zone is published.
    pub(crate) fn build(&self, frames: &FrameMap<'_>) {
        let whole = Bin { ty: Migratetype::Movable, class: WHOLE };
        let end = self.skew + frames.len();
        for word in 0..end.div_ceil(FAN) {
            let mut bits = 0;
            for at in (word * FAN).max(self.skew)..((word + 1) * FAN).min(end) {
                match frames.state(BlockIdx::new(at - self.skew)).bin() {
                    Some(bin) if bin == whole => bits |= 1 << (at % FAN),
                    Some(bin) => self.settle(frames, bin, BlockIdx::new(at - self.skew)),
                    None => {}
                }
            }
            self.bins.fill(tree(whole), word, bits);
        }
    }

    /// Rebuilds the index from the descriptors, while nothing else runs.
    #[cfg(not(pageyard_loom))]
    pub(crate) fn rebuild(&self, frames: &FrameMap<'_>) {
        self.bins.clear();
        self.build(frames);
    }

    /// Moves a pageblock between bins after a change of its descriptor.
    #[inline(always)]
    pub(crate) fn moved(&self, frames: &FrameMap<'_>, block: BlockIdx, old: BlockState, new: BlockState) {
        if !old.is_current() || !new.is_current() {
            self.moved_on_it(frames, block, old, new);
        }
    }

    fn moved_on_it(&self, frames: &FrameMap<'_>, block: BlockIdx, old: BlockState, new: BlockState) {
        let (from, to) = (old.bin(), new.bin());
        if from == to {
            // More of it is free: the thread that brought it onto this bin may have stopped before it said so.
            if let Some(bin) = to
                && new.free() > old.free()
                && !self.bins.leads_to(tree(bin), block.get() + self.skew)
            {
                self.settle(frames, bin, block);
            }
            return;
        }
        if let Some(to) = to {
            self.settle(frames, to, block);
        }
        if let Some(from) = from {
            self.settle(frames, from, block);
        }
    }

    /// Corrects one bin for a pageblock.
    #[inline]
    pub(crate) fn settle(&self, frames: &FrameMap<'_>, bin: Bin, block: BlockIdx) {
        if !bin.is_whole() {
            let at = block.get() + self.skew;
            return self.bins.settle(tree(bin), at, || frames.state(block).bin() == Some(bin));
        }
        self.settle_whole(frames, bin.ty, block);
    }

    /// Corrects the bin of whole pageblocks of a type for a pageblock.
    #[inline]
    pub(crate) fn settle_whole(&self, frames: &FrameMap<'_>, ty: Migratetype, block: BlockIdx) {
        let at = block.get() + self.skew;
        let fact = || frames.state(block).is_binned_whole(ty);
        self.bins.settle(tree(Bin { ty, class: WHOLE }), at, fact);
    }

    /// Corrects the bins of whole pageblocks for one that turned out not to be whole.
    #[cold]
    pub(crate) fn settle_broken(&self, frames: &FrameMap<'_>, block: BlockIdx) {
        if frames.state(block).bin().is_none_or(|bin| !bin.is_whole()) {
            for ty in Migratetype::REQUESTED {
                self.settle(frames, Bin { ty, class: WHOLE }, block);
            }
        }
    }

    /// Corrects the bin of whole pageblocks of a type for some pageblocks of one word.
    pub(crate) fn settle_wholes(&self, frames: &FrameMap<'_>, ty: Migratetype, word: usize, mask: u64) {
        let facts = || {
            let (mut rest, mut facts) = (mask, 0);
            while rest != 0 {
                let at = word << FAN_ORDER | rest.trailing_zeros() as usize;
                let is = frames.state(BlockIdx::new(at - self.skew)).is_binned_whole(ty);
                facts |= u64::from(is) << (at % FAN);
                rest &= rest - 1;
            }
            facts
        };
        self.bins.settle_word(tree(Bin { ty, class: WHOLE }), word, mask, facts);
    }

    /// Returns the pageblock at a position: a damaged bit can stand for none.
    #[inline(always)]
    fn block(&self, at: usize) -> Option<BlockIdx> {
        let block = at.wrapping_sub(self.skew);
        (block < self.blocks).then(|| BlockIdx::new(block))
    }

    /// Returns the word of whole pageblocks that holds a pageblock, and its bit there.
    #[inline]
    pub(crate) fn word_of(&self, block: BlockIdx) -> (usize, u64) {
        let at = block.get() + self.skew;
        (at >> FAN_ORDER, 1 << (at % FAN))
    }

    /// Returns the first pageblock from `block` to the end of its word that the index lists as whole and of type `ty`.
    /// It is a hint.
    #[inline(always)]
    pub(crate) fn next_whole(&self, ty: Migratetype, block: BlockIdx) -> Option<BlockIdx> {
        let at = block.get() + self.skew;
        let rest = self.bins.leaf(tree(Bin { ty, class: WHOLE }), at >> FAN_ORDER) >> (at % FAN);
        if rest == 0 { None } else { self.block(at + rest.trailing_zeros() as usize) }
    }

    /// Iterates over the pageblocks from `block` to the end of its word that the index lists as whole and of type `ty`.
    /// They are hints.
    #[inline]
    pub(crate) fn wholes(&self, ty: Migratetype, block: BlockIdx) -> impl Iterator<Item = BlockIdx> {
        let (word, bit) = self.word_of(block);
        let mut rest = self.bins.leaf(tree(Bin { ty, class: WHOLE }), word) & !(bit - 1);
        core::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            self.block(word << FAN_ORDER | bit as usize)
        })
    }

    /// Returns whether some pageblock of type `ty` is in one of `bins`, as far as is known.
    #[inline(always)]
    pub(crate) fn has(&self, ty: Migratetype, bins: Bins) -> bool {
        self.bins.root(ty.index()) & bins.0 != 0
    }

    /// Finds the fullest pageblock of type `ty` in one of `bins`, at or after `start` if one is near.
    pub(crate) fn find(
        &self,
        ty: Migratetype,
        bins: Bins,
        start: BlockIdx,
        effort: &mut SearchEffort,
    ) -> Option<(BlockIdx, Bin)> {
        let mut classes = self.bins.root(ty.index()) & bins.0;
        effort.step();
        while classes != 0 {
            let bin = Bin { ty, class: classes.trailing_zeros() as u8 };
            let at = self.bins.find(tree(bin), start.get() + self.skew, effort);
            if let Some(block) = at.and_then(|at| self.block(at)) {
                return Some((block, bin));
            }
            classes &= classes - 1;
        }
        None
    }

    /// Finds the fullest pageblock of type `ty` in one of `bins`, within a part of the zone.
    pub(crate) fn find_within(
        &self,
        ty: Migratetype,
        bins: Bins,
        part: &Range<BlockIdx>,
        effort: &mut SearchEffort,
    ) -> Option<(BlockIdx, Bin)> {
        let part = part.start.get() + self.skew..part.end.get() + self.skew;
        let mut classes = self.bins.root(ty.index()) & bins.0;
        effort.step();
        while classes != 0 {
            let bin = Bin { ty, class: classes.trailing_zeros() as u8 };
            let at = self.bins.find_within(tree(bin), &part, effort);
            if let Some(block) = at.and_then(|at| self.block(at)) {
                return Some((block, bin));
            }
            classes &= classes - 1;
        }
        None
    }

    /// Finds the first pageblock of an aligned run of whole ones, for an order above a pageblock's, from the word that
    /// holds `start` on. It is a hint, found in one step for each word, or for as many words as a run has.
    pub(crate) fn find_run(
        &self,
        order: Order,
        start: BlockIdx,
        effort: &mut SearchEffort,
    ) -> Option<BlockIdx> {
        let of_types = Migratetype::REQUESTED.map(|ty| match self.has(ty, Bins::WHOLE) {
            true => self.bins.leaves(tree(Bin { ty, class: WHOLE })),
            false => &[],
        });
        if of_types.iter().all(|words| words.is_empty()) {
            return None;
        }
        let blocks = order.get() - BLOCK_ORDER;
        let (inside, words) = (blocks.min(FAN_ORDER), blocks.saturating_sub(FAN_ORDER));
        // ORDER: SeqCst: see `Forest::leaf`.
        let bits_of = |words: &&[A64], at: usize| words.get(at).map_or(0, |word| word.load(SeqCst));
        let whole = |at| of_types.iter().fold(0, |bits, words| bits | bits_of(words, at));
        let starts = |at| runs(whole(at), inside);
        let run_at = |n: usize| {
            effort.step();
            let first = starts(n << words);
            let found = first != 0 && (1..1 << words).all(|next| starts((n << words) + next) != 0);
            found.then(|| n << words << FAN_ORDER | first.trailing_zeros() as usize)
        };
        // A run does not reach beyond the last word.
        let places = self.bins.leaf_words() >> words;
        let first = ((start.get() + self.skew) >> FAN_ORDER >> words).min(places);
        let found = (first..places).chain(0..first).find_map(run_at)?;
        self.block(found).filter(|first| first.get() + (1 << blocks) <= self.blocks)
    }

    /// Returns the first pageblock at which an aligned run of `order` may start.
    pub(crate) fn first_run(&self, order: Order) -> BlockIdx {
        BlockIdx::new(self.skew.next_multiple_of(1 << (order.get() - BLOCK_ORDER)) - self.skew)
    }

    /// Checks every bit against the descriptors. An error names the bitmap that is wrong.
    pub(crate) fn check(&self, frames: &FrameMap<'_>) -> Result<(), &'static str> {
        let binned = |t: usize, word: usize, bits: u64| {
            (0..FAN).all(|i| {
                let bin = self.block(word * FAN + i).and_then(|block| frames.state(block).bin());
                (bin.map(tree) == Some(t)) == (bits >> i & 1 != 0)
            })
        };
        let all = TYPES * BINS as usize;
        self.bins.check(all, binned).map_err(|_| "the index of pageblocks")
    }
}

/// Returns the number of a bin's bitmap.
#[inline(always)]
fn tree(bin: Bin) -> usize {
    bin.ty.index() * BINS as usize + usize::from(bin.class)
}

#[cfg(all(test, not(any(pageyard_loom, pageyard_shuttle))))]
mod tests {
    extern crate std;

    use super::*;
    use std::vec;

    #[test]
    fn the_next_whole_pageblock_is_the_first_in_the_rest_of_its_word() {
        let (blocks, skew, ty) = (200, 5, Migratetype::Movable);
        let mut memory = vec![0u8; 1 << 20];
        let mut carver = Carver::of(&mut memory);
        let index = Index::carve(&mut carver, blocks, skew);
        assert!(carver.fits());
        let listed = [6, 7, 40, 63, 70, 127, 190, 204];
        for at in listed {
            index.bins.fill(tree(Bin { ty, class: WHOLE }), at / FAN, 1 << (at % FAN));
        }
        for block in 0..blocks {
            let at = block + skew;
            let next = listed.into_iter().find(|next| *next >= at && next / FAN == at / FAN);
            let found = index.next_whole(ty, BlockIdx::new(block)).map(|found| found.get() + skew);
            assert_eq!(found, next, "from {block}");
        }
    }
}
