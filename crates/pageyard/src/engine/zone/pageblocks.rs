//! A zone: its frame map, its index, its counts; how blocks up to a pageblock's order are claimed and released.

use super::current::{By, SLOTS_OF_CPU};
use crate::engine::geometry::{
    BLOCK_FRAMES, BLOCK_ORDER, BlockIdx, FrameIdx, LINE_WORDS, MAX_RUN, PAGEBLOCK, WORD_ORDER,
};
use crate::engine::map::count::{FrameDelta, FreeCount};
use crate::engine::map::descriptor::BlockState;
use crate::engine::map::frame_map::{Change, FrameMap, Masks, first_of, masks_of};
use crate::engine::map::index::Index;
use crate::engine::map::tag::Tag;
use crate::engine::map::watch::Unchanged;
use pageyard_core::memmap::{MemoryMap, ZoneSpan};
use pageyard_core::migratetype::Migratetype;
use pageyard_core::units::{CpuId, Frames, Order, Pfn, ZoneId};
use pageyard_sync::{A64, Carver, LINE, Relaxed, SeqCst};

/// Places where CPUs begin to search are multiples of this: descriptors in a cache line.
pub(crate) const CPU_ALIGN: usize = LINE_WORDS;

// The counts of a zone, and a word of bits, each on its own cache line.
const HIGHATOMIC_FREE: usize = 0;
const CMA_FREE: usize = LINE_WORDS;
const HIGHATOMIC_BLOCKS: usize = 2 * LINE_WORDS;
const BOOST: usize = 3 * LINE_WORDS;
const ISOLATIONS: usize = 4 * LINE_WORDS;
const EMPTIED: usize = 5 * LINE_WORDS;
const COUNTS: usize = 6 * LINE_WORDS;

/// The frames a claim wants.
#[derive(Clone, Copy)]
pub(crate) struct Want {
    /// The type that it is for.
    pub(crate) ty: Migratetype,
    /// The size of each block: at most a pageblock's order.
    pub(crate) order: Order,
    /// How many blocks, of one pageblock; one is enough.
    pub(crate) blocks: u32,
    /// The CPU that it is for.
    pub(crate) cpu: CpuId,
}

/// How a claim may treat the pageblock's type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    /// It has the type that is wanted.
    Same,
    /// It has type `from`, and takes on the one that is wanted.
    Convert { from: Migratetype },
    /// It has type `from`, and keeps it.
    Borrow { from: Migratetype },
}

/// The frames a claim took, all from one pageblock. The caller owns them.
pub(crate) struct Got {
    /// The pageblock.
    pub(crate) block: BlockIdx,
    /// Its frames that were taken.
    pub(crate) masks: Masks,
    /// Whether no CPU worked on it before.
    pub(crate) fresh: bool,
    /// The change to the count of free frames.
    pub(crate) claimed: FrameDelta,
}

impl Got {
    /// Returns the first frame of the lowest block of it.
    pub(crate) fn first(&self) -> FrameIdx {
        first_of(self.block, &self.masks)
    }
}

/// A zone.
pub(crate) struct Pageblocks<'m> {
    /// Its number.
    pub(crate) id: ZoneId,
    /// Where it lies.
    pub(crate) span: ZoneSpan,
    /// First frame of its first pageblock: its frames are numbered from there.
    pub(crate) base: u64,
    /// Its free bits, tags and descriptors.
    pub(crate) frames: FrameMap<'m>,
    /// Its index.
    pub(crate) index: Index<'m>,
    pub(crate) free: FreeCount<'m>,
    counts: &'m [A64],
    /// Each CPU's slots, by type: the pageblocks that it works on, plus one.
    pub(crate) current: &'m [A64],
}

impl<'m> Pageblocks<'m> {
    /// Bytes of its metadata for each CPU.
    pub(crate) const BYTES_OF_CPU: usize = 8 * SLOTS_OF_CPU + LINE;

