//! The reserve of atomic requests, seen by a request that finds nothing else.

use pageyard::{
    Config, Counter, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, PageAllocator,
    Pageyard, Pfn, Region, Request, RequestFlags, TryLock, ZoneKind,
};

const CX: Cx = Cx::on(CpuId(0));
const FRAMES: u64 = 1 << 18;

#[test]
fn a_request_that_may_wait_gets_all_reserved_pageblocks_back_not_one() {
    let regions = [Region::managed(Pfn(0), Frames(FRAMES), NodeId(0), ZoneKind::Normal)];
    let map = MemoryMap::new(&regions).unwrap();
    let engine = Pageyard::owned(&map, Config::new(1), TryLock).unwrap();
    // Atomic requests of order 3 reserve the pageblocks that they are served from. With one frame of each pageblock in
    // use they are served from many.
    let atomic = Request::new(Order::of(3), Migratetype::Unmovable)
        .with(RequestFlags::HIGH | RequestFlags::NON_BLOCKING);
    let mut held = Vec::new();
    while let Ok(pfn) = engine.alloc(&CX, &atomic) {
        held.push(pfn);
    }
    assert!(engine.stats()[Counter::HighatomicReserve] > 1, "{}", engine.stats()[Counter::HighatomicReserve]);
    held.iter().for_each(|pfn| engine.free(&CX, *pfn, Order::of(3)).unwrap());
    engine.drain(CpuSet::All);
    let all = Request::new(Order::of(18), Migratetype::Movable).with(RequestFlags::MEMALLOC);
    let block = engine.alloc(&CX, &all).expect("all of memory is free");
    engine.free(&CX, block, Order::of(18)).unwrap();
    engine.audit().unwrap();
}
