//! Requirements on every engine that reclaims and compacts: serve what can be served, otherwise fail with numbers, and
//! account for every frame whatever the helpers do wrong.
//!
//! `build` makes an engine over one Normal zone that starts at frame 0 and has as many frames as it is told.

use crate::owner::{Fault, Owner, Use};
use pageyard::reclaim::Failure;
use pageyard::{
    AllocError, BadRequest, Counter, CpuId, CpuSet, Cx, Frames, Migratetype, Order, Pfn, PressureAllocator,
    Request, RequestFlags, ZoneId,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

const CX: Cx = Cx::on(CpuId(0));
const HUGE: Order = Order::of(9);
/// Frames of the machine: 64 pageblocks.
const FRAMES: u64 = 64 * 512;

/// Runs all of it.
pub fn pressure_suite<E: PressureAllocator>(build: impl Fn(u64) -> E) {
    compaction_makes_a_huge_block_where_none_is_free(&build);
    a_request_that_may_not_wait_gets_no_help(&build);
    reclaim_frees_what_single_frames_need(&build);
    a_failure_says_what_was_tried(&build);
    whatever_helpers_do_wrong_every_frame_is_accounted_for(&build);
    the_background_works_when_it_was_woken(&build);
    compacting_everything_leaves_no_more_than_pins_force(&build);
    others_may_allocate_and_free_meanwhile(&build);
    blocks_of_several_orders_lose_nothing(&build);
}

/// Fills memory and frees every other frame, so that half is free and no two free frames are neighbours. One frame in
/// each of `pins` pageblocks is pinned.
fn fragmented<'e, E: PressureAllocator>(engine: &'e E, fault: Fault, pins: u64) -> (Owner<'e, E>, Vec<Pfn>) {
    fragmented_with(engine, fault, pins, |_| Use::Movable)
}

/// The same, where `of` says what a frame is for that is not pinned.
fn fragmented_with<'e, E: PressureAllocator>(
    engine: &'e E,
    fault: Fault,
    pins: u64,
    of: impl Fn(u64) -> Use,
) -> (Owner<'e, E>, Vec<Pfn>) {
    let owner = Owner::new(engine, fault);
    let pinned: Vec<Pfn> = (0..pins).map(|block| Pfn(block * 512 + 100)).collect();
    let n = owner.fill(&CX, |pfn| if pinned.contains(&pfn) { Use::Pinned } else { of(pfn.0) });
    assert!(n > FRAMES * 9 / 10);
    owner.free_if(&CX, |pfn| pfn.0 % 2 == 1);
    engine.drain(CpuSet::All);
    (owner, pinned)
}

fn compaction_makes_a_huge_block_where_none_is_free<E: PressureAllocator>(build: &impl Fn(u64) -> E) {
    let engine = build(FRAMES);
    let cache = |pfn| if pfn % 8 == 0 { Use::Cache } else { Use::Movable };
    let (owner, pinned) = fragmented_with(&engine, Fault::None, 16, cache);
    let request = Request::new(HUGE, Migratetype::Movable);
    assert!(matches!(engine.alloc(&CX, &request), Err(AllocError::Fragmented { .. })), "alone it cannot");
    // Linux from 5.1 on can give up after it has looked at little. The background that the request woke then goes on:
    // the reclaimer must have freed something before it wakes the compactor.
    let mut made = 0;
    for _ in 0..256 {
        if made == 8 {
            break;
        }
        if let Ok(pfn) = engine.alloc_with(&CX, &request, &owner) {
            owner.keep(pfn, HUGE, Use::Pinned);
            made += 1;
        } else {
            engine.kswapd_with(&CX, &owner).unwrap();
            engine.kcompactd_with(&CX, &owner).unwrap();
        }
    }
    assert_eq!(made, 8);
    let stats = engine.stats();
    assert!(stats[Counter::CompactStall] >= 1 && stats[Counter::CompactSuccess] >= 1);
    let ended = stats[Counter::CompactSuccess] + stats[Counter::CompactFail];
    assert_eq!(stats[Counter::CompactStall], ended, "every stall ends one way or the other");
    assert!(stats[Counter::PgmigrateSuccess] > 0);
    owner.check(&pinned);
}

