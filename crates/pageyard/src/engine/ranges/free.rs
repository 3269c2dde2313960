//! Frees by range.

use super::find::live_block_with;
use super::gathered::Gathered;
use crate::engine::geometry::{BLOCK_FRAMES, FrameIdx, PAGEBLOCK};
use crate::engine::map::tag::Tag;
use crate::engine::pcp::percpu::PerCpu;
use crate::engine::requests::win::Unwon;
use crate::engine::yard::Pageyard;
use crate::engine::zone::Zone;
use pageyard_core::allocator::Cx;
use pageyard_core::clear::Clear;
use pageyard_core::error::FreeError;
use pageyard_core::observer::Observer;
use pageyard_core::range::{FrameRange, RangeError, RangeFault};
use pageyard_core::units::{Frames, Order, Pfn};
use pageyard_sync::eight::{AT_ONCE, EIGHT};

/// Times that a call looks again at a block that another one is splitting, before it says so: a split is a few stores,
/// and then two owners of parts of one block seldom see each other.
const LOOKS: u32 = if cfg!(any(pageyard_loom, pageyard_shuttle, feature = "step-hook")) { 1 } else { 64 };

/// Blocks, if all are like the first, up to which a range is freed one by one.
const FEW: usize = 15;

impl<'m, P: PerCpu, O: Observer, C: Clear> Pageyard<'m, P, O, C> {
    /// Frees the frames of a range of one zone, whatever blocks they were allocated as, from the lowest up: what was
    /// one block can come back in parts, and several blocks at once.
    ///
    /// Live blocks inside the range are freed. One that crosses an end of it is split there first, into the fewest
    /// blocks; those outside stay their owner's, each of the order that [`order_of`](Pageyard::order_of) says. Blocks
    /// go where [`free_bulk`](Pageyard::free_bulk) puts them: into the CPU's lists; but more than 64 of one pageblock,
    /// and what no list takes, go straight to the zone, where they merge at once.
    ///
    /// # Errors
    /// [`RangeError`] says at which frame it stopped and why, and how many frames were freed before. Those are free,
    /// and the others as they were, except that a block that crosses an end may have been split. With a CPU that does
    /// not exist, a range without frames, past the largest frame number, or past the end of the zone, nothing changed.
    /// [`FreeError::Busy`] is for a block that another call was splitting for longer than this one looked: nothing is
    /// wrong with the range, and what is left of it can be freed again.
    ///
    /// # Concurrency
    /// Lock-free. Of several calls that free one frame, by this or by any other call, one does; the others stop there.
    /// Owners of different parts of one block can free them at the same time.
    ///
    /// # Panics
    /// An observer that panics leaves what was reported before free, and all else live.
    ///
    /// # Complexity
    /// One won tag a block, and one transition of a descriptor a pageblock.
    ///
    /// # Linux
    /// `free_contig_range`, and `free_pages_exact`. Difference: those want single pages, which the caller has split
    /// before.
    pub fn free_range(&self, cx: &Cx, first: Pfn, frames: Frames) -> Result<(), RangeError> {
        let found = self.zone_of(first);
        // The whole of one block, first of all: such a call costs little more than `free`.
        if let Some((zone, start)) = found
            && let Some(order) = zone.pageblocks.frames.tag(start).allocated()
            && order.frames() == frames
            && self.free(cx, first, order).is_ok()
        {
            return Ok(());
        }
        self.free_blocks(cx, FrameRange::new(first, frames), found)
    }

    /// Frees a range that is not the whole of one block, or cannot be freed as such.
    #[inline(never)]
    fn free_blocks(
        &self,
        cx: &Cx,
        range: FrameRange,
        found: Option<(&'m Zone<'m>, FrameIdx)>,
    ) -> Result<(), RangeError> {
        let FrameRange { first, frames } = range;
        let refused = |at, why| Err(RangeError { at, freed: Frames::ZERO, why });
        if !self.has_cpu(cx.cpu) {
            return refused(first, RangeFault::Free(FreeError::NoSuchCpu));
        }
        if frames == Frames::ZERO {
            return refused(first, RangeFault::Empty);
        }
        let Some(end) = range.end() else { return refused(first, RangeFault::Overflow) };
        let outside = RangeFault::Free(FreeError::OutsideArena);
        let Some((zone, start)) = found else { return refused(first, outside) };
        let zone_end = zone.pageblocks.span.end();
        if end > zone_end {
            return refused(zone_end, outside);
        }
        let end = start.plus(frames.0 as usize);
        let (mut at, mut order) = (start, Order::ZERO);
        // A few blocks are freed one by one: gathering them has a fixed part.
        while let Some(found) = zone.pageblocks.frames.tag(at).allocated() {
            let after = at.plus(found.frames().0 as usize);
            order = found;
            let few = (end.get() - at.get()) >> found.get() <= FEW;
            if after > end || !few || self.free(cx, zone.pageblocks.pfn(at), found).is_err() {
                break;
            }
            at = after;
            if at == end {
                return Ok(());
            }
        }
        self.free_frames(zone, cx, (start, at, end), order)
    }

