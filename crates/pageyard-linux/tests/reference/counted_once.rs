//! Counters of requests: however often a request tries, it counts once.

use crate::common::{CX, Reclaiming, bare, normal, request, sound};
use pageyard_core::reclaim::{Helpers, PressureAllocator, Reclaimed};
use pageyard_core::{
    Counter, CpuSet, CpusetId, Cx, Frames, MemoryMap,
    Migratetype::{Movable, Unmovable},
    NodeId, NodeMask, Order, PageAllocator, Pfn, Region, Request, RequestFlags, Stats, ZoneId, ZoneKind,
};
use pageyard_linux::{Config, LinuxAllocator, Wall};

/// Returns how often requests came to the slow path, woke the background reclaimer and were refused.
fn counted(s: &Stats) -> [u64; 3] {
    [s[Counter::AllocSlow], s[Counter::KswapdWake], s[Counter::AllocFail]]
}

/// Makes a machine of two small nodes that keep nothing back.
fn two_nodes() -> LinuxAllocator {
    let node = |n: u8| Region::managed(Pfn(u64::from(n) * 2048), Frames(2048), NodeId(n), ZoneKind::Normal);
    let mut config = bare(Config::linux_6_18());
    config.cpus = 2;
    config.privileged_take_any_node = false;
    LinuxAllocator::new(&MemoryMap::new(&[node(0), node(1)]).unwrap(), &config).unwrap()
}

fn fill(a: &LinuxAllocator, node: u8) {
    let here = Request { nodes: NodeMask::only(NodeId(node)), ..request(0, Movable) };
    while a.alloc(&CX, &here).is_ok() {}
}

#[test]
fn a_slow_request_whose_fallback_boosts_a_watermark_wakes_the_reclaimer_once() {
    let mut config = Config::linux_6_18();
    config.set("min_free_kbytes", "2048").unwrap();
    config.cpus = 1;
    let a = normal(1 << 14, &config);
    let mut held = Vec::new();
    while let Ok(pfn) = a.alloc(&CX, &request(0, Movable)) {
        held.push(pfn);
    }
    // Free frames, between the min and the low watermark and all of them in movable pageblocks: the request has to mix
    // types.
    let marks = a.zone_stats(ZoneId(0)).unwrap().watermarks;
    let room = (marks.min.0 + marks.low.0) / 2;
    held.iter().filter(|pfn| pfn.0.is_multiple_of(2)).take(room as usize).for_each(|pfn| {
        a.free(&CX, *pfn, Order::ZERO).unwrap();
    });
    a.drain(CpuSet::All);
    let before = a.stats();
    a.alloc(&CX, &Request::new(Order::ZERO, Unmovable)).unwrap();
    let after = a.stats();
    assert!(after[Counter::WatermarkBoost] > before[Counter::WatermarkBoost], "the fallback boosted");
    let [slow, wakes, fails] = counted(&before);
    assert_eq!(counted(&after), [slow + 1, wakes + 1, fails]);
    sound(&a);
}

#[test]
fn an_interleaved_request_that_another_node_serves_is_not_refused() {
    let a = two_nodes();
    fill(&a, 0);
    let before = counted(&a.stats());
    let pfn = a.alloc_interleaved(&CX, &request(0, Movable)).unwrap();
    assert_eq!(pfn.0 / 2048, 1, "it was node 0's turn, which is full");
    assert_eq!(counted(&a.stats()), [before[0] + 1, before[1] + 1, before[2]]);
}

/// The cpuset of those that the test makes.
const CPUSET: CpusetId = CpusetId(1);

/// Makes the cpuset of one node, and returns a task of it.
fn confined(a: &LinuxAllocator, node: u8) -> Cx {
    let cpuset = a.cpusets().create(CpusetId(0), NodeMask::only(NodeId(node)), Wall::Hard).unwrap();
    assert_eq!(cpuset, CPUSET);
    Cx { cpuset, ..CX }
}

/// Frees nothing, and gives the cpuset another node from the first call on.
fn rehome(a: &LinuxAllocator, node: NodeId) -> impl Helpers {
    let reclaim = move || {
        if a.retries() == 0 {
            a.cpusets().set_mems(CPUSET, NodeMask::only(node)).unwrap();
        }
        Reclaimed::default()
    };
    Reclaiming(reclaim, Frames::ZERO)
}

#[test]
fn a_request_with_help_that_fails_while_its_cpuset_changes_is_tried_again() {
    let a = two_nodes();
    let task = confined(&a, 0);
    fill(&a, 0);
    let before = counted(&a.stats());
    // A light request gives up when reclaim frees nothing, without a look at the zones, unless it is retried.
    let light = Request::new(Order::ZERO, Movable).with(RequestFlags::NORETRY);
    let pfn = a.alloc_with(&task, &light, &rehome(&a, NodeId(1))).unwrap();
    assert_eq!((pfn.0 / 2048, a.retries()), (1, 1));
    assert_eq!(counted(&a.stats()), [before[0] + 1, before[1] + 1, before[2]]);
}

#[test]
fn a_request_that_is_tried_again_and_refused_counts_once() {
    let a = two_nodes();
    fill(&a, 0);
    fill(&a, 1);
    let task = confined(&a, 0);
    let before = counted(&a.stats());
    a.alloc_with(&task, &Request::new(Order::ZERO, Movable), &rehome(&a, NodeId(1))).unwrap_err();
    assert!(a.retries() > 0);
    assert_eq!(counted(&a.stats()), before.map(|n| n + 1));
}
