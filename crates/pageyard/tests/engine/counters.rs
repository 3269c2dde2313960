//! The counters: each event counts once, and allocations and frees balance to the frame.

use pageyard::reclaim::NoHelp;
use pageyard::{
    Config, Counter, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, OwnedPageyard,
    PageAllocator, Pageyard, Pfn, PressureAllocator, Region, Request, RequestFlags, Stats, TryLock, ZoneId,
    ZoneKind,
};
use pageyard_testkit::owner::{Fault, Owner, Use};

const CX: Cx = Cx::on(CpuId(0));

fn machine(pageblocks: u64) -> OwnedPageyard<TryLock> {
    let regions = [Region::managed(Pfn(0), Frames(pageblocks * 512), NodeId(0), ZoneKind::Normal)];
    Pageyard::owned(&MemoryMap::new(&regions).unwrap(), Config::new(2), TryLock).unwrap()
}

/// Takes all memory and gives a part back, so that much is free and no large block is.
fn fragmented(engine: &OwnedPageyard<TryLock>, of: Use) -> Owner<'_, OwnedPageyard<TryLock>> {
    let owner = Owner::new(engine, Fault::None);
    owner.fill(&CX, |_| of);
    owner.free_if(&CX, |pfn| pfn.0 % 4 != 0);
    engine.drain(CpuSet::All);
    owner
}

fn since(before: &Stats, engine: &OwnedPageyard<TryLock>, counter: Counter) -> u64 {
    engine.stats()[counter] - before[counter]
}

#[test]
fn one_request_is_counted_once_as_slow() {
    // Pinned: compaction and reclaim are tried, and none helps.
    let engine = machine(8);
    let owner = fragmented(&engine, Use::Pinned);
    for order in [4, 9] {
        let request = Request::new(Order::of(order), Migratetype::Movable);
        let before = engine.stats();
        engine.alloc_with(&CX, &request, &owner).unwrap_err();
        let counted =
            [Counter::AllocSlow, Counter::KswapdWake, Counter::AllocFail].map(|c| since(&before, &engine, c));
        assert_eq!(
            counted,
            [1, 1, 1],
            "slow, wakes, failures of one request of order {order} that is refused"
        );
    }
    let engine = machine(8);
    let owner = fragmented(&engine, Use::Movable);
    let before = engine.stats();
    let request = Request::new(Order::of(9), Migratetype::Movable);
    engine.alloc_with(&CX, &request, &owner).unwrap();
    let counted =
        [Counter::AllocSlow, Counter::KswapdWake, Counter::AllocFail].map(|c| since(&before, &engine, c));
    assert_eq!(counted, [1, 1, 0], "slow, wakes, failures of one request that compaction served");
}

#[test]
fn a_request_that_nobody_helps_is_counted_as_a_plain_one() {
    for flags in [RequestFlags::empty(), RequestFlags::NON_BLOCKING, RequestFlags::NORETRY] {
        let request = Request::new(Order::of(9), Migratetype::Movable).with(flags);
        let count = |ask: &dyn Fn(&OwnedPageyard<TryLock>)| {
            let engine = machine(8);
            let _owner = fragmented(&engine, Use::Pinned);
            let before = engine.stats();
            ask(&engine);
            [Counter::AllocSlow, Counter::KswapdWake, Counter::AllocFail].map(|c| since(&before, &engine, c))
        };
        let plain = count(&|engine| assert!(engine.alloc(&CX, &request).is_err()));
        let alone = count(&|engine| assert!(engine.alloc_with(&CX, &request, &NoHelp).is_err()));
        assert_eq!(plain, [1, 1, 1], "slow, wakes, failures, {flags:?}");
        assert_eq!(alone, plain, "the same through `alloc_with`, {flags:?}");
    }
}

#[test]
fn moves_leave_the_counts_of_allocated_and_freed_frames_balanced() {
    let engine = machine(8);
    let owner = fragmented(&engine, Use::Movable);
    let balance = || {
        let stats = engine.stats();
        (stats[Counter::Pgalloc] - stats[Counter::Pgfree], engine.audit().unwrap().allocated.0)
    };
    let (counted, allocated) = balance();
    assert_eq!(counted, allocated, "before");
    let (_, work) = engine.compact_zone_with(&CX, ZoneId(0), &owner).unwrap();
    assert!(work.moved > 100);
    let (counted, allocated) = balance();
    assert_eq!(counted, allocated, "after {} moves", work.moved);
    let huge = Request::new(Order::of(9), Migratetype::Movable);
    engine.alloc_with(&CX, &huge, &owner).unwrap();
    let (counted, allocated) = balance();
    assert_eq!(counted, allocated, "after a request");
}

#[test]
fn refills_are_counted_by_the_frames_that_they_bring() {
    for order in [0, 3, 9] {
        let engine = machine(64);
        engine.alloc(&CX, &Request::new(Order::of(order), Migratetype::Movable)).unwrap();
        let stats = engine.stats();
        let listed = engine.zone_stats(ZoneId(0)).unwrap().cached.0;
        assert_eq!(stats[Counter::PcpRefillPages], listed, "order {order}");
        assert_eq!(stats[Counter::PcpRefill], u64::from(listed > 0), "order {order}");
    }
}
