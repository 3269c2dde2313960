//! Batches that move between zones and per-CPU lists when a list is empty or full, and their sizes.

use crate::engine::geometry::{BATCH, BLOCK_FRAMES, BLOCK_ORDER, FrameIdx, PAGEBLOCK, WORD};
use crate::engine::map::count::FrameDelta;
use crate::engine::map::frame_map::for_each_down;
use crate::engine::map::tag::Tag;
use crate::engine::map::tree::SearchEffort;
use crate::engine::map::watch::Unchanged;
use crate::engine::pcp::list::Pushed;
use crate::engine::pcp::percpu::PerCpu;
use crate::engine::pcp::scratch::{Scratch, ScratchArea, StackScratch};
use crate::engine::pcp::tuning::{ListIdx, MOST_WHOLES};
use crate::engine::yard::Pageyard;
use crate::engine::zone::Zone;
use crate::engine::zone::current::By;
use crate::engine::zone::pageblocks::{Got, Pageblocks};
use core::ops::Range;
use pageyard_core::allocator::Cx;
use pageyard_core::clear::Clear;
use pageyard_core::observer::Observer;
use pageyard_core::request::Request;
use pageyard_core::stats::Counter;
use pageyard_core::units::{CpuId, Order, Pfn};
use pageyard_sync::Relaxed;

