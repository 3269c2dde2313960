//! Judges an engine's answers by the naive model.

use crate::engine::Verdict;
use crate::naive::{Frame, Naive, Zone};
use pageyard::{
    AllocError, BadRequest, ClaimError, Counter, CpuId, Frames, FreeError, Migratetype, NodeMask, Order,
    PAGEBLOCK_ORDER, PageAllocator, Pfn, Request, RequestFlags, ZoneStats,
};

/// The right answers: `Ok` where there is no fault, any of the faults otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Expected<E> {
    faults: [Option<E>; 3],
}

impl<E: Copy + PartialEq + core::fmt::Debug> Expected<E> {
    const OK: Expected<E> = Expected { faults: [None; 3] };

    fn state(fault: E) -> Self {
        Expected { faults: [Some(fault), None, None] }
    }

    /// Returns whether the call must succeed.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.faults.iter().all(Option::is_none)
    }

    /// Compares an answer with the right ones.
    ///
    /// # Errors
    /// Says what `call` returned, and what would have been right.
    pub fn judge(&self, answer: Result<(), E>, call: impl FnOnce() -> String) -> Verdict {
        let right = match answer {
            Ok(()) => self.is_ok(),
            Err(_) => self.faults.contains(&answer.err()),
        };
        if right {
            return Ok(());
        }
        let call = call();
        let mut faults = self.faults.iter().flatten().map(|f| format!("Err({f:?})"));
        let expected = faults
            .next()
            .map_or("Ok(())".to_owned(), |first| faults.fold(first, |all, one| format!("{all} or {one}")));
        Err(format!("{call} answered {answer:?}, expected {expected}"))
    }
}

/// Says what freeing the block must return; `cpu` is `None` where the call names none.
#[must_use]
pub fn free(model: &Naive, cpu: Option<CpuId>, pfn: Pfn, order: Order) -> Expected<FreeError> {
    let state = model.frame(pfn);
    if state == Frame::Head(order) && cpu.is_none_or(|c| model.has_cpu(c)) && order <= model.largest {
        return Expected::OK;
    }
    let faults = [
        cpu.filter(|c| !model.has_cpu(*c)).map(|_| FreeError::NoSuchCpu),
        (state == Frame::Hole).then_some(FreeError::OutsideArena),
        (order > model.largest || !pfn.is_aligned(order)).then_some(FreeError::Misaligned),
    ];
    if faults.iter().any(Option::is_some) {
        return Expected { faults };
    }
    Expected::state(match state {
        Frame::Hole | Frame::Free => FreeError::NotAllocated,
        Frame::Head(allocated) => FreeError::WrongOrder { allocated },
        Frame::Tail => {
            let block = model.holder(pfn).expect("a tail has a head");
            FreeError::NotHead { head: block.pfn, allocated: block.order }
        }
    })
}

/// Says what splitting the block must answer.
#[must_use]
pub fn split(model: &Naive, pfn: Pfn, from: Order, to: Order) -> Expected<FreeError> {
    let expected = free(model, None, pfn, from);
    if to <= from {
        return expected;
    }
    // Of the block's own faults, only those of the arguments may be named instead.
    let outside = (model.frame(pfn) == Frame::Hole).then_some(FreeError::OutsideArena);
    Expected { faults: [Some(FreeError::Misaligned), outside, None] }
}

/// Says what claiming the block must return once no per-CPU list holds a frame.
#[must_use]
pub fn claim(model: &Naive, pfn: Pfn, order: Order) -> Expected<ClaimError> {
    let faults = [
        (order > model.largest || !pfn.is_aligned(order)).then_some(ClaimError::Misaligned),
        (!model.contains(pfn, order)).then_some(ClaimError::OutsideArena),
        None,
    ];
    if faults.iter().any(Option::is_some) {
        Expected { faults }
    } else if model.is_free(pfn, order) {
        Expected::OK
    } else {
        Expected::state(ClaimError::NotFree)
    }
}

