//! Requests, and the one path that all of them take: a list hit inlined, everything else out of line.

use crate::engine::geometry::{BATCH, FrameIdx, LARGEST, LINE_WORDS, PAGEBLOCK};
use crate::engine::map::tree::SearchEffort;
use crate::engine::map::type_code::TypeCode;
use crate::engine::pcp::percpu::PerCpu;
use crate::engine::pcp::scratch::ScratchArea;
use crate::engine::pcp::tuning::{ListIdx, list_of};
use crate::engine::yard::Pageyard;
use crate::engine::zone::Zone;
use crate::engine::zone::marks::{Mark, wants_highatomic};
use crate::engine::zone::pageblocks::{Got, Want};
use crate::engine::zone::steal::Stolen;
use pageyard_core::allocator::{Cx, Drained};
use pageyard_core::clear::{Caches, Clear};
use pageyard_core::error::{AllocError, BadRequest};
use pageyard_core::migratetype::Migratetype;
use pageyard_core::observer::Observer;
use pageyard_core::reason::{ZoneRoom, reason};
use pageyard_core::request::{NodeMask, Request, RequestFlags};
use pageyard_core::stats::Counter;
use pageyard_core::units::{CpuId, Frames, Order, Pfn};
use pageyard_sync::Relaxed;

impl<P: PerCpu, O: Observer, C: Clear> Pageyard<'_, P, O, C> {
    /// Allocates one block. As [`PageAllocator::alloc`](crate::PageAllocator::alloc); it is
    /// [`alloc_with`](crate::PressureAllocator::alloc_with) with nothing to help.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Concurrency
    /// Lock-free. On a list miss at most one refill's worth of other work.
    ///
    /// # Linux
    /// `__alloc_pages`. Difference: watermarks are checked on refill, not on a list hit.
    // Always inlined, here and in `free`: a call saves and restores as many registers as a hit makes accesses.
    #[inline(always)]
    pub fn alloc(&self, cx: &Cx, request: &Request) -> Result<Pfn, AllocError> {
        if O::ACTIVE && self.observer.refuses(request) {
            return Err(self.refused(cx));
        }
        match self.alloc_hit(cx, request) {
            Some(pfn) => Ok(pfn),
            None => self.alloc_slow(*cx, *request),
        }
    }

    /// Counts a request that the observer refused.
    #[cold]
    #[inline(never)]
    pub(crate) fn refused(&self, cx: &Cx) -> AllocError {
        if self.has_cpu(cx.cpu) {
            self.count(cx.cpu, Counter::AllocFail, 1);
        }
        AllocError::OutOfMemory
    }

    /// Requests that no list serves: cold frames, and zeroed frames where nothing clears.
    pub(crate) const NOT_LISTED: RequestFlags =
        if C::ACTIVE { RequestFlags::COLD } else { RequestFlags::COLD.union(RequestFlags::ZERO) };

    /// Takes a block from the list of the first zone in the request's zonelist.
    #[inline(always)]
    pub(crate) fn alloc_hit(&self, cx: &Cx, request: &Request) -> Option<Pfn> {
        let list = list_of(request.order, TypeCode::of(request.migratetype))?;
        if request.nodes != NodeMask::ALL || request.flags.intersects(Self::NOT_LISTED) {
            return None;
        }
        let zone = self.zonelists.first_zone(cx.cpu, request.highest_zone)?;
        let item = self.percpu.pop(zone.lists.all(), cx.cpu, list)?;
        zone.pageblocks.frames.allocate_listed(item, request.order);
        let pfn = zone.pageblocks.pfn(FrameIdx::of_item(item));
        self.observer.allocated(pfn, request.order, request.migratetype);
        if self.wants_zeros(request) && !zone.pageblocks.frames.holds_zeros(FrameIdx::of_item(item)) {
            self.clear_one(pfn, request.order, Caches::Hot);
        }
        Some(pfn)
    }

    /// Returns whether a request gets zeros: it asks for them, or every request does.
    #[inline(always)]
    pub(crate) fn wants_zeros(&self, request: &Request) -> bool {
        C::ACTIVE && (request.flags.contains(RequestFlags::ZERO) || self.config.init_on_alloc)
    }

    /// Clears a block that no caller has, and orders that before everything that follows.
    #[cold]
    #[inline(never)]
    pub(crate) fn clear_one(&self, pfn: Pfn, order: Order, caches: Caches) {
        self.clearer.clear(pfn, order, caches);
        self.clearer.fence();
    }

    /// Takes copies: a reference would make the caller write both to memory first, hit or not.
    #[cold]
    #[inline(never)]
    fn alloc_slow(&self, cx: Cx, request: Request) -> Result<Pfn, AllocError> {
        match self.alloc_here(&cx, &request) {
            Some(pfn) => Ok(pfn),
            None => self.alloc_missed(&cx, &request),
        }
    }

    /// Not inlined, so that the registers and the stack of [`Pageyard::alloc_here`] are free again when the search
    /// begins.
    #[inline(never)]
    fn alloc_missed(&self, cx: &Cx, request: &Request) -> Result<Pfn, AllocError> {
        self.alloc_miss(cx, request, || None)
    }

    /// Serves a request that missed its list. All requests take this one sequence of steps. `help` is the step for
    /// those that may wait: it reclaims and compacts, and retries after each.
    ///
    /// | step | who |
    /// |---|---|
    /// | zones above their low watermark | all |
    /// | as far down as the request may go; the background reclaimer is woken | all |
    /// | the same, once lists and the reserve of atomic requests were given back | those that may wait |
    /// | `help` | those that may wait, but not reclaim's own |
    /// | the last frame | `MEMALLOC`; `NOFAIL`, after `help` |
    /// | a look at every pageblock, trusting no index | those that may wait |
    ///
    /// # Complexity
    /// A request that may not wait looks at a bounded number of words and descriptors, and is refused: nothing is
    /// drained or swept on its behalf. `pageyard-lab bench scale` prints what that costs.
    pub(crate) fn alloc_miss(
        &self,
        cx: &Cx,
        request: &Request,
        help: impl FnOnce() -> Option<Pfn>,
    ) -> Result<Pfn, AllocError> {
        self.check(cx, request)?;
        let mut effort = SearchEffort::default();
        let got = self.slow_path(cx, request, &mut effort, help);
        match got {
            Some(pfn) => {
                self.note_effort(cx.cpu, effort);
                self.note_origin(cx.cpu, request, pfn);
                if self.wants_zeros(request) && !self.was_zeroed(pfn) {
                    self.clear_one(pfn, request.order, Caches::Cold);
                }
            }
            None => self.count(cx.cpu, Counter::AllocFail, 1),
        }
        got.ok_or_else(|| self.refusal(cx.cpu, request))
    }

    fn slow_path(
        &self,
        cx: &Cx,
        request: &Request,
        effort: &mut SearchEffort,
        help: impl FnOnce() -> Option<Pfn>,
    ) -> Option<Pfn> {
        if let Some(pfn) = self.try_zones(cx, request, Mark::Low, effort) {
            return Some(pfn);
        }
        self.count(cx.cpu, Counter::AllocSlow, 1);
        if request.flags.contains(RequestFlags::WAKE_RECLAIM) {
            self.count(cx.cpu, Counter::KswapdWake, 1);
            self.walk(cx.cpu, request).for_each(|zone| zone.reclaim_wake.wake(request.order));
        }
        let memalloc = request.flags.contains(RequestFlags::MEMALLOC);
        let mark = if memalloc { Mark::None } else { Mark::Min };
        let last = mark.for_last_try(request);
        if request.flags.contains(RequestFlags::NON_BLOCKING) {
            return self.try_zones(cx, request, last, effort);
        }
        self.try_zones(cx, request, mark, effort)
            .or_else(|| self.try_relieved(cx, request, mark, effort))
            .or_else(|| if memalloc { None } else { help() })
            .or_else(|| if last == mark { None } else { self.try_zones(cx, request, last, effort) })
            .or_else(|| self.sweep(cx, request, last, effort))
    }

    /// Drains the lists and unreserves one pageblock after another, retrying after each.
    #[cold]
    pub(crate) fn try_relieved(
        &self,
        cx: &Cx,
        request: &Request,
        mark: Mark,
        effort: &mut SearchEffort,
    ) -> Option<Pfn> {
        loop {
            let unreserved = self.relieve(cx, request);
            let pfn = self.try_zones(cx, request, mark, effort);
            if pfn.is_some() || !unreserved {
                return pfn;
            }
        }
    }

    /// Looks at every descriptor of the zones that pass their watermark.
    #[cold]
    fn sweep(&self, cx: &Cx, request: &Request, mark: Mark, effort: &mut SearchEffort) -> Option<Pfn> {
        let mut zones = self.walk(cx.cpu, request).filter(|zone| zone.passes(request, mark));
        zones.find_map(|zone| self.sweep_zone(zone, cx, request, effort))
    }

    /// Checks the request itself.
    pub(crate) fn check(&self, cx: &Cx, request: &Request) -> Result<(), BadRequest> {
        if request.order > LARGEST {
            return Err(BadRequest::OrderTooLarge { order: request.order, largest: LARGEST });
        }
        if !request.migratetype.is_requested() {
            return Err(BadRequest::Migratetype);
        }
        if !C::ACTIVE && request.flags.contains(RequestFlags::ZERO) {
            return Err(BadRequest::CannotZero);
        }
        self.check_cpu(cx)?;
        if self.walk(cx.cpu, request).next().is_none() { Err(BadRequest::NoZone) } else { Ok(()) }
    }

    /// Refuses a call that names a CPU the instance does not have.
    pub(crate) fn check_cpu(&self, cx: &Cx) -> Result<(), BadRequest> {
        if self.has_cpu(cx.cpu) { Ok(()) } else { Err(BadRequest::NoSuchCpu) }
    }

    pub(crate) fn try_zones(
        &self,
        cx: &Cx,
        request: &Request,
        mark: Mark,
        effort: &mut SearchEffort,
    ) -> Option<Pfn> {
        #[cfg(not(pageyard_loom))]
        if self.config.accept.is_some() {
            return self.try_zones_accepting(cx, request, mark, effort);
        }
        for zone in self.walk(cx.cpu, request) {
            effort.step();
            if zone.passes(request, mark)
                && let Some(pfn) = self.allocate_in(zone, cx, request, effort)
            {
                return Some(pfn);
            }
        }
        None
    }

    /// Allocates a block in one zone: from a list, or from its frames, filling the list on the way.
    pub(crate) fn allocate_in(
        &self,
        zone: &Zone<'_>,
        cx: &Cx,
        request: &Request,
        effort: &mut SearchEffort,
    ) -> Option<Pfn> {
        let (order, ty, cpu) = (request.order, request.migratetype, cx.cpu);
        if order > PAGEBLOCK {
            let block = zone.pageblocks.claim_run(order, ty, cpu, effort)?;
            return Some(self.hand_out(zone, cx, block.first_frame(), request.order, request.migratetype));
        }
        let Some(list) = zone.list(order, TypeCode::of(ty)) else {
            return self.allocate_unlisted(zone, cx, request, effort);
        };
        if let Some(pfn) = self.take_listed(zone, cx, request, list) {
            return Some(pfn);
        }
        let mut blocks = self.refill_size(zone, cx, request, list);
        let area = if blocks as usize > BATCH { self.scratch_areas.take(cpu) } else { None };
        blocks = blocks.min(area.as_ref().map_or(BATCH, ScratchArea::room) as u32);
        let watch = zone.pageblocks.watch_isolations();
        let atomic = wants_highatomic(request);
        if atomic && let Some(pfn) = self.take_reserved(zone, cx, request, effort) {
            return Some(pfn);
        }
        if order == PAGEBLOCK
            && !atomic
            && let Some(pfn) = self.claim_wholes(zone, cx, request, list, blocks, effort)
        {
            return Some(pfn);
        }
        let got = self.claim_or_steal(zone, Want { ty, order, blocks, cpu }, effort)?;
        let pfn = self.hand_out_first(zone, cx, &got, request, (list, watch), area);
        self.reserve_for(zone, cx, request, &got);
        Some(pfn)
    }

    /// Allocates one block without going through the lists.
    fn allocate_unlisted(
        &self,
        zone: &Zone<'_>,
        cx: &Cx,
        request: &Request,
        effort: &mut SearchEffort,
    ) -> Option<Pfn> {
        let want = Want { ty: request.migratetype, order: request.order, blocks: 1, cpu: cx.cpu };
        if wants_highatomic(request)
            && let Some(pfn) = self.take_reserved(zone, cx, request, effort)
        {
            return Some(pfn);
        }
        let got = self.claim_or_steal(zone, want, effort)?;
        if request.order == PAGEBLOCK {
            self.note_whole(cx.cpu, got.first());
        }
        let pfn = self.hand_out(zone, cx, got.first(), request.order, request.migratetype);
        self.reserve_for(zone, cx, request, &got);
        Some(pfn)
    }

    /// Allocates a block from the reserve for high-order requests that cannot wait.
    fn take_reserved(
        &self,
        zone: &Zone<'_>,
        cx: &Cx,
        request: &Request,
        effort: &mut SearchEffort,
    ) -> Option<Pfn> {
        let ty = Migratetype::HighAtomic;
        let want = Want { ty, order: request.order, blocks: 1, cpu: cx.cpu };
        let got = zone.pageblocks.claim(want, effort)?;
        self.add_free(zone, cx.cpu, got.claimed);
        Some(self.hand_out(zone, cx, got.first(), request.order, request.migratetype))
    }

    /// Reserves the pageblock that such a request was served from.
    fn reserve_for(&self, zone: &Zone<'_>, cx: &Cx, request: &Request, got: &Got) {
        if wants_highatomic(request)
            && request.order < PAGEBLOCK
            && zone.pageblocks.reserve_highatomic(got.block)
        {
            self.count(cx.cpu, Counter::HighatomicReserve, 1);
        }
    }

    /// Claims blocks of the request's type, or of another. A pageblock that no CPU worked on may then be biased to this
    /// CPU.
    fn claim_or_steal(&self, zone: &Zone<'_>, want: Want, effort: &mut SearchEffort) -> Option<Got> {
        let pageblocks = &zone.pageblocks;
        let got = match pageblocks.claim(want, effort).or_else(|| pageblocks.claim_cma(want, effort)) {
            Some(got) => got,
            None => {
                let (got, stolen) = zone.pageblocks.steal(want, effort)?;
                self.note_stolen(want.cpu, zone, stolen);
                got
            }
        };
        self.add_free(zone, want.cpu, got.claimed);
        if P::BIASES && got.fresh {
            self.ask_for_bias(&zone.pageblocks, got.block);
        }
        Some(got)
    }

    /// Takes a block from one of the CPU's lists: the last one freed, or the first one freed if a cold one is wanted.
    fn take_listed(&self, zone: &Zone<'_>, cx: &Cx, request: &Request, list: ListIdx) -> Option<Pfn> {
        let (lists, order) = (zone.lists.all(), request.order);
        if request.flags.contains(RequestFlags::COLD) {
            let mut oldest = [0];
            let n = self.percpu.spill(lists, cx.cpu, list, &mut oldest);
            return (n > 0).then(|| {
                self.hand_out(zone, cx, FrameIdx::of_item(oldest[0]), request.order, request.migratetype)
            });
        }
        let item = self.percpu.pop(lists, cx.cpu, list)?;
        self.note_late_pop(cx.cpu, zone);
        zone.pageblocks.frames.allocate_listed(item, order);
        let pfn = zone.pageblocks.pfn(FrameIdx::of_item(item));
        self.observer.allocated(pfn, request.order, request.migratetype);
        Some(pfn)
    }

    /// Marks a block that came straight from its zone as the caller's.
    pub(crate) fn hand_out(
        &self,
        zone: &Zone<'_>,
        cx: &Cx,
        frame: FrameIdx,
        order: Order,
        m: Migratetype,
    ) -> Pfn {
        self.hand_out_here(zone, cx, frame, order, m)
    }

    /// [`Pageyard::hand_out`], inlined.
    #[inline(always)]
    pub(super) fn hand_out_here(
        &self,
        zone: &Zone<'_>,
        cx: &Cx,
        frame: FrameIdx,
        order: Order,
        m: Migratetype,
    ) -> Pfn {
        zone.pageblocks.frames.allocate_tag(frame, order);
        self.count(cx.cpu, Counter::Pgalloc, order.frames().0);
        let pfn = zone.pageblocks.pfn(frame);
        self.observer.allocated(pfn, order, m);
        pfn
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

    /// Drains the lists, and unreserves one atomic pageblock of each zone. Returns whether there was one.
    #[cold]
    pub(crate) fn relieve(&self, cx: &Cx, request: &Request) -> bool {
        let mut unreserved = false;
        for zone in self.walk(cx.cpu, request) {
            if self.percpu.reaches_others() {
                (0..self.config.cpus).for_each(|cpu| {
                    self.drain_lists(zone, CpuId(cpu));
                });
            } else {
                self.drain_lists(zone, cx.cpu);
            }
            if zone.pageblocks.unreserve_highatomic(request.migratetype) {
                self.count(cx.cpu, Counter::HighatomicUnreserve, 1);
                unreserved = true;
            }
        }
        unreserved
    }

    /// Returns the frames in one CPU's lists of one zone to it.
    pub(crate) fn drain_lists(&self, zone: &Zone<'_>, cpu: CpuId) -> Drained {
        let mut drained = Drained::default();
        drained.busy = self.percpu.drain(zone.lists.all(), cpu, |list, items| {
            let order = list.order();
            drained.frames += Frames((items.len() as u64) << order.get());
            self.count(cpu, Counter::PcpDrain, 1);
            self.count(cpu, Counter::PcpDrainPages, (items.len() as u64) << order.get());
            self.release_items(zone, cpu, items, order);
        });
        drained
    }

    #[cold]
    fn sweep_zone(
        &self,
        zone: &Zone<'_>,
        cx: &Cx,
        request: &Request,
        effort: &mut SearchEffort,
    ) -> Option<Pfn> {
        let (order, ty) = (request.order, request.migratetype);
        if order > PAGEBLOCK {
            let block = zone.pageblocks.sweep_runs(order, ty)?;
            return Some(self.hand_out(zone, cx, block.first_frame(), request.order, request.migratetype));
        }
        let want = Want { ty, order, blocks: 1, cpu: cx.cpu };
        let got = zone.pageblocks.sweep(want, &usable(request), effort);
        let got = got.or_else(|| zone.pageblocks.sweep_cma(want, effort))?;
        self.add_free(zone, cx.cpu, got.claimed);
        Some(self.hand_out(zone, cx, got.first(), request.order, request.migratetype))
    }

    /// Returns why a request was refused, from the zones' current state.
    #[cold]
    fn refusal(&self, cpu: CpuId, request: &Request) -> AllocError {
        let mark = if request.flags.contains(RequestFlags::MEMALLOC) { Mark::None } else { Mark::Min };
        let mark = mark.for_last_try(request);
        // One reading of each: a count that moves meanwhile must not name a watermark that keeps nothing back.
        let room = |zone: &Zone<'_>| ZoneRoom {
            free: Frames(zone.pageblocks.free()),
            kept: Frames(zone.kept(request, mark)),
        };
        reason(request.order, self.walk(cpu, request).map(room))
    }

    #[inline]
    pub(super) fn note_effort(&self, cpu: CpuId, effort: SearchEffort) {
        let word = &self.efforts[cpu.index() * LINE_WORDS];
        // ORDER: Relaxed: a measure orders nothing.
        if word.load(Relaxed) < u64::from(effort.steps) {
            word.store(u64::from(effort.steps), Relaxed);
        }
    }
}

/// Returns the pageblock types that can serve a request, its own first.
pub(crate) fn usable(request: &Request) -> [Migratetype; 3] {
    let fallbacks = request.migratetype.fallbacks();
    core::array::from_fn(|i| match i {
        0 => request.migratetype,
        _ => fallbacks[i - 1],
    })
}
