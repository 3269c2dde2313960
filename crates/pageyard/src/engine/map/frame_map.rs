//! The frame map of a zone: a free bit and a tag for each frame, a descriptor for each pageblock. A *clear* bit says
//! free, so that zeroed metadata is free memory; the functions here treat free bits as set and invert at the word. Who
//! can touch what:
//!
//! * bits are taken only by the claim that reserved that many frames in the descriptor, and given only by the owner of
//!   the frames;
//! * while a descriptor says huge or hole, its bits are not looked at;
//! * a frame's tag is written by its owner, and by the free that wins it from `Allocated`, in a way that its
//!   pageblock's [bias](super::bias) allows.

use super::bias::{BiasWord, PAIR, TagPlace};
use super::damage::{self, MetadataPart};
use super::descriptor::BlockState;
use super::tag::Tag;
use super::watch::DescriptorWatch;
use crate::engine::geometry::{
    BLOCK_FRAMES, BLOCK_ORDER, BlockIdx, FrameIdx, WORD_FRAMES, WORD_MASK, WORD_ORDER, WORDS,
};
use crate::engine::words::{lowest, pick, pick_of, pick_one, run_above, run_broken, run_of, run_with, runs};
use pageyard_core::units::Order;
use pageyard_sync::eight::Eight;
use pageyard_sync::{A8, A64, AcqRel, Acquire, Carver, Relaxed, Release, SeqCst};

/// The bits of a pageblock's frames: those taken, or those to release.
pub(crate) type Masks = [u64; WORDS];

/// Scans of all words before a claim returns the rest of its reservation.
const PASSES: usize = 4;

/// A descriptor before and after a transition.
#[derive(Clone, Copy)]
pub(crate) struct Change {
    pub(crate) old: BlockState,
    pub(crate) new: BlockState,
}

/// The frames a claim took from a pageblock.
pub(crate) struct Took {
    /// The frames.
    pub(crate) masks: Masks,
    /// Upper bound on the order of the largest run this claim broke up. If the hint is no larger, it must be corrected.
    pub(crate) broken: u8,
    /// Whether bits were returned. Another thread may have seen them as taken and lowered the hint; an empty release
    /// must raise it again.
    pub(crate) returned_bits: bool,
}

impl Took {
    /// Nothing yet.
    pub(crate) const fn nothing() -> Took {
        Took { masks: [0; WORDS], broken: 0, returned_bits: false }
    }

    /// Adds frames of a word whose free bits were `free` before.
    #[inline]
    fn add(&mut self, word: usize, mask: u64, free: u64) {
        self.masks[word] |= mask;
        self.broken = self.broken.max(run_broken(free, mask));
    }
}

/// One block that a claim took, inside one word.
pub(crate) struct TookOne {
    word: usize,
    mask: u64,
    /// The word's free bits before the claim.
    free: u64,
}

impl TookOne {
    /// Returns its first frame.
    #[inline(always)]
    pub(crate) fn first(&self, block: BlockIdx) -> FrameIdx {
        block.frame(((self.word as u32) << WORD_ORDER) + self.mask.trailing_zeros())
    }

    /// Returns whether a claim of this order may have broken the run that a hint stands for.
    #[inline(always)]
    pub(crate) fn breaks(&self, order: Order, hint: u8) -> bool {
        if hint == 0 || self.free == WORD_MASK || hint > WORD_ORDER {
            return hint > 0 && self.free == WORD_MASK;
        }
        // A run that the block was part of, or a part of the block: usually there was none.
        let run = run_of(self.mask.trailing_zeros(), hint.max(order.get()));
        self.free & run == run && runs(self.free & !self.mask, hint) == 0
    }
}

/// The free bits, tags and descriptors of a zone. Copied into a loop's own variable, it stays in registers.
#[derive(Clone, Copy)]
pub(crate) struct FrameMap<'m> {
    tags: &'m [A8],
    pub(super) bits: &'m [A64],
    /// Each pageblock's descriptor followed by its bias: a free reads both.
    blocks: &'m [A64],
}

