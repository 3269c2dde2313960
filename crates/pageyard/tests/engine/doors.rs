//! The same request gets the same answer from every call: a CPU that does not exist, a node without such a zone, a
//! broken promise.

use pageyard::engine::Internals;
use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    AllocError, BadRequest, CompactorId, Config, CpuId, CpuSet, Cx, Frames, FreeError, MemoryMap,
    Migratetype, NodeId, Order, OwnedPageyard, PageAllocator, PageblockId, Pageyard, Pfn, PressureAllocator,
    Region, Request, RequestFlags, TryLock, ZoneId, ZoneKind,
};
use pageyard_testkit::child::in_child;
use pageyard_testkit::owner::{Fault, Owner, Use};

const CX: Cx = Cx::on(CpuId(0));
/// CPUs of a machine.
const CPUS: u32 = 2;
/// Its pageblocks: more than a CPU works on, so that there are some to move things to.
const PAGEBLOCKS: u64 = 8;
/// A CPU that it does not have, far beyond any array by CPU.
const NO_CPU: Cx = Cx::on(CpuId(100_000));

fn single() -> Request {
    Request::new(Order::ZERO, Migratetype::Movable)
}

fn built(regions: &[Region], pcp: bool) -> OwnedPageyard<TryLock> {
    let watermark =
        WatermarkKnobs { min_free_kbytes: Some(0), watermark_scale_factor: 0, ..WatermarkKnobs::default() };
    let config = Config { watermark, pcp, ..Config::new(CPUS) };
    Pageyard::owned(&MemoryMap::new(regions).unwrap(), config, TryLock).unwrap()
}

fn machine(pageblocks: u64) -> OwnedPageyard<TryLock> {
    built(&[Region::managed(Pfn(0), Frames(pageblocks * 512), NodeId(0), ZoneKind::Normal)], true)
}

/// Checks that no pageblock is leased.
fn no_lease_is_left(engine: &OwnedPageyard<TryLock>) {
    for block in (0..PAGEBLOCKS).map(PageblockId) {
        assert!(engine.lease_pageblock(block, CompactorId(3)), "{block:?} is not leased");
        assert!(engine.unlease_pageblock(block));
    }
}

/// Takes all memory and gives every second frame back, so that there is something to compact.
fn half_free(engine: &OwnedPageyard<TryLock>) -> Owner<'_, OwnedPageyard<TryLock>> {
    let owner = Owner::new(engine, Fault::None);
    owner.fill(&CX, |_| Use::Movable);
    owner.free_if(&CX, |pfn| pfn.0 % 2 == 0);
    engine.drain(CpuSet::All);
    owner
}

#[test]
fn plain_calls_refuse_a_cpu_that_does_not_exist() {
    let engine = machine(PAGEBLOCKS);
    let no_cpu = AllocError::BadRequest(BadRequest::NoSuchCpu);
    for order in [0, 3, 4, 9, 10, 18] {
        let request = Request::new(Order::of(order), Migratetype::Movable);
        assert_eq!(engine.alloc(&NO_CPU, &request), Err(no_cpu), "order {order}");
    }
    assert_eq!(engine.alloc_bulk(&NO_CPU, &single(), &mut [Pfn(0); 80]), 0);
    let pfn = engine.alloc(&CX, &single()).unwrap();
    assert_eq!(engine.free(&NO_CPU, pfn, Order::ZERO), Err(FreeError::NoSuchCpu));
    assert_eq!(engine.free_zeroed(&NO_CPU, pfn, Order::ZERO), Err(FreeError::NoSuchCpu));
    let mut wrong = Vec::new();
    engine.free_bulk(&NO_CPU, &[pfn; 80], Order::ZERO, &mut |pfn, why| wrong.push((pfn, why)));
    assert_eq!(wrong, [(pfn, FreeError::NoSuchCpu); 80]);
    engine.free(&CX, pfn, Order::ZERO).unwrap();
    assert_eq!(engine.audit().unwrap().allocated, Frames::ZERO);
}

