//! Frees that are wrong: each is named, and changes nothing.

use super::steps::{CPU0, any, must_alloc, sound};
use crate::engine::Build;
use crate::maps::{self, normal};
use crate::session::Session;
use pageyard::{Census, CpuId, FreeError, Order, PageAllocator, Pfn};

fn census<E: PageAllocator>(session: &mut Session<E>) -> Census {
    sound(session.check());
    session.engine.audit().expect("was sound a moment ago")
}

/// Every kind of wrong free, on every order.
pub fn every_wrong_free_is_named_and_changes_nothing<B: Build>(build: &B) {
    for order in Order::ZERO.up_to(build.largest_order().min(Order::of(11))) {
        let mut session = Session::new(build, &maps::plain(8192).regions, 2);
        let pfn = must_alloc(&mut session, CPU0, &any(order));
        let before = census(&mut session);
        let mut wrong = |cpu, pfn, order| {
            let why = sound(session.free_wrong(cpu, pfn, order));
            assert_eq!(census(&mut session), before, "{why:?} changed something");
            why
        };
        assert_eq!(wrong(CpuId(2), pfn, order), FreeError::NoSuchCpu);
        assert_eq!(wrong(CpuId(u32::MAX), pfn, order), FreeError::NoSuchCpu);
        for other in Order::ZERO.up_to(build.largest_order()).filter(|o| *o != order && pfn.is_aligned(*o)) {
            assert_eq!(wrong(CPU0, pfn, other), FreeError::WrongOrder { allocated: order });
        }
        if let Some(too_large) = build.largest_order().larger() {
            assert_eq!(wrong(CPU0, pfn, too_large), FreeError::Misaligned);
        }
        assert_eq!(wrong(CPU0, Pfn(pfn.0 + 1), Order::of(1)), FreeError::Misaligned);
        if let Some(half) = order.smaller() {
            let inside = FreeError::NotHead { head: pfn, allocated: order };
            assert_eq!(wrong(CPU0, Pfn(pfn.0 + 1), Order::ZERO), inside);
            assert_eq!(wrong(CPU0, pfn.align_down(order) + half.frames(), half), inside);
        }
        for outside in [8192, 8193, 1 << 39, u64::MAX] {
            assert_eq!(wrong(CPU0, Pfn(outside), Order::ZERO), FreeError::OutsideArena);
        }
        assert_eq!(sound(session.free_held(CpuId(1), 0)), Ok(()));
        let before = census(&mut session);
        for cpu in [0, 1] {
            assert_eq!(sound(session.free_wrong(CpuId(cpu), pfn, order)), FreeError::NotAllocated);
            assert_eq!(census(&mut session), before, "a double free changed something");
        }
        sound(session.finish());
    }
}

/// Frames that were never allocated, holes, and frames that are not managed.
pub fn frames_that_were_never_allocated<B: Build>(build: &B) {
    for map in [maps::ragged(), maps::firmware()] {
        let mut session = Session::new(build, &map.regions, 2);
        let before = census(&mut session);
        let mut outside = 0;
        for pfn in (0..session.model.end().0 + 600).map(Pfn) {
            for order in Order::ZERO.up_to(Order::of(3)) {
                let why = sound(session.free_wrong(CpuId(pfn.0 as u32 % 2), pfn, order));
                outside += u32::from(why == FreeError::OutsideArena);
            }
        }
        assert!(outside > 600, "the map has holes");
        assert_eq!(census(&mut session), before, "a wrong free changed something");
        sound(session.finish());
    }
}

/// Each frame inside blocks that lie side by side names its own block.
pub fn each_frame_inside_a_block<B: Build>(build: &B) {
    let mut session = Session::new(build, &[normal(0, 4096)], 1);
    for order in Order::of(1).up_to(build.largest_order().min(Order::of(9))) {
        must_alloc(&mut session, CPU0, &any(order));
        must_alloc(&mut session, CPU0, &any(order));
    }
    for block in session.held.clone() {
        for n in 1..block.order.frames().0 {
            let why = sound(session.free_wrong(CPU0, Pfn(block.pfn.0 + n), Order::ZERO));
            assert_eq!(why, FreeError::NotHead { head: block.pfn, allocated: block.order });
        }
    }
    sound(session.finish());
}

/// A frame is allocated and freed again and again, and each second free is refused.
pub fn a_frame_that_came_back_may_be_freed_again<B: Build>(build: &B) {
    let mut session = Session::new(build, &[normal(0, 2048)], 2);
    for order in Order::ZERO.up_to(build.largest_order().min(Order::of(9))) {
        for n in 0..50 {
            let cpu = CpuId(n % 2);
            let pfn = must_alloc(&mut session, cpu, &any(order));
            assert_eq!(sound(session.free_held(cpu, 0)), Ok(()));
            assert_eq!(sound(session.free_wrong(CpuId(1 - n % 2), pfn, order)), FreeError::NotAllocated);
        }
    }
    sound(session.finish());
}
