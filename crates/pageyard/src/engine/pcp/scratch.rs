//! A scratch area per CPU: memory to sort frames in on their way between lists and zones, when there are more of them
//! than a stack should hold. If the area is in use, the caller falls back to a smaller batch.

use crate::engine::geometry::{
    BATCH, BLOCK_FRAMES, BLOCK_ORDER, BlockIdx, FrameIdx, WORD_FRAMES, WORD_ORDER, WORDS,
};
use crate::engine::map::frame_map::Masks;
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::Range;
use pageyard_core::units::{CpuId, Order};
use pageyard_sync::{A32, Acquire, Carver, Relaxed, Release, Zeroable};

/// Groups that frames are sorted into at a time: the pageblocks of one gibibyte.
const GROUPS: usize = if cfg!(pageyard_loom) { 2 } else { 512 };
/// The same where there is no area.
const FEW_GROUPS: usize = if cfg!(pageyard_loom) { 2 } else { 64 };

/// Words of a cache line.
const LINE_A32: usize = 16;

/// Memory that the user of an area writes to.
#[repr(transparent)]
struct Plain<T>(UnsafeCell<T>);

// SAFETY: it is reached only through a `ScratchArea`, of which there is one at a time.
unsafe impl<T: Send> Sync for Plain<T> {}

// SAFETY: an integer, for which every bit pattern is a value.
unsafe impl Zeroable for Plain<u32> {
    #[cfg(any(pageyard_loom, pageyard_shuttle))]
    fn zero() -> Self {
        Plain(UnsafeCell::new(0))
    }
}

// SAFETY: an integer, for which every bit pattern is a value.
unsafe impl Zeroable for Plain<u16> {
    #[cfg(any(pageyard_loom, pageyard_shuttle))]
    fn zero() -> Self {
        Plain(UnsafeCell::new(0))
    }
}

/// The scratch areas of all CPUs.
pub(crate) struct ScratchAreas<'m> {
    /// 1 while a CPU's area is taken.
    taken: &'m [A32],
    items: &'m [Plain<u32>],
    sorted: &'m [Plain<u32>],
    counts: &'m [Plain<u16>],
    /// Items that an area holds; 0 where there are none.
    room: usize,
}

impl<'m> ScratchAreas<'m> {
    /// Carves scratch areas for `cpus` CPUs, each with room for this many items; none where a stack has as much.
    pub(crate) fn carve(carver: &mut Carver<'m>, cpus: usize, room: usize) -> ScratchAreas<'m> {
        let room = if room > BATCH { room } else { 0 };
        let groups = if room > 0 { GROUPS } else { 0 };
        ScratchAreas {
            taken: carver.zeroed(cpus * LINE_A32),
            items: carver.zeroed(cpus * room),
            sorted: carver.zeroed(cpus * room),
            counts: carver.zeroed(cpus * groups),
            room,
        }
    }

    /// Gives all areas back while nothing else runs.
    #[cfg(not(pageyard_loom))]
    pub(crate) fn reset(&self) {
        // ORDER: Relaxed: published with the allocator.
        self.taken.iter().for_each(|taken| taken.store(0, Relaxed));
    }

    /// Takes a CPU's area, unless it is in use or there is none.
    pub(crate) fn take(&self, cpu: CpuId) -> Option<ScratchArea<'_>> {
        if self.room == 0 {
            return None;
        }
        let cpu = cpu.index();
        let taken = &self.taken[cpu * LINE_A32];
        // ORDER: Acquire pairs with the Release of the drop: the previous user is done with it.
        taken.compare_exchange(0, 1, Acquire, Relaxed).ok()?;
        Some(ScratchArea {
            taken,
            items: self.items[cpu * self.room..][..self.room].as_ptr(),
            sorted: self.sorted[cpu * self.room..][..self.room].as_ptr(),
            counts: self.counts[cpu * GROUPS..][..GROUPS].as_ptr(),
            room: self.room,
            memory: PhantomData,
        })
    }
}

/// An area, until it is dropped.
pub(crate) struct ScratchArea<'a> {
    taken: &'a A32,
    items: *const Plain<u32>,
    sorted: *const Plain<u32>,
    counts: *const Plain<u16>,
    room: usize,
    memory: PhantomData<&'a mut [u32]>,
}

impl ScratchArea<'_> {
    /// Returns how many items it holds.
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// Returns the scratch area in it.
    pub(crate) fn scratch(&mut self) -> Scratch<'_> {
        // SAFETY: 1. `room` items, as many again and `GROUPS` counts lie there, initialised, in cells that may change.
        //         2. No other user has the area until it is dropped, and the borrow of `self` lends it once.
        unsafe {
            Scratch {
                items: core::slice::from_raw_parts_mut(self.items.cast_mut().cast(), self.room),
                sorted: core::slice::from_raw_parts_mut(self.sorted.cast_mut().cast(), self.room),
                counts: core::slice::from_raw_parts_mut(self.counts.cast_mut().cast(), GROUPS),
            }
        }
    }
}

impl Drop for ScratchArea<'_> {
    fn drop(&mut self) {
        // ORDER: Release pairs with the Acquire in `take`.
        self.taken.store(0, Release);
    }
}

/// A scratch area on the stack.
pub(crate) struct StackScratch {
    items: [u32; BATCH],
    sorted: [u32; BATCH],
    counts: [u16; FEW_GROUPS],
}