impl<'m> FrameMap<'m> {
    /// Carves the metadata of `blocks` pageblocks.
    pub(crate) fn carve(carver: &mut Carver<'m>, blocks: usize) -> FrameMap<'m> {
        FrameMap {
            bits: carver.zeroed(blocks * WORDS),
            blocks: carver.zeroed(blocks * PAIR),
            tags: carver.zeroed(blocks << BLOCK_ORDER),
        }
    }

    /// Flips bits of one of its words, counted round: for tests.
    pub(crate) fn flip(&self, part: MetadataPart, nth: usize, flip: u64) {
        let pair = nth % self.len() * PAIR;
        match part {
            MetadataPart::Bits => damage::flip(self.bits, nth, flip),
            MetadataPart::Tags => damage::flip_byte(self.tags, nth, flip),
            MetadataPart::Descriptors => damage::flip(self.blocks, pair, flip),
            MetadataPart::Biases => damage::flip(self.blocks, pair + 1, flip),
            MetadataPart::Index => {}
        }
    }

    /// Returns one of its words, counted round: for tests.
    pub(crate) fn word(&self, part: MetadataPart, nth: usize) -> u64 {
        let pair = nth % self.len() * PAIR;
        // ORDER: Relaxed: for tests that let nothing else run.
        match part {
            MetadataPart::Bits => self.bits[nth % self.bits.len()].load(Relaxed),
            MetadataPart::Tags => self.tags[nth % self.tags.len()].load(Relaxed).into(),
            MetadataPart::Descriptors => self.blocks[pair].load(Relaxed),
            MetadataPart::Biases => self.blocks[pair + 1].load(Relaxed),
            MetadataPart::Index => 0,
        }
    }

    /// Returns how many pageblocks there are.
    pub(crate) fn len(&self) -> usize {
        self.blocks.len() / PAIR
    }

    /// Returns the word of a descriptor.
    #[inline(always)]
    pub(super) fn descriptor(&self, block: BlockIdx) -> &'m A64 {
        &self.blocks[block.get() * PAIR]
    }

