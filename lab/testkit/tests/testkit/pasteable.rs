//! The text that a failing run prints compiles and replays.
//!
//! The files under `pasted/` are printed text, byte for byte, and are compiled as tests of this file.

use crate::first_fit::{BuildFirstFit, Fault};
use pageyard::{
    CpuId, Frames, MapError, MemoryMap, Migratetype, NodeId, NodeMask, Order, Pfn, Region, Request,
    RequestFlags, ZoneKind,
};
use pageyard_testkit::maps::{self, normal};
use pageyard_testkit::shrink::{MOST_RUNS, as_test, quietly, shrink};
use pageyard_testkit::{Build, Op, replay};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const MOVABLE: Migratetype = Migratetype::Movable;

/// One of each operation, with every way to write a request.
mod each {
    use super::{BuildFirstFit, Fault};
    include!("pasted/each.in");
}

/// A run that failed on an allocator that loses a part of each split, pasted where that is fixed.
mod found {
    use super::BuildFirstFit;
    struct Fault;
    #[expect(non_upper_case_globals, reason = "it stands for a variant in the printed text")]
    impl Fault {
        const LeaksOnSplit: super::Fault = super::Fault::None;
    }
    include!("pasted/found.in");
}

fn each_op() -> Vec<Op> {
    let cpu = CpuId(1);
    let plain = Request::new(Order::of(3), Migratetype::Unmovable);
    let memalloc = plain.with(RequestFlags::MEMALLOC | RequestFlags::HIGH);
    let elsewhere = Request { highest_zone: ZoneKind::Dma32, nodes: NodeMask(1), ..memalloc };
    let bare = Request { flags: RequestFlags::empty(), ..plain };
    vec![
        Op::Alloc { cpu, request: plain },
        Op::Alloc { cpu, request: memalloc },
        Op::Alloc { cpu, request: elsewhere },
        Op::Alloc { cpu, request: bare },
        Op::BulkAlloc { cpu, request: Request::new(Order::ZERO, MOVABLE), count: 20 },
        Op::BulkFree { cpu, held: 3, count: 4, spoiled: true },
        Op::FreeTwice { cpu, held: 1 },
        Op::FreeWrongOrder { cpu, held: 0, order: Order::of(2) },
        Op::FreeInside { cpu, held: 0, offset: 5 },
        Op::FreeAt { cpu, pfn: Pfn(u64::MAX), order: Order::of(18) },
        Op::Split { held: 0, to: Order::of(1) },
        Op::SplitAt { pfn: Pfn(8), from: Order::of(3), to: Order::ZERO },
        Op::Claim { pfn: Pfn(1024), order: Order::of(9), migratetype: Migratetype::Reclaimable },
        Op::Drain { cpu },
        Op::DrainAll,
        Op::Free { cpu, held: 0 },
        Op::Check,
    ]
}

fn two_zones() -> Vec<Region> {
    let firmware = Region { managed: false, ..normal(4096, 100) };
    vec![Region::managed(Pfn(0), Frames(2048), NodeId(0), ZoneKind::Dma32), normal(2048, 2048), firmware]
}

#[test]
fn each_operation_prints_itself_as_rust() {
    let build = BuildFirstFit(Fault::None);
    replay(&build, &two_zones(), 2, &each_op());
    assert_eq!(as_test(&build.expression(), &two_zones(), 2, &each_op()), include_str!("pasted/each.in"));
}

#[test]
fn what_was_found_is_short_and_prints_itself_as_rust() {
    let build = BuildFirstFit(Fault::LeaksOnSplit);
    let cpu = CpuId(1);
    let mut ops = Vec::new();
    for order in (0..200).map(|n| Order::of(n % 5)) {
        ops.push(Op::Alloc { cpu, request: Request::new(order, MOVABLE).with(RequestFlags::MEMALLOC) });
        ops.push(Op::Free { cpu, held: u32::from(order.get()) * 7 });
    }
    ops.insert(300, Op::Alloc { cpu, request: Request::new(Order::of(4), MOVABLE) });
    ops.insert(301, Op::Split { held: 0, to: Order::of(0) });
    let regions = maps::plain(1024).regions;
    let small = shrink(&build, &regions, 2, &ops, "not found yet".to_owned());
    assert_eq!(
        as_test(&build.expression(), &regions, 2, &small.ops),
        include_str!("pasted/found.in"),
        "{}",
        small.why
    );

    let again = quietly(|| replay(&build, &regions, 2, &small.ops)).expect_err("the fault is still there");
    assert!(again.contains(&small.why), "{again}\n{}", small.why);
    replay(&BuildFirstFit(Fault::None), &regions, 2, &small.ops);
}

