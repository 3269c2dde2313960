//! Pageblocks that change their type: they stay where requests of the new type find them.

use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    Config, Counter, CpuId, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, OwnedPageyard, PageAllocator,
    Pageyard, Pfn, Region, Request, RequestFlags, TryLock, ZoneId, ZoneKind,
};

/// A machine without lists, so that every request is the zone's to serve.
fn machine(pageblocks: u64) -> OwnedPageyard<TryLock> {
    let none =
        WatermarkKnobs { min_free_kbytes: Some(0), watermark_scale_factor: 0, ..WatermarkKnobs::default() };
    machine_with(pageblocks, none)
}

fn machine_with(pageblocks: u64, watermark: WatermarkKnobs) -> OwnedPageyard<TryLock> {
    let regions = [Region::managed(Pfn(0), Frames(pageblocks * 512), NodeId(0), ZoneKind::Normal)];
    let config = Config { watermark, pcp: false, ..Config::new(2) };
    Pageyard::owned(&MemoryMap::new(&regions).unwrap(), config, TryLock).unwrap()
}

fn single(ty: Migratetype) -> Request {
    Request::new(Order::ZERO, ty).with(RequestFlags::WAKE_RECLAIM)
}

#[test]
fn a_pageblock_that_was_current_and_is_converted_is_found_by_the_next_request() {
    for (mine, converter) in [(0, 0), (0, 1)] {
        let engine = machine(1);
        // The only pageblock becomes one CPU's current one, for movable frames.
        engine.alloc(&Cx::on(CpuId(mine)), &single(Migratetype::Movable)).unwrap();
        // More than half of it is free, so an unmovable request makes it unmovable.
        let cx = Cx::on(CpuId(converter));
        engine.alloc(&cx, &single(Migratetype::Unmovable)).unwrap();
        let types = engine.zone_stats(ZoneId(0)).unwrap().pageblocks;
        assert_eq!(types[Migratetype::Unmovable.index()], 1);
        engine.audit().unwrap();
        let before = engine.stats();
        for _ in 0..100 {
            engine.alloc(&cx, &single(Migratetype::Unmovable)).unwrap();
        }
        let slow = engine.stats()[Counter::AllocSlow] - before[Counter::AllocSlow];
        assert_eq!(slow, 0, "of 100 requests of CPU {converter} after CPU {mine} was at work there");
        engine.audit().unwrap();
    }
}

#[test]
fn a_request_that_steals_converts_a_pageblock_of_which_half_is_free_and_borrows_from_others() {
    for (used, converted) in [(200, 1), (256, 1), (257, 0), (400, 0)] {
        let (engine, cx) = (machine(1), Cx::on(CpuId(0)));
        // By their numbers, so that no CPU works on the pageblock.
        for frame in 0..used {
            engine.claim_exact(&cx, Pfn(frame), Order::ZERO, Migratetype::Movable).unwrap();
        }
        engine.alloc(&cx, &single(Migratetype::Unmovable)).unwrap();
        let (stats, types) = (engine.stats(), engine.zone_stats(ZoneId(0)).unwrap().pageblocks);
        assert_eq!(types[Migratetype::Unmovable.index()], converted, "of {used} frames in use");
        let counted = [Counter::ExtfragClaim, Counter::ExtfragSteal].map(|counter| stats[counter]);
        assert_eq!(counted, [converted, 1 - converted], "of {used} frames in use");
        engine.audit().unwrap();
    }
}

#[test]
fn a_steal_of_part_of_a_pageblock_raises_the_watermarks_as_far_as_they_may_rise() {
    let knobs = WatermarkKnobs {
        min_free_kbytes: Some(64),
        watermark_boost_factor: 15_000,
        ..WatermarkKnobs::default()
    };
    let (engine, cx) = (machine_with(8, knobs), Cx::on(CpuId(0)));
    let boost = || (engine.zone_stats(ZoneId(0)).unwrap().boost, engine.stats()[Counter::WatermarkBoost]);
    for block in 0..8 {
        engine.claim_exact(&cx, Pfn(block * 512), Order::ZERO, Migratetype::Movable).unwrap();
    }
    assert_eq!(boost(), (Frames(0), 0));
    engine.alloc(&cx, &single(Migratetype::Unmovable)).unwrap();
    assert_eq!(boost(), (Frames(512), 1));
    // A zone with so little to keep back rises by a pageblock at most.
    engine.alloc(&cx, &single(Migratetype::Reclaimable)).unwrap();
    assert_eq!((engine.stats()[Counter::ExtfragClaim], boost()), (2, (Frames(512), 1)));
    engine.reclaimed(ZoneId(0));
    assert_eq!(boost(), (Frames(0), 1));
    engine.audit().unwrap();
}