    /// Returns a pageblock's bias.
    pub(crate) fn bias(&self, block: BlockIdx) -> BiasWord<'m> {
        BiasWord(&self.blocks[block.get() * PAIR + 1])
    }

    /// Iterates over the pageblocks.
    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = BlockIdx> + Clone + use<> {
        BlockIdx::new(0).run(self.len())
    }

    // Descriptors.

    /// Reads a descriptor.
    #[inline(always)]
    pub(crate) fn state(&self, block: BlockIdx) -> BlockState {
        // ORDER: SeqCst: the index relies on one order of descriptor updates, index updates and these loads.
        BlockState::from_bits(self.descriptor(block).load(SeqCst))
    }

    /// Reads the descriptor of a frame's pageblock, to be watched; `None` if the zone has no such frame. Any number is
    /// allowed, even on 32-bit targets.
    #[inline(always)]
    pub(crate) fn state_of(&self, frame: u64) -> Option<(BlockState, DescriptorWatch<'m>)> {
        if frame >= self.tags.len() as u64 {
            return None;
        }
        let block = FrameIdx::new(frame as usize).block().get() * PAIR;
        debug_assert!(block < self.blocks.len());
        // SAFETY: there is a tag for each frame of each pageblock, and a pair of words for each pageblock.
        let word = unsafe { self.blocks.get_unchecked(block) };
        // ORDER: SeqCst, as in `state`.
        let state = BlockState::from_bits(word.load(SeqCst));
        // SAFETY: as above.
        Some((state, unsafe { DescriptorWatch::of(self.blocks, block) }))
    }

    /// Writes a descriptor, before the zone is published.
    pub(crate) fn set_state(&self, block: BlockIdx, state: BlockState) {
        // ORDER: Relaxed: the zone is published by whatever publishes the allocator.
        self.descriptor(block).store(state.bits(), Relaxed);
    }

    /// Runs a transition until it succeeds or does not apply.
    #[inline(always)]
    pub(crate) fn update(
        &self,
        block: BlockIdx,
        transition: impl Fn(BlockState) -> Option<BlockState>,
    ) -> Option<Change> {
        let word = self.descriptor(block);
        // ORDER: Relaxed: the compare-and-swap decides.
        let mut old = word.load(Relaxed);
        loop {
            let new = transition(BlockState::from_bits(old))?;
            // ORDER: SeqCst: its acquire half pairs with the release half of the transition that it read (a
            // reservation then sees the bits that were given before it); the total order is what the index needs.
            match word.compare_exchange(old, new.bits(), SeqCst, Relaxed) {
                Ok(_) => return Some(Change { old: BlockState::from_bits(old), new }),
                Err(now) => old = now,
            }
        }
    }

    // Bits.

    /// Returns the free bits of a word.
    #[inline(always)]
    pub(crate) fn free_bits(&self, block: BlockIdx, word: usize) -> u64 {
        // ORDER: SeqCst: of two releases that together complete a run of several words, one sees the other's bits.
        !self.bits[block.get() * WORDS + word].load(SeqCst) & WORD_MASK
    }

    /// Returns the words of a pageblock. How many there are is nothing that the compiler knows: written out for each
    /// word, the loops of claims would be a quarter of the engine's code.
    #[inline(always)]
    fn words(&self, block: BlockIdx) -> &'m [A64] {
        let first = block.get() * WORDS;
        &self.bits[first..first + core::hint::black_box(WORDS)]
    }

    /// Takes one block of at most word size from a reservation, where a word has one and no other claim is faster:
    /// unless a whole word is wanted, or the pageblock was `WHOLE`, one that is spoiled already.
    /// [`FrameMap::claim_one_of_any`] finds the others.
    #[inline(always)]
    pub(crate) fn claim_one<const WHOLE: bool>(&self, block: BlockIdx, order: Order) -> Option<TookOne> {
        let words = &self.bits[block.get() * WORDS..][..WORDS];
        let spoiled = |free| if free == WORD_MASK && !WHOLE { 0 } else { free };
        match order.get() {
            0 => Self::take_one(words, spoiled, |starts| pick_of(starts, 0), |at| at + 1),
            WORD_ORDER => {
                let whole = |free| if free == WORD_MASK { free } else { 0 };
                Self::take_one(words, whole, |word| word, |at| at + 1)
            }
            _ => {
                let fits = |free| runs(spoiled(free), order.get());
                // Hidden from the compiler, which would unroll the loop.
                let next = |at| core::hint::black_box(at + 1);
                Self::take_one(words, fits, |starts| pick_of(starts, order.get()), next)
            }
        }
    }

    /// Takes a block from the first word in whose free bits `fits` finds some, unless another claim is faster: the one
    /// that `pick` picks of them.
    #[inline(always)]
    fn take_one(
        words: &[A64],
        fits: impl Fn(u64) -> u64,
        pick: impl Fn(u64) -> u64,
        next: impl Fn(usize) -> usize,
    ) -> Option<TookOne> {
        let mut at = 0;
        let (word, old, found) = loop {
            let word = words.get(at)?;
            // ORDER: SeqCst, as in `free_bits`.
            let old = word.load(SeqCst);
            let found = fits(!old & WORD_MASK);
            if found != 0 {
                break (word, old, found);
            }
            at = next(at);
        };
        let mask = pick(found);
        // ORDER: Acquire pairs with the Release in `release_bits`: the thread that freed these frames is done with
        // them.
        let took = word.compare_exchange(old, old | mask, AcqRel, Relaxed).is_ok();
        took.then_some(TookOne { word: at, mask, free: !old & WORD_MASK })
    }

    /// Takes one block of at most word size from a reservation.
    pub(crate) fn claim_one_of_any(&self, block: BlockIdx, order: Order) -> Option<TookOne> {
        let words = self.words(block);
        let mut step = 0;
        while step < PASSES * WORDS {
            let at = step % WORDS;
            // ORDER: as in `claim_one`.
            let mut old = words[at].load(SeqCst);
            loop {
                let free = !old & WORD_MASK;
                let mask = pick_one(free, order.get());
                if mask == 0 {
                    break;
                }
                match words[at].compare_exchange(old, old | mask, AcqRel, Relaxed) {
                    Ok(_) => return Some(TookOne { word: at, mask, free }),
                    Err(now) => old = now,
                }
            }
            // Hidden from the compiler, which would unroll the loop.
            step = core::hint::black_box(step + 1);
        }
        None
    }

    /// Takes up to `n` single frames of a reservation; returns how many it took.
    pub(crate) fn claim_single(&self, block: BlockIdx, n: u32, took: &mut Took) -> u32 {
        let mut left = n;
        let words = self.words(block);
        for pass in 0..core::hint::black_box(PASSES) {
            for (w, word) in words.iter().enumerate() {
                // ORDER: SeqCst, as in `free_bits`.
                let free = !word.load(SeqCst) & WORD_MASK;
                // Words that are already spoiled come first, unless a whole word is wanted.
                if free == 0 || (pass == 0 && free == WORD_MASK && left < WORD_FRAMES) {
                    continue;
                }
                let want = lowest(free, left);
                // ORDER: Acquire pairs with the Release in `release_bits`: the thread that freed these frames is done
                // with them.
                let old = word.fetch_or(want, AcqRel);
                let got = want & !old;
                took.add(w % WORDS, got, !old);
                left -= got.count_ones();
                if left == 0 {
                    return n;
                }
            }
        }
        n - left
    }

    /// Takes up to `n` blocks of `order`, each inside a word; returns how many.
    pub(crate) fn claim_runs(&self, block: BlockIdx, order: Order, n: u32, took: &mut Took) -> u32 {
        let mut left = n;
        let words = self.words(block);
        for pass in 0..core::hint::black_box(2) {
            for (w, word) in words.iter().enumerate() {
                // ORDER: Relaxed: the compare-and-swap decides.
                let mut old = word.load(Relaxed);
                loop {
                    let free = !old & WORD_MASK;
                    if free.count_ones() < 1 << order.get() {
                        break;
                    }
                    let whole = pass == 0 && free == WORD_MASK && left << order.get() < WORD_FRAMES;
                    let want = if whole { 0 } else { pick(free, order.get(), left) };
                    if want == 0 {
                        break;
                    }
                    // ORDER: Acquire pairs with the Release in `release_bits`.
                    match word.compare_exchange(old, old | want, AcqRel, Relaxed) {
                        Ok(_) => {
                            took.add(w % WORDS, want, free);
                            left -= want.count_ones() >> order.get();
                            break;
                        }
                        Err(now) => old = now,
                    }
                }
                if left == 0 {
                    return n;
                }
            }
        }
        n - left
    }

    /// Takes one block larger than a word; returns its first frame, or `None` if it found none. Says whether bits were
    /// given back.
    ///
    /// Words are taken in ascending order, each as a whole. If one of them is not free, exactly the words taken are
    /// returned, and the next place is tried.
    pub(crate) fn claim_words(
        &self,
        block: BlockIdx,
        order: Order,
        returned_bits: &mut bool,
    ) -> Option<FrameIdx> {
        let span = 1 << (order.get() - WORD_ORDER);
        let mut places = (0..WORDS).step_by(span);
        let first = places.find(|first| self.claim_words_at(block, *first, span, returned_bits))?;
        Some(block.frame((first as u32) << WORD_ORDER))
    }

    fn claim_words_at(&self, block: BlockIdx, first: usize, span: usize, returned_bits: &mut bool) -> bool {
        let words = &self.bits[block.get() * WORDS + first..][..span];
        // ORDER: SeqCst, as in `free_bits`.
        if words.iter().any(|word| word.load(SeqCst) & WORD_MASK != 0) {
            return false;
        }
        for (w, word) in words.iter().enumerate() {
            // ORDER: Acquire pairs with the Release in `release_bits`.
            if word.compare_exchange(0, WORD_MASK, AcqRel, Relaxed).is_err() {
                for mine in first..first + w {
                    self.release_bits(block, mine, WORD_MASK);
                    *returned_bits = true;
                }
                return false;
            }
        }
        true
    }

    /// Takes exactly the frames of `wanted`, of which as many were reserved; `false` if one of them is not free.
    pub(crate) fn claim_bits(&self, block: BlockIdx, wanted: &Masks) -> bool {
        for (w, want) in wanted.iter().enumerate().filter(|(_, want)| **want != 0) {
            let word = &self.bits[block.get() * WORDS + w];
            // ORDER: Relaxed: the compare-and-swap decides.
            let mut old = word.load(Relaxed);
            let taken = loop {
                if old & want != 0 {
                    break false;
                }
                // ORDER: Acquire pairs with the Release in `release_bits`.
                match word.compare_exchange(old, old | want, AcqRel, Relaxed) {
                    Ok(_) => break true,
                    Err(now) => old = now,
                }
            };
            if !taken {
                for (mine, want) in wanted[..w].iter().enumerate().filter(|(_, want)| **want != 0) {
                    self.release_bits(block, mine, *want);
                }
                return false;
            }
        }
        true
    }

    /// Releases frames of one word; returns the word's free bits afterwards.
    #[inline]
    pub(crate) fn release_bits(&self, block: BlockIdx, word: usize, mask: u64) -> u64 {
        // ORDER: SeqCst: its Release pairs with the Acquire of the claim that takes them; the total order is for
        // `run_around`, where of two releases one must see the other.
        // Bits, not a number: if a bug elsewhere gives a frame twice, the damage is confined to that frame.
        let old = self.bits[block.get() * WORDS + word].fetch_and(!mask, SeqCst);
        debug_assert!(old & mask == mask || damage::is_done(), "only frames that were taken are given back");
        (!old | mask) & WORD_MASK
    }

    /// Releases a block of at most word size; returns the largest run that it is part of, or 0 if that does not exceed
    /// `hint`.
    #[inline(always)]
    pub(crate) fn release_inside(&self, frame: FrameIdx, order: Order, hint: u8) -> u8 {
        let free = self.release_bits(frame.block(), frame.word(), run_of(frame.bit(), order.get()));
        if free == WORD_MASK {
            self.run_above_hint(frame.block(), hint)
        } else {
            run_with(free, frame.bit(), order.get(), hint)
        }
    }

    /// Releases a block larger than a word; returns the largest run that it is part of, or 0 if that does not exceed
    /// `hint`.
    pub(crate) fn release_words(&self, frame: FrameIdx, order: Order, hint: u8) -> u8 {
        let words = 1 << (order.get() - WORD_ORDER);
        // No further than the pageblock, where a damaged tag put the block.
        for w in frame.word()..(frame.word() + words).min(WORDS) {
            self.release_bits(frame.block(), w, WORD_MASK);
        }
        self.run_above_hint(frame.block(), hint)
    }

    /// Releases frames; returns the largest run among and around them, or 0 if none exceeds `hint`.
    pub(crate) fn release_masks(&self, block: BlockIdx, masks: &Masks, hint: u8) -> u8 {
        // The words to write are found first, without a branch for each: any of them may be set.
        let mut left = masks.iter().enumerate().fold(0, |set, (w, mask)| set | u32::from(*mask != 0) << w);
        let (mut run, mut fills) = (0, false);
        while left != 0 {
            let w = left.trailing_zeros() as usize;
            left &= left - 1;
            let free = self.release_bits(block, w, masks[w % WORDS]);
            fills |= free == WORD_MASK;
            run = run.max(run_above(free, hint));
        }
        // Words that are free as wholes may be parts of a larger run: looked for once, behind the last of them.
        if fills { self.run_around(block) } else { run }
    }

    /// Clears the free bits of a huge pageblock before it is shattered. No other call looks at its bits.
    pub(crate) fn take_huge(&self, block: BlockIdx) {
        for w in 0..WORDS {
            // ORDER: Relaxed: the transition of the descriptor that follows publishes it.
            self.bits[block.get() * WORDS + w].store(WORD_MASK, Relaxed);
        }
    }

    /// Marks frames as taken, before the zone is published.
    pub(crate) fn set_taken(&self, block: BlockIdx, word: usize, mask: u64) {
        // ORDER: Relaxed: the zone is published by whatever publishes the allocator.
        self.bits[block.get() * WORDS + word].fetch_or(mask, Relaxed);
    }

    /// Sets the free bits of a word, while nothing else runs. Returns whether that changed them.
    #[cfg(not(pageyard_loom))]
    pub(crate) fn set_free_bits(&self, block: BlockIdx, word: usize, free: u64) -> bool {
        let differ = self.free_bits(block, word) != free;
        if differ {
            // ORDER: Relaxed: published with the allocator.
            self.bits[block.get() * WORDS + word].store(!free & WORD_MASK, Relaxed);
        }
        differ
    }

    // Tags.

    /// Reads a tag.
    #[inline]
    pub(crate) fn tag(&self, frame: FrameIdx) -> Tag {
        // ORDER: Acquire pairs with the Release in `set_tag`.
        Tag::from_byte(self.tags[frame.get()].load(Acquire))
    }

    /// Writes the tag of a frame that the caller owns.
    #[inline]
    pub(crate) fn set_tag(&self, frame: FrameIdx, tag: Tag) {
        // ORDER: Release pairs with the Acquire of `retag`: the thread that frees the block sees what was done before.
        self.tags[frame.get()].store(tag.byte(), Release);
    }

    /// Marks a frame that the caller owns as the first of a live block.
    #[inline(always)]
    pub(crate) fn allocate_tag(&self, frame: FrameIdx, order: Order) {
        let tag = &self.tags[frame.get()];
        // ORDER: Relaxed: the frame is ours, so no other thread writes a tag that is not `Allocated`.
        let byte = tag.load(Relaxed);
        debug_assert!(
            matches!(Tag::from_byte(byte), Tag::Free | Tag::FreeZero) || damage::is_done(),
            "{frame:?} is {byte:#x}"
        );
        // ORDER: Release, as in `set_tag`.
        tag.store(Tag::allocate(byte, order), Release);
    }

    /// Marks an item that the caller took from a list as the first frame of a live block.
    #[inline(always)]
    pub(crate) fn allocate_listed(&self, item: u32, order: Order) {
        debug_assert!((item as usize) < self.tags.len());
        // SAFETY: lists hold frames of their zone only: items come from its masks, or from a frame whose tag was won.
        let tag = unsafe { self.tags.get_unchecked(item as usize) };
        // ORDER: Relaxed: the frame is ours, so no other thread writes a tag that is not `Allocated`.
        let byte = tag.load(Relaxed);
        debug_assert!(
            matches!(Tag::from_byte(byte), Tag::Free | Tag::FreeZero) || damage::is_done(),
            "{item} is {byte:#x}"
        );
        // ORDER: Release, as in `set_tag`.
        tag.store(Tag::allocate(byte, order), Release);
    }

    /// Returns whether a block that the caller took held zeros when it was allocated.
    #[inline(always)]
    pub(crate) fn holds_zeros(&self, frame: FrameIdx) -> bool {
        debug_assert!(frame.get() < self.tags.len());
        // SAFETY: the caller took the block, so it is a frame of the zone.
        let tag = unsafe { self.tags.get_unchecked(frame.get()) };
        // ORDER: Relaxed: the frame is ours, so no other thread writes its tag.
        Tag::holds_zeros(tag.load(Relaxed))
    }

    /// Replaces a tag; `false` if it differs from `from`. Of several concurrent frees of one block, one gets `true`.
    /// `alone` promises that no two calls overlap.
    ///
    /// # Safety
    /// It is a frame of the zone: [`FrameMap::state_of`] returned a state for it.
    #[inline(always)]
    pub(crate) unsafe fn win(&self, alone: bool, frame: FrameIdx, from: Tag, to: Tag) -> bool {
        debug_assert!(frame.get() < self.tags.len());
        // SAFETY: the caller's promise.
        let tag = unsafe { self.tags.get_unchecked(frame.get()) };
        if !alone {
            // ORDER: as in `retag`.
            return tag.compare_exchange(from.byte(), to.byte(), AcqRel, Relaxed).is_ok();
        }
        // ORDER: Relaxed: no two calls overlap.
        let mine = tag.load(Relaxed) == from.byte();
        if mine {
            tag.store(to.byte(), Relaxed);
        }
        mine
    }

    /// Swaps eight aligned tags, all or none. On `false`, which may be spurious, retry each alone.
    ///
    /// # Safety
    /// As [`FrameMap::win`].
    #[inline(always)]
    pub(crate) unsafe fn win_eight(&self, alone: bool, first: FrameIdx, from: Tag, to: Tag) -> bool {
        // SAFETY: the caller's promise; each pageblock has whole words of tags.
        let Some(eight) = (unsafe { Eight::at_unchecked(self.tags, first.get()) }) else { return false };
        if alone { eight.replace(from.byte(), to.byte()) } else { eight.swap(from.byte(), to.byte()) }
    }

    /// Marks eight aligned frames, all of which the caller took from a list, as single-frame blocks whose contents are
    /// unknown. Returns whether it did.
    #[inline(always)]
    pub(crate) fn allocate_eight(&self, first: FrameIdx) -> bool {
        let (free, live) = (Tag::Free.byte(), Tag::Allocated(Order::ZERO).byte());
        // SAFETY: as in `allocate_listed`; each pageblock has whole words of tags.
        unsafe { Eight::at_unchecked(self.tags, first.get()) }.is_some_and(|eight| eight.replace(free, live))
    }

    /// Returns the place of a frame's tag, which is to be won, and of its pageblock's bias.
    ///
    /// # Safety
    /// As [`FrameMap::win`], and the watch is of the frame's pageblock.
    #[inline(always)]
    pub(crate) unsafe fn place(&self, frame: FrameIdx, watch: DescriptorWatch<'m>) -> TagPlace<'m> {
        debug_assert!(frame.get() < self.tags.len());
        debug_assert!(watch.raw().1 == frame.block().get() * PAIR);
        // SAFETY: the caller's promise.
        unsafe { TagPlace::of(watch, self.tags, frame.get()) }
    }

    /// Replaces a tag. Of several concurrent frees of one block, one gets `Ok`.
    #[inline(always)]
    pub(crate) fn retag(&self, frame: FrameIdx, from: Tag, to: Tag) -> Result<(), Tag> {
        // ORDER: Acquire pairs with the Release that wrote the tag; Release with the next owner's Acquire.
        match self.tags[frame.get()].compare_exchange(from.byte(), to.byte(), AcqRel, Acquire) {
            Ok(_) => Ok(()),
            Err(now) => Err(Tag::from_byte(now)),
        }
    }

    /// Returns whether all frames of a range are known to hold zeros, and forgets it for all but the first.
    pub(crate) fn gather_zero(&self, first: FrameIdx, frames: usize) -> bool {
        let mut zero = true;
        for frame in first.run(frames) {
            zero &= self.tag(frame) == Tag::FreeZero;
            if frame > first {
                self.set_tag(frame, Tag::Free);
            }
        }
        if !zero {
            self.set_tag(first, Tag::Free);
        }
        zero
    }
}

