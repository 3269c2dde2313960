//! Memory taken to the last block and given back.

use super::steps::{CPU0, any, fill, must_alloc, sound};
use crate::engine::Build;
use crate::maps::{self, normal};
use crate::session::Session;
use pageyard::{AllocError, CpuId, CpuSet, Frames, Migratetype, Order, PageAllocator, Request, RequestFlags};

/// Each order takes all of memory, twice, from several CPUs; the refusal at the end says why.
pub fn each_order_to_the_last_block<B: Build>(build: &B) {
    for order in Order::ZERO.up_to(build.largest_order().min(Order::of(10))) {
        let mut session = Session::new(build, &maps::plain(8192 + 3).regions, 3);
        for _ in 0..2 {
            let (granted, why) = fill(&mut session, &any(order));
            assert_eq!(granted, 8195 >> order.get(), "blocks of order {order}");
            assert_eq!(why, AllocError::OutOfMemory, "fewer than a block's frames are left");
            sound(session.finish());
        }
    }
}

/// Orders above a pageblock, as far as the engine serves them.
pub fn orders_above_a_pageblock<B: Build>(build: &B) {
    let largest = build.largest_order();
    if largest < Order::of(10) {
        return;
    }
    // Two blocks of the largest order, one of each smaller order in front, and a frame at each end.
    let size = largest.frames().0;
    let regions = [normal(size + 511, 1), normal(size + 512, size - 512), normal(2 * size, 2 * size + 1)];
    for order in Order::of(10).up_to(largest) {
        let mut session = Session::new(build, &regions, 2);
        let there: usize = session.model.zones().iter().map(|z| z.aligned(order).count()).sum();
        let (granted, why) = fill(&mut session, &any(order));
        assert_eq!(granted, there as u64, "blocks of order {order}");
        let left = session.model.managed - session.model.allocated;
        if left >= order.frames() {
            assert!(matches!(why, AllocError::Fragmented { .. }), "{left} frames are left, and {why:?}");
        }
        sound(session.finish());
    }
}

/// Frames freed first to last, last to first and at random all merge.
pub fn freeing_in_any_order_merges_everything<B: Build>(build: &B) {
    let mut rng = fastrand::Rng::with_seed(9);
    for pattern in 0..3 {
        let mut session = Session::new(build, &maps::ragged().regions, 2);
        fill(&mut session, &any(Order::ZERO));
        match pattern {
            0 => session.held.sort_unstable(),
            1 => session.held.sort_unstable_by(|a, b| b.cmp(a)),
            _ => rng.shuffle(&mut session.held),
        }
        sound(session.finish());
    }
}

/// Frames that another CPU's list holds are within reach: after a drain of that CPU, or at once.
pub fn remote_lists_come_back<B: Build>(build: &B) {
    for everyone in [true, false] {
        let mut session = Session::new(build, &maps::plain(1024).regions, 4);
        fill(&mut session, &any(Order::ZERO));
        for n in (0..session.held.len()).rev() {
            assert_eq!(sound(session.free_held(CpuId(n as u32 % 4), n)), Ok(()));
        }
        sound(session.check());
        if everyone {
            session.drain(CpuSet::All);
        } else {
            (0..4).for_each(|cpu| session.drain(CpuSet::One(CpuId(cpu))));
        }
        sound(session.check());
        assert_eq!(sound_cached(&session), Frames::ZERO);
        session.tally.after_drain = 0;
        for _ in 0..1024 >> 9 {
            must_alloc(&mut session, CPU0, &any(Order::of(9)));
        }
        assert_eq!(session.tally.after_drain, 0, "everything was in its zone before");
        sound(session.finish());
    }
}

fn sound_cached<E: PageAllocator>(session: &Session<E>) -> Frames {
    session.engine.audit().expect("was sound a moment ago").cached
}

/// Plain requests leave the reserve alone, privileged ones go further, and `MEMALLOC` takes the last frame.
pub fn reserves_are_kept_from_plain_requests<B: Build>(build: &B) {
    let mut session = Session::new(build, &maps::plain(65_536).regions, 1);
    let marks = session.engine.zone_stats(session.model.zones()[0].id).expect("zone 0 is there").watermarks;
    let plain = Request::new(Order::ZERO, Migratetype::Movable);
    let atomic = plain.with(RequestFlags::HIGH | RequestFlags::NON_BLOCKING);

    let (_, why) = fill(&mut session, &plain);
    let after_plain = session.model.managed - session.model.allocated;
    fill(&mut session, &atomic);
    let after_atomic = session.model.managed - session.model.allocated;
    fill(&mut session, &plain.with(RequestFlags::MEMALLOC));
    assert_eq!(session.model.allocated, session.model.managed, "the last frame is for MEMALLOC");
    if build.has_watermarks() {
        assert!(matches!(why, AllocError::BelowWatermark { .. }), "{why:?}");
        // A list that was filled above the mark may be used up below it.
        let kept = marks.min.0 / 2;
        assert!(kept > 0, "65,536 frames are enough for a reserve");
        assert!(after_plain.0 > kept, "{after_plain} frames are left of a reserve of {}", marks.min);
        assert!(after_atomic < after_plain, "privilege reaches further");
    }
    sound(session.finish());
}