/// Judges a block that the engine granted; the caller then takes it in the model.
///
/// # Errors
/// Says why the request should not have been granted, or not from there.
pub fn granted(model: &Naive, cpu: CpuId, request: &Request, pfn: Pfn) -> Verdict {
    if let Some(fault) = faults(model, cpu, request).into_iter().flatten().next() {
        return Err(format!("{request:?} on {cpu:?} was granted frame {pfn}, expected {fault:?}"));
    }
    match model.zone(pfn) {
        Some(zone) if model.allows(request, zone) => Ok(()),
        Some(zone) => {
            Err(format!("{request:?} was granted frame {pfn} of zone {}: {:?}", zone.id, zone.span))
        }
        None => Err(format!("{request:?} was granted frame {pfn}, which is in no zone")),
    }
}

/// Returns what is wrong with the request itself.
fn faults(model: &Naive, cpu: CpuId, request: &Request) -> [Option<BadRequest>; 5] {
    let too_large = BadRequest::OrderTooLarge { order: request.order, largest: model.largest };
    [
        (request.order > model.largest).then_some(too_large),
        (!request.migratetype.is_requested()).then_some(BadRequest::Migratetype),
        model.allowed(request).next().is_none().then_some(BadRequest::NoZone),
        (!model.has_cpu(cpu)).then_some(BadRequest::NoSuchCpu),
        request.flags.contains(RequestFlags::ZERO).then_some(BadRequest::CannotZero),
    ]
}

/// Judges a refusal, taking every frame that no caller holds as free. A frame in another CPU's list can make an engine
/// refuse with a reason that this finds wrong: drain, ask again, and judge the second answer.
///
/// # Errors
/// Says why the reason given does not hold.
pub fn refused<E: PageAllocator>(
    engine: &E,
    model: &Naive,
    cpu: CpuId,
    request: &Request,
    why: AllocError,
) -> Verdict {
    if request.flags.contains(RequestFlags::THIS_NODE) {
        // The reason must hold for one of the nodes; which one is the first, only the engine knows.
        let there = Request { flags: request.flags.difference(RequestFlags::THIS_NODE), ..*request };
        let nodes = model.nodes(request).into_iter().map(NodeMask::only);
        let judged = nodes.map(|nodes| refused(engine, model, cpu, &Request { nodes, ..there }, why));
        return judged.reduce(Result::or).unwrap_or_else(|| refused(engine, model, cpu, &there, why));
    }
    let wrong = |reason: &str| Err(format!("{request:?} on {cpu:?} answered {why:?}, but {reason}"));
    let faults = faults(model, cpu, request);
    if let AllocError::BadRequest(fault) = why {
        let empty = || fault == BadRequest::NoZone && model.allowed(request).all(|z| z.span.managed.0 == 0);
        return if faults.contains(&Some(fault)) || empty() {
            Ok(())
        } else {
            wrong("it is not a bad request")
        };
    }
    if let Some(fault) = faults.into_iter().flatten().next() {
        return wrong(&format!("it is a bad request: {fault:?}"));
    }
    let unallocated: Frames = model.allowed(request).map(|z| z.unallocated).sum();
    match why {
        AllocError::BadRequest(_) => Ok(()),
        AllocError::OutOfMemory if unallocated < request.order.frames() => Ok(()),
        AllocError::OutOfMemory => wrong(&format!("{unallocated} frames of the allowed zones are not held")),
        AllocError::Fragmented { order, .. } if order != request.order => wrong("that is another order"),
        AllocError::Fragmented { free, .. } | AllocError::BelowWatermark { free, .. }
            if free > unallocated =>
        {
            wrong(&format!("only {unallocated} frames of the allowed zones are not held"))
        }
        AllocError::Fragmented { .. } => out_of_reach(engine, model, request, false).or_else(|r| wrong(&r)),
        AllocError::BelowWatermark { .. } => {
            out_of_reach(engine, model, request, true).or_else(|r| wrong(&r))
        }
    }
}