    /// Frees a range from `at` on, the first block of which is probably of this order.
    #[inline(never)]
    fn free_frames(
        &self,
        zone: &Zone<'m>,
        cx: &Cx,
        (start, mut at, end): (FrameIdx, FrameIdx, FrameIdx),
        mut order: Order,
    ) -> Result<(), RangeError> {
        let mut gathered = Gathered::new(self, zone, cx.cpu);
        while at < end {
            match self.win_next(zone, at, end, &mut order) {
                Ok(n) => {
                    if O::ACTIVE || self.clears_on_free() {
                        self.tell_freed(zone, at, order);
                    }
                    if self.clears_on_free() {
                        self.free_known_zero(zone, cx, at, order);
                    } else {
                        gathered.add(at, n, order);
                    }
                    at = at.plus(n << order.get());
                }
                Err(why) => {
                    let freed = Frames((at.get() - start.get()) as u64);
                    return Err(RangeError {
                        at: zone.pageblocks.pfn(at),
                        freed,
                        why: RangeFault::Free(why),
                    });
                }
            }
        }
        Ok(())
    }

    /// Wins the live block at a frame, and those of the same order behind it; one that crosses an end of the range is
    /// split first. `order` is a guess, and then their order. Returns how many: one where the observer is told of each.
    #[inline]
    fn win_next(
        &self,
        zone: &Zone<'m>,
        at: FrameIdx,
        end: FrameIdx,
        order: &mut Order,
    ) -> Result<usize, FreeError> {
        loop {
            let n = self.win_run(zone, at, end, *order);
            if n > 0 {
                return Ok(n);
            }
            let found = self.find_next(zone, at, end)?;
            if found == *order {
                // The guess was right: it holds zeros, or another call was faster, or it cannot be won now.
                match self.win_block(&zone.pageblocks, at, found, Tag::Free) {
                    Ok(()) => return Ok(1),
                    Err(Unwon::Busy) => return Err(FreeError::Busy),
                    Err(Unwon::Is(_)) => {}
                }
            }
            *order = found;
        }
    }

    /// Wins live blocks of one order, of no known contents, that follow each other from a frame on and end at or before
    /// `end`; blocks below a pageblock's order, of one pageblock only. Returns how many.
    #[inline(always)]
    fn win_run(&self, zone: &Zone<'m>, first: FrameIdx, end: FrameIdx, order: Order) -> usize {
        let frames = zone.pageblocks.frames;
        let Some((_, watch)) = frames.state_of(first.get() as u64) else { return 0 };
        let (size, tag) = (order.frames().0 as usize, Tag::Allocated(order));
        let most = if O::ACTIVE || self.clears_on_free() { 1 } else { usize::MAX };
        // SAFETY: it has a state, of which this is the watch.
        let win = |at: FrameIdx, watch| unsafe { self.wins(&frames, (at, watch), tag, Tag::Free) };
        // SAFETY: as above: eight frames whose tags lie in one word are of one pageblock.
        let win_eight =
            |at: FrameIdx, watch| unsafe { self.wins_eight(&frames, (at, watch), tag, Tag::Free) };
        let eight = AT_ONCE && order == Order::ZERO && most > EIGHT;
        let (mut at, mut n) = (first, 0);
        if order < PAGEBLOCK {
            // One state serves all frames of a pageblock.
            let last = end.min(first.plus((BLOCK_FRAMES - first.offset()) as usize));
            while at.plus(size) <= last && n < most {
                // Eight at a time where their tags lie in one word.
                if eight && at.get().is_multiple_of(EIGHT) && at.plus(EIGHT) <= last && win_eight(at, watch) {
                    at = at.plus(EIGHT);
                    n += EIGHT;
                } else if win(at, watch) {
                    at = at.plus(size);
                    n += 1;
                } else {
                    break;
                }
            }
            return n;
        }
        while at.plus(size) <= end
            && n < most
            && frames.state_of(at.get() as u64).is_some_and(|(_, watch)| win(at, watch))
        {
            at = at.plus(size);
            n += 1;
        }
        n
    }

    /// Finds the live block at a frame; one that crosses an end of the range is split. Returns its order.
    #[cold]
    #[inline(never)]
    fn find_next(&self, zone: &Zone<'m>, at: FrameIdx, end: FrameIdx) -> Result<Order, FreeError> {
        let mut looks = 0;
        loop {
            let here = zone.pageblocks.frames.tag(at).allocated().map(|order| (at, order));
            let here = here.filter(|(at, order)| zone.pageblocks.has_room(*at, *order));
            let (head, order) = match here.map_or_else(|| live_block_with(&zone.pageblocks, at), Ok) {
                Err(FreeError::Busy) if looks < LOOKS => {
                    looks += 1;
                    core::hint::spin_loop();
                    continue;
                }
                found => found?,
            };
            let past = head.plus(order.frames().0 as usize) > end;
            let cut = match (head < at, past) {
                (false, false) => return Ok(order),
                (true, _) => self.cut(zone, (head, order), at),
                (false, true) => self.cut(zone, (head, order), end),
            };
            // Where another call was faster, what is there now is looked at anew.
            if cut == Err(Unwon::Busy) {
                return Err(FreeError::Busy);
            }
        }
    }
}
