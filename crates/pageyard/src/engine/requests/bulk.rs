//! Many frames at a time.

use crate::engine::geometry::{BATCH, BLOCK_ORDER, FrameIdx};
use crate::engine::map::frame_map::FrameMap;
use crate::engine::map::row::{begins_eight, is_row, lowest_of_row, row_from};
use crate::engine::map::tag::Tag;
use crate::engine::map::type_code::TypeCode;
use crate::engine::map::watch::{DescriptorWatch, Unchanged};
use crate::engine::pcp::percpu::PerCpu;
use crate::engine::pcp::tuning::{ListIdx, has_list, list_of};
use crate::engine::yard::Pageyard;
use crate::engine::zone::Zone;
use pageyard_core::allocator::Cx;
use pageyard_core::clear::{Caches, Clear};
use pageyard_core::error::FreeError;
use pageyard_core::observer::Observer;
use pageyard_core::request::{NodeMask, Request};
use pageyard_core::units::{CpuId, Order, Pfn};
use pageyard_sync::eight::EIGHT;

/// Blocks up to which a call does better to take them, or give them back, one by one: moving several at a time has a
/// fixed part. Measured: `pageyard-lab bench bulk`.
const FEW: usize = if cfg!(any(pageyard_loom, pageyard_shuttle, feature = "step-hook")) { 4 } else { 15 };