/// Returns the masks of the `2^order` frames at `offset` in a pageblock.
pub(crate) fn masks_of(offset: u32, order: Order) -> Masks {
    let mut masks = [0; WORDS];
    let word = (offset >> WORD_ORDER) as usize;
    if order.get() >= WORD_ORDER {
        masks[word..word + (1 << (order.get() - WORD_ORDER))].fill(WORD_MASK);
    } else {
        let bits = (1u64 << (1u32 << order.get())) - 1;
        masks[word] = bits << (offset & (WORD_FRAMES - 1));
    }
    masks
}

/// Returns the first frame of those in `masks`.
pub(crate) fn first_of(block: BlockIdx, masks: &Masks) -> FrameIdx {
    let word = masks.iter().position(|mask| *mask != 0).unwrap_or(0);
    block.frame(((word as u32) << WORD_ORDER) + masks[word].trailing_zeros() % BLOCK_FRAMES)
}

/// Calls `visit` with the first frame in the pageblock of each block of `order` in `masks`, highest first.
pub(crate) fn for_each_down(masks: &Masks, order: Order, mut visit: impl FnMut(u32)) {
    if order.get() > WORD_ORDER {
        for w in (0..WORDS).rev() {
            if masks[w] != 0 && w % (1 << (order.get() - WORD_ORDER)) == 0 {
                visit((w as u32) << WORD_ORDER);
            }
        }
        return;
    }
    for (w, mask) in masks.iter().enumerate().rev() {
        let mut starts = runs(*mask, order.get());
        while starts != 0 {
            let bit = 63 - starts.leading_zeros();
            starts &= !(1 << bit);
            visit(((w as u32) << WORD_ORDER) + bit);
        }
    }
}

