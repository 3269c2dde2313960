//! A thread that stops in the middle of a call on a range blocks no other.

use crate::common::{Blocks, Call, Ground, cx, movable, stop_one};
use pageyard::engine::Visit;
use pageyard::reclaim::NoHelp;
use pageyard::{BlockId, Frames, Migratetype, Order, Pfn};

/// Places at which a long call is stopped.
const SOME: u64 = 60;

/// Takes a block of `order`.
fn one(g: &Ground<'_>, order: u8) -> Blocks {
    vec![(g.engine.alloc(&cx(0), &movable(order)).unwrap(), Order::of(order))]
}

/// The live blocks of a range.
fn live(g: &Ground<'_>, first: Pfn, frames: u64) -> Blocks {
    let blocks = (first.0..first.0 + frames).map(Pfn);
    blocks.filter_map(|pfn| Some((pfn, g.engine.order_of(pfn)?))).collect()
}

#[test]
fn frees_of_part_of_a_block() {
    for (order, from, frames, most) in [(3, 1, 5, u64::MAX), (9, 100, 200, SOME), (10, 3, 1000, SOME)] {
        let run = |g: &Ground<'_>, blocks: Blocks| {
            let first = blocks[0].0;
            g.engine.free_range(&cx(0), first + Frames(from), Frames(frames)).unwrap();
            let mut left = live(g, first, from);
            left.extend(live(g, first + Frames(from + frames), (1 << order) - from - frames));
            left
        };
        let name = format!("free {frames} frames of order {order}");
        assert!(stop_one(Call { name: &name, prepare: &|g| one(g, order), run: &run }, most) > 10, "{name}");
    }
}

#[test]
fn exact_counts() {
    let run = |g: &Ground<'_>, _| {
        let got = g.engine.alloc_exact(&cx(0), Frames(13), Order::of(1), &movable(0));
        got.map_or(Vec::new(), |first| live(g, first, 13))
    };
    let call = Call { name: "13 frames", prepare: &|_| Vec::new(), run: &run };
    assert!(stop_one(call, u64::MAX) > 10);
}

#[test]
fn visits_of_free_blocks() {
    let run = |g: &Ground<'_>, _| {
        let mut kept = Vec::new();
        let visit = |block: BlockId| {
            if kept.is_empty() {
                kept.push((block.pfn, block.order));
                return Visit::Keep;
            }
            Visit::Return
        };
        g.engine.visit_free_blocks(&cx(0), Order::of(4), Pfn(0), Frames(1024), visit).unwrap();
        kept
    };
    let call = Call { name: "a visit", prepare: &|_| Vec::new(), run: &run };
    assert!(stop_one(call, SOME) > 10);
}

#[test]
fn pageblocks_that_go_and_come() {
    let run = |g: &Ground<'_>, _| {
        let (first, n) = (Pfn(4096), Frames(512));
        if g.engine.offline_range(&cx(0), first, n, &NoHelp).is_ok() {
            g.engine.online_range(&cx(0), first, n).unwrap();
        }
        Vec::new()
    };
    let call = Call { name: "offline and online", prepare: &|_| Vec::new(), run: &run };
    assert!(stop_one(call, SOME) > 10);
}

#[test]
fn contiguous_ranges() {
    for frames in [20, 600] {
        let run = |g: &Ground<'_>, _| {
            let (first, n) = (Pfn(4096 + 3), Frames(frames));
            match g.engine.alloc_contig_range(&cx(0), first, n, Migratetype::Movable, &NoHelp) {
                Ok(()) => live(g, first, frames),
                Err(_) => Vec::new(),
            }
        };
        let name = format!("{frames} frames by their numbers");
        let call = Call { name: &name, prepare: &|_| Vec::new(), run: &run };
        assert!(stop_one(call, SOME) > 10);
    }
}