impl<P: PerCpu, O: Observer, C: Clear> Pageyard<'_, P, O, C> {
    /// Returns how many blocks a refill takes. It grows while the list keeps running empty and the zone stays above its
    /// high watermark.
    pub(crate) fn refill_size(&self, zone: &Zone<'_>, cx: &Cx, request: &Request, list: ListIdx) -> u32 {
        let (order, tuning) = (request.order, zone.lists.tuning);
        let least = if order == PAGEBLOCK { 1 } else { tuning.refill_of(order) };
        let wanted = tuning.moved(order, zone.runs.note(cx.cpu, list, true));
        if wanted <= least {
            return least;
        }
        let kept = zone.online.high().0 + zone.protection[request.highest_zone.index()].0;
        let spare = zone.pageblocks.free_above(kept, u64::from(wanted) << order.get()) >> order.get();
        u64::from(wanted).min(spare).max(least.into()) as u32
    }

    /// Claims pageblocks: one for the caller, the others for a list.
    #[inline(never)]
    pub(crate) fn claim_wholes(
        &self,
        zone: &Zone<'_>,
        cx: &Cx,
        request: &Request,
        list: ListIdx,
        n: u32,
        effort: &mut SearchEffort,
    ) -> Option<Pfn> {
        let mut items = [0; MOST_WHOLES];
        let n = (n as usize).min(MOST_WHOLES);
        let watch = zone.pageblocks.watch_isolations();
        let (n, claimed) = zone.pageblocks.claim_wholes(request.migratetype, cx.cpu, &mut items[..n], effort);
        self.add_free(zone, cx.cpu, claimed);
        let (first, rest) = items[..n].split_first_mut()?;
        if !rest.is_empty() {
            let fitted = self.percpu.refill(zone.lists.all(), cx.cpu, list, rest, watch);
            self.count_refill(cx.cpu, fitted, PAGEBLOCK);
            self.release_items(zone, cx.cpu, &rest[fitted..], PAGEBLOCK);
        }
        Some(self.hand_out(zone, cx, FrameIdx::of_item(*first), request.order, request.migratetype))
    }

    /// Hands out the first claimed block; the others go to the list, or back to the zone. They fit into the area, or,
    /// where there is none, into a batch.
    #[inline(never)]
    pub(crate) fn hand_out_first(
        &self,
        zone: &Zone<'_>,
        cx: &Cx,
        got: &Got,
        request: &Request,
        (list, watch): (ListIdx, Unchanged<'_>),
        mut area: Option<ScratchArea<'_>>,
    ) -> Pfn {
        let (order, base) = (request.order, got.block.first_frame());
        if order == PAGEBLOCK {
            return self.hand_out(zone, cx, base, request.order, request.migratetype);
        }
        let mut few = [0; BATCH];
        let items = match &mut area {
            Some(area) => area.scratch().items,
            None => &mut few[..],
        };
        let mut n = 0;
        for_each_down(&got.masks, order, |offset| {
            items[n] = got.block.frame(offset).item();
            n += 1;
        });
        let Some((first, rest)) = items[..n].split_last_mut() else { return zone.pageblocks.pfn(base) };
        if !rest.is_empty() {
            let fitted = self.percpu.refill(zone.lists.all(), cx.cpu, list, rest, watch);
            self.count_refill(cx.cpu, fitted, order);
            self.release_items(zone, cx.cpu, &rest[fitted..], order);
        }
        self.hand_out(zone, cx, FrameIdx::of_item(*first), request.order, request.migratetype)
    }

    fn count_refill(&self, cpu: CpuId, blocks: usize, order: Order) {
        self.count(cpu, Counter::PcpRefill, 1);
        self.count(cpu, Counter::PcpRefillPages, (blocks as u64) << order.get());
    }

    /// Puts a block whose tag was won into a list that was full, after spilling the list's oldest items to the zone;
    /// otherwise releases it to the zone.
    #[cold]
    #[inline(never)]
    pub(crate) fn free_into_full_list(&self, zone: &Zone<'_>, cpu: CpuId, frame: FrameIdx, order: Order) {
        if !zone.has_list(order) || !self.push_after_spill(zone, cpu, frame, order) {
            self.free_unlisted(zone, cpu, frame, order);
        }
    }

    /// Spills the oldest items of a list and pushes a block onto it. Returns whether it could.
    #[inline(never)]
    fn push_after_spill(&self, zone: &Zone<'_>, cpu: CpuId, frame: FrameIdx, order: Order) -> bool {
        if let Some((state, watch)) = zone.pageblocks.frames.state_of(frame.get() as u64)
            && let Some(list) = zone.list(order, state.list_code())
        {
            let wanted = zone.lists.tuning.moved(order, zone.runs.note(cpu, list, false)) as usize;
            let mut area = if wanted > BATCH { self.scratch_areas.take(cpu) } else { None };
            let mut stack = StackScratch::new();
            let mut scratch = match &mut area {
                Some(area) => area.scratch(),
                None => stack.scratch(),
            };
            let n = self.spill(zone, cpu, list, order, wanted, scratch.items);
            if n > 0 {
                self.count(cpu, Counter::PcpDrain, 1);
                self.count(cpu, Counter::PcpDrainPages, (n as u64) << order.get());
                let lists = zone.lists.all();
                let pushed = self.percpu.push(lists, cpu, list, frame.item(), watch, || true) == Pushed::Kept;
                self.release_scratch(zone, cpu, &mut scratch, n, order);
                return pushed;
            }
        }
        false
    }

    /// Takes the oldest items from a list, at most `wanted` and at most what the scratch memory holds; returns how
    /// many.
    ///
    /// If many were wanted and the last of them share a pageblock, also takes what may be the rest of that pageblock.
    /// The next spill then begins with another pageblock, and blocks freed in address order complete pageblocks, each
    /// in one transition.
    fn spill(
        &self,
        zone: &Zone<'_>,
        cpu: CpuId,
        list: ListIdx,
        order: Order,
        wanted: usize,
        items: &mut [u32],
    ) -> usize {
        let lists = zone.lists.all();
        let wanted = wanted.min(items.len());
        let n = self.percpu.spill(lists, cpu, list, &mut items[..wanted]);
        let block = (BLOCK_FRAMES >> order.min(PAGEBLOCK).get()) as usize;
        let (Some(last), true) = (items[..n].last(), wanted >= block && n == wanted && block > 1) else {
            return n;
        };
        let part = items[..n].iter().rev().take_while(|i| *i >> BLOCK_ORDER == last >> BLOCK_ORDER).count();
        if part < block / 16 || part >= block {
            return n;
        }
        let more = (block - part).min(items.len() - n);
        n + self.percpu.spill(lists, cpu, list, &mut items[n..n + more])
    }

    /// Releases one block without an owner.
    pub(crate) fn release_one(&self, zone: &Zone<'_>, cpu: CpuId, frame: FrameIdx, order: Order) {
        let zero = zone.pageblocks.frames.tag(frame) == Tag::FreeZero;
        let freed = if order == PAGEBLOCK && !zero {
            self.note_whole(cpu, frame);
            zone.pageblocks.release_whole(frame.block(), false)
        } else {
            zone.pageblocks.release_block(frame, order, zero, By::cpu(cpu))
        };
        self.add_free(zone, cpu, freed);
    }

    /// The same for a block that is not known to hold zeros, inlined up to a word's order.
    #[inline(always)]
    pub(crate) fn release_one_here(&self, zone: &Zone<'_>, cpu: CpuId, frame: FrameIdx, order: Order) {
        let freed = if order == PAGEBLOCK {
            self.note_whole(cpu, frame);
            zone.pageblocks.release_whole(frame.block(), false)
        } else if order > WORD {
            zone.pageblocks.release_block(frame, order, false, By::cpu(cpu))
        } else {
            zone.pageblocks.release_inside(frame, order, false, By::cpu(cpu)).freed
        };
        self.add_free_here(zone, cpu, freed);
    }

    /// Releases blocks without an owner.
    #[inline(never)]
    pub(crate) fn release_items(&self, zone: &Zone<'_>, cpu: CpuId, items: &[u32], order: Order) {
        if let [item] = items {
            return self.release_one(zone, cpu, FrameIdx::of_item(*item), order);
        }
        let mut stack = StackScratch::new();
        for some in items.chunks(BATCH) {
            let mut scratch = stack.scratch();
            scratch.items[..some.len()].copy_from_slice(some);
            self.release_scratch(zone, cpu, &mut scratch, some.len(), order);
        }
    }

    /// Releases the first `n` blocks of scratch memory, which have no owner, grouped by pageblock and by word.
    fn release_scratch(
        &self,
        zone: &Zone<'_>,
        cpu: CpuId,
        scratch: &mut Scratch<'_>,
        n: usize,
        order: Order,
    ) {
        let pageblocks = &zone.pageblocks;
        // ORDER: Relaxed: it was set before a block that holds zeros could come here.
        let zeros = self.zero_seen[0].load(Relaxed) != 0;
        if order > WORD && (zeros || order < PAGEBLOCK) {
            for item in &scratch.items[..n] {
                self.release_one(zone, cpu, FrameIdx::of_item(*item), order);
            }
            return;
        }
        if order == PAGEBLOCK {
            sort_few(&mut scratch.items[..n]);
            return self.add_free(zone, cpu, pageblocks.release_wholes(&scratch.items[..n]));
        }
        let dirty = if zeros { zeros_last(pageblocks, &mut scratch.items[..n], order) } else { n };
        for (group, zero) in [(0..dirty, false), (dirty..n, true)] {
            if !group.is_empty() {
                let freed = release_group(pageblocks, cpu, scratch, group, order, zero);
                self.add_free(zone, cpu, freed);
            }
        }
    }
}

