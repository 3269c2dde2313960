//! The sizes that everything in the engine is built from, and the numbers of a zone's frames and pageblocks.
//!
//! Under the model checker they shrink, so that a pageblock has few states: what is proved there is the protocol, and
//! no step of it depends on how many bits a word or how many words a pageblock has, as long as there are blocks
//! inside a word, blocks of several words, whole pageblocks, and runs of pageblocks.

use pageyard_core::units::{NR_ORDERS, Order, PAGEBLOCK_ORDER};

/// Order of the frames that one word of free bits describes.
pub(crate) const WORD_ORDER: u8 = if cfg!(pageyard_loom) { 1 } else { 6 };
/// Frames that one word of free bits describes.
pub(crate) const WORD_FRAMES: u32 = 1 << WORD_ORDER;
/// The bits of a word that describe frames.
pub(crate) const WORD_MASK: u64 = if WORD_ORDER == 6 { u64::MAX } else { (1 << WORD_FRAMES) - 1 };

/// Order of a pageblock.
pub(crate) const BLOCK_ORDER: u8 = if cfg!(pageyard_loom) { 3 } else { PAGEBLOCK_ORDER.get() };
/// Frames of a pageblock.
pub(crate) const BLOCK_FRAMES: u32 = 1 << BLOCK_ORDER;
/// Words of free bits of a pageblock: one cache line.
pub(crate) const WORDS: usize = 1 << (BLOCK_ORDER - WORD_ORDER);

/// Order of the children that one word of an index bitmap describes.
pub(crate) const FAN_ORDER: u8 = if cfg!(pageyard_loom) { 2 } else { 6 };
/// Children that one word of an index bitmap describes.
pub(crate) const FAN: usize = 1 << FAN_ORDER;

/// The largest order served. Under the model checker, one more than a word of pageblocks has.
pub(crate) const MAX_ORDER: u8 =
    if cfg!(pageyard_loom) { BLOCK_ORDER + FAN_ORDER + 1 } else { NR_ORDERS as u8 - 1 };
/// Pageblocks in a block of the largest order; index bitmaps start at a multiple of it.
pub(crate) const MAX_RUN: u64 = 1 << (MAX_ORDER - BLOCK_ORDER);

/// Blocks of one word of free bits.
pub(crate) const WORD: Order = Order::of(WORD_ORDER);
/// Blocks of one pageblock.
pub(crate) const PAGEBLOCK: Order = Order::of(BLOCK_ORDER);
/// The largest blocks served.
pub(crate) const LARGEST: Order = Order::of(MAX_ORDER);

/// Eight-byte words of a cache line.
pub(crate) const LINE_WORDS: usize = pageyard_sync::LINE / 8;

/// The most frames that move between a zone and a per-CPU list in one transition: a word's.
pub(crate) const BATCH: usize = WORD_FRAMES as usize;

/// Frames from the start of a zone that a `u32` in a per-CPU list can name.
pub(crate) const ZONE_LIMIT: u64 = 1 << 32;

const _: () = assert!(MAX_ORDER > BLOCK_ORDER && WORD_ORDER + 1 < BLOCK_ORDER);

/// A pageblock's number in its zone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct BlockIdx(usize);

impl BlockIdx {
    /// Makes the number of a zone's `n`th pageblock.
    #[inline(always)]
    pub(crate) const fn new(n: usize) -> BlockIdx {
        BlockIdx(n)
    }

    /// Returns the number, for an array of pageblocks.
    #[inline(always)]
    pub(crate) const fn get(self) -> usize {
        self.0
    }

    /// Returns its first frame.
    #[inline(always)]
    pub(crate) const fn first_frame(self) -> FrameIdx {
        FrameIdx(self.0 << BLOCK_ORDER)
    }

    /// Returns the frame at an offset in it.
    #[inline(always)]
    pub(crate) const fn frame(self, offset: u32) -> FrameIdx {
        FrameIdx((self.0 << BLOCK_ORDER) + offset as usize)
    }

    /// Iterates over `n` pageblocks, this one first.
    #[inline(always)]
    pub(crate) fn run(self, n: usize) -> impl DoubleEndedIterator<Item = BlockIdx> + Clone {
        (self.0..self.0 + n).map(BlockIdx)
    }
}

/// A frame's number in its zone, counted from the first frame of the zone's first pageblock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct FrameIdx(usize);

impl FrameIdx {
    /// Makes the number of a zone's `n`th frame.
    #[inline(always)]
    pub(crate) const fn new(n: usize) -> FrameIdx {
        FrameIdx(n)
    }

    /// Returns the number, for an array of frames.
    #[inline(always)]
    pub(crate) const fn get(self) -> usize {
        self.0
    }

    /// Returns the frame that an item of a per-CPU list names.
    #[inline(always)]
    pub(crate) const fn of_item(item: u32) -> FrameIdx {
        FrameIdx(item as usize)
    }

    /// Returns the item that names it in a per-CPU list: a zone spans no more frames than those can name.
    #[inline(always)]
    pub(crate) const fn item(self) -> u32 {
        self.0 as u32
    }

    /// Returns its pageblock.
    #[inline(always)]
    pub(crate) const fn block(self) -> BlockIdx {
        BlockIdx(self.0 >> BLOCK_ORDER)
    }

    /// Returns how far into its pageblock it lies.
    #[inline(always)]
    pub(crate) const fn offset(self) -> u32 {
        self.0 as u32 & (BLOCK_FRAMES - 1)
    }

    /// Returns the word of its pageblock that its bit is in.
    #[inline(always)]
    pub(crate) const fn word(self) -> usize {
        (self.offset() >> WORD_ORDER) as usize
    }

    /// Returns its bit's place in that word.
    #[inline(always)]
    pub(crate) const fn bit(self) -> u32 {
        self.0 as u32 & (WORD_FRAMES - 1)
    }

    /// Returns the frame `n` further on.
    #[inline(always)]
    pub(crate) const fn plus(self, n: usize) -> FrameIdx {
        FrameIdx(self.0 + n)
    }

    /// Iterates over `n` frames, this one first.
    #[inline(always)]
    pub(crate) fn run(self, n: usize) -> impl Iterator<Item = FrameIdx> {
        (self.0..self.0 + n).map(FrameIdx)
    }
}

const _: () =
    assert!(BlockIdx::new(3).frame(5).block().get() == 3 && BlockIdx::new(3).frame(5).offset() == 5);
