//! A panic at every callback: everything the engine held is where it belongs, and nothing has two owners.
//!
//! A scenario is run once to count its callbacks: every call of the owner's methods, before it has done anything and
//! after it has done everything, and every drop of an isolated frame. Then it is run again for each of them, and that
//! one panics. Each run is judged by the owner's own books.

use crate::panicking::{
    CX, DROP, ISOLATE, Keeper, MIGRATE, PUTBACK, RECLAIM, RECLAIMED, at_every_callback, machine,
};
use pageyard::{
    Config, Migratetype, Order, OwnedPageyard, PageAllocator, Pfn, PressureAllocator, Request, RequestFlags,
    TryLock, ZoneId,
};
use pageyard_testkit::child::in_child;

const HUGE: Order = Order::of(9);
/// The callbacks of compaction.
const MOVES: [&str; 4] = [ISOLATE, DROP, MIGRATE, PUTBACK];

fn movable(order: Order) -> Request {
    Request::new(order, Migratetype::Movable)
}

#[test]
fn compaction_of_a_zone() {
    in_child("panics::compaction_of_a_zone", || {
        at_every_callback("a zone", &MOVES, |engine, keeper| {
            let did = engine.compact_zone_with(&CX, ZoneId(0), keeper);
            assert!(did.is_ok());
        });
    });
}

#[test]
fn a_request_that_compacts() {
    in_child("panics::a_request_that_compacts", || {
        // A small block is not probed first, and no frame of it has to be put back.
        for (order, kinds) in [(Order::of(4), &MOVES[..3]), (HUGE, &MOVES), (Order::of(10), &MOVES)] {
            at_every_callback(&format!("order {order}"), kinds, |engine, keeper| {
                for flags in [RequestFlags::empty(), RequestFlags::RETRY_MAYFAIL] {
                    if let Ok(pfn) = engine.alloc_with(&CX, &movable(order).with(flags), keeper) {
                        keeper.keep(pfn, order);
                    }
                }
            });
        }
    });
}

#[test]
fn a_request_that_reclaims() {
    in_child("panics::a_request_that_reclaims", || {
        at_every_callback("reclaim", &[RECLAIM, RECLAIMED], |engine, keeper| {
            keeper.takes_all();
            for order in [0, 0, 2, 3, 9].map(Order::of) {
                if let Ok(pfn) = engine.alloc_with(&CX, &movable(order), keeper) {
                    keeper.keep(pfn, order);
                }
            }
        });
    });
}

#[test]
fn background_reclaim_and_compaction() {
    in_child("panics::background_reclaim_and_compaction", || {
        let kinds = [ISOLATE, DROP, MIGRATE, PUTBACK, RECLAIM, RECLAIMED];
        at_every_callback("background", &kinds, |engine, keeper| {
            let wake = |engine: &OwnedPageyard<TryLock>| {
                let huge = movable(HUGE).with(RequestFlags::NON_BLOCKING);
                assert!(engine.alloc(&CX, &huge).is_err());
            };
            wake(engine);
            engine.kswapd_with(&CX, keeper).unwrap();
            engine.kcompactd_with(&CX, keeper).unwrap();
            keeper.takes_all();
            wake(engine);
            engine.kswapd_with(&CX, keeper).unwrap();
        });
    });
}

#[test]
fn a_report_of_wrong_frees() {
    in_child("panics::a_report_of_wrong_frees", || {
        at_every_callback("wrong frees", &["wrong free"], |engine, keeper| {
            let mut frames = vec![Pfn(0); 40];
            let n = engine.alloc_bulk(&CX, &movable(Order::ZERO), &mut frames);
            frames[..n].iter().for_each(|pfn| keeper.keep(*pfn, Order::ZERO));
            // Between frames that are right lie some that are outside, and some that come a second time.
            let list: Vec<_> = frames[..n]
                .iter()
                .enumerate()
                .flat_map(|(i, pfn)| match i % 9 {
                    3 => vec![*pfn, Pfn(1 << 30)],
                    7 => vec![*pfn, *pfn],
                    _ => vec![*pfn],
                })
                .collect();
            keeper.gives_up(&frames[..n]);
            engine.free_bulk(&CX, &list, Order::ZERO, &mut |_, _| keeper.callback("wrong free"));
            keeper.gave_up();
        });
    });
}

#[test]
fn the_judge_finds_a_frame_freed_behind_its_owners_back() {
    let engine = machine(Config::new(2));
    let keeper = Keeper::full(&engine);
    let pfn = keeper.any();
    engine.free(&CX, pfn, Order::ZERO).unwrap();
    let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| keeper.judge("a planted fault")));
    assert!(judged.is_err());
}