#[test]
fn a_list_that_does_not_fail_keeps_what_was_seen() {
    let ops = each_op();
    let kept = shrink(&BuildFirstFit(Fault::None), &two_zones(), 2, &ops, "seen once".to_owned());
    assert_eq!((kept.ops, kept.why.as_str()), (ops, "seen once"));
}

/// An allocator that counts how often it is built, which is how often a list is run.
struct Counted(BuildFirstFit, AtomicU32);

impl Build for Counted {
    type Engine = <BuildFirstFit as Build>::Engine;

    fn name(&self) -> String {
        self.0.name()
    }

    fn build(&self, map: &MemoryMap<'_>, cpus: u32) -> Result<Self::Engine, MapError> {
        self.1.fetch_add(1, Relaxed);
        self.0.build(map, cpus)
    }

    fn largest_order(&self) -> Order {
        self.0.largest_order()
    }

    fn expression(&self) -> String {
        self.0.expression()
    }

    fn has_watermarks(&self) -> bool {
        self.0.has_watermarks()
    }

    fn has_migratetypes(&self) -> bool {
        self.0.has_migratetypes()
    }
}

/// A split names its block by a place that every removed allocation moves. Such a list once stayed 291 operations long
/// after 2,000 runs.
#[test]
fn operations_keep_their_blocks_while_others_are_removed() {
    let cpu = CpuId(0);
    let mut ops = Vec::new();
    for n in 0..900 {
        ops.push(Op::Alloc { cpu, request: Request::new(Order::ZERO, MOVABLE) });
        if n % 3 == 0 {
            ops.push(Op::Free { cpu, held: n * 7 });
        }
    }
    ops.push(Op::Alloc { cpu, request: Request::new(Order::of(2), MOVABLE) });
    ops.extend((0..50).map(|_| Op::Alloc { cpu, request: Request::new(Order::ZERO, MOVABLE) }));
    ops.push(Op::Split { held: 651 * 1000 + 600, to: Order::ZERO });
    let regions = maps::plain(2048).regions;
    let build = Counted(BuildFirstFit(Fault::LeaksOnSplit), AtomicU32::new(0));
    let small = shrink(&build, &regions, 2, &ops, "not found yet".to_owned());
    assert_eq!(small.ops.len(), 2, "{:?}", small.ops);
    assert!(matches!(small.ops[1], Op::Split { held: 0, .. }), "{:?}", small.ops);
    assert_eq!(small.runs, build.1.into_inner());
    assert!(small.runs < 100, "{}", small.runs);
}

/// Of a list that fails only at its five-hundredth call, few operations can go: the shrinker gives up in time.
#[test]
fn shrinking_ends_after_so_many_runs() {
    let cpu = CpuId(0);
    let pair = [
        Op::Alloc { cpu, request: Request::new(Order::ZERO, MOVABLE) },
        Op::Alloc { cpu, request: Request::new(Order::of(1), MOVABLE) },
    ];
    let ops: Vec<Op> = (0..1200).flat_map(|_| pair).collect();
    let regions = maps::plain(4096).regions;
    let build = Counted(BuildFirstFit(Fault::HandsOutTwice), AtomicU32::new(0));
    let small = shrink(&build, &regions, 2, &ops, "not found yet".to_owned());
    let runs = build.1.into_inner();
    assert_eq!(small.runs, runs);
    assert!((500..=MOST_RUNS).contains(&runs), "{runs} runs for {} operations", small.ops.len());
    assert!(small.why != "not found yet" && small.ops.len() < ops.len(), "{}", small.why);
    assert!(quietly(|| replay(&build.0, &regions, 2, &small.ops)).is_err(), "what is left still fails");
}
