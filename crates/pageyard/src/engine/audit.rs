//! The audit: every frame recounted from the bits, every index checked against the count.

use super::geometry::{BLOCK_FRAMES, BLOCK_ORDER, BlockIdx, FrameIdx, PAGEBLOCK, WORDS};
use super::map::tag::Tag;
use super::pcp::percpu::PerCpu;
use super::pcp::tuning::ListIdx;
use super::report::cached;
use super::yard::Pageyard;
use super::zone::Zone;
use super::zone::pageblocks::Pageblocks;
use pageyard_core::clear::Clear;
use pageyard_core::error::AuditError;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::observer::Observer;
use pageyard_core::stats::Census;
use pageyard_core::units::{CpuId, Frames};

/// The totals over one zone's frames.
#[derive(Default)]
struct Count {
    free: u64,
    isolated: u64,
    allocated: u64,
    holes: u64,
    /// Frames that are neither free nor part of a live block: those in lists must be exactly these.
    loose: u64,
    /// A sum over them that distinguishes sets.
    loose_sum: u64,
    highatomic_free: u64,
    cma_free: u64,
    /// Frames of the current live block that the walk has not reached yet.
    tail: u64,
}

/// Spreads a frame's number, so that sums over different sets differ.
fn mix(frame: u64) -> u64 {
    let x = (frame + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

impl<P: PerCpu, O: Observer, C: Clear> Pageyard<'_, P, O, C> {
    /// Recounts every frame and checks every index against the count. As
    /// [`PageAllocator::audit`](crate::PageAllocator::audit).
    ///
    /// # Errors
    /// The first inconsistency.
    pub fn audit(&self) -> Result<Census, AuditError> {
        let mut census = Census::default();
        for zone in self.zones {
            let count = count_zone(&zone.pageblocks)?;
            let cached = self.count_lists(zone, &count)?;
            check_zone(zone, &count)?;
            census.managed += zone.online.managed();
            census.free += Frames(count.free);
            census.isolated += Frames(count.isolated);
            census.allocated += Frames(count.allocated);
            census.cached += Frames(cached);
        }
        Ok(census)
    }

    /// Checks that the lists hold exactly the frames that are neither free nor allocated, each once.
    fn count_lists(&self, zone: &Zone<'_>, count: &Count) -> Result<u64, AuditError> {
        let pageblocks = &zone.pageblocks;
        let (mut sum, mut frames, mut fault) = (0u64, 0, None);
        for (cpu, list) in (0..self.config.cpus).flat_map(|c| ListIdx::all().map(move |l| (CpuId(c), l))) {
            let order = list.order();
            zone.lists.get(cpu, list).for_each(|item| {
                if item as usize >= pageblocks.frames.len() << BLOCK_ORDER
                    || item & ((1 << order.get()) - 1) != 0
                {
                    fault = Some(fail(
                        pageblocks,
                        "an item of a per-CPU list is no block",
                        FrameIdx::new(0),
                        0,
                        u64::from(item),
                    ));
                    return;
                }
                for frame in u64::from(item)..u64::from(item) + (1 << order.get()) {
                    sum = sum.wrapping_add(mix(frame));
                }
            });
        }
        frames += (0..self.config.cpus).map(|cpu| cached(zone, CpuId(cpu))).sum::<u64>();
        match fault {
            Some(fault) => Err(fault),
            None if frames != count.loose => Err(fail(
                pageblocks,
                "frames that are neither free nor allocated",
                FrameIdx::new(0),
                frames,
                count.loose,
            )),
            None if sum != count.loose_sum => Err(fail(
                pageblocks,
                "a per-CPU list holds other frames than those",
                FrameIdx::new(0),
                sum,
                count.loose_sum,
            )),
            None => Ok(frames),
        }
    }
}

fn fail(
    pageblocks: &Pageblocks<'_>,
    what: &'static str,
    frame: FrameIdx,
    expected: u64,
    found: u64,
) -> AuditError {
    AuditError { what, zone: pageblocks.id, pfn: pageblocks.pfn(frame), expected, found }
}

fn count_zone(pageblocks: &Pageblocks<'_>) -> Result<Count, AuditError> {
    let mut count = Count::default();
    for block in pageblocks.frames.all() {
        count_block(pageblocks, block, &mut count)?;
    }
    match count.tail {
        0 => Ok(count),
        left => Err(fail(pageblocks, "a live block reaches past the zone", FrameIdx::new(0), 0, left)),
    }
}

fn count_block(pageblocks: &Pageblocks<'_>, block: BlockIdx, count: &mut Count) -> Result<(), AuditError> {
    let state = pageblocks.frames.state(block);
    let first = block.first_frame();
    let err = |what, frame, expected, found| Err(fail(pageblocks, what, frame, expected, found));
    if state.is_hole() {
        count.holes += u64::from(BLOCK_FRAMES);
        return if count.tail == 0 {
            Ok(())
        } else {
            err("a live block reaches into a hole", first, 0, count.tail)
        };
    }
    let bits: u32 = (0..WORDS).map(|w| pageblocks.frames.free_bits(block, w).count_ones()).sum();
    let expected = if state.is_huge() { BLOCK_FRAMES } else { state.free() };
    if bits != expected {
        return err("free bits of a pageblock", first, u64::from(expected), u64::from(bits));
    }
    let run = pageblocks.frames.scan(block);
    if !state.is_huge() && state.fit() < run.map(|r| r.min(BLOCK_ORDER - u8::from(state.owner().is_some()))) {
        let of = |fit: Option<u8>| fit.map_or(0, |f| u64::from(f) + 1);
        return err("the order that a pageblock is said to fit, plus one", first, of(state.fit()), of(run));
    }
    for offset in 0..BLOCK_FRAMES {
        let frame = block.frame(offset);
        let word = pageblocks.frames.free_bits(block, frame.word());
        let free = !state.is_huge() && word >> frame.bit() & 1 != 0;
        let tag = pageblocks.frames.tag(frame);
        if count.tail > 0 {
            count.tail -= 1;
            count.allocated += 1;
            if free || !matches!(tag, Tag::Free) {
                return err(
                    "a frame inside a live block has a tag or is free",
                    frame,
                    0,
                    u64::from(tag.byte()),
                );
            }
            continue;
        }
        if free && tag == Tag::FreeZero && !state.has_zero() {
            return err("a free frame's tag says zeros and its pageblock does not", frame, 1, 0);
        }
        match tag {
            Tag::Free | Tag::FreeZero if free => {
                *(if state.is_isolated() { &mut count.isolated } else { &mut count.free }) += 1;
                if !state.is_isolated() {
                    match state.migratetype() {
                        Migratetype::HighAtomic => count.highatomic_free += 1,
                        Migratetype::Cma => count.cma_free += 1,
                        _ => {}
                    }
                }
            }
            Tag::Free | Tag::FreeZero => {
                count.loose += 1;
                count.loose_sum = count.loose_sum.wrapping_add(mix(frame.get() as u64));
            }
            Tag::Hole if !free => count.holes += 1,
            Tag::Allocated(order) | Tag::AllocatedZero(order) if !free => {
                if !pageblocks.pfn(frame).is_aligned(order) || (order >= PAGEBLOCK) != state.is_huge() {
                    return err("a live block of an order that cannot be here", frame, 0, order.get().into());
                }
                count.allocated += 1;
                count.tail = order.frames().0 - 1;
            }
            _ => return err("a frame whose tag and bit disagree", frame, u64::from(free), tag.byte().into()),
        }
    }
    Ok(())
}

fn check_zone(zone: &Zone<'_>, count: &Count) -> Result<(), AuditError> {
    let pageblocks = &zone.pageblocks;
    #[cfg(not(pageyard_loom))]
    let unaccepted =
        pageblocks.frames.all().filter(|block| pageblocks.frames.state(*block).is_unaccepted()).count()
            as u64;
    for block in pageblocks.frames.all() {
        let state = pageblocks.frames.state(block);
        if state.is_current() && !state.is_huge() && !pageblocks.is_found(block, state) {
            return Err(fail(
                pageblocks,
                "a pageblock that a CPU works on is not found through its slots",
                block.first_frame(),
                1,
                0,
            ));
        }
        if state.is_hole() && (state.is_current() || state.is_isolated() || state.owner().is_some()) {
            return Err(fail(pageblocks, "a pageblock without frames is in use", block.first_frame(), 0, 1));
        }
        if state.is_huge() && (state.is_current() || state.has_zero() || state.is_all_zero()) {
            return Err(fail(
                pageblocks,
                "a pageblock that is allocated whole keeps what was known of its parts",
                block.first_frame(),
                0,
                1,
            ));
        }
    }
    let same = |what, expected, found| {
        if expected == found {
            Ok(())
        } else {
            Err(fail(pageblocks, what, FrameIdx::new(0), expected, found))
        }
    };
    same("free frames of the zone", pageblocks.free(), count.free)?;
    same("free frames in reserved pageblocks", pageblocks.highatomic_free(), count.highatomic_free)?;
    same("free frames of contiguous areas", pageblocks.cma_free(), count.cma_free)?;
    let all = count.free + count.isolated + count.allocated + count.loose;
    same("managed frames", zone.online.managed().0, all)?;
    #[cfg(not(pageyard_loom))]
    same("pageblocks that are yet to be accepted", zone.unaccepted.left(), unaccepted)?;
    pageblocks.index.check(&pageblocks.frames).map_err(|what| fail(pageblocks, what, FrameIdx::new(0), 0, 0))
}
