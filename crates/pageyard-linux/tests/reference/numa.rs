//! Nodes: in which order they are tried, who may use them, and what is counted.

use crate::common::{CX, Reclaiming, sound};
use pageyard_core::reclaim::{PressureAllocator, Reclaimed};
use pageyard_core::{
    Context, Counter, CpuId, CpuSet, CpusetId, Cx, Frames, MemoryMap, Migratetype::Movable, NodeId, NodeMask,
    Order, PageAllocator, Pfn, Region, Request, RequestFlags, Topology, ZoneId, ZoneKind,
};
use pageyard_linux::{Config, FilePages, LinuxAllocator, NumaStats, Wall};
use std::sync::atomic::{AtomicBool, Ordering};

/// Frames of a zone.
const ZONE: u64 = 2048;

/// The zones of each node.
const KINDS: [ZoneKind; 3] = [ZoneKind::Dma, ZoneKind::Dma32, ZoneKind::Normal];

fn regions(nodes: u8) -> Vec<Region> {
    let region =
        |i| Region::managed(Pfn(i * ZONE), Frames(ZONE), NodeId((i / 3) as u8), KINDS[i as usize % 3]);
    (0..u64::from(nodes) * 3).map(region).collect()
}

/// Makes a machine of `nodes` nodes with three zones each, and a CPU for each node.
fn machine(nodes: u8, distances: &[&[u8]], iterator: &str) -> LinuxAllocator {
    configured(nodes, distances, iterator, false)
}

/// Makes such a machine; `any_node`: whether privileged requests may take from any node, as in Linux.
fn configured(nodes: u8, distances: &[&[u8]], iterator: &str, any_node: bool) -> LinuxAllocator {
    let regions = regions(nodes);
    let mut config = crate::common::bare(Config::linux_6_18());
    config.set("zonelist_iterator", iterator).unwrap();
    config.cpus = u32::from(nodes);
    config.privileged_take_any_node = any_node;
    let map = MemoryMap::new(&regions).unwrap().with_topology(Topology { cpus: &[], distances });
    LinuxAllocator::new(&map, &config).unwrap()
}

fn node_of(pfn: Pfn) -> u64 {
    pfn.0 / (3 * ZONE)
}

fn request() -> Request {
    Request::new(Order::of(4), Movable).with(RequestFlags::MEMALLOC)
}

/// Takes everything and returns the zones, numbered from node 0 up, in the order in which they were first used.
fn order_of_use(a: &LinuxAllocator, cx: &Cx, request: &Request) -> Vec<u64> {
    let mut zones: Vec<u64> = Vec::new();
    while let Ok(pfn) = a.alloc(cx, request) {
        let zone = pfn.0 / ZONE;
        if !zones.contains(&zone) {
            zones.push(zone);
        }
    }
    sound(a);
    zones
}

#[test]
fn nodes_are_tried_by_distance_and_each_from_its_highest_zone_down() {
    for iterator in ["called", "inlined"] {
        let distances: &[&[u8]] = &[&[10, 31, 21], &[31, 10, 21], &[21, 21, 10]];
        let a = machine(3, distances, iterator);
        assert_eq!(order_of_use(&a, &CX, &request()), [2, 1, 0, 8, 7, 6, 5, 4, 3], "{iterator}");
        // Nodes 0 and 1 are equally far from 2: the one whose number follows, going round, comes first.
        let a = machine(3, distances, iterator);
        assert_eq!(order_of_use(&a, &Cx::on(CpuId(2)), &request())[3..6], [2, 1, 0], "{iterator}");
        // Without a table, distance grows with the difference of the numbers.
        let a = machine(4, &[], iterator);
        let low = Request { highest_zone: ZoneKind::Dma, ..request() };
        assert_eq!(order_of_use(&a, &Cx::on(CpuId(1)), &low), [3, 0, 6, 9], "{iterator}");
    }
}

