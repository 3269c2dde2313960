//! The simplest correct allocator: a byte a frame and short per-CPU lists behind a mutex, first fit. And the same with
//! one thing wrong.

use pageyard::block;
use pageyard::watermark::Watermarks;
use pageyard::{
    AllocError, AuditError, BadRequest, Census, ClaimError, CpuId, CpuSet, Cx, Drained, Frames, FreeError,
    MapError, MemoryMap, Migratetype, NodeMask, Order, PageAllocator, PcpStats, Pfn, Request, RequestFlags,
    Stats, ZoneId, ZoneKind, ZoneSpan, ZoneStats,
};
use pageyard_testkit::Build;
use std::sync::{Mutex, MutexGuard};

/// A fault planted in the allocator.
#[allow(dead_code, reason = "no file of tests needs all of them")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    None,
    /// Now and then hands out a held block.
    HandsOutTwice,
    /// Forgets the last frame of a block that is freed.
    LosesFrameOnFree,
    /// Frees the buddy together with a single frame, even if it is held.
    MergesWithHeldBuddy,
    /// Grants blocks of order 1 that start at odd frames.
    Misaligned,
    /// Says `Ok` to a free of what is free.
    AcceptsDoubleFree,
    /// Undoes an allocation of order 7 or 8 but reports success.
    UndoneButGranted,
    /// Loses the last part of a split.
    LeaksOnSplit,
    /// Says that memory is out when it is fragmented.
    WrongReason,
    /// Ignores which zones and nodes a request allows.
    IgnoresZones,
    /// Frees a part of a block as if the block had been split.
    FreesParts,
    /// Lets a claim take what is held.
    ClaimsHeldFrames,
    /// Changes something before it finds that the CPU does not exist.
    FreesForNobody,
    /// Stops a bulk allocation one short.
    BulkStopsShort,
    /// Looks and acts under two separate locks when it frees.
    RacyFree,
    /// Looks and acts under two separate locks when it allocates.
    RacyAlloc,
    /// Looks and acts under two separate locks when it splits.
    RacySplit,
    /// Looks and acts under two separate locks when it claims.
    RacyClaim,
    /// Forgets the frames of the lists that are drained.
    LosesFramesOnDrain,
    /// Hands out frames from lists without taking them off.
    CopiesFromList,
    /// Says that a reserve is in the way, and keeps none.
    InventsReserve,
    /// Panics when memory is full.
    Panics,
}

const FREE: u8 = 0;
const TAIL: u8 = 100;
const HOLE: u8 = 101;
const CACHED: u8 = 102;

/// Frames in one CPU's list at most.
const HIGH: usize = 16;

fn head(order: Order) -> u8 {
    order.get() + 1
}

struct Zone {
    span: ZoneSpan,
    tags: Vec<u8>,
    free: u64,
    /// No frame before this place is free.
    hint: usize,
    /// Single frames, by CPU.
    lists: Vec<Vec<Pfn>>,
}

pub struct FirstFit {
    zones: Vec<Mutex<Zone>>,
    spans: Vec<ZoneSpan>,
    cpus: u32,
    fault: Fault,
    calls: Mutex<u64>,
}

pub const LARGEST: Order = Order::of(10);

/// Builds the allocator, right or with a fault.
#[derive(Clone, Copy)]
pub struct BuildFirstFit(pub Fault);

impl Build for BuildFirstFit {
    type Engine = FirstFit;

    fn name(&self) -> String {
        format!("first fit, {:?}", self.0)
    }

    fn build(&self, map: &MemoryMap<'_>, cpus: u32) -> Result<FirstFit, MapError> {
        let mut zones = Vec::new();
        for (_, span) in map.zones() {
            let mut tags = vec![HOLE; span.spanned.0 as usize];
            for r in map.regions().filter(|r| r.managed && span.spans(r.start)) {
                let at = (r.start - span.start).0 as usize;
                tags[at..at + r.frames.0 as usize].fill(FREE);
            }
            zones.push(Mutex::new(Zone {
                span,
                tags,
                free: span.managed.0,
                hint: 0,
                lists: vec![Vec::new(); cpus as usize],
            }));
        }
        let spans = map.zones().map(|(_, span)| span).collect();
        Ok(FirstFit { zones, spans, cpus, fault: self.0, calls: Mutex::new(0) })
    }

    fn largest_order(&self) -> Order {
        LARGEST
    }

    fn expression(&self) -> String {
        format!("BuildFirstFit(Fault::{:?})", self.0)
    }

    fn has_watermarks(&self) -> bool {
        false
    }

    fn has_migratetypes(&self) -> bool {
        false
    }
}

impl Zone {
    fn at(&self, pfn: Pfn) -> usize {
        (pfn - self.span.start).0 as usize
    }