fn a_request_that_may_not_wait_gets_no_help<E: PressureAllocator>(build: &impl Fn(u64) -> E) {
    let engine = build(FRAMES);
    let (owner, pinned) = fragmented(&engine, Fault::None, 0);
    for flags in [RequestFlags::NON_BLOCKING, RequestFlags::MEMALLOC] {
        let request = Request::new(HUGE, Migratetype::Movable).with(flags);
        let failure = engine.alloc_with(&CX, &request, &owner).unwrap_err();
        assert_eq!((failure.tried.reclaims, failure.tried.compactions), (0, 0), "{flags:?}");
    }
    assert_eq!(engine.stats()[Counter::CompactStall] + engine.stats()[Counter::Allocstall], 0);
    let bad = Request::new(Order::MAX, Migratetype::Isolate);
    assert!(matches!(
        engine.alloc_with(&CX, &bad, &owner),
        Err(Failure { why: AllocError::BadRequest(_), .. })
    ));
    owner.check(&pinned);
}

fn reclaim_frees_what_single_frames_need<E: PressureAllocator>(build: &impl Fn(u64) -> E) {
    let engine = build(FRAMES);
    let owner = Owner::new(&engine, Fault::None);
    owner.fill(&CX, |pfn| if pfn.0 % 4 == 0 { Use::Cache } else { Use::Movable });
    let request = Request::new(Order::ZERO, Migratetype::Unmovable);
    assert!(engine.alloc(&CX, &request).is_err());
    for _ in 0..1000 {
        let pfn = engine.alloc_with(&CX, &request, &owner).unwrap();
        owner.keep(pfn, Order::ZERO, Use::Pinned);
    }
    let stats = engine.stats();
    assert!(stats[Counter::Allocstall] > 0 && stats[Counter::PgstealDirect] >= 900, "{stats:?}");
    owner.check(&[]);
}

fn a_failure_says_what_was_tried<E: PressureAllocator>(build: &impl Fn(u64) -> E) {
    let engine = build(FRAMES);
    // Every pageblock has a pin, so no huge block can be made.
    let (owner, pinned) = fragmented(&engine, Fault::None, 64);
    let request = Request::new(HUGE, Migratetype::Movable);
    let failure = engine.alloc_with(&CX, &request, &owner).unwrap_err();
    assert!(matches!(failure.why, AllocError::Fragmented { order: HUGE, .. }), "{failure}");
    assert!(failure.tried.compactions > 0 && failure.tried.work.examined() > 0, "{failure:?}");
    assert!(failure.to_string().contains("compactions"), "{failure}");
    let noretry = engine.alloc_with(&CX, &request.with(RequestFlags::NORETRY), &owner).unwrap_err();
    assert!(noretry.tried.reclaims <= 1, "{noretry:?}");
    owner.check(&pinned);
}

