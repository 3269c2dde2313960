//! Migratetypes: one falls back to another's blocks before it fails.

use super::steps::{CPU0, any, fill, free_where, must_alloc, of_type, sound};
use crate::engine::Build;
use crate::maps::{self, normal};
use crate::session::Session;
use pageyard::{AllocError, Counter, CpuId, CpuSet, Migratetype, Order, PageAllocator};

/// Each type alone takes all of memory, on an instance that served another type before.
pub fn one_type_may_fill_memory<B: Build>(build: &B) {
    let mut session = Session::new(build, &[normal(0, 4096)], 2);
    for _ in 0..2 {
        for migratetype in Migratetype::REQUESTED {
            for order in [0, 3].map(Order::of) {
                let (granted, why) = fill(&mut session, &of_type(order, migratetype));
                assert_eq!((granted, why), (4096 >> order.get(), AllocError::OutOfMemory), "{migratetype}");
                sound(session.finish());
            }
        }
    }
}

/// Memory is full of one type; every other frame is freed; another type must get them, and the engine must count that
/// as a fallback.
pub fn a_type_steals_when_its_own_blocks_are_gone<B: Build>(build: &B) {
    for holder in Migratetype::REQUESTED {
        for thief in Migratetype::REQUESTED.into_iter().filter(|t| *t != holder) {
            let mut session = Session::new(build, &maps::plain(8192).regions, 2);
            fill(&mut session, &of_type(Order::ZERO, holder));
            free_where(&mut session, |b| b.pfn.0 % 2 == 0);
            session.drain(CpuSet::All);
            let before = session.engine.stats()[Counter::Extfrag];
            let (granted, why) = fill(&mut session, &of_type(Order::ZERO, thief));
            assert_eq!((granted, why), (4096, AllocError::OutOfMemory), "{thief} from {holder}");
            if build.has_migratetypes() {
                let fallbacks = session.engine.stats()[Counter::Extfrag] - before;
                assert!(fallbacks > 0, "{thief} took 4096 frames of {holder}, and no fallback was counted");
            }
            sound(session.finish());
        }
    }
}

/// Types take turns in memory that is nearly full, small and large blocks, and nothing is lost between them.
pub fn types_alternate_under_pressure<B: Build>(build: &B) {
    let mut rng = fastrand::Rng::with_seed(23);
    let mut session = Session::new(build, &maps::plain(8192).regions, 3);
    let mut refused = 0;
    for round in 0..30_000_u32 {
        let request = of_type(Order::of(rng.u8(0..5)), Migratetype::REQUESTED[rng.usize(0..3)]);
        let cpu = CpuId(round % 3);
        if sound(session.alloc(cpu, &request)).is_err() {
            refused += 1;
            for _ in 0..8 {
                let at = rng.usize(0..session.held.len());
                assert_eq!(sound(session.free_held(cpu, at)), Ok(()));
            }
        }
        if round % 1024 == 0 {
            sound(session.check());
        }
    }
    assert!(refused > 100, "memory was full only {refused} times");
    sound(session.finish());
    must_alloc(&mut session, CPU0, &any(build.largest_order().min(Order::of(10))));
    sound(session.finish());
}