impl StackScratch {
    pub(crate) const fn new() -> StackScratch {
        StackScratch { items: [0; BATCH], sorted: [0; BATCH], counts: [0; FEW_GROUPS] }
    }

    /// Returns the scratch area on it.
    pub(crate) fn scratch(&mut self) -> Scratch<'_> {
        Scratch { items: &mut self.items, sorted: &mut self.sorted, counts: &mut self.counts }
    }
}

/// Room for items, and for sorting as many.
pub(crate) struct Scratch<'a> {
    pub(crate) items: &'a mut [u32],
    sorted: &'a mut [u32],
    counts: &'a mut [u16],
}

/// Items per change of pageblock, below which sorting them is cheaper than a transition for each change.
const FEW_CHANGES: usize = 16;

impl Scratch<'_> {
    /// Calls `give` with each pageblock that a group of items, blocks of `order`, lies in, how many of them do, and all
    /// their frames in it.
    ///
    /// Items in few runs are taken as they come, others are sorted first. A pageblock can come twice: in the first
    /// case, and where pageblocks far apart share a group.
    pub(crate) fn by_pageblock(
        &mut self,
        group: Range<usize>,
        order: Order,
        mut give: impl FnMut(BlockIdx, u32, &Masks),
    ) {
        let n = group.len();
        let items = &self.items[group.clone()];
        let changes = items.windows(2).filter(|w| w[0] >> BLOCK_ORDER != w[1] >> BLOCK_ORDER).count();
        let ones = u64::MAX >> (64 - (1u32 << order.get()));
        let items = if changes <= n / FEW_CHANGES { items } else { self.sorted(group) };
        let (mut masks, mut blocks) = ([0; WORDS], 0);
        for (i, item) in items.iter().enumerate() {
            let offset = item & (BLOCK_FRAMES - 1);
            let mask = &mut masks[(offset >> WORD_ORDER) as usize & (WORDS - 1)];
            let frames = ones << (offset & (WORD_FRAMES - 1));
            // Counted by their bits, not by their number, as they are given.
            blocks += u32::from(*mask & frames == 0);
            *mask |= frames;
            let block = item >> BLOCK_ORDER;
            if items.get(i + 1).is_none_or(|next| next >> BLOCK_ORDER != block) {
                give(FrameIdx::of_item(*item).block(), blocks, &masks);
                (masks, blocks) = ([0; WORDS], 0);
            }
        }
    }

    /// Sorts items by their pageblocks' numbers, as far as there are groups: counts each group, then puts each item
    /// after those of its group.
    fn sorted(&mut self, group: Range<usize>) -> &[u32] {
        let Scratch { items, sorted, counts } = self;
        let (n, items) = (group.len(), &items[group]);
        let (last, bits) = (counts.len() - 1, counts.len().trailing_zeros());
        let group = |item: u32| {
            let block = (item >> BLOCK_ORDER) as usize;
            (block ^ block >> bits) & last
        };
        counts.fill(0);
        items.iter().for_each(|item| counts[group(*item)] += 1);
        let mut before = 0;
        for count in counts.iter_mut() {
            before += core::mem::replace(count, before);
        }
        for item in items {
            let at = &mut counts[group(*item)];
            sorted[usize::from(*at)] = *item;
            *at += 1;
        }
        &sorted[..n]
    }
}

#[cfg(all(test, not(pageyard_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_desk_is_taken_once_at_a_time() {
        let mut memory = [0u8; 8192];
        let mut carver = Carver::of(&mut memory);
        let scratch_areas = ScratchAreas::carve(&mut carver, 2, 100);
        assert!(carver.fits());
        let first = scratch_areas.take(CpuId(1)).unwrap();
        assert!(scratch_areas.take(CpuId(1)).is_none() && scratch_areas.take(CpuId(0)).is_some());
        drop(first);
        assert_eq!(scratch_areas.take(CpuId(1)).unwrap().scratch().items.len(), 100);
        assert!(ScratchAreas::carve(&mut carver, 2, BATCH).take(CpuId(0)).is_none(), "a stack has as much");
    }

    #[test]
    fn items_come_together_by_pageblock_whatever_their_order() {
        let mut stack = StackScratch::new();
        let mut scratch = stack.scratch();
        // Five pageblocks in turn; then all of one.
        for blocks in [[3, 7, 3 + 64, 501, 8], [9; 5]] {
            for (i, item) in scratch.items.iter_mut().enumerate() {
                *item = blocks[i % 5] << BLOCK_ORDER | (i as u32 * 8);
            }
            let (mut seen, mut frames) = ([0; 5], 0);
            let n = scratch.items.len();
            scratch.by_pageblock(0..n, Order::of(3), |block, given, masks| {
                assert_eq!(masks.iter().map(|m| m.count_ones()).sum::<u32>(), given << 3);
                let at = blocks.iter().position(|b| *b as usize == block.get()).unwrap();
                seen[at] += 1;
                for i in (0..n).filter(|i| blocks[i % 5] as usize == block.get()) {
                    assert_eq!(masks[i / 8] >> (i % 8 * 8) & 0xff, 0xff);
                }
                frames += masks.iter().map(|m| m.count_ones()).sum::<u32>();
            });
            assert_eq!(frames, 8 * n as u32);
            assert_eq!(seen, if blocks[1] == 9 { [1, 0, 0, 0, 0] } else { [1; 5] });
        }
    }
}
