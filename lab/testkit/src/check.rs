//! Checks an engine's counts against the naive model: conservation, zones, per-CPU lists, and merging.

use crate::engine::Verdict;
use crate::naive::{Naive, Zone};
use pageyard::{
    Counter, CpuId, CpuSet, Frames, NR_ORDERS, Order, PAGEBLOCK_ORDER, PageAllocator, ZoneId, ZoneStats,
};

fn same<T: PartialEq + core::fmt::Debug>(what: &str, engine: T, model: T) -> Verdict {
    if engine == model {
        Ok(())
    } else {
        Err(format!("{what}: the engine says {engine:?}, expected {model:?}"))
    }
}

/// Audits the engine and compares every count with the model's.
///
/// # Errors
/// Names the first count that differs.
pub fn books<E: PageAllocator>(engine: &E, model: &Naive) -> Verdict {
    let census = engine.audit().map_err(|e| format!("audit: {e}"))?;
    same("managed frames", census.managed, model.managed)?;
    same("allocated frames", census.allocated, model.allocated)?;
    same("isolated frames", census.isolated, Frames::ZERO)?;
    if !census.is_conserved() {
        return Err(format!("the census does not add up: {census:?}"));
    }
    let (mut free, mut cached) = (Frames::ZERO, Frames::ZERO);
    for z in model.zones() {
        let stats = engine.zone_stats(z.id).ok_or(format!("zone {} has no statistics", z.id))?;
        zone(engine, model, z, &stats).map_err(|e| format!("zone {}: {e}", z.id))?;
        free += stats.free;
        cached += stats.cached;
    }
    same("free frames of all zones, and the census", free, census.free)?;
    same("cached frames of all zones, and the census", cached, census.cached)?;

    let stats = engine.stats();
    same("zones", stats.zones, model.zones().len())?;
    same("CPUs", stats.cpus, model.cpus as usize)?;
    same("spanned frames", stats.spanned, model.zones().iter().map(|z| z.span.spanned).sum())?;
    let beyond = ZoneId(model.zones().len() as u16);
    same("statistics of a zone that is not there", engine.zone_stats(beyond).is_none(), true)?;
    same("lists of a CPU that is not there", engine.pcp_stats(ZoneId(0), CpuId(model.cpus)).is_none(), true)
}

fn zone<E: PageAllocator>(engine: &E, model: &Naive, zone: &Zone, stats: &ZoneStats) -> Verdict {
    same("span", stats.span, zone.span)?;
    same("free and cached frames", stats.free + stats.cached, zone.unallocated)?;
    let by_order = stats.blocks_by_order();
    let in_blocks = Order::ZERO.up_to(Order::MAX).map(|o| by_order[o.index()] << o.get()).sum();
    same("frames of free blocks, and free frames", Frames(in_blocks), stats.free)?;
    let beyond: u64 = by_order[model.largest.index() + 1..].iter().sum();
    same("free blocks above the largest order", beyond, 0)?;
    let (least, most) = zone.pageblocks();
    let pageblocks: u64 = stats.pageblocks.iter().sum();
    if pageblocks < least || pageblocks > most {
        return Err(format!("{pageblocks} pageblocks; {least} hold managed frames and {most} are spanned"));
    }
    let mut in_lists = 0;
    for cpu in 0..model.cpus {
        let pcp = engine.pcp_stats(zone.id, CpuId(cpu)).ok_or(format!("CPU {cpu} has no lists"))?;
        in_lists += pcp.count;
    }
    same("frames in per-CPU lists, and cached frames", Frames(in_lists), stats.cached)
}

/// Drains every list and demands that every frame is free and merged as far as alignment and holes allow.
///
/// # Errors
/// Names the first count that differs.
pub fn all_free<E: PageAllocator>(engine: &E, model: &Naive) -> Verdict {
    same("frames held at the end", model.allocated, Frames::ZERO)?;
    engine.drain(CpuSet::All);
    books(engine, model)?;
    for zone in model.zones() {
        let stats = engine.zone_stats(zone.id).ok_or(format!("zone {} has no statistics", zone.id))?;
        same("frames in lists after a drain", stats.cached, Frames::ZERO)?;
        let (found, mut merged) = (stats.blocks_by_order(), zone.merged(model.largest));
        let orders = if engine.stats()[Counter::HighatomicReserve] == 0 {
            NR_ORDERS
        } else {
            // Pageblocks that are reserved do not merge with others, nor do they at once when they are given back: only
            // what lies inside one is known.
            PAGEBLOCK_ORDER.index()
        };
        merged[orders..].fill(0);
        let what = format!("free blocks of zone {} by order when all is free", zone.id);
        same(&what, &found[..orders], &merged[..orders])?;
    }
    Ok(())
}