#[test]
fn masks_and_this_node_bound_a_request() {
    for iterator in ["called", "inlined"] {
        let a = machine(4, &[], iterator);
        let masked = Request { nodes: NodeMask(0b1010), ..request() };
        assert_eq!(order_of_use(&a, &CX, &masked), [5, 4, 3, 11, 10, 9], "{iterator}");
        let a = machine(4, &[], iterator);
        let own = masked.with(RequestFlags::THIS_NODE);
        assert_eq!(order_of_use(&a, &Cx::on(CpuId(3)), &own), [11, 10, 9], "{iterator}");
    }
}

/// Makes a cpuset inside the root, and returns a task of it on CPU 0.
fn confined(a: &LinuxAllocator, mems: u64, wall: Wall) -> Cx {
    Cx { cpuset: a.cpusets().create(CpusetId(0), NodeMask(mems), wall).unwrap(), ..CX }
}

#[test]
fn a_cpuset_bounds_its_tasks_and_no_others() {
    for iterator in ["called", "inlined"] {
        let a = machine(2, &[], iterator);
        let there = confined(&a, 0b10, Wall::Hard);
        assert_eq!(node_of(a.alloc(&there, &request()).unwrap()), 1);
        assert_eq!(node_of(a.alloc(&CX, &request()).unwrap()), 0, "{iterator}: this one is of the root");
        a.cpusets().set_mems(there.cpuset, NodeMask(0b01)).unwrap();
        assert_eq!(node_of(a.alloc(&there, &request()).unwrap()), 0);
    }
}

#[test]
fn nodes_that_a_cpuset_has_none_of_are_not_asked_for() {
    for iterator in ["called", "inlined"] {
        let a = machine(2, &[], iterator);
        let there = confined(&a, 0b10, Wall::Hard);
        let elsewhere = Request { nodes: NodeMask::only(NodeId(0)), ..request() };
        assert_eq!(node_of(a.alloc(&there, &elsewhere).unwrap()), 1, "{iterator}");
        assert_eq!(a.retries(), 1, "{iterator}");
        assert_eq!(node_of(a.alloc(&CX, &elsewhere).unwrap()), 0, "{iterator}");
    }
}

/// Takes a node's frames, all above the low watermark.
fn exhaust(a: &LinuxAllocator, node: u8) {
    let here = Request { nodes: NodeMask::only(NodeId(node)), ..request() };
    while a.alloc(&CX, &here).is_ok() {}
}

#[test]
fn a_full_cpuset_is_left_where_its_wall_is_open_and_by_interrupts_and_victims() {
    let hardwall = RequestFlags::HARDWALL;
    let plain = Request::new(Order::of(4), Movable);
    let interrupt = |cx: Cx| Cx { context: Context::Softirq, ..cx };
    for iterator in ["called", "inlined"] {
        for (wall, flags, in_interrupt, leaves) in [
            (Wall::Open, RequestFlags::empty(), false, true),
            (Wall::Open, hardwall, false, false),
            (Wall::Hard, RequestFlags::empty(), false, false),
            (Wall::Hard, RequestFlags::OOM_VICTIM, false, true),
            (Wall::Hard, hardwall, true, true),
        ] {
            let a = machine(2, &[], iterator);
            let task = confined(&a, 0b01, wall);
            let task = if in_interrupt { interrupt(task) } else { task };
            exhaust(&a, 0);
            let got = a.alloc(&task, &plain.with(flags));
            let case = format!("{iterator}, {wall:?}, {flags:?}, interrupt {in_interrupt}");
            assert_eq!(got.map(node_of).ok(), leaves.then_some(1), "{case}");
        }
    }
}

