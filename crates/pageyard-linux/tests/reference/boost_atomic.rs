//! Boosts for atomic requests that fail (`boost_atomic`), worked by hand.

use crate::common::{CX, Reclaiming, sound};
use pageyard_core::reclaim::{PressureAllocator, Reclaimed};
use pageyard_core::{
    Counter, CpuId, CpuSet, Frames, MemoryMap,
    Migratetype::{Movable, Unmovable},
    NodeId, NodeMask, Order, PageAllocator, Pfn, Region, Request, RequestFlags, ZoneId, ZoneKind,
};
use pageyard_linux::{Config, LinuxAllocator};
use std::cell::Cell;

const WAITS_NOT: RequestFlags = RequestFlags::NON_BLOCKING;
const ATOMIC: RequestFlags = RequestFlags::HIGH.union(WAITS_NOT);
/// Where the other node begins.
const FAR: u64 = 40 * 512;

/// Makes a node of a small and a large zone and one more node, all of their memory taken. The first zone has fewer
/// than four pageblocks.
fn full(boost_atomic: bool) -> LinuxAllocator {
    let zone = |start: u64, pageblocks: u64, node, kind| {
        Region::managed(Pfn(start * 512), Frames(pageblocks * 512), NodeId(node), kind)
    };
    let regions = [
        zone(0, 3, 0, ZoneKind::Dma),
        zone(4, 4, 0, ZoneKind::Dma32),
        zone(8, 32, 0, ZoneKind::Normal),
        zone(FAR / 512, 64, 1, ZoneKind::Normal),
    ];
    let mut config = Config { cpus: 2, boost_atomic, ..Config::linux_7_2() };
    config.set("watermark_boost_factor", "0").unwrap();
    let a = LinuxAllocator::new(&MemoryMap::new(&regions).unwrap(), &config).unwrap();
    let all = Request::new(Order::ZERO, Movable).with(RequestFlags::MEMALLOC | WAITS_NOT);
    let quiet = all.without(RequestFlags::WAKE_RECLAIM);
    while a.alloc(&CX, &quiet).is_ok() {}
    a
}

fn atomic() -> Request {
    Request::new(Order::ZERO, Unmovable).with(ATOMIC)
}

fn boosts(a: &LinuxAllocator) -> [u64; 4] {
    [0, 1, 2, 3].map(|zone| a.zone_stats(ZoneId(zone)).unwrap().boost.0)
}

/// Returns the boosts once a request was refused.
fn after(a: &LinuxAllocator, request: &Request) -> [u64; 4] {
    a.alloc(&CX, request).unwrap_err();
    boosts(a)
}

#[test]
fn an_atomic_request_that_fails_boosts_each_zone_by_a_thousandth_once_a_second() {
    let a = full(true);
    // 2,048, 16,384 and 32,768 frames.
    assert_eq!(after(&a, &atomic()), [0, 2, 16, 32]);
    assert_eq!(a.stats()[Counter::WatermarkBoost], 3);
    assert_eq!(after(&a, &atomic()), [0, 2, 16, 32], "in the same second");
    a.vmstat_tick_of(CpuId(1));
    assert_eq!(after(&a, &atomic()), [0, 2, 16, 32], "the first CPU has the clock");
    a.vmstat_tick_of(CpuId(0));
    assert_eq!(after(&a, &atomic()), [0, 4, 32, 64]);
    assert_eq!(after(&full(false), &atomic()), [0; 4], "it is not the rule otherwise");
    sound(&a);
}

#[test]
fn only_zones_that_the_request_may_use_are_boosted_and_each_has_its_own_second() {
    let a = full(true);
    let low = Request { highest_zone: ZoneKind::Dma32, ..atomic() };
    assert_eq!(after(&a, &low), [0, 2, 0, 0]);
    let other = Request { nodes: NodeMask::only(NodeId(1)), ..atomic() };
    assert_eq!(after(&a, &other), [0, 2, 0, 32]);
    assert_eq!(after(&a, &atomic()), [0, 2, 16, 32]);
}

#[test]
fn other_requests_boost_nothing() {
    let a = full(true);
    let single = Request::new(Order::ZERO, Unmovable);
    for request in [
        single,
        single.with(RequestFlags::HIGH),
        single.with(WAITS_NOT),
        atomic().without(RequestFlags::WAKE_RECLAIM),
        Request { order: Order::of(1), ..atomic() },
    ] {
        assert_eq!(after(&a, &request), [0; 4], "{request:?}");
    }
}

#[test]
fn an_atomic_request_that_a_reserve_serves_boosts_nothing() {
    let a = full(true);
    let least = a.zone_stats(ZoneId(3)).unwrap().watermarks.min.0;
    // Between what atomic requests leave and the least watermark.
    (0..3 * least / 4).for_each(|n| a.free(&CX, Pfn(FAR + n), Order::ZERO).unwrap());
    a.drain(CpuSet::All);
    let slow = a.stats()[Counter::AllocSlow];
    a.alloc(&CX, &atomic()).unwrap();
    assert_eq!((a.stats()[Counter::AllocSlow], boosts(&a)), (slow + 1, [0; 4]));
}

#[test]
fn the_background_reclaimer_frees_for_the_boost_and_ends_it() {
    let freed_with = |boost_atomic| {
        let a = full(boost_atomic);
        let there = Request { nodes: NodeMask::only(NodeId(1)), ..atomic() }.with(RequestFlags::THIS_NODE);
        a.alloc(&CX, &there).unwrap_err();
        let freed = Cell::new(0);
        let help = || {
            for _ in 0..40 {
                a.free(&CX, Pfn(FAR + freed.replace(freed.get() + 1)), Order::ZERO).unwrap();
            }
            a.drain(CpuSet::All);
            Reclaimed { scanned: Frames(1 << 20), freed: Frames(40) }
        };
        a.kswapd_with(&CX, &Reclaiming(help, Frames::ZERO)).unwrap();
        assert_eq!(boosts(&a), [0; 4]);
        let high = a.zone_stats(ZoneId(3)).unwrap().watermarks.high.0;
        (freed.get(), high)
    };
    let (freed, high) = freed_with(false);
    assert_eq!(freed, (high + 1).next_multiple_of(40));
    let boosted = (high + 32 + 1).next_multiple_of(40);
    assert_eq!(freed_with(true).0, boosted);
    assert!(boosted > freed, "the boost shows in steps of 40 frames");
}