    /// Returns the first aligned free block of `order`.
    fn find(&mut self, order: Order) -> Option<Pfn> {
        if self.free < order.frames().0 {
            return None;
        }
        while self.tags.get(self.hint).is_some_and(|t| *t != FREE) {
            self.hint += 1;
        }
        let size = order.frames().0 as usize;
        let first = self.at(Pfn(self.span.start.0 + self.hint as u64).align_up(order));
        let mut blocks = self.tags.get(first..)?.chunks_exact(size);
        let found = blocks.position(|b| b.iter().all(|t| *t == FREE))?;
        Some(Pfn(self.span.start.0 + (first + found * size) as u64))
    }

    fn is_free(&self, pfn: Pfn, order: Order) -> bool {
        let at = self.at(pfn);
        self.tags[at..at + order.frames().0 as usize].iter().all(|t| *t == FREE)
    }

    fn take(&mut self, pfn: Pfn, order: Order) {
        let (at, size) = (self.at(pfn), order.frames().0 as usize);
        let free = self.tags[at..at + size].iter().filter(|t| **t == FREE).count();
        self.tags[at..at + size].fill(TAIL);
        self.tags[at] = head(order);
        self.free -= free as u64;
    }

    fn give(&mut self, pfn: Pfn, frames: u64) {
        let at = self.at(pfn);
        let held = self.tags[at..at + frames as usize].iter().filter(|t| **t != FREE).count();
        self.tags[at..at + frames as usize].fill(FREE);
        self.free += held as u64;
        self.hint = self.hint.min(at);
    }

    fn cached(&self) -> Frames {
        Frames(self.lists.iter().map(|l| l.len() as u64).sum())
    }

    /// Says what is wrong with freeing this block.
    fn wrong(&self, pfn: Pfn, order: Order) -> Option<FreeError> {
        match self.tags[self.at(pfn)] {
            HOLE => Some(FreeError::OutsideArena),
            _ if order > LARGEST || !pfn.is_aligned(order) => Some(FreeError::Misaligned),
            FREE | CACHED => Some(FreeError::NotAllocated),
            TAIL => {
                let found = block::holders(pfn, LARGEST)
                    .find(|b| b.pfn >= self.span.start && self.tags[self.at(b.pfn)] == head(b.order));
                // Only a part that was lost has no head.
                Some(found.map_or(FreeError::NotAllocated, |b| FreeError::NotHead {
                    head: b.pfn,
                    allocated: b.order,
                }))
            }
            tag if tag == head(order) => None,
            tag => Some(FreeError::WrongOrder { allocated: Order::of(tag - 1) }),
        }
    }

    /// Iterates over the runs of free frames.
    fn runs(&self) -> impl Iterator<Item = (Pfn, Frames)> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            at += self.tags[at..].iter().position(|t| *t == FREE)?;
            let length = self.tags[at..].iter().take_while(|t| **t == FREE).count();
            let start = Pfn(self.span.start.0 + at as u64);
            at += length;
            Some((start, Frames(length as u64)))
        })
    }
}

impl FirstFit {
    fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// Returns whether this is one of the calls on which a fault strikes.
    fn strikes(&self, fault: Fault, one_in: u64) -> bool {
        if self.fault != fault {
            return false;
        }
        let mut calls = self.calls.lock().unwrap();
        *calls += 1;
        calls.is_multiple_of(one_in)
    }

    fn zone(&self, pfn: Pfn) -> Option<MutexGuard<'_, Zone>> {
        let at = self.spans.iter().position(|s| s.spans(pfn))?;
        Some(self.zones[at].lock().unwrap())
    }

    /// Lets go of a zone for a moment when that is the fault.
    fn look_away<'a>(&'a self, zone: MutexGuard<'a, Zone>, fault: Fault, pfn: Pfn) -> MutexGuard<'a, Zone> {
        if !self.is(fault) {
            return zone;
        }
        drop(zone);
        std::thread::yield_now();
        self.zone(pfn).expect("it was there a moment ago")
    }

    fn bad(&self, cx: &Cx, request: &Request) -> Option<BadRequest> {
        if cx.cpu.0 >= self.cpus {
            Some(BadRequest::NoSuchCpu)
        } else if request.order > LARGEST {
            Some(BadRequest::OrderTooLarge { order: request.order, largest: LARGEST })
        } else if !request.migratetype.is_requested() {
            Some(BadRequest::Migratetype)
        } else if !self.spans.iter().any(|s| self.allows(request, s)) {
            Some(BadRequest::NoZone)
        } else if request.flags.contains(RequestFlags::ZERO) {
            Some(BadRequest::CannotZero)
        } else {
            None
        }
    }

    fn allows(&self, request: &Request, span: &ZoneSpan) -> bool {
        let mut nodes = request.nodes;
        if request.flags.contains(RequestFlags::THIS_NODE) {
            let first = self.spans.iter().map(|s| s.node).filter(|n| nodes.allows(*n)).min();
            nodes = first.map_or(NodeMask(0), NodeMask::only);
        }
        let in_zone = span.kind <= request.highest_zone && span.kind != ZoneKind::Device;
        in_zone && nodes.allows(span.node)
    }
}

