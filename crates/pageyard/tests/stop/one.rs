//! A thread that stops blocks no other.
//!
//! A call is stopped before its first atomic step, then before its second, and so on to its last; each time two other
//! threads complete two thousand calls each, on the stopped thread's CPU among others. Then it goes on, and nothing
//! must be lost.

use crate::common::{Blocks, Call, Ground, cx, movable, request, stop_one};
use pageyard::engine::Internals;
use pageyard::{CpuId, CpuSet, Migratetype, Order, PageAllocator, PageblockId, Pfn};

/// Every step of a call, whatever their number.
const ALL: u64 = u64::MAX;

fn nothing(_: &Ground<'_>) -> Blocks {
    Vec::new()
}

/// Takes a movable block of `order`.
fn one(g: &Ground<'_>, order: u8) -> Blocks {
    vec![(g.engine.alloc(&cx(0), &movable(order)).unwrap(), Order::of(order))]
}

/// Stops an allocation of `order`.
fn stop_alloc(order: u8, ty: Migratetype) -> u64 {
    let name = format!("allocate {ty}, order {order}");
    let run = |g: &Ground<'_>, _| {
        let got = g.engine.alloc(&cx(0), &request(order, ty));
        got.ok().map(|pfn| (pfn, Order::of(order))).into_iter().collect()
    };
    stop_one(Call { name: &name, prepare: &nothing, run: &run }, ALL)
}

/// Stops a free of `order`.
fn stop_free(order: u8) -> u64 {
    let name = format!("free, order {order}");
    let run = |g: &Ground<'_>, blocks: Blocks| {
        g.engine.free(&cx(0), blocks[0].0, Order::of(order)).unwrap();
        Vec::new()
    };
    stop_one(Call { name: &name, prepare: &|g| one(g, order), run: &run }, ALL)
}

#[test]
fn allocations_that_miss() {
    for order in [0, 1, 3, 5, 6, 7, 8, 9, 10, 12] {
        assert!(stop_alloc(order, Migratetype::Movable) > 5, "order {order}");
    }
}

#[test]
fn allocations_that_steal() {
    for order in [0, 4, 9] {
        assert!(stop_alloc(order, Migratetype::Unmovable) > 5, "order {order}");
    }
}

#[test]
fn frees() {
    for order in [0, 3, 5, 7, 8, 9, 10] {
        assert!(stop_free(order) > 3, "order {order}");
    }
}

#[test]
fn a_list_hit_and_a_push() {
    let run = |g: &Ground<'_>, blocks: Blocks| {
        g.engine.free(&cx(0), blocks[0].0, Order::ZERO).unwrap();
        let got = g.engine.alloc(&cx(0), &movable(0));
        got.ok().map(|pfn| (pfn, Order::ZERO)).into_iter().collect()
    };
    assert!(stop_one(Call { name: "a push and a hit", prepare: &|g| one(g, 0), run: &run }, ALL) > 5);
}

#[test]
fn a_drain() {
    let prepare = |g: &Ground<'_>| {
        g.engine.free(&cx(0), one(g, 0)[0].0, Order::ZERO).unwrap();
        Vec::new()
    };
    let run = |g: &Ground<'_>, _| {
        g.engine.drain(CpuSet::One(CpuId(0)));
        Vec::new()
    };
    assert!(stop_one(Call { name: "a drain", prepare: &prepare, run: &run }, ALL) > 5);
}

#[test]
fn splits() {
    for (from, to) in [(3, 0), (9, 7), (10, 5)] {
        let run = |g: &Ground<'_>, blocks: Blocks| {
            let pfn = blocks[0].0;
            g.engine.split(&cx(0), pfn, Order::of(from), Order::of(to)).unwrap();
            (0..1u64 << (from - to)).map(|n| (Pfn(pfn.0 + (n << to)), Order::of(to))).collect()
        };
        let name = format!("split {from} to {to}");
        assert!(stop_one(Call { name: &name, prepare: &|g| one(g, from), run: &run }, ALL) > 3, "{name}");
    }
}

#[test]
fn exact_claims() {
    for order in [0, 8, 9, 11] {
        let run = |g: &Ground<'_>, _| {
            let block = (Pfn(4096), Order::of(order));
            let claimed = g.engine.claim_exact(&cx(0), block.0, block.1, Migratetype::Movable).is_ok();
            claimed.then_some(block).into_iter().collect()
        };
        let name = format!("claim, order {order}");
        assert!(stop_one(Call { name: &name, prepare: &nothing, run: &run }, ALL) > 3, "{name}");
    }
}

#[test]
fn isolation_and_back() {
    let run = |g: &Ground<'_>, _| {
        if g.engine.isolate(&cx(0), PageblockId(3)) {
            assert!(g.engine.restore(&cx(0), PageblockId(3)));
        }
        Vec::new()
    };
    assert!(stop_one(Call { name: "isolate and restore", prepare: &nothing, run: &run }, ALL) > 5);
}
