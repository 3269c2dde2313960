//! Nodes: in which order they are tried, which lists frames go to, and what is counted.

use pageyard::{
    Config, Counter, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype::Movable, NodeId, NodeMask, Order,
    OwnedPageyard, PageAllocator, Pageyard, Pfn, Region, Request, RequestFlags, Topology, TryLock, ZoneId,
    ZoneKind,
};

/// Frames of a zone.
const ZONE: u64 = 2048;
const KINDS: [ZoneKind; 3] = [ZoneKind::Dma, ZoneKind::Dma32, ZoneKind::Normal];

/// Makes a machine of `nodes` nodes with three zones each that keep nothing back.
fn machine(nodes: u64, cpus: u32, topology: Topology<'_>) -> OwnedPageyard<TryLock> {
    let regions: Vec<Region> = (0..nodes * 3)
        .map(|i| Region::managed(Pfn(i * ZONE), Frames(ZONE), NodeId((i / 3) as u8), KINDS[i as usize % 3]))
        .collect();
    let map = MemoryMap::new(&regions).unwrap().with_topology(topology);
    let mut config = Config::new(cpus);
    config.watermark.min_free_kbytes = Some(0);
    // Lists that are worth looking at, although zones are small.
    config.percpu_pagelist_high_fraction = 8;
    Pageyard::owned(&map, config, TryLock).unwrap()
}

fn request() -> Request {
    Request::new(Order::of(4), Movable).with(RequestFlags::MEMALLOC)
}

fn node_of(pfn: Pfn) -> u64 {
    pfn.0 / (3 * ZONE)
}

/// Takes everything and returns the zones in the order in which they were first used.
fn order_of_use(a: &OwnedPageyard<TryLock>, cpu: u32, request: &Request) -> Vec<u64> {
    let mut zones: Vec<u64> = Vec::new();
    while let Ok(pfn) = a.alloc(&Cx::on(CpuId(cpu)), request) {
        let zone = pfn.0 / ZONE;
        if !zones.contains(&zone) {
            zones.push(zone);
        }
    }
    a.audit().unwrap();
    zones
}

const THREE: &[&[u8]] = &[&[10, 31, 21], &[31, 10, 21], &[21, 21, 10]];

#[test]
fn nodes_are_tried_by_distance_and_each_from_its_highest_zone_down() {
    let three = Topology { cpus: &[], distances: THREE };
    assert_eq!(order_of_use(&machine(3, 3, three), 0, &request()), [2, 1, 0, 8, 7, 6, 5, 4, 3]);
    // Nodes 0 and 1 are equally far from 2: the one whose number follows, going round, comes first.
    assert_eq!(order_of_use(&machine(3, 3, three), 2, &request())[3..6], [2, 1, 0]);
    let low = Request { highest_zone: ZoneKind::Dma, ..request() };
    assert_eq!(order_of_use(&machine(4, 4, Topology::default()), 1, &low), [3, 0, 6, 9]);
}

#[test]
fn a_cpu_of_a_node_without_memory_begins_with_the_nearest() {
    let far = Topology { cpus: &[NodeId(2), NodeId(0)], distances: THREE };
    let a = machine(2, 2, Topology { distances: &[&[10, 31, 21], &[31, 10, 21], &[21, 12, 10]], ..far });
    let pfn = a.alloc(&Cx::on(CpuId(0)), &request()).unwrap();
    assert_eq!(node_of(pfn), 1);
    let stats = a.stats();
    assert_eq!([Counter::NumaHit, Counter::NumaLocal, Counter::NumaOther].map(|c| stats[c]), [1, 0, 1]);
}

#[test]
fn this_node_is_the_cpus_own_whatever_lists_of_other_nodes_hold() {
    let a = machine(3, 3, Topology::default());
    let cx = Cx::on(CpuId(1));
    let single = Request::new(Order::ZERO, Movable).with(RequestFlags::MEMALLOC);
    // Node 0's lists of this CPU hold frames: node 0 is the lowest, and they would be a quick hit.
    let there = Request { nodes: NodeMask::only(NodeId(0)), ..single };
    let pfn = a.alloc(&cx, &there).unwrap();
    a.free(&cx, pfn, Order::ZERO).unwrap();
    let here = single.with(RequestFlags::THIS_NODE);
    let mut served = 0;
    while let Ok(pfn) = a.alloc(&cx, &here) {
        assert_eq!(node_of(pfn), 1);
        served += 1;
    }
    assert_eq!(served, 3 * ZONE, "all of the node, and nothing else");
    assert!(a.alloc(&cx, &single).is_ok(), "other nodes have room");
    // Of several nodes that the mask allows, the one that is nearest to the CPU.
    let others = Request { nodes: NodeMask(0b101), ..here };
    assert_eq!(node_of(a.alloc(&cx, &others).unwrap()), 0);
}

