//! Blocks known to hold zeros: an engine never reports one that does not.

use pageyard::reclaim::NoHelp;
use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    AllocError, Config, CpuId, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, OwnedPageyard,
    PageAllocator, Pageyard, Pfn, PressureAllocator, Region, Request, RequestFlags, TryLock, ZoneKind,
};

const CX: Cx = Cx::on(CpuId(0));

/// One pageblock that is known to be zeros but for its first frame, which is in use. No lists: a free reaches the zone.
fn zeros() -> OwnedPageyard<TryLock> {
    let regions = [Region::managed(Pfn(0), Frames(512), NodeId(0), ZoneKind::Normal)];
    let watermark =
        WatermarkKnobs { min_free_kbytes: Some(0), watermark_scale_factor: 0, ..WatermarkKnobs::default() };
    let config = Config { watermark, pcp: false, ..Config::new(1) };
    let engine = Pageyard::owned(&MemoryMap::new(&regions).unwrap(), config, TryLock).unwrap();
    let huge = Order::of(9);
    let all = engine.alloc(&CX, &Request::new(huge, Migratetype::Movable)).unwrap();
    engine.free_zeroed(&CX, all, huge).unwrap();
    // By its number: compaction passes over a pageblock that a CPU works on.
    assert!(claim(&engine, 0, 0));
    engine
}

/// Claims a block by its number and returns whether the engine calls it zeros.
fn claim(engine: &OwnedPageyard<TryLock>, pfn: u64, order: u8) -> bool {
    engine.claim_exact(&Cx::on(CpuId(0)), Pfn(pfn), Order::of(order), Migratetype::Movable).unwrap();
    engine.was_zeroed(Pfn(pfn))
}

#[test]
fn a_request_for_zeroed_frames_is_refused_as_long_as_nobody_clears_them() {
    let engine = zeros();
    let request = Request::new(Order::ZERO, Migratetype::Movable);
    // A frame that was written to lies in the list, or is the next of the zone.
    let dirty = engine.alloc(&CX, &request).unwrap();
    engine.free(&CX, dirty, Order::ZERO).unwrap();
    for order in [0, 1, 5] {
        let wants = Request::new(Order::of(order), Migratetype::Movable).with(RequestFlags::ZERO);
        for got in
            [engine.alloc(&CX, &wants), engine.alloc_with(&CX, &wants, &NoHelp).map_err(AllocError::from)]
        {
            let Ok(pfn) = got else {
                assert!(matches!(got, Err(AllocError::BadRequest(_))), "order {order}: {got:?}");
                continue;
            };
            assert!(engine.was_zeroed(pfn), "order {order}: {pfn:?} may hold what its last owner wrote");
        }
    }
    let wants = request.with(RequestFlags::ZERO);
    let mut frames = [Pfn(0); 40];
    let n = engine.alloc_bulk(&CX, &wants, &mut frames);
    let dirty = frames[..n].iter().filter(|pfn| !engine.was_zeroed(**pfn)).count();
    assert_eq!(dirty, 0, "of {n} frames of a bulk call");
}