fn whatever_helpers_do_wrong_every_frame_is_accounted_for<E: PressureAllocator>(build: &impl Fn(u64) -> E) {
    let faults = [
        Fault::Refuses,
        Fault::Again,
        Fault::FailsHalfway,
        Fault::FreesUnderUs,
        Fault::Panics,
        Fault::Lies,
        Fault::Churns,
    ];
    for fault in faults {
        let engine = build(FRAMES);
        let (owner, pinned) = fragmented(&engine, fault, 8);
        for (order, m) in [(HUGE, Migratetype::Movable), (Order::of(4), Migratetype::Unmovable)] {
            for flags in [RequestFlags::empty(), RequestFlags::RETRY_MAYFAIL, RequestFlags::NOFAIL] {
                let request = Request::new(order, m).with(flags);
                let got = catch_unwind(AssertUnwindSafe(|| engine.alloc_with(&CX, &request, &owner)));
                assert!(got.is_ok() || fault == Fault::Panics);
                if let Ok(Ok(pfn)) = got {
                    owner.keep(pfn, order, Use::Pinned);
                }
                owner.check(&pinned);
            }
        }
        let _ = catch_unwind(AssertUnwindSafe(|| engine.compact_zone_with(&CX, ZoneId(0), &owner)));
        owner.check(&pinned);
        // Memory is short as well.
        owner.fill(&CX, |_| Use::Cache);
        for _ in 0..40 {
            let request = Request::new(Order::ZERO, Migratetype::Unmovable);
            if let Ok(Ok(pfn)) = catch_unwind(AssertUnwindSafe(|| engine.alloc_with(&CX, &request, &owner))) {
                owner.keep(pfn, Order::ZERO, Use::Pinned);
            }
        }
        let _ = catch_unwind(AssertUnwindSafe(|| {
            engine.kswapd_with(&CX, &owner).unwrap();
            engine.kcompactd_with(&CX, &owner).unwrap();
        }));
        owner.check(&pinned);
    }
}

fn the_background_works_when_it_was_woken<E: PressureAllocator>(build: &impl Fn(u64) -> E) {
    let engine = build(FRAMES);
    let owner = Owner::new(&engine, Fault::None);
    assert_eq!(engine.kswapd_with(&CX, &owner).unwrap().freed, Frames::ZERO, "it was not woken");
    owner.fill(&CX, |pfn| if pfn.0 % 4 == 0 { Use::Cache } else { Use::Movable });
    let zone = engine.zone_stats(ZoneId(0)).unwrap();
    assert!(zone.free <= zone.watermarks.low);
    let did = engine.kswapd_with(&CX, &owner).unwrap();
    engine.drain(CpuSet::All);
    let zone = engine.zone_stats(ZoneId(0)).unwrap();
    assert!(zone.free > zone.watermarks.high && did.freed > Frames::ZERO, "{zone:?}");
    assert_eq!(engine.stats()[Counter::PgstealKswapd], did.freed.0);
    assert_eq!(engine.kswapd_with(&CX, &owner).unwrap().freed, Frames::ZERO, "it went to sleep again");
    // A request for a huge block wakes the compactor behind it.
    owner.free_if(&CX, |pfn| pfn.0 % 2 == 1);
    engine.drain(CpuSet::All);
    let request = Request::new(HUGE, Migratetype::Movable).with(RequestFlags::NON_BLOCKING);
    assert!(engine.alloc(&CX, &request).is_err());
    engine.kswapd_with(&CX, &owner).unwrap();
    let work = engine.kcompactd_with(&CX, &owner).unwrap();
    assert!(work.moved > 0, "{work:?}");
    let pfn = engine.alloc(&CX, &request).unwrap();
    owner.keep(pfn, HUGE, Use::Pinned);
    owner.check(&[]);
}

fn compacting_everything_leaves_no_more_than_pins_force<E: PressureAllocator>(build: &impl Fn(u64) -> E) {
    let engine = build(FRAMES);
    let (owner, pinned) = fragmented(&engine, Fault::None, 8);
    let (_, work) = engine.compact_zone_with(&CX, ZoneId(0), &owner).unwrap();
    engine.drain(CpuSet::All);
    let free = engine.zone_stats(ZoneId(0)).unwrap().blocks_by_order();
    let huge: u64 = (9..free.len()).map(|o| free[o] << (o - 9)).sum();
    assert!(huge >= 22, "half of 64 pageblocks are free, 8 are pinned: {huge} after {work:?}");
    assert_eq!(engine.compact_zone_with(&CX, ZoneId(99), &owner), Err(BadRequest::NoZone));
    owner.check(&pinned);
}