    /// Carves a zone's metadata. What grows with memory comes before what grows with CPUs.
    pub(crate) fn carve(carver: &mut Carver<'m>, id: ZoneId, span: ZoneSpan, cpus: usize) -> Pageblocks<'m> {
        let first = span.start.0 >> BLOCK_ORDER;
        let blocks = ((span.end().0 - 1) >> BLOCK_ORDER) + 1 - first;
        Pageblocks {
            id,
            span,
            base: first << BLOCK_ORDER,
            frames: FrameMap::carve(carver, blocks as usize),
            index: Index::carve(carver, blocks as usize, (first % MAX_RUN) as usize),
            free: FreeCount::carve(carver, span.managed, cpus),
            counts: carver.zeroed(COUNTS),
            current: carver.zeroed(cpus * SLOTS_OF_CPU),
        }
    }

    /// Fills in what is not managed, then the index and the counts. Zeroed metadata of whole pageblocks stays
    /// untouched.
    pub(crate) fn open(&self, map: &MemoryMap<'_>) {
        let mut at = 0;
        let end = (self.frames.len() as u64) << BLOCK_ORDER;
        let managed = || {
            let mine = |r: &pageyard_core::memmap::Region| r.managed && self.span.spans(r.start);
            map.regions().filter(mine).map(|r| (r.start.0 - self.base, r.end().0 - self.base))
        };
        for (start, stop) in managed().chain([(end, end)]) {
            self.open_hole(at, start);
            at = stop;
        }
        self.open_zeroed(map);
        self.index.build(&self.frames);
        self.free.set(self.span.managed);
    }

    /// Marks each pageblock whose frames all lie in regions that hold zeros.
    fn open_zeroed(&self, map: &MemoryMap<'_>) {
        let mine = |r: &pageyard_core::memmap::Region| r.managed && self.span.spans(r.start);
        if !map.regions().filter(mine).any(|r| r.zeroed) {
            return;
        }
        for block in self.frames.all().filter(|block| !self.frames.state(*block).is_hole()) {
            let start = self.pfn(block.first_frame()).0;
            let end = start + u64::from(BLOCK_FRAMES);
            let inside = |r: &pageyard_core::memmap::Region| r.start.0 < end && r.end().0 > start;
            if map.regions().filter(mine).filter(inside).all(|r| r.zeroed) {
                self.frames.set_state(block, self.frames.state(block).known_zero());
            }
        }
    }

    /// Marks the frames from `start` to `end` as not managed.
    fn open_hole(&self, start: u64, end: u64) {
        let mut at = start;
        while at < end {
            let first = FrameIdx::new(at as usize);
            let (block, offset) = (first.block(), first.offset());
            let frames = (end - at).min(u64::from(BLOCK_FRAMES - offset)) as u32;
            let left = self.frames.state(block).free() - frames;
            self.frames.set_state(block, BlockState::partial(left));
            // A pageblock that is all hole is never looked into.
            if frames < BLOCK_FRAMES {
                for f in offset..offset + frames {
                    self.frames.set_tag(block.frame(f), Tag::Hole);
                    self.frames.set_taken(
                        block,
                        (f >> WORD_ORDER) as usize,
                        masks_of(f, Order::ZERO)[(f >> WORD_ORDER) as usize],
                    );
                }
            }
            at += u64::from(frames);
        }
    }

    /// Returns the number in the zone of a frame that its pageblocks cover.
    #[inline(always)]
    pub(crate) fn frame_of(&self, pfn: Pfn) -> Option<FrameIdx> {
        // Within the span there are no more frames than a list's item can name.
        self.span.spans(pfn).then(|| FrameIdx::new((pfn.0 - self.base) as usize))
    }

    /// Returns the frame number of a frame of the zone.
    #[inline(always)]
    pub(crate) fn pfn(&self, frame: FrameIdx) -> Pfn {
        Pfn(self.base + frame.get() as u64)
    }

    /// Returns whether a block of an order can start at a frame: it is aligned, and the zone has all of it. A live
    /// block is one, unless its tag was damaged.
    pub(crate) fn has_room(&self, frame: FrameIdx, order: Order) -> bool {
        let end = frame.get() as u64 + order.frames().0;
        self.pfn(frame).is_aligned(order) && end <= (self.frames.len() << BLOCK_ORDER) as u64
    }

    /// Returns whether a frame of the zone is managed.
    pub(crate) fn is_managed(&self, frame: FrameIdx) -> bool {
        !self.frames.state(frame.block()).is_hole() && self.frames.tag(frame) != Tag::Hole
    }

    // Counts.

    /// Returns the free frames, those in per-CPU lists and in isolated pageblocks not counted.
    pub(crate) fn free(&self) -> u64 {
        self.free.get()
    }

    /// Returns how many of them there are above `mark`: all, or, where `enough` are there for sure, no fewer than that.
    #[inline(always)]
    pub(crate) fn free_above(&self, mark: u64, enough: u64) -> u64 {
        self.free.above(mark, enough)
    }

    /// Returns the free frames in pageblocks reserved for high-order requests that cannot wait.
    #[inline(always)]
    pub(crate) fn highatomic_free(&self) -> u64 {
        self.count(HIGHATOMIC_FREE)
    }

    /// Returns the free frames that only movable requests may use.
    #[inline(always)]
    pub(crate) fn cma_free(&self) -> u64 {
        self.count(CMA_FREE)
    }

    /// Returns the count of pageblocks reserved for high-order requests that cannot wait.
    pub(crate) fn highatomic_blocks(&self) -> &A64 {
        &self.counts[HIGHATOMIC_BLOCKS]
    }

    /// Returns what fragmentation adds to the watermarks.
    #[inline(always)]
    pub(crate) fn boost(&self) -> &A64 {
        &self.counts[BOOST]
    }

    /// Returns a word of bits that says which CPUs may have an emptied pageblock. CPUs 64 apart share a bit.
    #[inline(always)]
    pub(crate) fn emptied(&self) -> &A64 {
        &self.counts[EMPTIED]
    }

    /// Counts are sums of signed changes: while some have not arrived one may be below zero.
    #[inline(always)]
    fn count(&self, which: usize) -> u64 {
        // ORDER: Relaxed: a count orders nothing.
        (self.counts[which].load(Relaxed) as i64).max(0) as u64
    }

    /// Makes the index, the counts and the slots anew from the descriptors, while nothing else runs.
    #[cfg(not(pageyard_loom))]
    pub(crate) fn rebuild(&self) {
        let of = |ty: Migratetype| {
            let states = self.frames.all().map(|block| self.frames.state(block));
            states.filter(move |s| !s.is_hole() && s.has_type(ty))
        };
        let free = |ty: Migratetype| of(ty).map(|s| u64::from(s.counted())).sum::<u64>();
        // ORDER: Relaxed: published with the allocator.
        self.counts[HIGHATOMIC_FREE].store(free(Migratetype::HighAtomic), Relaxed);
        self.counts[CMA_FREE].store(free(Migratetype::Cma), Relaxed);
        self.highatomic_blocks().store(of(Migratetype::HighAtomic).count() as u64, Relaxed);
        self.current.iter().for_each(|slot| slot.store(0, Relaxed));
        // ORDER: Relaxed, as above.
        self.emptied().store(0, Relaxed);
        self.free.reset(Frames(Migratetype::ALL.iter().map(|ty| free(*ty)).sum()));
        self.index.rebuild(&self.frames);
    }

    /// Follows a transition of a descriptor in the counts and then in the index.
    pub(crate) fn changed(&self, block: BlockIdx, change: Change) {
        self.free.add(self.count_change(change));
        self.index.moved(&self.frames, block, change.old, change.new);
    }

    /// Counts a transition, except for what it returns: that has to be added to the count of free frames.
    #[inline(always)]
    pub(crate) fn count_change(&self, change: Change) -> FrameDelta {
        let Change { old, new } = change;
        if !old.has_requested_type() || !new.has_requested_type() {
            self.count_by_type(change);
        }
        FrameDelta::between(old.counted(), new.counted())
    }

    /// The same for a release of `n` frames.
    #[inline(always)]
    pub(super) fn count_release(&self, change: Change, n: u32) -> FrameDelta {
        if !change.new.has_requested_type() {
            self.count_by_type(change);
        }
        if change.new.is_isolated() { FrameDelta::ZERO } else { FrameDelta::released(n) }
    }

    /// Counts a transition of a pageblock that not all requests can use.
    #[cold]
    fn count_by_type(&self, Change { old, new }: Change) {
        for (ty, which) in [(Migratetype::HighAtomic, HIGHATOMIC_FREE), (Migratetype::Cma, CMA_FREE)] {
            let of = |s: BlockState| if s.has_type(ty) { s.counted() } else { 0 };
            let n = FrameDelta::between(of(old), of(new));
            if n != FrameDelta::ZERO {
                // ORDER: Relaxed: a count orders nothing.
                self.counts[which].fetch_add(n.wrapping(), Relaxed);
            }
        }
    }

    // Releases.

    /// Releases a pageblock that was claimed as a whole; returns what to add to the count of free frames.
    #[inline]
    pub(crate) fn release_whole(&self, block: BlockIdx, zero: bool) -> FrameDelta {
        let Some(change) = self.frames.update(block, |s| s.release_whole(zero)) else {
            return FrameDelta::ZERO;
        };
        let ty = change.new.migratetype();
        if change.new.is_binned_whole(ty) {
            self.index.settle_whole(&self.frames, ty, block);
        } else {
            self.index.moved(&self.frames, block, change.old, change.new);
        }
        self.count_release(change, BLOCK_FRAMES)
    }

    /// Releases one block whose tag was won already; returns what to add to the count of free frames.
    pub(crate) fn release_block(&self, frame: FrameIdx, order: Order, zero: bool, by: By<'_>) -> FrameDelta {
        let block = frame.block();
        if order >= PAGEBLOCK {
            if zero {
                self.frames.set_tag(frame, Tag::Free);
            }
            let mut freed = FrameDelta::ZERO;
            for b in block.run(1 << (order.get() - BLOCK_ORDER)) {
                freed += self.release_whole(b, zero);
            }
            return freed;
        }
        if zero {
            for f in frame.run(1 << order.get()) {
                self.frames.set_tag(f, Tag::FreeZero);
            }
        }
        self.release_one(frame, order, zero, by).freed
    }

    // Transitions of a pageblock as such.

    /// Runs a transition of a pageblock and counts it; returns whether it applied.
    pub(crate) fn transit(
        &self,
        block: BlockIdx,
        transition: impl Fn(BlockState) -> Option<BlockState>,
    ) -> bool {
        let change = self.frames.update(block, transition);
        if let Some(change) = change {
            self.changed(block, change);
        }
        change.is_some()
    }

    /// Takes a pageblock out of allocation: its free frames leave the zone's count, and frees into it stay there.
    pub(crate) fn isolate(&self, block: BlockIdx) -> bool {
        let isolated = self.transit(block, BlockState::isolate);
        // ORDER: SeqCst: after the descriptor. A watcher of this count read it before the descriptors.
        self.counts[ISOLATIONS].fetch_add(u64::from(isolated), SeqCst);
        isolated
    }

    /// Watches for isolations: for a push of blocks of several pageblocks, whose descriptors are read afterwards.
    #[inline]
    pub(crate) fn watch_isolations(&self) -> Unchanged<'_> {
        Unchanged::since(&self.counts[ISOLATIONS])
    }

    /// Takes a pageblock back into allocation.
    pub(crate) fn restore(&self, block: BlockIdx) -> bool {
        self.transit(block, BlockState::restore)
    }

    /// Changes a pageblock's type.
    pub(crate) fn set_type(&self, block: BlockIdx, from: Migratetype, to: Migratetype) -> bool {
        // By the type that a damaged code counts as, so that `lend` ends.
        self.transit(block, |s| (s.migratetype() == from && from != to).then(|| s.with_type(to)))
    }

    /// Returns the zone's managed frames.
    pub(crate) fn managed(&self) -> Frames {
        self.span.managed
    }
}