#[test]
fn an_open_wall_lets_through_to_the_nearest_hard_one_and_no_further() {
    let a = machine(3, &[], "inlined");
    let around = a.cpusets().create(CpusetId(0), NodeMask(0b011), Wall::Hard).unwrap();
    let inner = a.cpusets().create(around, NodeMask(0b001), Wall::Open).unwrap();
    let task = Cx { cpuset: inner, ..CX };
    exhaust(&a, 0);
    let plain = Request::new(Order::of(4), Movable);
    assert_eq!(node_of(a.alloc(&task, &plain).unwrap()), 1);
    exhaust(&a, 1);
    assert!(a.alloc(&task, &plain).is_err());
    assert_eq!(node_of(a.alloc(&CX, &plain).unwrap()), 2);
    sound(&a);
}

#[test]
fn a_request_with_a_mask_of_its_own_gets_the_nodes_that_its_cpuset_has_too() {
    let a = machine(3, &[], "inlined");
    let task = confined(&a, 0b110, Wall::Hard);
    let asked = Request { nodes: NodeMask(0b011), ..Request::new(Order::of(4), Movable) };
    assert_eq!(node_of(a.alloc(&task, &asked).unwrap()), 1);
    // Node 0 is what it prefers: the other one counts as a miss there.
    assert_eq!(a.numa_stats(NodeId(0)).numa_foreign, 1);
}

#[test]
fn frames_to_be_written_come_from_nodes_that_are_not_too_dirty() {
    let a = machine(2, &[], "inlined");
    let single = Request::new(Order::ZERO, Movable);
    let write = single.with(RequestFlags::WRITE);
    let node = |request: &Request| {
        let pfn = a.alloc(&CX, request).unwrap();
        a.free(&CX, pfn, Order::ZERO).unwrap();
        node_of(pfn)
    };
    assert_eq!(node(&write), 0, "nothing was said of files");
    // A fifth of what can be dirty: all that is free and not kept back, and files.
    let dirty = |frames| FilePages { resident: Frames(0), dirty: Frames(frames) };
    a.set_file_pages(NodeId(0), dirty(3 * ZONE));
    assert_eq!((node(&write), node(&single)), (1, 0));
    a.set_file_pages(NodeId(0), dirty(ZONE / 20));
    assert_eq!(node(&write), 0);
    // Both are too dirty: then it does not matter.
    a.set_file_pages(NodeId(0), dirty(3 * ZONE));
    a.set_file_pages(NodeId(1), dirty(3 * ZONE));
    assert_eq!(node(&write), 0);
}

#[test]
fn a_request_that_fails_while_its_cpuset_changes_is_tried_again() {
    // Two nodes, one of them full; the cpuset flips between them. At every moment after the flip to the roomy node a
    // request can be served, so one that fails must have seen one of them only.
    for iterator in ["called", "inlined"] {
        let a = machine(2, &[], iterator);
        let task = confined(&a, 0b01, Wall::Hard);
        while a.alloc(&task, &request()).is_ok() {}
        let stop = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                let mut node = 0;
                while !stop.load(Ordering::Relaxed) {
                    a.cpusets().set_mems(task.cpuset, NodeMask::only(NodeId(node))).unwrap();
                    node ^= 1;
                }
            });
            let (cx, mut served) = (Cx { cpu: CpuId(1), ..task }, 0);
            while served < 20_000 || a.retries() == 0 {
                if let Ok(pfn) = a.alloc(&cx, &request()) {
                    assert_eq!(node_of(pfn), 1);
                    a.free(&cx, pfn, Order::of(4)).unwrap();
                    served += 1;
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        sound(&a);
    }
}

#[test]
fn privileged_requests_go_beyond_their_nodes_when_those_are_full() {
    let atomic = RequestFlags::HIGH | RequestFlags::NON_BLOCKING;
    let plain = Request::new(Order::of(4), Movable);
    for (flags, beyond) in [
        (RequestFlags::MEMALLOC, true),
        (atomic, true),
        (RequestFlags::OOM_VICTIM, true),
        (RequestFlags::HIGH, false),
        (RequestFlags::NON_BLOCKING, false),
        (atomic | RequestFlags::THIS_NODE, false),
    ] {
        let a = configured(2, &[], "inlined", true);
        let there = Request { nodes: NodeMask::only(NodeId(0)), ..plain }.with(flags);
        let zones = order_of_use(&a, &CX, &there);
        assert_eq!(zones, if beyond { vec![2, 1, 0, 5, 4, 3] } else { vec![2, 1, 0] }, "{flags:?}");
    }
}