/// Judges a refusal although frames are free: in each zone there must be no block, or a reserve in the way.
///
/// Of these two reasons the one given must hold in one zone at least: the reserve's if `reserve`.
fn out_of_reach<E: PageAllocator>(engine: &E, model: &Naive, request: &Request, reserve: bool) -> Verdict {
    let privileged = request.flags.contains(RequestFlags::MEMALLOC);
    let (mut kept_back, mut without_block) = (false, false);
    for zone in model.allowed(request).filter(|z| z.span.managed.0 > 0) {
        // The cheaper check that fails more often comes first: looking for a block takes long.
        if reserve && !privileged && is_kept_back(engine, zone, request)? {
            kept_back = true;
        } else if !fits(engine, model, zone, request.order) {
            without_block = true;
        } else if reserve || privileged || !is_kept_back(engine, zone, request)? {
            return Err(format!(
                "{} frames of zone {} are not held, its reserve is not in the way, and frame {:?} starts a free block",
                zone.unallocated,
                zone.id,
                zone.fitting(request.order).next()
            ));
        }
    }
    match (reserve, kept_back, without_block) {
        (true, false, _) => Err("no allowed zone keeps anything back from it".to_owned()),
        (false, _, false) => Err("each allowed zone has a block of that order".to_owned()),
        _ => Ok(()),
    }
}

/// Returns whether granting the request would bring the zone near what it keeps back from it at most.
fn is_kept_back<E: PageAllocator>(engine: &E, zone: &Zone, request: &Request) -> Verdict<bool> {
    let stats = engine.zone_stats(zone.id).ok_or(format!("zone {} has no statistics", zone.id))?;
    let protection = stats.protection[request.highest_zone.index()].0;
    let kept = stats.watermarks.low.0 + stats.boost.0 + protection + reserved(Some(&stats));
    Ok(kept > 0 && zone.unallocated.0 <= kept + request.order.frames().0)
}

/// Returns whether a refusal would be justified now, whatever reason it gave.
pub fn may_refuse<E: PageAllocator>(engine: &E, model: &Naive, cpu: CpuId, request: &Request) -> bool {
    let free = Frames::ZERO;
    let reasons = [
        AllocError::OutOfMemory,
        AllocError::BelowWatermark { free, kept: free },
        AllocError::Fragmented { order: request.order, free },
    ];
    reasons.into_iter().any(|why| refused(engine, model, cpu, request, why).is_ok())
}

/// Returns whether the zone has a free block of `order`, apart from reserved pageblocks.
///
/// A pageblock that is reserved for high-order requests serves no other, and keeps the block around it from merging;
/// given back, it merges with the pageblock beside it only when frames of it are freed, as in Linux. Where blocks stay
/// out of reach for good, it is not known which.
fn fits<E: PageAllocator>(engine: &E, model: &Naive, zone: &Zone, order: Order) -> bool {
    if may_strand(engine, model) {
        return false;
    }
    if zone.unallocated < order.frames() || zone.fitting(order).next().is_none() {
        return false;
    }
    let pageblock = PAGEBLOCK_ORDER.frames().0;
    let reserved = reserved(engine.zone_stats(zone.id).as_ref()).div_ceil(pageblock);
    let mut spoiled = reserved * (pageblock >> order.get()).max(1);
    if order > PAGEBLOCK_ORDER {
        spoiled += engine.stats()[Counter::HighatomicUnreserve];
    }
    zone.fitting(order).nth(spoiled as usize).is_some()
}

/// Returns whether a free block may be out of reach because its pageblock was once reserved.
pub fn may_strand<E: PageAllocator>(engine: &E, model: &Naive) -> bool {
    model.strands && engine.stats()[Counter::HighatomicReserve] > 0
}

/// Returns the frames of reserved pageblocks, by whichever of the two ways an engine counts them is larger.
fn reserved(stats: Option<&ZoneStats>) -> u64 {
    stats.map_or(0, |s| {
        s.highatomic.0.max(s.pageblocks[Migratetype::HighAtomic.index()] << PAGEBLOCK_ORDER.get())
    })
}