// SAFETY: a frame's state changes under the lock of its zone only. With a planted fault it does not keep its promise,
// which the suite has to find; only numbers are handed out, and no memory.
unsafe impl PageAllocator for FirstFit {
    fn alloc(&self, cx: &Cx, request: &Request) -> Result<Pfn, AllocError> {
        if let Some(bad) = self.bad(cx, request) {
            return Err(bad.into());
        }
        let order = request.order;
        let mut free = 0;
        for at in (0..self.zones.len()).rev() {
            if !self.allows(request, &self.spans[at]) && !self.is(Fault::IgnoresZones) {
                continue;
            }
            let mut zone = self.zones[at].lock().unwrap();
            free += zone.free;
            if self.strikes(Fault::HandsOutTwice, 500)
                && let Some(held) = zone.tags.iter().position(|t| *t == head(order))
            {
                return Ok(Pfn(zone.span.start.0 + held as u64));
            }
            if order == Order::ZERO {
                let list = &mut zone.lists[cx.cpu.index()];
                let cached = if self.is(Fault::CopiesFromList) { list.last().copied() } else { list.pop() };
                if let Some(pfn) = cached {
                    let at = zone.at(pfn);
                    zone.tags[at] = head(order);
                    return Ok(pfn);
                }
            }
            let Some(mut pfn) = zone.find(order) else { continue };
            let mut zone = self.look_away(zone, Fault::RacyAlloc, pfn);
            if self.is(Fault::UndoneButGranted) && (order == Order::of(7) || order == Order::of(8)) {
                return Ok(pfn);
            }
            let next = Pfn(pfn.0 + 1);
            if order == Order::of(1)
                && self.is(Fault::Misaligned)
                && zone.span.spans(Pfn(pfn.0 + 2))
                && zone.is_free(next, order)
            {
                pfn = next;
            }
            zone.take(pfn, order);
            return Ok(pfn);
        }
        assert!(!self.is(Fault::Panics), "memory is full");
        if self.is(Fault::InventsReserve) {
            return Err(AllocError::BelowWatermark { free: Frames(free), kept: Frames(free) });
        }
        if free < order.frames().0 || self.is(Fault::WrongReason) {
            Err(AllocError::OutOfMemory)
        } else {
            Err(AllocError::Fragmented { order, free: Frames(free) })
        }
    }

    fn free(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if cx.cpu.0 >= self.cpus && !self.is(Fault::FreesForNobody) {
            return Err(FreeError::NoSuchCpu);
        }
        let mut zone = self.zone(pfn).ok_or(FreeError::OutsideArena)?;
        match zone.wrong(pfn, order) {
            Some(FreeError::NotAllocated) if self.is(Fault::AcceptsDoubleFree) => return Ok(()),
            Some(FreeError::NotHead { .. }) if self.is(Fault::FreesParts) => {}
            Some(wrong) => return Err(wrong),
            None => {}
        }
        zone = self.look_away(zone, Fault::RacyFree, pfn);
        if order > Order::ZERO && self.is(Fault::LosesFrameOnFree) {
            zone.give(pfn, order.frames().0 - 1);
            return Ok(());
        }
        let (cpu, at) = (cx.cpu.index(), zone.at(pfn));
        if order == Order::ZERO && zone.lists.get(cpu).is_some_and(|l| l.len() < HIGH) {
            zone.tags[at] = CACHED;
            zone.lists[cpu].push(pfn);
        } else {
            zone.give(pfn, order.frames().0);
        }
        let buddy = block::buddy(pfn, order);
        let merges = order == Order::ZERO && self.is(Fault::MergesWithHeldBuddy) && zone.span.spans(buddy);
        if merges && zone.tags[zone.at(buddy)] == head(order) {
            zone.give(buddy, 1);
        }
        if cx.cpu.0 >= self.cpus { Err(FreeError::NoSuchCpu) } else { Ok(()) }
    }

    fn alloc_bulk(&self, cx: &Cx, request: &Request, out: &mut [Pfn]) -> usize {
        let wanted = out.len().saturating_sub(usize::from(out.len() > 20 && self.is(Fault::BulkStopsShort)));
        let granted = out[..wanted].iter_mut().map_while(|slot| {
            *slot = self.alloc(cx, request).ok()?;
            Some(())
        });
        granted.count()
    }

