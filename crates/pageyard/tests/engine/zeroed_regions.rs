//! Memory that is known to hold zeros from the start: the engine says so of what it hands out for the first time, and
//! never of what may have been written to.

use pageyard::{
    Config, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, OwnedPageyard, PageAllocator,
    Pageyard, Pfn, Region, Request, TryLock, ZoneKind,
};
use std::collections::HashSet;

const CX: Cx = Cx::on(CpuId(0));
const FRAMES: u64 = 1 << 14;

fn movable(order: u8) -> Request {
    Request::new(Order::of(order), Migratetype::Movable)
}

/// The first half holds zeros, but for a frame in its last pageblock; the second holds what it holds.
fn machine() -> OwnedPageyard<TryLock> {
    let region = |start, end| Region::managed(Pfn(start), Frames(end - start), NodeId(0), ZoneKind::Normal);
    let half = FRAMES / 2;
    let regions = [region(3, half - 1).zeroed(), region(half - 1, FRAMES)];
    Pageyard::owned(&MemoryMap::new(&regions).unwrap(), Config::new(2), TryLock).unwrap()
}

#[test]
fn fresh_blocks_of_every_order_hold_zeros_where_their_whole_pageblock_does() {
    let engine = machine();
    for order in 0..=9 {
        let mut held = Vec::new();
        while let Ok(pfn) = engine.alloc(&CX, &movable(order)) {
            // Of the pageblock that is only in part of the region nothing is known.
            let fresh = pfn.0 + (1 << order) <= FRAMES / 2 - 512;
            if order == 9 || held.len() < 200 {
                assert_eq!(engine.was_zeroed(pfn), fresh, "order {order} at {pfn}");
            }
            held.push(pfn);
        }
        assert!(held.len() as u64 > (FRAMES / 2) >> order, "order {order}: {} blocks", held.len());
        // Freed as zeros, so that the next order finds what this one found.
        for pfn in held {
            let zero = engine.was_zeroed(pfn);
            let free = if zero {
                engine.free_zeroed(&CX, pfn, Order::of(order))
            } else {
                engine.free(&CX, pfn, Order::of(order))
            };
            free.unwrap();
        }
        engine.drain(CpuSet::All);
        engine.audit().unwrap();
    }
}

#[test]
fn what_was_written_to_is_never_called_zeros() {
    let engine = machine();
    let mut rng = fastrand::Rng::with_seed(5);
    let mut dirty: HashSet<u64> = (FRAMES / 2 - 1..FRAMES).collect();
    let mut held: Vec<(Pfn, u8)> = Vec::new();
    let mut zeros = 0;
    for step in 0..60_000 {
        if held.len() > 600 || (rng.u8(..) < 120 && !held.is_empty()) {
            let (pfn, order) = held.swap_remove(rng.usize(..held.len()));
            let frames = pfn.0..pfn.0 + (1 << order);
            if rng.u8(..) < 200 {
                dirty.extend(frames);
                engine.free(&CX, pfn, Order::of(order)).unwrap();
            } else {
                frames.for_each(|f| {
                    dirty.remove(&f);
                });
                engine.free_zeroed(&CX, pfn, Order::of(order)).unwrap();
            }
        } else if let Ok(pfn) = engine.alloc(&CX, &movable([0, 0, 0, 1, 2, 3, 5, 9][rng.usize(..8)])) {
            let order = engine.order_of(pfn).unwrap().get();
            if engine.was_zeroed(pfn) {
                zeros += 1;
                let written = (pfn.0..pfn.0 + (1 << order)).find(|f| dirty.contains(f));
                assert_eq!(written, None, "step {step}: order {order} at {pfn}");
            }
            held.push((pfn, order));
        }
        if step % 5000 == 0 {
            engine.drain(CpuSet::All);
            engine.audit().unwrap();
        }
    }
    assert!(zeros > 1000, "{zeros}");
}