#[cfg(all(test, not(pageyard_loom)))]
mod tests {
    use super::*;
    use pageyard_core::migratetype::Migratetype;

    const FIRST: BlockIdx = BlockIdx::new(0);

    fn with_frames(blocks: usize, test: impl FnOnce(&FrameMap<'_>)) {
        let mut memory = [0u8; 8192];
        let mut carver = Carver::of(&mut memory);
        let frames = FrameMap::carve(&mut carver, blocks);
        assert!(carver.fits());
        test(&frames);
    }

    #[test]
    fn single_frames_spare_whole_words() {
        with_frames(1, |f| {
            let mut taken = Took::nothing();
            assert_eq!(f.claim_single(FIRST, 3, &mut taken), 3);
            let mut more = Took::nothing();
            assert_eq!(f.claim_single(FIRST, 5, &mut more), 5);
            assert_eq!(
                (taken.masks[0], more.masks[0]),
                (0b111, 0b1111_1000),
                "the word that is spoiled already"
            );
            let mut word = Took::nothing();
            assert_eq!(f.claim_single(FIRST, 64, &mut word), 64);
            assert_eq!(f.scan(FIRST), Some(8));
        });
    }

    #[test]
    fn one_block_spares_whole_words_and_runs_and_says_what_it_broke() {
        with_frames(1, |f| {
            // In word 2 a pair and four frames are free; all others are whole.
            f.set_taken(FIRST, 2, !0b1111_0011);
            let any = |order| f.claim_one::<false>(FIRST, order).or_else(|| f.claim_one_of_any(FIRST, order));
            let take = |order| any(order).expect("there is one");
            let one = take(Order::ZERO);
            assert_eq!((one.word, one.mask, one.first(FIRST)), (2, 0b1, FIRST.frame(128)));
            let breaks = |hint| one.breaks(Order::ZERO, hint);
            assert!(!breaks(1) && !breaks(0) && !breaks(7), "there are pairs among the four");
            assert_eq!(take(Order::ZERO).mask, 0b10);
            let pair = take(Order::of(1));
            assert_eq!(pair.mask, 0b11_0000);
            assert!(pair.breaks(Order::of(1), 2) && !pair.breaks(Order::of(1), 1));
            let word = take(Order::of(6));
            assert_eq!((word.word, word.mask), (0, WORD_MASK));
            assert!(word.breaks(Order::of(6), 6) && word.breaks(Order::of(6), 8));
            for _ in 0..6 {
                take(Order::of(6));
            }
            assert!(any(Order::of(6)).is_none());
        });
    }

    #[test]
    fn orders_7_and_8_give_back_exactly_what_they_took() {
        with_frames(1, |f| {
            // One frame in word 5 is used: order 8 has one place, order 7 three.
            f.set_taken(FIRST, 5, 1 << 17);
            let claim = |order| f.claim_words(FIRST, Order::of(order), &mut false);
            assert_eq!(claim(8), Some(FIRST.first_frame()));
            assert_eq!(claim(8), None);
            assert_eq!(f.free_bits(FIRST, 4), u64::MAX);
            assert_eq!(f.free_bits(FIRST, 5), !(1 << 17));
            assert_eq!(claim(7), Some(FIRST.frame(6 * 64)));
            assert_eq!(claim(7), None);
            assert_eq!(f.release_masks(FIRST, &masks_of(0, Order::of(8)), 0), 8);
            assert_eq!(claim(8), Some(FIRST.first_frame()));
            assert_eq!(f.release_words(FIRST.first_frame(), Order::of(8), 7), 8);
        });
    }

    #[test]
    fn exact_claims_are_all_or_nothing() {
        with_frames(1, |f| {
            f.set_taken(FIRST, 3, 1);
            assert!(!f.claim_bits(FIRST, &masks_of(0, Order::of(8))));
            assert_eq!(f.free_bits(FIRST, 0), u64::MAX);
            assert!(f.claim_bits(FIRST, &masks_of(256, Order::of(8))));
            assert!(f.claim_bits(FIRST, &masks_of(8, Order::of(3))));
            assert_eq!(f.free_bits(FIRST, 0), !0xff00);
        });
    }

    #[test]
    fn hints_are_lowered_to_the_truth() {
        with_frames(1, |f| {
            let change = f.update(FIRST, |s| s.claim(512 - 3, Migratetype::Movable)).unwrap();
            assert_eq!(change.old.free(), 512);
            let mut taken = Took::nothing();
            assert_eq!(f.claim_single(FIRST, 509, &mut taken), 509);
            assert_eq!(f.correct_hint(FIRST).new.fit(), Some(1));
            let given = masks_of(0, Order::of(7));
            let run = f.release_masks(FIRST, &given, 1);
            assert_eq!(f.update(FIRST, |s| Some(s.release(128, run))).unwrap().new.fit(), Some(7));
        });
    }

    #[test]
    fn blocks_of_masks_come_highest_first() {
        let mut seen = [0; 4];
        let mut n = 0;
        let mut masks = masks_of(4, Order::of(1));
        masks[7] = 0b1100_0011;
        for_each_down(&masks, Order::of(1), |at| {
            seen[n] = at;
            n += 1;
        });
        assert_eq!(seen[..n], [454, 448, 4]);
        n = 0;
        for_each_down(&masks_of(256, Order::of(8)), Order::of(8), |at| {
            seen[n] = at;
            n += 1;
        });
        assert_eq!(seen[..n], [256]);
    }
}
