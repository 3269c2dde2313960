//! Repair: rebuilds an instance's descriptors, bits and indexes from its frames' tags after a thread or a process was
//! killed in the middle of a call.

use super::geometry::{BLOCK_FRAMES, BlockIdx, FrameIdx, PAGEBLOCK, WORD_MASK, WORDS};
use super::map::descriptor::BlockState;
use super::map::frame_map::Masks;
use super::map::tag::Tag;
use super::pcp::percpu::PerCpu;
use super::yard::Pageyard;
use super::zone::Zone;
use super::zone::pageblocks::Pageblocks;
use pageyard_core::clear::Clear;
use pageyard_core::observer::Observer;
use pageyard_core::units::{Frames, Order, Pfn};

/// The damage that [`Pageyard::repair`] found and repaired.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Repaired {
    /// Frames that were lost: no live block's, in no list, and not to be had from their zones.
    pub lost: Frames,
    /// Frames that were in per-CPU lists, which are empty now.
    pub cached: Frames,
    /// Frames of live blocks.
    pub allocated: Frames,
    /// Pageblocks that were isolated, and are back in allocation.
    pub isolated: u64,
    /// Pageblocks that were leased to a compactor, and are not any more.
    pub leased: u64,
}

/// The state of a frame when no call is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Is {
    /// The first of a live block.
    First(Order),
    /// A later one of a live block.
    Later,
    /// Not managed.
    Hole,
    /// Nobody's.
    Free,
}

/// Says what a frame is by its tag, and by whether the live block before it reaches it.
///
/// Nothing else is asked. A frame's bit, its pageblock's descriptor and the lists say who *may take* it, and a call
/// that is killed leaves these in any state; but a block becomes a caller's when its tag says `Allocated` and ends to
/// be when that is won, and no call gives a bit or an item of a list for a frame whose tag says otherwise. So whatever
/// is not a live block's is free.
fn is(tag: Tag, reached: bool) -> Is {
    match tag {
        _ if reached => Is::Later,
        Tag::Allocated(order) | Tag::AllocatedZero(order) => Is::First(order),
        Tag::Hole => Is::Hole,
        // A block that is being split has no owner: its parts have one from their own tags on.
        Tag::Free | Tag::FreeZero | Tag::Splitting => Is::Free,
    }
}

impl<P: PerCpu, O: Observer, C: Clear> Pageyard<'_, P, O, C> {
    /// Makes everything that the instance knows anew from the tags of its frames, after a thread or a process was
    /// killed in the middle of a call: free bits, descriptors, the index, counts, watermarks, what CPUs work on.
    /// Per-CPU lists, whoever had them locked, are emptied into their zones; isolations and leases end. Afterwards
    /// [`audit`](Pageyard::audit) is clean, and every frame that is not a live block's can be allocated.
    ///
    /// `live` is called with each live block first, before anything changes. A call that was killed right after it
    /// marked a block, or right before it won a block's mark, leaves it live: one block, or in a bulk call, a range or
    /// a compaction as many as move at a time. The caller, who knows what the survivors own, finds those among them,
    /// and frees them after this call.
    ///
    /// A block that was being split is free but for the parts that were marked. Observers are told nothing.
    ///
    /// # Safety
    /// From the beginning of this call to its end no other call on the instance runs, in any process that shares its
    /// metadata, and none that began before goes on afterwards: its thread has died.
    ///
    /// # Panics
    /// Where `live` panics, nothing has changed.
    ///
    /// # Complexity
    /// A visit to each frame's tag.
    ///
    /// # Examples
    /// ```
    /// use pageyard::{Config, CpuId, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, Pageyard, Pfn};
    /// use pageyard::{Region, Request, TryLock, ZoneKind};
    ///
    /// let regions = [Region::managed(Pfn(0), Frames(1 << 18), NodeId(0), ZoneKind::Normal)];
    /// let yard = Pageyard::owned(&MemoryMap::new(&regions)?, Config::new(1), TryLock)?;
    /// let cx = Cx::on(CpuId(0));
    /// let ours = yard.alloc(&cx, &Request::new(Order::ZERO, Migratetype::Movable))?;
    /// let dead = yard.alloc(&cx, &Request::new(Order::of(3), Migratetype::Movable))?;
    /// // The process that had `dead` was killed.
    /// let mut orphans = Vec::new();
    /// // SAFETY: nothing else runs.
    /// let repaired = unsafe { yard.repair(|pfn, order| if pfn != ours { orphans.push((pfn, order)) }) };
    /// assert_eq!(orphans, [(dead, Order::of(3))]);
    /// assert_eq!(repaired.lost, Frames(0));
    /// for (pfn, order) in orphans {
    ///     yard.free(&cx, pfn, order)?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub unsafe fn repair(&self, mut live: impl FnMut(Pfn, Order)) -> Repaired {
        for zone in self.zones {
            for_each_live(&zone.pageblocks, &mut live);
        }
        let mut repaired = Repaired::default();
        for zone in self.zones {
            repair_zone(zone, &mut repaired);
        }
        self.scratch_areas.reset();
        self.settle_watermarks();
        repaired
    }
}

