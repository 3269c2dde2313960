//! Two threads that stop at once block no other, whatever each of them was doing: calls, isolation, a drain,
//! compaction.
//!
//! For short calls every pair of steps is tried, for others a fixed sample.

use crate::common::{Blocks, Call, Ground, cx, request, stop_one, stop_pairs};
use pageyard::engine::Internals;
use pageyard::{
    CpuId, CpuSet, Cx, Migratetype, Order, PageAllocator, PageblockId, Pfn, PressureAllocator, Request,
    ZoneId,
};

/// Pairs of steps that are tried of two calls: all, where both are short.
const MOST: u64 = 1600;
/// The same where one of them is long.
const FEW: u64 = 300;

fn nothing(_: &Ground<'_>) -> Blocks {
    Vec::new()
}

fn take(g: &Ground<'_>, cpu: u32, order: u8, ty: Migratetype) -> Blocks {
    let got = g.engine.alloc(&cx(cpu), &request(order, ty));
    got.ok().map(|pfn| (pfn, Order::of(order))).into_iter().collect()
}

fn give(g: &Ground<'_>, cpu: u32, blocks: Blocks) -> Blocks {
    for (pfn, order) in blocks {
        g.engine.free(&cx(cpu), pfn, order).unwrap();
    }
    Vec::new()
}

const MISS: Call<'static> =
    Call { name: "a miss", prepare: &nothing, run: &|g, _| take(g, 0, 0, Migratetype::Movable) };
const LARGE: Call<'static> =
    Call { name: "order 7", prepare: &nothing, run: &|g, _| take(g, 0, 7, Migratetype::Movable) };
const PAGEBLOCK: Call<'static> =
    Call { name: "a pageblock", prepare: &nothing, run: &|g, _| take(g, 1, 9, Migratetype::Movable) };
const RUN: Call<'static> =
    Call { name: "order 11", prepare: &nothing, run: &|g, _| take(g, 1, 11, Migratetype::Movable) };
const STEAL: Call<'static> =
    Call { name: "a steal", prepare: &nothing, run: &|g, _| take(g, 1, 4, Migratetype::Unmovable) };
const PUSH: Call<'static> = Call {
    name: "a push",
    prepare: &|g| take(g, 0, 0, Migratetype::Movable),
    run: &|g, blocks| give(g, 0, blocks),
};
const HIT: Call<'static> = Call {
    name: "a hit",
    prepare: &|g| {
        let blocks = take(g, 0, 0, Migratetype::Movable);
        give(g, 0, blocks)
    },
    run: &|g, _| take(g, 0, 0, Migratetype::Movable),
};
const FREE: Call<'static> = Call {
    name: "a free of order 8",
    prepare: &|g| take(g, 0, 8, Migratetype::Movable),
    run: &|g, blocks| give(g, 2, blocks),
};
const FREE_RUN: Call<'static> = Call {
    name: "a free of order 10",
    prepare: &|g| take(g, 0, 10, Migratetype::Movable),
    run: &|g, blocks| give(g, 2, blocks),
};
const SPLIT: Call<'static> = Call {
    name: "a split",
    prepare: &|g| take(g, 0, 9, Migratetype::Movable),
    run: &|g, blocks| {
        let (pfn, from) = blocks[0];
        g.engine.split(&Cx::on(CpuId(0)), pfn, from, Order::of(6)).unwrap();
        (0..8).map(|n| (Pfn(pfn.0 + 64 * n), Order::of(6))).collect()
    },
};
const EXACT: Call<'static> = Call {
    name: "an exact claim",
    prepare: &nothing,
    run: &|g, _| {
        let (pfn, order) = (Pfn(15 * 512 + 256), Order::of(8));
        let got = g.engine.claim_exact(&Cx::on(CpuId(0)), pfn, order, Migratetype::Movable);
        got.ok().map(|()| (pfn, order)).into_iter().collect()
    },
};
/// Takes a pageblock that the others use as well out of allocation, and puts it back.
const ISOLATION: Call<'static> = Call {
    name: "isolation",
    prepare: &nothing,
    run: &|g, _| {
        if g.engine.isolate(&Cx::on(CpuId(0)), PageblockId(1)) {
            assert!(g.engine.restore(&Cx::on(CpuId(0)), PageblockId(1)), "no other thread restores it");
        }
        Vec::new()
    },
};
const DRAIN: Call<'static> = Call {
    name: "a drain",
    prepare: &|g| {
        let blocks: Blocks = (0..3).flat_map(|_| take(g, 0, 0, Migratetype::Movable)).collect();
        give(g, 0, blocks)
    },
    run: &|g, _| {
        g.engine.drain(CpuSet::One(CpuId(0)));
        Vec::new()
    },
};
const COMPACTION: Call<'static> = Call {
    name: "compaction",
    prepare: &nothing,
    run: &|g, _| {
        g.engine.compact_zone_with(&cx(1), ZoneId(0), &g.owner).unwrap();
        Vec::new()
    },
};
/// A request that finds no block, and compacts for one.
const COMPACTS: Call<'static> = Call {
    name: "a request that compacts",
    prepare: &|g| {
        // What is free as a whole is taken.
        core::iter::from_fn(|| take(g, 2, 9, Migratetype::Movable).pop()).collect()
    },
    run: &|g, mut blocks| {
        let wants = Request::new(Order::of(9), Migratetype::Movable);
        let got = g.engine.alloc_with(&cx(2), &wants, &g.owner);
        blocks.extend(got.ok().map(|pfn| (pfn, Order::of(9))));
        // Back in the end, so that the others had little and the check has much.
        give(g, 2, blocks)
    },
};

#[test]
fn two_uses_of_one_list() {
    stop_pairs(HIT, PUSH, MOST);
    stop_pairs(PUSH, PUSH, MOST);
    stop_pairs(DRAIN, PUSH, 2 * FEW);
    stop_pairs(DRAIN, HIT, 2 * FEW);
    stop_pairs(DRAIN, DRAIN, FEW);
}

#[test]
fn two_calls_in_one_pageblock() {
    stop_pairs(MISS, FREE, 2 * FEW);
    stop_pairs(LARGE, FREE, 2 * FEW);
    stop_pairs(STEAL, LARGE, 2 * FEW);
    stop_pairs(SPLIT, MISS, MOST);
    stop_pairs(EXACT, LARGE, 2 * FEW);
}

#[test]
fn two_calls_for_whole_pageblocks() {
    stop_pairs(PAGEBLOCK, RUN, 2 * FEW);
    stop_pairs(RUN, FREE_RUN, 2 * FEW);
    stop_pairs(RUN, EXACT, 2 * FEW);
    stop_pairs(SPLIT, FREE_RUN, MOST);
}

#[test]
fn isolation_and_another_call() {
    for other in [MISS, LARGE, FREE, PUSH, STEAL, DRAIN, SPLIT] {
        stop_pairs(ISOLATION, other, MOST);
    }
}

#[test]
fn compaction_alone() {
    stop_one(COMPACTION, 2 * FEW);
    stop_one(COMPACTS, 2 * FEW);
}

#[test]
fn compaction_and_another_call() {
    for other in [MISS, FREE, RUN, STEAL, ISOLATION, DRAIN, COMPACTION] {
        stop_pairs(COMPACTION, other, FEW);
    }
}