#[test]
fn counters_say_where_frames_came_from() {
    let a = machine(2, 2, Topology::default());
    let cx = Cx::on(CpuId(0));
    let one = |nodes| {
        a.alloc(&cx, &Request { nodes, ..request() }).unwrap();
    };
    let counted = || {
        let stats = a.stats();
        [Counter::NumaHit, Counter::NumaMiss, Counter::NumaForeign, Counter::NumaLocal, Counter::NumaOther]
            .map(|c| stats[c])
    };
    one(NodeMask::ALL);
    assert_eq!(counted(), [1, 0, 0, 1, 0]);
    one(NodeMask::only(NodeId(1)));
    assert_eq!(counted(), [2, 0, 0, 1, 1], "wished for the other node, and got it");
    let here = request().with(RequestFlags::THIS_NODE);
    let mut served = 1;
    while a.alloc(&cx, &here).is_ok() {
        served += 1;
    }
    assert_eq!(counted(), [served + 1, 0, 0, served, 1]);
    one(NodeMask::ALL);
    assert_eq!(counted(), [served + 1, 1, 1, served, 2], "node 0 is full");
}

#[test]
fn what_lists_serve_is_counted_once_however_the_request_came_to_them() {
    let a = machine(2, 2, Topology::default());
    let cx = Cx::on(CpuId(1));
    let single = Request::new(Order::ZERO, Movable);
    let masked = Request { nodes: NodeMask::only(NodeId(0)), ..single };
    let mut many = [Pfn(0); 40];
    assert_eq!(a.alloc_bulk(&cx, &single, &mut many), 40);
    let more: Vec<Pfn> = (0..40).map(|_| a.alloc(&cx, &single).unwrap()).collect();
    let others: Vec<Pfn> = (0..40).map(|_| a.alloc(&cx, &masked).unwrap()).collect();
    assert!(many.iter().chain(&more).all(|pfn| node_of(*pfn) == 1));
    assert!(others.iter().all(|pfn| node_of(*pfn) == 0));
    let stats = a.stats();
    let counted = [Counter::NumaHit, Counter::NumaMiss, Counter::NumaLocal, Counter::NumaOther];
    assert_eq!(counted.map(|c| stats[c]), [120, 0, 80, 40]);
}

#[test]
fn a_local_load_stays_local() {
    let a = machine(2, 4, Topology::default());
    let mut random = fastrand::Rng::with_seed(7);
    let mut held: Vec<(Pfn, Order)> = Vec::new();
    for _ in 0..200_000 {
        let cx = Cx::on(CpuId(random.u32(0..4)));
        if held.len() < 2000 && random.bool() {
            let order = Order::of([0, 0, 0, 0, 1, 2, 3][random.usize(0..7)]);
            held.push((a.alloc(&cx, &Request::new(order, Movable)).unwrap(), order));
        } else if !held.is_empty() {
            // By any CPU: frames go back to the lists of their own zone.
            let (pfn, order) = held.swap_remove(random.usize(0..held.len()));
            a.free(&cx, pfn, order).unwrap();
        }
    }
    let stats = a.stats();
    let (local, other) = (stats[Counter::NumaLocal], stats[Counter::NumaOther]);
    assert!(local >= 99 * other && local > 50_000, "{local} local, {other} from other nodes");
    a.audit().unwrap();
}

#[test]
fn frames_go_to_the_lists_of_their_zone_whatever_the_number_of_zones() {
    let a = machine(16, 1, Topology::default());
    let cx = Cx::on(CpuId(0));
    let cached = |zone| a.zone_stats(ZoneId(zone)).unwrap().cached;
    for zone in 0..48u16 {
        let (kind, node) = (KINDS[usize::from(zone % 3)], NodeId((zone / 3) as u8));
        let here = Request {
            highest_zone: kind,
            nodes: NodeMask::only(node),
            ..Request::new(Order::ZERO, Movable).with(RequestFlags::MEMALLOC)
        };
        let mut frames = [Pfn(0); 20];
        assert_eq!(a.alloc_bulk(&cx, &here, &mut frames), 20);
        assert!(frames.iter().all(|pfn| pfn.0 / ZONE == u64::from(zone)), "zone {zone}");
        a.drain(CpuSet::All);
        assert_eq!(cached(zone), Frames(0));
        a.free(&cx, frames[0], Order::ZERO).unwrap();
        a.free_bulk(&cx, &frames[1..], Order::ZERO, &mut |_, why| panic!("{why}"));
        assert_eq!(cached(zone), Frames(20), "zone {zone}");
        a.drain(CpuSet::All);
    }
    a.audit().unwrap();
}