fn others_may_allocate_and_free_meanwhile<E: PressureAllocator>(build: &impl Fn(u64) -> E) {
    let engine = build(FRAMES);
    let (owner, pinned) = fragmented(&engine, Fault::None, 8);
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        for seed in 0..2u64 {
            let (engine, owner, stop) = (&engine, &owner, &stop);
            s.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                let cx = Cx::on(CpuId(1));
                while !stop.load(Ordering::SeqCst) {
                    if random.bool() {
                        let order = Order::of(random.u8(0..3));
                        if let Ok(pfn) = engine.alloc(&cx, &Request::new(order, Migratetype::Movable)) {
                            owner.keep(pfn, order, Use::Movable);
                        }
                    } else if let Some(pfn) = owner.any(random.usize(..)).filter(|pfn| !pinned_at(*pfn)) {
                        owner.free(&cx, pfn);
                    }
                }
            });
        }
        let compactors: Vec<_> = (0..2u32)
            .map(|cpu| {
                let (engine, owner) = (&engine, &owner);
                s.spawn(move || {
                    let cx = Cx::on(CpuId(cpu));
                    for _ in 0..6 {
                        let _ = engine.compact_zone_with(&cx, ZoneId(0), owner);
                        let request = Request::new(HUGE, Migratetype::Movable);
                        if let Ok(pfn) = engine.alloc_with(&cx, &request, owner) {
                            engine.free(&cx, pfn, HUGE).unwrap();
                        }
                    }
                })
            })
            .collect();
        let ended: Vec<_> = compactors.into_iter().map(|c| c.join()).collect();
        stop.store(true, Ordering::SeqCst);
        ended.into_iter().for_each(|e| e.unwrap());
    });
    owner.check(&pinned);
}

/// Fills memory with movable blocks of orders 0 to 6, frees half of them by chance, and asks for large blocks, with
/// each thing that an owner can do wrong. Returns how many blocks of several frames were moved whole.
///
/// # Panics
/// When a frame or a content is lost.
pub fn blocks_of_several_orders_lose_nothing<E: PressureAllocator>(build: &impl Fn(u64) -> E) -> u64 {
    let faults = [
        Fault::None,
        Fault::Refuses,
        Fault::Again,
        Fault::FailsHalfway,
        Fault::FreesUnderUs,
        Fault::Panics,
        Fault::Churns,
    ];
    let mut blocks = 0;
    for (seed, fault) in faults.into_iter().enumerate() {
        let engine = build(FRAMES / 4);
        let owner = Owner::new(&engine, fault);
        let mut random = fastrand::Rng::with_seed(seed as u64);
        while let Ok((pfn, order)) = {
            let order = Order::of(random.u8(0..7));
            engine.alloc(&CX, &Request::new(order, Migratetype::Movable)).map(|pfn| (pfn, order))
        } {
            owner.keep(pfn, order, if random.u8(..) < 2 { Use::Pinned } else { Use::Movable });
        }
        for _ in 0..8 {
            let chance = random.u64(..);
            owner.free_if(&CX, |pfn| (pfn.0 ^ chance).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62 == 0);
            for (order, m) in [(HUGE, Migratetype::Movable), (Order::of(5), Migratetype::Unmovable)] {
                let request = Request::new(order, m);
                let got = catch_unwind(AssertUnwindSafe(|| engine.alloc_with(&CX, &request, &owner)));
                assert!(got.is_ok() || fault == Fault::Panics);
                if let Ok(Ok(pfn)) = got {
                    owner.keep(pfn, order, if random.bool() { Use::Pinned } else { Use::Movable });
                }
                owner.check(&[]);
            }
            let _ = catch_unwind(AssertUnwindSafe(|| {
                engine.kswapd_with(&CX, &owner).unwrap();
                engine.kcompactd_with(&CX, &owner).unwrap();
                engine.compact_zone_with(&CX, ZoneId(0), &owner).unwrap();
            }));
            owner.check(&[]);
        }
        blocks += owner.moved_blocks();
    }
    blocks
}

/// Returns whether a frame is one of those that [`fragmented`] pins.
fn pinned_at(pfn: Pfn) -> bool {
    pfn.0 % 512 == 100 && pfn.0 / 512 < 8
}
