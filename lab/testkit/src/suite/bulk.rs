//! Bulk calls do what single calls would.

use super::steps::{CPU0, any, fill, must_alloc, sound};
use crate::engine::Build;
use crate::maps::{self, normal};
use crate::session::Session;
use pageyard::{CpuId, Cx, FreeError, Order, PageAllocator, Pfn};

/// Bulk and single calls lead to the same counts, for every size of a batch.
pub fn bulk_calls_equal_single_calls<B: Build>(build: &B) {
    let mut bulk = Session::new(build, &maps::plain(4096).regions, 2);
    let mut single = Session::new(build, &maps::plain(4096).regions, 2);
    for count in (0..70).chain([127, 128, 129, 255, 256, 511, 512, 513]) {
        for order in [0, 1, 3].map(Order::of) {
            if u64::from(count) << order.get() > 2048 {
                continue;
            }
            assert_eq!(sound(bulk.bulk_alloc(CPU0, &any(order), count)), count as usize);
            for _ in 0..count {
                must_alloc(&mut single, CPU0, &any(order));
            }
            assert_eq!(bulk.model.allocated, single.model.allocated);
            for session in [&mut bulk, &mut single] {
                sound(session.check());
                super::steps::free_where(session, |b| b.order > Order::ZERO);
            }
        }
        // Half of the single frames go back in one call, the rest one by one.
        sound(bulk.apply(crate::op::Op::BulkFree {
            cpu: CpuId(1),
            held: 0,
            count: count / 2,
            spoiled: false,
        }));
        super::steps::free_where(&mut bulk, |_| true);
        super::steps::free_where(&mut single, |_| true);
        assert_eq!(bulk.model.allocated, single.model.allocated);
    }
    sound(bulk.finish());
    sound(single.finish());
}

/// A bulk allocation that memory cannot satisfy returns everything there is, and writes nothing beyond it.
pub fn a_bulk_allocation_stops_where_memory_ends<B: Build>(build: &B) {
    const MARK: Pfn = Pfn(u64::MAX - 5);
    for order in [0, 2, 9].map(Order::of) {
        let mut session = Session::new(build, &[normal(512, 1024 + 7)], 1);
        let there: usize = session.model.zones()[0].aligned(order).count();
        let mut out = [MARK; 1100];
        let got = session.engine.alloc_bulk(&Cx::on(CPU0), &any(order), &mut out);
        assert_eq!(got, there, "blocks of order {order}");
        assert!(out[got..].iter().all(|p| *p == MARK), "written past the last block");
        for pfn in &out[..got] {
            sound(session.model.take(*pfn, order));
            session.held.push(pageyard::BlockId { pfn: *pfn, order });
        }
        assert_eq!(sound(session.bulk_alloc(CPU0, &any(order), 3)), 0);
        sound(session.finish());
    }
}

/// Wrong frames among right ones are named, once each, and the right ones are freed.
pub fn a_bulk_free_names_each_wrong_frame<B: Build>(build: &B) {
    let mut session = Session::new(build, &[normal(0, 600), normal(700, 1348)], 2);
    let block = must_alloc(&mut session, CPU0, &any(Order::of(3)));
    let right: Vec<Pfn> = (0..100).map(|_| must_alloc(&mut session, CPU0, &any(Order::ZERO))).collect();
    let never = must_alloc(&mut session, CPU0, &any(Order::ZERO));
    super::steps::free_where(&mut session, |b| b.pfn == never);

    let allocated = Order::of(3);
    let wrong = [
        (block, FreeError::WrongOrder { allocated }),
        (Pfn(block.0 + 5), FreeError::NotHead { head: block, allocated }),
        (Pfn(650), FreeError::OutsideArena),
        (Pfn(2048), FreeError::OutsideArena),
        (Pfn(u64::MAX), FreeError::OutsideArena),
        (never, FreeError::NotAllocated),
        (right[0], FreeError::NotAllocated),
        (right[99], FreeError::NotAllocated),
    ];
    let mut pfns = right.clone();
    for (n, (pfn, _)) in wrong.iter().enumerate() {
        // The double frees go to the end, the rest in between.
        pfns.insert(if n < 6 { 13 * n } else { pfns.len() }, *pfn);
    }
    let mut refused = Vec::new();
    session.engine.free_bulk(&Cx::on(CPU0), &pfns, Order::ZERO, &mut |pfn, why| refused.push((pfn, why)));
    for pfn in &right {
        session.model.give(*pfn, Order::ZERO);
        session.held.retain(|b| b.pfn != *pfn);
    }
    let key = |(pfn, _): &(Pfn, FreeError)| *pfn;
    let mut expected = wrong.to_vec();
    expected.sort_unstable_by_key(key);
    refused.sort_unstable_by_key(key);
    assert_eq!(refused, expected);
    sound(session.finish());
}

/// No blocks asked for, no frames given: nothing happens, even when memory is full.
pub fn empty_bulk_calls_do_nothing<B: Build>(build: &B) {
    let mut session = Session::new(build, &[normal(0, 64)], 1);
    for _ in 0..2 {
        assert_eq!(session.engine.alloc_bulk(&Cx::on(CPU0), &any(Order::ZERO), &mut []), 0);
        session.engine.free_bulk(&Cx::on(CPU0), &[], Order::ZERO, &mut |_, _| panic!("nothing was given"));
        sound(session.check());
        fill(&mut session, &any(Order::ZERO));
    }
    sound(session.finish());
}
