//! Splitting: a block becomes blocks that are freed on their own.

use super::steps::{CPU0, any, must_alloc, sound};
use crate::engine::Build;
use crate::maps::{self, normal};
use crate::session::Session;
use pageyard::{CpuId, Frames, FreeError, Order, Pfn};

/// Parts freed first to last, last to first, even then odd, and at random merge again.
pub fn parts_freed_in_any_order_merge<B: Build>(build: &B) {
    let mut rng = fastrand::Rng::with_seed(3);
    for order in Order::of(1).up_to(build.largest_order().min(Order::of(10))) {
        for pattern in 0..4 {
            let mut session = Session::new(build, &maps::plain(4096).regions, 2);
            must_alloc(&mut session, CPU0, &any(order));
            assert_eq!(sound(session.split_held(0, Order::ZERO)), Ok(()));
            assert_eq!(session.held.len() as u64, order.frames().0);
            match pattern {
                0 => session.held.sort_unstable(),
                1 => session.held.sort_unstable_by(|a, b| b.cmp(a)),
                2 => session.held.sort_unstable_by_key(|b| (b.pfn.0 % 2, b.pfn)),
                _ => rng.shuffle(&mut session.held),
            }
            sound(session.finish());
        }
    }
}

/// Every order splits to every smaller one, to itself, and on in steps.
pub fn every_pair_of_orders<B: Build>(build: &B) {
    let mut session = Session::new(build, &maps::plain(4096).regions, 2);
    for from in Order::ZERO.up_to(build.largest_order().min(Order::of(11))) {
        for to in Order::ZERO.up_to(from) {
            must_alloc(&mut session, CPU0, &any(from));
            assert_eq!(sound(session.split_held(0, to)), Ok(()), "from {from} to {to}");
            sound(session.check());
            if let Some(lower) = to.smaller() {
                let at = session.held.len() / 2;
                assert_eq!(sound(session.split_held(at, lower)), Ok(()), "from {to} to {lower}");
                sound(session.check());
            }
            super::steps::free_where(&mut session, |_| true);
        }
    }
    sound(session.finish());
}

/// Splits of what is no such block.
pub fn wrong_splits_are_named_and_change_nothing<B: Build>(build: &B) {
    let mut session = Session::new(build, &[normal(0, 4096)], 2);
    let block = must_alloc(&mut session, CPU0, &any(Order::of(5)));
    let mut wrong = |pfn, from, to| {
        let answer = sound(session.split_at(pfn, Order::of(from), Order::of(to)));
        sound(session.check());
        answer.expect_err("the split is wrong")
    };
    let allocated = Order::of(5);
    assert_eq!(wrong(block, 4, 0), FreeError::WrongOrder { allocated });
    assert_eq!(wrong(block, 0, 0), FreeError::WrongOrder { allocated });
    assert_eq!(wrong(block, 5, 6), FreeError::Misaligned);
    assert_eq!(wrong(block, 5, 18), FreeError::Misaligned);
    assert_eq!(wrong(block + Frames(16), 4, 0), FreeError::NotHead { head: block, allocated });
    assert_eq!(wrong(block + Frames(8), 4, 0), FreeError::Misaligned);
    assert_eq!(wrong(Pfn(4096), 5, 0), FreeError::OutsideArena);
    assert_eq!(wrong(Pfn(u64::MAX), 0, 0), FreeError::OutsideArena);
    let free = session.model.zones()[0].fitting(allocated).next().expect("most is free");
    assert_eq!(sound(session.split_at(free, allocated, Order::ZERO)), Err(FreeError::NotAllocated));
    if let Some(too_large) = build.largest_order().larger() {
        assert_eq!(sound(session.split_at(Pfn(0), too_large, Order::ZERO)), Err(FreeError::Misaligned));
    }
    sound(session.finish());
}

/// Once split, the block cannot be freed whole, and no part twice.
pub fn a_split_block_is_no_block<B: Build>(build: &B) {
    for order in Order::of(1).up_to(build.largest_order().min(Order::of(9))) {
        let mut session = Session::new(build, &[normal(0, 2048)], 2);
        let pfn = must_alloc(&mut session, CPU0, &any(order));
        let half = order.smaller().expect("order is above 0");
        // Before the split, a part is no block either.
        assert_eq!(sound(session.free_wrong(CPU0, pfn, half)), FreeError::WrongOrder { allocated: order });
        assert_eq!(sound(session.split_held(0, half)), Ok(()));
        let whole = sound(session.free_wrong(CPU0, pfn, order));
        assert_eq!(whole, FreeError::WrongOrder { allocated: half });
        assert_eq!(sound(session.free_held(CpuId(1), 0)), Ok(()));
        assert_eq!(sound(session.free_wrong(CPU0, pfn, half)), FreeError::NotAllocated);
        assert_eq!(sound(session.free_wrong(CPU0, pfn, order)), FreeError::NotAllocated);
        sound(session.finish());
    }
}