    fn split(&self, _: &Cx, pfn: Pfn, from: Order, to: Order) -> Result<(), FreeError> {
        let zone = self.zone(pfn).ok_or(FreeError::OutsideArena)?;
        let at = zone.at(pfn);
        if to > from {
            return Err(if zone.tags[at] == HOLE { FreeError::OutsideArena } else { FreeError::Misaligned });
        }
        zone.wrong(pfn, from).map_or(Ok(()), Err)?;
        let mut zone = self.look_away(zone, Fault::RacySplit, pfn);
        let size = from.frames().0 as usize;
        for part in (at..at + size).step_by(to.frames().0 as usize) {
            zone.tags[part] = head(to);
        }
        if from > to && self.is(Fault::LeaksOnSplit) {
            zone.tags[at + size - to.frames().0 as usize] = TAIL;
        }
        Ok(())
    }

    fn claim_exact(&self, _: &Cx, pfn: Pfn, order: Order, _: Migratetype) -> Result<(), ClaimError> {
        if order > LARGEST || !pfn.is_aligned(order) {
            return Err(ClaimError::Misaligned);
        }
        let zone = self.zone(pfn).ok_or(ClaimError::OutsideArena)?;
        if order.frames() > zone.span.end() - pfn {
            return Err(ClaimError::OutsideArena);
        }
        let at = zone.at(pfn);
        if zone.tags[at..at + order.frames().0 as usize].contains(&HOLE) {
            return Err(ClaimError::OutsideArena);
        }
        if !zone.is_free(pfn, order) && !self.is(Fault::ClaimsHeldFrames) {
            return Err(ClaimError::NotFree);
        }
        self.look_away(zone, Fault::RacyClaim, pfn).take(pfn, order);
        Ok(())
    }

    fn order_of(&self, pfn: Pfn) -> Option<Order> {
        let zone = self.zones.iter().find(|zone| zone.lock().unwrap().span.spans(pfn))?.lock().unwrap();
        let tag = zone.tags[(pfn.0 - zone.span.start.0) as usize];
        Order::ZERO.up_to(LARGEST).find(|order| head(*order) == tag)
    }

    fn drain(&self, cpus: CpuSet) -> Drained {
        for zone in &self.zones {
            let mut zone = zone.lock().unwrap();
            for cpu in (0..self.cpus).filter(|c| cpus.contains(CpuId(*c))) {
                let list = std::mem::take(&mut zone.lists[cpu as usize]);
                let lost = usize::from(self.is(Fault::LosesFramesOnDrain));
                list.into_iter().skip(lost).for_each(|pfn| zone.give(pfn, 1));
            }
        }
        Drained::default()
    }

    fn stats(&self) -> Stats {
        let spanned: Frames = self.spans.iter().map(|s| s.spanned).sum();
        Stats::new(self.spans.len(), self.cpus as usize, spanned.0, spanned)
    }

    fn zone_stats(&self, id: ZoneId) -> Option<ZoneStats> {
        let zone = self.zones.get(id.index())?.lock().unwrap();
        let mut stats = ZoneStats {
            span: zone.span,
            free: Frames(zone.free),
            cached: zone.cached(),
            watermarks: Watermarks::default(),
            boost: Frames::ZERO,
            protection: Default::default(),
            highatomic: Frames::ZERO,
            free_blocks: Default::default(),
            pageblocks: Default::default(),
        };
        let movable = Migratetype::Movable.index();
        for (start, length) in zone.runs() {
            for b in block::blocks(start, length, LARGEST) {
                stats.free_blocks[b.order.index()][movable] += 1;
            }
        }
        let last = Pfn(zone.span.end().0 - 1).pageblock().0;
        stats.pageblocks[movable] = last + 1 - zone.span.start.pageblock().0;
        Some(stats)
    }

    fn pcp_stats(&self, zone: ZoneId, cpu: CpuId) -> Option<PcpStats> {
        let zone = self.zones.get(zone.index())?.lock().unwrap();
        let list = zone.lists.get(cpu.index())?;
        Some(PcpStats { count: list.len() as u64, ..PcpStats::default() })
    }

    fn audit(&self) -> Result<Census, AuditError> {
        let mut census = Census::default();
        for (id, zone) in self.zones.iter().enumerate() {
            let zone = zone.lock().unwrap();
            let free: Frames = zone.runs().map(|(_, length)| length).sum();
            if free.0 != zone.free {
                let (expected, found) = (zone.free, free.0);
                let zone_id = ZoneId(id as u16);
                return Err(AuditError {
                    what: "free frames",
                    zone: zone_id,
                    pfn: zone.span.start,
                    expected,
                    found,
                });
            }
            census.free += free;
            census.managed += zone.span.managed;
            census.cached += zone.cached();
            census.allocated += zone.span.managed - free - zone.cached();
        }
        Ok(census)
    }
}
