//! Opening states: blocks claimed by their numbers.

use super::steps::{CPU0, any, fill, must_alloc, sound};
use crate::engine::Build;
use crate::maps::{self, normal};
use crate::session::Session;
use pageyard::{ClaimError, CpuId, Frames, Migratetype, Order, Pfn};

/// A block of every order, at the start, in the middle and at the end of memory.
pub fn every_order_can_be_claimed<B: Build>(build: &B) {
    for order in Order::ZERO.up_to(build.largest_order().min(Order::of(10))) {
        for migratetype in Migratetype::REQUESTED {
            let mut session = Session::new(build, &maps::plain(8192).regions, 2);
            for start in [0, 4096, 8192 - order.frames().0] {
                assert_eq!(sound(session.claim(Pfn(start), order, migratetype)), Ok(()));
                sound(session.check());
            }
            let (granted, _) = fill(&mut session, &any(Order::ZERO));
            assert_eq!(granted, 8192 - 3 * order.frames().0);
            sound(session.finish());
        }
    }
}

/// Claims of what is claimed, allocated, cached, absent, in two zones, misaligned or too large.
pub fn claims_of_what_is_taken_or_absent<B: Build>(build: &B) {
    let regions = [
        pageyard::Region { zone: pageyard::ZoneKind::Dma, ..normal(0, 1024 + 32) },
        normal(1056, 4096 - 1056),
        normal(4100, 1000),
    ];
    let mut session = Session::new(build, &regions, 2);
    let mut claim = |pfn, order| {
        let answer = sound(session.claim(Pfn(pfn), Order::of(order), Migratetype::Movable));
        sound(session.check());
        answer
    };
    assert_eq!(claim(512, 9), Ok(()));
    for (pfn, order) in [(512, 9), (512, 0), (1023, 0), (768, 8), (512, 3), (0, 10)] {
        assert_eq!(claim(pfn, order), Err(ClaimError::NotFree), "frame {pfn}, order {order}");
    }
    assert_eq!(claim(2048, 0), Ok(()));
    assert_eq!(claim(2048, 9), Err(ClaimError::NotFree));
    // The zones meet at 1056, and 4096 to 4099 is a hole.
    for (pfn, order) in
        [(1024, 6), (1024, 9), (4096, 0), (4099, 0), (4096, 3), (5100, 0), (5096, 3), (1 << 40, 0)]
    {
        assert_eq!(claim(pfn, order), Err(ClaimError::OutsideArena), "frame {pfn}, order {order}");
    }
    for (pfn, order) in [(3, 1), (3080, 4), (256, 9)] {
        assert_eq!(claim(pfn, order), Err(ClaimError::Misaligned), "frame {pfn}, order {order}");
    }
    assert!(claim(u64::MAX, 0).is_err());
    assert!(claim(u64::MAX - 511, 9).is_err());
    if let Some(order) = build.largest_order().larger() {
        assert_eq!(claim(0, order.get()), Err(ClaimError::Misaligned), "order {order}");
    }
    // A frame in a list is either not free for a claim or taken out of the list: both are right, and neither loses it.
    let pfn = must_alloc(&mut session, CPU0, &any(Order::ZERO));
    super::steps::free_where(&mut session, |b| b.pfn == pfn);
    assert_eq!(sound(session.claim(pfn, Order::ZERO, Migratetype::Movable)), Ok(()));
    sound(session.finish());
}

/// A snapshot's blocks are claimed whole, split, and freed in smaller orders while others are allocated.
pub fn an_opening_state_is_claimed_and_freed_in_parts<B: Build>(build: &B) {
    let mut rng = fastrand::Rng::with_seed(17);
    let mut session = Session::new(build, &maps::plain(16_384).regions, 3);
    let block = Order::of(9).min(build.largest_order());
    for pfn in (0..16_384).step_by(2 * block.frames().0 as usize) {
        assert_eq!(sound(session.claim(Pfn(pfn), block, Migratetype::Movable)), Ok(()));
    }
    // Of every other block in between, each second frame.
    for pfn in (block.frames().0..16_384).step_by(4 * block.frames().0 as usize) {
        for n in (0..block.frames().0).step_by(2) {
            let claimed = session.claim(Pfn(pfn) + Frames(n), Order::ZERO, Migratetype::Unmovable);
            assert_eq!(sound(claimed), Ok(()));
        }
    }
    sound(session.check());
    for round in 0..2000 {
        let at = rng.usize(0..session.held.len());
        let order = session.held[at].order;
        if let Some(smaller) = order.smaller() {
            assert_eq!(sound(session.split_held(at, Order::of(rng.u8(0..=smaller.get())))), Ok(()));
        }
        assert_eq!(sound(session.free_held(CpuId(round % 3), at)), Ok(()));
        must_alloc(&mut session, CpuId(round % 3), &any(Order::ZERO));
    }
    sound(session.finish());
}
