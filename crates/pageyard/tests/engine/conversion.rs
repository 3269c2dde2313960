//! Pageblocks that change their type: they stay where requests of the new type find them.

use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    Config, Counter, CpuId, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, OwnedPageyard, PageAllocator,
    Pageyard, Pfn, Region, Request, RequestFlags, TryLock, ZoneId, ZoneKind,
};

/// A machine without lists, so that every request is the zone's to serve.
fn machine(pageblocks: u64) -> OwnedPageyard<TryLock> {
    let regions = [Region::managed(Pfn(0), Frames(pageblocks * 512), NodeId(0), ZoneKind::Normal)];
    let watermark =
        WatermarkKnobs { min_free_kbytes: Some(0), watermark_scale_factor: 0, ..WatermarkKnobs::default() };
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