#[test]
fn a_victim_wakes_other_nodes_from_its_second_try_on_and_since_7_0_from_its_first() {
    for (name, since_first) in [("linux-5.10", false), ("linux-6.12", false), ("linux-7.2", true)] {
        for tries_again in [false, true] {
            let mut config = crate::common::bare(Config::preset(name).unwrap());
            (config.cpus, config.reclaimable_counts_free) = (2, false);
            let a = LinuxAllocator::new(&MemoryMap::new(&regions(2)).unwrap(), &config).unwrap();
            exhaust(&a, 0);
            exhaust(&a, 1);
            a.kswapd_tick();
            let awake = |zone: usize| a.opening().zones[zone].reclaiming;
            assert!(!awake(2) && !awake(5), "{name}");
            let nodes = NodeMask::only(NodeId(1));
            let victim =
                Request { nodes, ..Request::new(Order::ZERO, Movable) }.with(RequestFlags::OOM_VICTIM);
            let help = Reclaiming(Reclaimed::default, Frames(if tries_again { 10_000 } else { 0 }));
            a.alloc_with(&CX, &victim, &help).unwrap_err();
            assert_eq!((awake(2), awake(5)), (since_first || tries_again, true), "{name}, {tries_again}");
            sound(&a);
        }
    }
}

#[test]
fn an_atomic_victim_is_spared_the_boost_of_other_nodes_until_6_2() {
    for (name, spared) in [("linux-5.10", true), ("linux-6.1", true), ("linux-6.12", false)] {
        let config = Config { cpus: 2, ..Config::preset(name).unwrap() };
        let a = LinuxAllocator::new(&MemoryMap::new(&regions(2)).unwrap(), &config).unwrap();
        let single = Request::new(Order::ZERO, Movable);
        let all = single.with(RequestFlags::MEMALLOC);
        let held: Vec<Pfn> = std::iter::from_fn(|| a.alloc(&CX, &all).ok()).collect();
        // In one zone of node 1 three quarters of the least watermark are free: a victim takes half of it.
        let zone = || a.zone_stats(ZoneId(5)).unwrap();
        let min = zone().watermarks.min.0;
        for pfn in held.into_iter().filter(|pfn| pfn.0 >= 5 * ZONE) {
            if zone().free.0 < min * 3 / 4 {
                a.free(&CX, pfn, Order::ZERO).unwrap();
                a.drain(CpuSet::All);
            }
        }
        let mut state = a.opening();
        state.zones[5].boost = Frames(2 * min);
        a.open(&state).unwrap();
        let atomic = RequestFlags::HIGH | RequestFlags::NON_BLOCKING | RequestFlags::OOM_VICTIM;
        let victim = Request { nodes: NodeMask::only(NodeId(0)), ..single }.with(atomic);
        assert_eq!(a.alloc(&CX, &victim).is_ok(), spared, "{name}");
        sound(&a);
    }
}

#[test]
fn a_node_whose_reclaimer_is_awake_is_taken_from_last() {
    let a = machine(2, &[], "inlined");
    let from = |nodes| node_of(a.alloc(&CX, &Request { nodes, ..request() }).unwrap());
    assert_eq!(from(NodeMask::ALL), 0);
    a.wake_kswapd(ZoneId(2));
    assert_eq!(from(NodeMask::ALL), 1, "although node 0 is near, and has room");
    assert_eq!(from(NodeMask::only(NodeId(0))), 0, "there is no other");
    a.wake_kswapd(ZoneId(5));
    assert_eq!(from(NodeMask::ALL), 0, "both are alike");
    a.kswapd_tick();
    a.wake_kswapd(ZoneId(2));
    let all = |a: &LinuxAllocator| order_of_use(a, &CX, &request());
    assert_eq!(all(&a), [5, 4, 3, 2, 1, 0], "and it is not left out");
    let mut before = a.config().clone();
    before.set("spares_reclaiming_nodes", "false").unwrap();
    let before = LinuxAllocator::new(&MemoryMap::new(&regions(2)).unwrap(), &before).unwrap();
    before.wake_kswapd(ZoneId(2));
    assert_eq!(all(&before), [2, 1, 0, 5, 4, 3], "until 6.18");
}

