//! Allocation: a list hit inlined, everything else out of line.

use super::geometry::{BATCH, BLOCK_ORDER, MAX_ORDER};
use super::pageblocks::Want;
use super::percpu::PerCpu;
use super::scratch::StackScratch;
use super::steal::Stolen;
use super::sync::Relaxed;
use super::tree::SearchEffort;
use super::tuning::{list_of, order_of};
use super::yard::{Pageyard, Zone};
use crate::allocator::Cx;
use crate::error::{AllocError, BadRequest};
use crate::migratetype::Migratetype;
use crate::request::{NodeMask, Request, RequestFlags};
use crate::stats::Counter;
use crate::units::{CpuId, Frames, Order, Pfn};

/// How far down a zone may go for a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// To its low watermark, and what fragmentation adds to it.
    Low,
    /// To its minimum, as far as the request's flags lower it.
    Min,
    /// To the last frame.
    None,
}

impl<P: PerCpu> Pageyard<'_, P> {
    /// Allocates one block: the raw layer's call behind [`PageAllocator::alloc`](crate::PageAllocator::alloc).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Concurrency
    /// Lock-free. On a list miss at most one refill's worth of other work.
    ///
    /// # Linux
    /// `__alloc_pages`. Difference: watermarks are checked on refill, not on a list hit.
    // Always, here and in `release`: a call saves and restores as many registers as a hit makes accesses.
    #[inline(always)]
    pub fn allocate(&self, cx: &Cx, request: &Request) -> Result<Pfn, AllocError> {
        if let Some(list) = list_of(request.order.get(), request.migratetype as u8)
            && request.nodes == NodeMask::ALL
            && let Some(zone) = self.first_zone(request.highest_zone)
            && let Some(item) = self.percpu.pop(zone.lists.all(), cx.cpu, list)
        {
            zone.pageblocks.frames.allocate_listed(item, request.order.get());
            return Ok(zone.pageblocks.pfn(item as usize));
        }
        self.allocate_slow(*cx, *request)
    }

    /// Takes copies: a reference would have the caller write both to memory first, hit or not.
    #[cold]
    #[inline(never)]
    fn allocate_slow(&self, cx: Cx, request: Request) -> Result<Pfn, AllocError> {
        let (cx, request) = (&cx, &request);
        self.check(cx, request)?;
        let mut effort = SearchEffort::default();
        let result = self.search(cx, request, &mut effort);
        if result.is_err() {
            self.count(cx.cpu, Counter::AllocFail, 1);
        } else {
            self.note_effort(cx.cpu, effort);
        }
        result
    }

    /// Says what is wrong with a request itself.
    pub(crate) fn check(&self, cx: &Cx, request: &Request) -> Result<(), BadRequest> {
        let largest = Order::of(MAX_ORDER);
        if request.order > largest {
            return Err(BadRequest::OrderTooLarge { order: request.order, largest });
        }
        if !request.migratetype.is_requested() {
            return Err(BadRequest::Migratetype);
        }
        if self.has_cpu(cx.cpu) { Ok(()) } else { Err(BadRequest::NoSuchCpu) }
    }

    pub(crate) fn search(
        &self,
        cx: &Cx,
        request: &Request,
        effort: &mut SearchEffort,
    ) -> Result<Pfn, AllocError> {
        if let Some(pfn) = self.try_zones(cx, request, Mark::Low, effort) {
            return Ok(pfn);
        }
        if self.walk(request).next().is_none() {
            return Err(BadRequest::NoZone.into());
        }
        self.count(cx.cpu, Counter::AllocSlow, 1);
        if request.flags.contains(RequestFlags::WAKE_RECLAIM) {
            self.count(cx.cpu, Counter::KswapdWake, 1);
            self.walk(request).for_each(|zone| zone.reclaim_wake.wake(request.order));
        }
        let last = match request.flags.intersects(RequestFlags::MEMALLOC | RequestFlags::NOFAIL) {
            true => Mark::None,
            false => Mark::Min,
        };
        if let Some(pfn) = self.try_zones(cx, request, last, effort) {
            return Ok(pfn);
        }
        self.relieve(cx, request);
        if let Some(pfn) = self.try_zones(cx, request, last, effort) {
            return Ok(pfn);
        }
        for zone in self.walk(request).filter(|p| self.passes(p, request, last)) {
            if let Some(pfn) = self.sweep_zone(zone, cx, request, effort) {
                return Ok(pfn);
            }
        }
        Err(self.refusal(request, last))
    }

    pub(crate) fn try_zones(
        &self,
        cx: &Cx,
        request: &Request,
        mark: Mark,
        effort: &mut SearchEffort,
    ) -> Option<Pfn> {
        for zone in self.walk(request) {
            effort.step();
            if self.passes(zone, request, mark)
                && let Some(pfn) = self.allocate_in(zone, cx, request, effort)
            {
                return Some(pfn);
            }
        }
        None
    }

    /// Says whether a zone may give a block of this size to this request, going down to `mark`.
    ///
    /// # Linux
    /// `__zone_watermark_ok`.
    fn passes(&self, zone: &Zone<'_>, request: &Request, mark: Mark) -> bool {
        let size = request.order.frames().0;
        let kept = self.kept(zone, request, mark);
        zone.pageblocks.free_above(0, kept + size) >= kept + size
    }

    /// Returns how many frames a zone keeps back from a request that goes down to `mark`.
    fn kept(&self, zone: &Zone<'_>, request: &Request, mark: Mark) -> u64 {
        // ORDER: Relaxed: the boost orders nothing.
        let boost = zone.pageblocks.boost().load(Relaxed);
        let min = match mark {
            Mark::Low => zone.marks.low.0 + boost,
            Mark::Min => self.config.reserve_rule.lower(zone.marks.min, request.flags).0,
            Mark::None => return 0,
        };
        let mut kept = min + zone.protection[request.highest_zone.index()].0;
        if !wants_highatomic(request) {
            kept += zone.pageblocks.highatomic_free();
        }
        if request.migratetype != Migratetype::Movable {
            kept += zone.pageblocks.cma_free();
        }
        kept
    }

    /// Allocates a block in one zone: from a list, or from its frames, filling the list on the way.
    fn allocate_in(
        &self,
        zone: &Zone<'_>,
        cx: &Cx,
        request: &Request,
        effort: &mut SearchEffort,
    ) -> Option<Pfn> {
        let (order, ty, cpu) = (request.order.get(), request.migratetype as u8, cx.cpu.index());
        if order > BLOCK_ORDER {
            let block = zone.pageblocks.claim_run(order, ty, cpu, effort)?;
            return Some(self.hand_out(zone, cx, block << BLOCK_ORDER, order));
        }
        let list = list_of(order, ty);
        if let Some(list) = list
            && let Some(item) = self.percpu.pop(zone.lists.all(), cx.cpu, list)
        {
            zone.pageblocks.frames.allocate_listed(item, order);
            return Some(zone.pageblocks.pfn(item as usize));
        }
        let mut blocks = list.map_or(1, |list| self.refill_size(zone, cx, request, list));
        let mut area = if blocks as usize > BATCH { self.scratch_areas.take(cpu) } else { None };
        let mut stack = StackScratch::new();
        let items = match &mut area {
            Some(area) => area.scratch().items,
            None => stack.scratch().items,
        };
        blocks = blocks.min(items.len() as u32);
        let want = Want { ty, order, blocks, cpu };
        let atomic = wants_highatomic(request);
        if atomic {
            let reserved = Want { ty: Migratetype::HighAtomic as u8, blocks: 1, ..want };
            if let Some(got) = zone.pageblocks.claim(reserved, effort) {
                return Some(self.hand_out_first(zone, cx, &got, order, None, items));
            }
        }
        if order == BLOCK_ORDER
            && !atomic
            && let Some(list) = list
            && let Some(pfn) = self.claim_wholes(zone, cx, request, list, blocks, effort)
        {
            return Some(pfn);
        }
        let got = match zone.pageblocks.claim(want, effort) {
            Some(got) => got,
            None => {
                let (got, stolen) = zone.pageblocks.steal(want, effort)?;
                self.note_stolen(cx.cpu, zone, stolen);
                got
            }
        };
        let pfn = self.hand_out_first(zone, cx, &got, order, list, items);
        if atomic && order < BLOCK_ORDER && zone.pageblocks.reserve_highatomic(got.block) {
            self.count(cx.cpu, Counter::HighatomicReserve, 1);
        }
        Some(pfn)
    }

    /// Marks a block that came straight from its zone as the caller's.
    pub(crate) fn hand_out(&self, zone: &Zone<'_>, cx: &Cx, frame: usize, order: u8) -> Pfn {
        zone.pageblocks.frames.allocate_tag(frame, order);
        self.count(cx.cpu, Counter::Pgalloc, 1 << order);
        zone.pageblocks.pfn(frame)
    }

    #[cold]
    fn note_stolen(&self, cpu: CpuId, zone: &Zone<'_>, stolen: Stolen) {
        self.count(cpu, Counter::Extfrag, 1);
        let kind = if stolen == Stolen::Borrowed { Counter::ExtfragSteal } else { Counter::ExtfragClaim };
        self.count(cpu, kind, 1);
        if stolen != Stolen::Whole
            && let Some(most) = zone.max_boost
            && zone.pageblocks.raise_boost(most.0)
        {
            self.count(cpu, Counter::WatermarkBoost, 1);
        }
    }

    /// Gives back what lists and reserves hold, before a request fails.
    #[cold]
    pub(crate) fn relieve(&self, cx: &Cx, request: &Request) {
        for zone in self.walk(request) {
            if self.percpu.reaches_others() {
                (0..self.config.cpus).for_each(|cpu| self.drain_lists(zone, CpuId(cpu)));
            } else {
                self.drain_lists(zone, cx.cpu);
            }
            if zone.pageblocks.unreserve_highatomic(request.migratetype as u8) {
                self.count(cx.cpu, Counter::HighatomicUnreserve, 1);
            }
        }
    }

    /// Returns the frames in one CPU's lists of one zone to it.
    pub(crate) fn drain_lists(&self, zone: &Zone<'_>, cpu: CpuId) {
        self.percpu.drain(zone.lists.all(), cpu, |list, items| {
            self.count(cpu, Counter::PcpDrain, 1);
            self.count(cpu, Counter::PcpDrainPages, (items.len() as u64) << order_of(list));
            self.release_items(zone, cpu, items, order_of(list));
        });
    }

    #[cold]
    fn sweep_zone(
        &self,
        zone: &Zone<'_>,
        cx: &Cx,
        request: &Request,
        effort: &mut SearchEffort,
    ) -> Option<Pfn> {
        let (order, ty) = (request.order.get(), request.migratetype as u8);
        if order > BLOCK_ORDER {
            let block = zone.pageblocks.sweep_runs(order, ty)?;
            return Some(self.hand_out(zone, cx, block << BLOCK_ORDER, order));
        }
        let want = Want { ty, order, blocks: 1, cpu: cx.cpu.index() };
        let got = zone.pageblocks.sweep(want, &usable(request), effort)?;
        Some(self.hand_out_first(zone, cx, &got, order, None, &mut [0]))
    }

    /// Says why a request cannot be served, from the zones as they are now.
    #[cold]
    fn refusal(&self, request: &Request, last: Mark) -> AllocError {
        let order = request.order;
        let (mut free, mut kept, mut passes, mut short, mut held_back) = (0, 0, false, false, false);
        for zone in self.walk(request) {
            // One reading of each: a count that moves meanwhile must not name a watermark that keeps nothing back.
            let (here, back) = (zone.pageblocks.free(), self.kept(zone, request, last));
            (free, kept) = (free + here, kept + back);
            if here.checked_sub(order.frames().0).is_some_and(|left| left >= back) {
                passes = true;
            } else if here >= order.frames().0 {
                short = true;
                held_back |= zone.pageblocks.fits(order.get(), &usable(request));
            }
        }
        if free < order.frames().0 {
            AllocError::OutOfMemory
        } else if held_back || (short && !passes) {
            AllocError::BelowWatermark { free: Frames(free), kept: Frames(kept) }
        } else {
            AllocError::Fragmented { order, free: Frames(free) }
        }
    }

    fn note_effort(&self, cpu: CpuId, effort: SearchEffort) {
        let words = &self.efforts[cpu.index() * super::geometry::LINE_WORDS..];
        // ORDER: Relaxed: a measure orders nothing.
        if words[0].load(Relaxed) < u64::from(effort.steps) {
            words[0].store(u64::from(effort.steps), Relaxed);
        }
    }
}

/// Says whether a request may use, and adds to, the pageblocks reserved for high-order requests that cannot wait.
fn wants_highatomic(request: &Request) -> bool {
    request.order > Order::ZERO && request.flags.contains(RequestFlags::HIGH | RequestFlags::NON_BLOCKING)
}

/// Returns the types of pageblocks that a request can be served from, its own first.
pub(crate) fn usable(request: &Request) -> [u8; 3] {
    let fallbacks = request.migratetype.fallbacks();
    core::array::from_fn(|i| match i {
        0 => request.migratetype as u8,
        _ => fallbacks[i - 1] as u8,
    })
}