/// Calls `live` with each live block of a zone.
fn for_each_live(pageblocks: &Pageblocks<'_>, live: &mut impl FnMut(Pfn, Order)) {
    let mut left = 0;
    for block in pageblocks.frames.all() {
        if pageblocks.frames.state(block).is_hole() {
            left = 0;
            continue;
        }
        for frame in block.first_frame().run(BLOCK_FRAMES as usize) {
            match is(pageblocks.frames.tag(frame), left > 0) {
                Is::First(order) => {
                    live(pageblocks.pfn(frame), order);
                    left = order.frames().0 - 1;
                }
                Is::Later => left -= 1,
                Is::Hole | Is::Free => {}
            }
        }
    }
}

fn repair_zone(zone: &Zone<'_>, repaired: &mut Repaired) {
    let pageblocks = &zone.pageblocks;
    let cached = zone.lists.reset();
    let (mut left, mut managed, mut free, mut counted, mut unaccepted) = (0, 0, 0, 0, 0);
    for block in pageblocks.frames.all() {
        let before = pageblocks.frames.state(block);
        repaired.isolated += u64::from(before.is_isolated());
        repaired.leased += u64::from(before.owner().is_some());
        if before.is_hole() {
            if before.is_opening() {
                close(pageblocks, block);
            }
            unaccepted += u64::from(before.is_unaccepted());
            left = 0;
            continue;
        }
        let frames = repair_block(pageblocks, block, &mut left);
        managed += u64::from(frames.managed);
        free += u64::from(frames.free);
        counted += u64::from(before.free());
    }
    pageblocks.rebuild();
    zone.online.set_managed(Frames(managed));
    zone.unaccepted.set(unaccepted);
    repaired.cached += Frames(cached);
    repaired.lost += Frames(free.saturating_sub(counted + cached));
    repaired.allocated += Frames(managed - free);
}

/// Makes a pageblock the hole again that it was when a call began to make frames of it managed.
fn close(pageblocks: &Pageblocks<'_>, block: BlockIdx) {
    let frames = &pageblocks.frames;
    block.first_frame().run(BLOCK_FRAMES as usize).for_each(|frame| frames.set_tag(frame, Tag::Free));
    (0..WORDS).for_each(|word| {
        frames.set_free_bits(block, word, WORD_MASK);
    });
    frames.set_state(block, BlockState::partial(0));
}

/// The state of a pageblock as its frames show it.
struct Found {
    managed: u32,
    free: u32,
}

/// Makes the bits and the descriptor of a pageblock follow the tags. `left` is how many frames of a live block are yet
/// to come.
fn repair_block(pageblocks: &Pageblocks<'_>, block: BlockIdx, left: &mut u64) -> Found {
    let (frames, before) = (&pageblocks.frames, pageblocks.frames.state(block));
    let mut masks: Masks = [0; WORDS];
    let (mut managed, mut some_zero, mut is_whole) = (BLOCK_FRAMES, false, false);
    for frame in block.first_frame().run(BLOCK_FRAMES as usize) {
        let tag = frames.tag(frame);
        match is(tag, *left > 0) {
            Is::First(order) => {
                *left = order.frames().0 - 1;
                is_whole |= order >= PAGEBLOCK;
            }
            Is::Later => {
                is_whole |= frame.offset() == 0;
                *left -= 1;
                forget(pageblocks, frame, tag);
            }
            Is::Hole => managed -= 1,
            Is::Free => {
                masks[frame.word()] |= 1 << frame.bit();
                some_zero |= tag == Tag::FreeZero;
                if tag == Tag::Splitting {
                    frames.set_tag(frame, Tag::Free);
                }
            }
        }
    }
    frames.bias(block).set(None);
    let free: u32 = masks.iter().map(|mask| mask.count_ones()).sum();
    if is_whole {
        // While it is allocated as a whole its bits say free, and are not looked at.
        (0..WORDS).for_each(|word| {
            frames.set_free_bits(block, word, WORD_MASK);
        });
        frames.set_state(block, before.rebuilt(BLOCK_FRAMES, None, false, false));
        return Found { managed, free: 0 };
    }
    let mut differs = before.is_huge();
    for (word, mask) in masks.iter().enumerate() {
        differs |= frames.set_free_bits(block, word, *mask);
    }
    // A frame that was nobody's may have been written to.
    let all_zero = before.is_all_zero() && !differs;
    frames.set_state(block, before.rebuilt(free, frames.scan(block), some_zero, all_zero));
    Found { managed, free }
}

/// Makes a tag inside of a live block say nothing.
fn forget(pageblocks: &Pageblocks<'_>, frame: FrameIdx, tag: Tag) {
    if tag != Tag::Free {
        pageblocks.frames.set_tag(frame, Tag::Free);
    }
}

#[cfg(all(test, not(pageyard_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn what_a_frame_is_follows_from_its_tag_and_the_block_before_it() {
        let (pair, huge) = (Order::of(1), Order::of(9));
        let table = [
            (Tag::Free, Is::Free),
            (Tag::FreeZero, Is::Free),
            (Tag::Splitting, Is::Free),
            (Tag::Allocated(pair), Is::First(pair)),
            (Tag::AllocatedZero(huge), Is::First(huge)),
            (Tag::Hole, Is::Hole),
        ];
        for (tag, alone) in table {
            assert_eq!((is(tag, false), is(tag, true)), (alone, Is::Later), "{tag:?}");
        }
    }
}