#[test]
fn counters_say_where_frames_came_from() {
    let a = machine(2, &[], "inlined");
    let one = |nodes| {
        a.alloc(&CX, &Request { nodes, ..request() }).unwrap();
    };
    one(NodeMask::ALL); // hit and local on node 0
    one(NodeMask::only(NodeId(1))); // wished for node 1 and got it, from a CPU of node 0
    let here = request().with(RequestFlags::THIS_NODE);
    let mut hits = 2;
    while a.alloc(&CX, &here).is_ok() {
        hits += 1;
    }
    one(NodeMask::ALL); // node 0 is full: a miss on node 1, foreign to node 0
    let both = [a.numa_stats(NodeId(0)), a.numa_stats(NodeId(1))];
    let node0 =
        NumaStats { numa_hit: hits - 1, numa_local: hits - 1, numa_foreign: 1, ..NumaStats::default() };
    let node1 = NumaStats { numa_hit: 1, numa_miss: 1, numa_other: 2, ..NumaStats::default() };
    assert_eq!(both, [node0, node1]);
    let s = a.stats();
    assert_eq!((s[Counter::NumaForeign], s[Counter::NumaOther], s[Counter::NumaLocal]), (1, 2, hits - 1));
}

#[test]
fn interleaved_requests_go_round_the_allowed_nodes() {
    let a = machine(4, &[], "inlined");
    let task = confined(&a, 0b1101, Wall::Hard);
    let nodes: Vec<u64> = (0..6).map(|_| node_of(a.alloc_interleaved(&task, &request()).unwrap())).collect();
    assert_eq!(nodes, [0, 2, 3, 0, 2, 3]);
    assert_eq!([0, 1, 2, 3].map(|n| a.numa_stats(NodeId(n)).numa_interleave), [2, 0, 2, 2]);
}

#[test]
fn this_node_is_the_cpus_own_whatever_lists_of_other_nodes_hold() {
    for iterator in ["called", "inlined"] {
        let a = machine(3, &[], iterator);
        let cx = Cx::on(CpuId(1));
        let single = Request::new(Order::ZERO, Movable).with(RequestFlags::MEMALLOC);
        // Node 0's lists of this CPU hold frames: node 0 is the lowest, and they would be a quick hit.
        let there = Request { nodes: NodeMask::only(NodeId(0)), ..single };
        let pfn = a.alloc(&cx, &there).unwrap();
        a.free(&cx, pfn, Order::ZERO).unwrap();
        let here = single.with(RequestFlags::THIS_NODE);
        let mut served = 0;
        while let Ok(pfn) = a.alloc(&cx, &here) {
            assert_eq!(node_of(pfn), 1, "{iterator}");
            served += 1;
        }
        assert_eq!(served, 3 * ZONE, "{iterator}: all of the node, and nothing else");
        let mut many = [Pfn(0); 8];
        assert_eq!(a.alloc_bulk(&cx, &here, &mut many), 0, "{iterator}");
        assert!(a.alloc(&cx, &single).is_ok(), "{iterator}: other nodes have room");
        // Of several nodes that the mask allows, the one that is nearest to the CPU.
        let others = Request { nodes: NodeMask(0b101), ..here };
        assert_eq!(node_of(a.alloc(&cx, &others).unwrap()), 0, "{iterator}");
        sound(&a);
    }
}