impl<P: PerCpu, O: Observer, C: Clear> Pageyard<'_, P, O, C> {
    /// Allocates blocks until `out` is full or one is refused; returns how many it wrote, from the front. As
    /// [`PageAllocator::alloc_bulk`](crate::PageAllocator::alloc_bulk).
    ///
    /// Blocks come from the list a batch at a time, unless an observer wants each block.
    // Inlined, here and in `free_bulk`, as far as few blocks go: a caller with one or two then pays for no more than
    // single calls.
    #[inline(always)]
    pub fn alloc_bulk(&self, cx: &Cx, request: &Request, out: &mut [Pfn]) -> usize {
        if out.len() > FEW {
            return self.alloc_many(cx, request, out);
        }
        for (n, slot) in out.iter_mut().enumerate() {
            let Ok(pfn) = self.alloc(cx, request) else { return n };
            *slot = pfn;
        }
        out.len()
    }

    #[inline(never)]
    fn alloc_many(&self, cx: &Cx, request: &Request, out: &mut [Pfn]) -> usize {
        if self.wants_zeros(request) {
            return self.alloc_bulk_zeroed(cx, request, out);
        }
        let order = request.order;
        let list = self.bulk_list(cx, request);
        let zone = self.zonelists.first_zone(cx.cpu, request.highest_zone);
        let mut got = 0;
        while got < out.len() {
            if out.len() - got > FEW
                && let (Some(list), Some(zone)) = (list, zone)
            {
                let mut items = [0; BATCH];
                let n = BATCH.min(out.len() - got);
                let n = self.percpu.pop_many(zone.lists.all(), cx.cpu, list, &mut items[..n]);
                let (frames, base) = (zone.pageblocks.frames, zone.pageblocks.base);
                hand_out_items(&frames, base, &items[..n], &mut out[got..got + n], order);
                got += n;
                if n > 0 {
                    continue;
                }
            }
            match self.alloc(cx, request) {
                Ok(pfn) => out[got] = pfn,
                Err(_) => break,
            }
            got += 1;
        }
        got
    }

    /// Returns the list that may serve several blocks at a time, if one may.
    #[inline(always)]
    fn bulk_list(&self, cx: &Cx, request: &Request) -> Option<ListIdx> {
        list_of(request.order, TypeCode::of(request.migratetype)).filter(|_| {
            let plain = !O::ACTIVE && !request.flags.intersects(Self::NOT_LISTED);
            plain && request.nodes == NodeMask::ALL && self.has_cpu(cx.cpu)
        })
    }

    /// Allocates zeros: what the list holds is taken a batch at a time, and cleared with one fence a batch.
    // A loop of its own: clearing inside of `alloc_bulk` cost callers that want no zeros an instruction a frame.
    #[cold]
    #[inline(never)]
    fn alloc_bulk_zeroed(&self, cx: &Cx, request: &Request, out: &mut [Pfn]) -> usize {
        let listed = self.bulk_list(cx, request).zip(self.zonelists.first_zone(cx.cpu, request.highest_zone));
        let mut got = 0;
        while got < out.len() {
            let mut items = [0; BATCH];
            let most = BATCH.min(out.len() - got);
            let n = listed.map_or(0, |(list, zone)| {
                self.percpu.pop_many(zone.lists.all(), cx.cpu, list, &mut items[..most])
            });
            if let Some((_, zone)) = listed
                && n > 0
            {
                self.hand_out_zeroed(zone, &items[..n], request.order, &mut out[got..got + n]);
                got += n;
                continue;
            }
            match self.alloc(cx, request) {
                Ok(pfn) => out[got] = pfn,
                Err(_) => break,
            }
            got += 1;
        }
        got
    }

    /// Hands out items of a list, and clears those that are not known to be zeros.
    fn hand_out_zeroed(&self, zone: &Zone<'_>, items: &[u32], order: Order, out: &mut [Pfn]) {
        let frames = &zone.pageblocks.frames;
        for (slot, item) in out.iter_mut().zip(items) {
            frames.allocate_listed(*item, order);
            *slot = zone.pageblocks.pfn(FrameIdx::of_item(*item));
            if !frames.holds_zeros(FrameIdx::of_item(*item)) {
                self.clearer.clear(*slot, order, Caches::Cold);
            }
        }
        self.clearer.fence();
    }

    /// Frees blocks of one order; `wrong` is told of each one that is refused, and the others are freed all the same.
    /// As [`PageAllocator::free_bulk`](crate::PageAllocator::free_bulk).
    ///
    /// Blocks of one type that follow each other go to their list a batch at a time, unless an observer is to be told
    /// of each.
    #[inline(always)]
    pub fn free_bulk(&self, cx: &Cx, pfns: &[Pfn], order: Order, wrong: &mut dyn FnMut(Pfn, FreeError)) {
        if pfns.len() > FEW {
            return self.free_many(cx, pfns, order, wrong);
        }
        for pfn in pfns {
            if let Err(why) = self.free(cx, *pfn, order) {
                wrong(*pfn, why);
            }
        }
    }

    #[inline(never)]
    fn free_many(&self, cx: &Cx, pfns: &[Pfn], order: Order, wrong: &mut dyn FnMut(Pfn, FreeError)) {
        if !self.has_cpu(cx.cpu) {
            return pfns.iter().for_each(|pfn| wrong(*pfn, FreeError::NoSuchCpu));
        }
        if O::ACTIVE || self.clears_on_free() || !has_list(order) {
            return pfns
                .iter()
                .for_each(|pfn| self.free(cx, *pfn, order).unwrap_or_else(|why| wrong(*pfn, why)));
        }
        // Compiled once more for single frames, the usual case, with all that depends on the order folded in.
        match order {
            Order::ZERO => self.free_alike::<true>(cx, pfns, order, wrong),
            order => self.free_alike::<false>(cx, pfns, order, wrong),
        }
    }

    fn free_alike<const SINGLE: bool>(
        &self,
        cx: &Cx,
        pfns: &[Pfn],
        order: Order,
        wrong: &mut dyn FnMut(Pfn, FreeError),
    ) {
        let mut rest = pfns;
        while !rest.is_empty() {
            let n = match self.free_group::<SINGLE>(self.main, cx.cpu, rest, order) {
                0 => self.free_group_elsewhere(cx, rest, order, wrong),
                n => n,
            };
            rest = &rest[n..];
        }
    }

    /// Frees blocks from the front that are not the largest zone's, or one that cannot be freed with others; returns
    /// how many.
    #[inline(never)]
    fn free_group_elsewhere(
        &self,
        cx: &Cx,
        pfns: &[Pfn],
        order: Order,
        wrong: &mut dyn FnMut(Pfn, FreeError),
    ) -> usize {
        let Some(first) = pfns.first() else { return 0 };
        let zone = self.zonelists.likely_zone(*first);
        if !core::ptr::eq(zone, self.main) {
            let n = self.free_group::<false>(zone, cx.cpu, pfns, order);
            if n > 0 {
                return n;
            }
        }
        if let Err(why) = self.free(cx, *first, order) {
            wrong(*first, why);
        }
        1
    }

    /// Frees blocks of a zone from the front, as long as one list takes them; returns how many.
    // A function of its own, so that its loop has all registers.
    #[inline(never)]
    fn free_group<const SINGLE: bool>(
        &self,
        zone: &Zone<'_>,
        cpu: CpuId,
        pfns: &[Pfn],
        order: Order,
    ) -> usize {
        let order = if SINGLE { Order::ZERO } else { order };
        let mut items = [0; BATCH];
        let watch = zone.pageblocks.watch_isolations();
        let (n, list) = self.win_alike(zone, pfns, order, &mut items);
        if n > 0 {
            self.push_won(zone, cpu, list, order, &items[..n], watch);
        }
        n
    }

    /// Wins blocks of a zone from the front, as long as one list takes them; returns how many, and the list. A
    /// pageblock's descriptor is read once for the blocks of it that follow each other.
    #[inline(always)]
    fn win_alike(
        &self,
        zone: &Zone<'_>,
        pfns: &[Pfn],
        order: Order,
        items: &mut [u32; BATCH],
    ) -> (usize, ListIdx) {
        let (frames, base) = (zone.pageblocks.frames, zone.pageblocks.base);
        let most = BATCH.min(pfns.len());
        let (pfns, items) = (&pfns[..most], &mut items[..most]);
        let (mut n, mut list) = (0, ListIdx::FIRST);
        while n < most {
            let block = pfns[n].0.wrapping_sub(base) >> BLOCK_ORDER;
            let Some((state, watch)) = frames.state_of(pfns[n].0.wrapping_sub(base)) else { break };
            let Some(of) = list_of(order, state.list_code()) else { break };
            if n > 0 && of != list {
                break;
            }
            list = of;
            while n < most {
                let frame = pfns[n].0.wrapping_sub(base);
                if frame >> BLOCK_ORDER != block {
                    break;
                }
                if order == Order::ZERO
                    && begins_eight(frame)
                    && let (Some(row), Some(items)) = (pfns[n..].first_chunk(), items[n..].first_chunk_mut())
                    && self.wins_row(&frames, row, (frame, watch))
                {
                    *items = row_from(frame as u32);
                    n += EIGHT;
                    continue;
                }
                // SAFETY: there are frames of this number's pageblock, which has a state.
                let won = unsafe {
                    let frame = FrameIdx::new(frame as usize);
                    self.wins(&frames, (frame, watch), Tag::Allocated(order), Tag::Free)
                };
                if !won {
                    return (n, list);
                }
                items[n] = frame as u32;
                n += 1;
            }
        }
        (n, list)
    }

    /// Wins eight frames at once, the first of which is `first` and [`begins_eight`], if they are neighbours. Where
    /// it does not, each is to be won for itself.
    #[inline(always)]
    fn wins_row<'a>(
        &self,
        frames: &FrameMap<'a>,
        row: &[Pfn; EIGHT],
        (first, watch): (u64, DescriptorWatch<'a>),
    ) -> bool {
        // A zone's first number is a multiple of eight, so rows are rows by either number.
        if !is_row(row) {
            return false;
        }
        let lowest = (FrameIdx::new(lowest_of_row(first) as usize), watch);
        // SAFETY: the watch is of the pageblock that all eight lie in.
        unsafe { self.wins_eight(frames, lowest, Tag::Allocated(Order::ZERO), Tag::Free) }
    }

    /// Puts blocks of a zone whose tags were won into a list, as far as it goes.
    pub(crate) fn push_won(
        &self,
        zone: &Zone<'_>,
        cpu: CpuId,
        list: ListIdx,
        order: Order,
        items: &[u32],
        watch: Unchanged<'_>,
    ) {
        let n = self.percpu.push_many(zone.lists.all(), cpu, list, items, watch);
        for item in &items[n..] {
            self.free_won(zone, cpu, FrameIdx::of_item(*item), order);
        }
    }
}

/// Marks blocks that were taken from a list as live, frames that are neighbours eight at a time, and writes their
/// numbers. The slices are of one length.
#[inline(always)]
fn hand_out_items(frames: &FrameMap<'_>, base: u64, items: &[u32], out: &mut [Pfn], order: Order) {
    let len = items.len().min(out.len());
    let (items, out) = (&items[..len], &mut out[..len]);
    let mut n = 0;
    while n < len {
        let first = items[n];
        if order == Order::ZERO
            && begins_eight(first.into())
            && let (Some(row), Some(out)) = (items[n..].first_chunk(), out[n..].first_chunk_mut::<EIGHT>())
            && is_row(row)
            && frames.allocate_eight(FrameIdx::new(lowest_of_row(first.into()) as usize))
        {
            // As in `wins_row`.
            *out = row_from(Pfn(base + u64::from(first)));
            n += EIGHT;
            continue;
        }
        frames.allocate_listed(first, order);
        out[n] = Pfn(base + u64::from(first));
        n += 1;
    }
}