#[test]
fn a_request_that_may_wait_refuses_a_cpu_that_does_not_exist() {
    let engine = machine(PAGEBLOCKS);
    let owner = half_free(&engine);
    for order in [0, 3, 9] {
        for flags in [RequestFlags::empty(), RequestFlags::NON_BLOCKING, RequestFlags::MEMALLOC] {
            let request = Request::new(Order::of(order), Migratetype::Movable).with(flags);
            let why = engine.alloc_with(&NO_CPU, &request, &owner).unwrap_err().why;
            assert_eq!(why, AllocError::BadRequest(BadRequest::NoSuchCpu), "order {order}, {flags:?}");
        }
    }
    owner.check(&[]);
}

#[test]
fn compaction_of_a_zone_refuses_a_cpu_that_does_not_exist() {
    in_child("doors::compaction_of_a_zone_refuses_a_cpu_that_does_not_exist", || {
        let engine = machine(PAGEBLOCKS);
        let owner = half_free(&engine);
        let before = engine.audit().unwrap();
        let did = engine.compact_zone_with(&NO_CPU, ZoneId(0), &owner);
        assert_eq!(did, Err(BadRequest::NoSuchCpu));
        assert_eq!(engine.audit().unwrap(), before, "nothing was done");
        owner.check(&[]);
        no_lease_is_left(&engine);
    });
}

#[test]
fn background_work_refuses_a_cpu_that_does_not_exist() {
    in_child("doors::background_work_refuses_a_cpu_that_does_not_exist", || {
        let engine = machine(PAGEBLOCKS);
        let owner = half_free(&engine);
        // Both are woken: by a request that finds no block, from a CPU that exists.
        let huge = Request::new(Order::of(9), Migratetype::Movable).with(RequestFlags::NON_BLOCKING);
        assert!(engine.alloc(&CX, &huge).is_err());
        let before = engine.audit().unwrap();
        assert_eq!(engine.kswapd_with(&NO_CPU, &owner), Err(BadRequest::NoSuchCpu));
        assert_eq!(engine.kcompactd_with(&NO_CPU, &owner), Err(BadRequest::NoSuchCpu));
        // Who has a CPU finds the work still to be done.
        engine.kswapd_with(&CX, &owner).unwrap();
        assert_eq!(engine.audit().unwrap().allocated, before.allocated);
        assert_eq!(engine.kswapd_with(&NO_CPU, &owner), Err(BadRequest::NoSuchCpu));
        assert_eq!(engine.kcompactd_with(&NO_CPU, &owner), Err(BadRequest::NoSuchCpu));
        assert!(engine.kcompactd_with(&CX, &owner).unwrap().moved > 0, "it was woken, and still is");
        owner.check(&[]);
        no_lease_is_left(&engine);
    });
}

/// Two nodes: the first has memory for movable contents only, the second an ordinary zone.
fn movable_node_and_normal_node() -> OwnedPageyard<TryLock> {
    built(
        &[
            Region::managed(Pfn(0), Frames(1024), NodeId(0), ZoneKind::Movable),
            Region::managed(Pfn(1024), Frames(1024), NodeId(1), ZoneKind::Normal),
        ],
        true,
    )
}

#[test]
fn a_list_hit_serves_no_request_for_this_node_that_the_zones_refuse() {
    let engine = movable_node_and_normal_node();
    let plain = Request::new(Order::ZERO, Migratetype::Unmovable);
    let here = plain.with(RequestFlags::THIS_NODE);
    // The lists are empty: the answer comes from the zones.
    let missed = engine.alloc(&CX, &here);
    let bulk_missed = engine.alloc_bulk(&CX, &here, &mut [Pfn(0); 8]);
    // The same question, when the second node's list has something.
    let frames: Vec<_> = (0..4).map(|_| engine.alloc(&CX, &plain).unwrap()).collect();
    frames.into_iter().for_each(|pfn| engine.free(&CX, pfn, Order::ZERO).unwrap());
    assert!(engine.pcp_stats(ZoneId(1), CpuId(0)).unwrap().count > 0);
    let hit = engine.alloc(&CX, &here);
    assert_eq!(hit.is_ok(), missed.is_ok(), "from a list: {hit:?}; from the zones: {missed:?}");
    let bulk_hit = engine.alloc_bulk(&CX, &here, &mut [Pfn(0); 8]);
    assert_eq!(bulk_hit, bulk_missed, "a bulk call answers as single ones do");
}