/// Sorts the pageblocks of a list, of which there are few: the library's sort is 4 KiB of code.
fn sort_few(items: &mut [u32]) {
    for sorted in 1..items.len() {
        let mut at = sorted;
        while at > 0 && items[at] < items[at - 1] {
            items.swap(at, at - 1);
            at -= 1;
        }
    }
}

/// Moves the blocks known to hold zeros to the end and marks the tags of all their frames; returns how many the others
/// are.
#[cold]
fn zeros_last(pageblocks: &Pageblocks<'_>, items: &mut [u32], order: Order) -> usize {
    let (mut dirty, mut end) = (0, items.len());
    while dirty < end {
        let frame = FrameIdx::of_item(items[dirty]);
        if pageblocks.frames.tag(frame) == Tag::FreeZero {
            frame.run(1 << order.get()).skip(1).for_each(|f| pageblocks.frames.set_tag(f, Tag::FreeZero));
            end -= 1;
            items.swap(dirty, end);
        } else {
            dirty += 1;
        }
    }
    dirty
}

/// Releases blocks that all hold zeros, or of which none is known to; returns the change to the count of free frames.
fn release_group(
    pageblocks: &Pageblocks<'_>,
    cpu: CpuId,
    scratch: &mut Scratch<'_>,
    group: Range<usize>,
    order: Order,
    zero: bool,
) -> FrameDelta {
    let mut freed = FrameDelta::ZERO;
    let first = FrameIdx::of_item(scratch.items[group.start]).block();
    let ty = pageblocks.frames.state(first).migratetype();
    let slot = || pageblocks.vacant(cpu, ty).map(|slot| (ty, slot));
    let mut vacant = slot();
    scratch.by_pageblock(group, order, |block, n, masks| {
        let released =
            pageblocks.release(block, n << order.get(), masks, zero, By { slot: vacant, ..By::cpu(cpu) });
        freed += released.freed;
        if released.adopted {
            vacant = slot();
        }
    });
    freed
}
