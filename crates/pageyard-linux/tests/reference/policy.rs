//! Fallback, steal, boost, the high-atomic reserve and the watermarks, worked by hand.

use crate::common::{CX, bare, blocks, normal, pageblocks, request, sound, take};
use pageyard_core::Migratetype::{HighAtomic, Movable, Reclaimable, Unmovable};
use pageyard_core::{
    AllocError, BadRequest, Context, Counter, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype, NodeId,
    NodeMask, Order, PAGEBLOCK_ORDER, PageAllocator, Pfn, Region, Request, RequestFlags, ZoneId, ZoneKind,
};
use pageyard_linux::{Config, LinuxAllocator};

fn presets() -> impl Iterator<Item = Config> {
    Config::PRESETS.into_iter().map(|name| bare(Config::preset(name).unwrap()))
}

#[test]
fn an_unmovable_request_takes_the_largest_movable_block_and_its_pageblocks() {
    for config in presets() {
        let a = normal(4096, &config);
        take(&a, 4, Unmovable);
        assert_eq!(pageblocks(&a, Unmovable), 2, "{}: a block of order 10 is two pageblocks", config.name);
        assert_eq!(blocks(&a, 9, Unmovable), 1);
        assert_eq!(a.stats()[Counter::Extfrag], 1);
        sound(&a);
    }
}

/// Fills memory with movable blocks of order 4 and frees the given ones: a pageblock with holes.
fn with_holes(config: &Config, free: impl Fn(u64) -> bool) -> LinuxAllocator {
    let a = normal(1024, config);
    let held: Vec<Pfn> = (0..64).map(|_| take(&a, 4, Movable)).collect();
    for pfn in held.into_iter().filter(|p| free(p.0 / 16)) {
        crate::common::give(&a, pfn, 4);
    }
    a
}

#[test]
fn a_pageblock_half_free_is_converted_and_one_less_than_half_free_is_not() {
    for config in presets() {
        // Every other block of the first 32 is free: 256 of 512 frames, none larger than order 4.
        let a = with_holes(&config, |i| i < 32 && i % 2 == 0);
        take(&a, 4, Unmovable);
        assert_eq!(pageblocks(&a, Unmovable), 1, "{}", config.name);
        assert_eq!((blocks(&a, 4, Unmovable), blocks(&a, 4, Movable)), (15, 0), "{}", config.name);
        assert_eq!(a.stats()[Counter::ExtfragClaim], 1);
        sound(&a);

        let a = with_holes(&config, |i| i < 30 && i % 2 == 0);
        take(&a, 4, Unmovable);
        assert_eq!(pageblocks(&a, Unmovable), 0, "{}", config.name);
        assert_eq!(a.stats()[Counter::ExtfragSteal], 1, "{}", config.name);
        sound(&a);
    }
}

#[test]
fn with_defrag_mode_only_a_request_that_waits_mixes_types() {
    let pieces = |mode: &str| {
        let mut config = bare(Config::linux_6_18());
        config.set("defrag_mode", mode).unwrap();
        // Half of the frames are free, in blocks of order 4: no pageblock is free as a whole.
        with_holes(&config, |i| i % 2 == 0)
    };
    let waits = Request::new(Order::ZERO, Unmovable);
    let atomic = waits.with(RequestFlags::HIGH | RequestFlags::NON_BLOCKING);
    let without = pieces("0");
    assert!(without.alloc(&CX, &atomic).is_ok());
    assert_eq!(without.stats()[Counter::Extfrag], 1);
    let with = pieces("1");
    let free = || with.zone_stats(ZoneId(0)).unwrap().free;
    let (all, before) = (free(), with.stats()[Counter::Extfrag]);
    // What production reported: half of memory is free, and one frame cannot be had.
    assert!(with.alloc(&CX, &atomic).is_err());
    assert_eq!((free(), with.stats()[Counter::Extfrag]), (all, before));
    assert!(all.0 >= 512 && with.alloc(&CX, &Request { migratetype: Movable, ..atomic }).is_ok());
    assert!(with.alloc(&CX, &waits).is_ok());
    assert_eq!(with.stats()[Counter::Extfrag], before + 1);
    // Those that reclaim do not wait, and are not held to it.
    assert!(pieces("1").alloc(&CX, &atomic.with(RequestFlags::MEMALLOC)).is_ok());
    // A whole pageblock may still change its type.
    let mut config = bare(Config::linux_6_18());
    config.set("defrag_mode", "1").unwrap();
    let fresh = normal(1024, &config);
    assert!(fresh.alloc(&CX, &atomic).is_ok());
    sound(&with);
}

#[test]
fn with_the_fix_of_2026_a_request_that_cannot_wait_mixes_types_in_the_end_if_it_wakes_the_reclaimer() {
    let mut config = bare(Config::linux_6_18());
    for knob in ["defrag_mode", "defrag_falls_back"] {
        config.set(knob, if knob == "defrag_mode" { "1" } else { "true" }).unwrap();
    }
    let a = with_holes(&config, |i| i % 2 == 0);
    let before = a.stats()[Counter::Extfrag];
    let atomic = Request::new(Order::ZERO, Unmovable).with(RequestFlags::HIGH | RequestFlags::NON_BLOCKING);
    let quiet = Request { flags: atomic.flags.difference(RequestFlags::WAKE_RECLAIM), ..atomic };
    assert!(a.alloc(&CX, &quiet).is_err(), "a try, with something else to turn to");
    assert!(a.alloc(&CX, &atomic.with(RequestFlags::WAKE_RECLAIM)).is_ok());
    assert_eq!(a.stats()[Counter::Extfrag], before + 1);
    sound(&a);
}

#[test]
fn what_stays_behind_after_a_steal_depends_on_the_version() {
    let left = |config: Config| {
        let a = with_holes(&config, |i| i < 30 && i % 2 == 0);
        take(&a, 4, Unmovable);
        sound(&a);
        (blocks(&a, 4, Unmovable), blocks(&a, 4, Movable))
    };
    // Until 6.9 the pageblock's free blocks come along although the pageblock does not; from 6.10 on they stay.
    assert_eq!(left(bare(Config::linux_4_6())), (14, 0));
    assert_eq!(left(bare(Config::linux_6_1())), (14, 0));
    assert_eq!(left(bare(Config::linux_6_18())), (0, 14));
}

#[test]
fn a_movable_request_splits_the_smallest_foreign_block_except_in_4_x() {
    let from = |config: Config| {
        let a = normal(1024, &config);
        let held: Vec<Pfn> = (0..64).map(|_| take(&a, 4, Unmovable)).collect();
        // A free block of order 4 and, in the other pageblock, one of order 5: neither may be claimed for movable
        // contents, since less than half of its pageblock is free.
        crate::common::give(&a, held[4], 4);
        crate::common::give(&a, held[40], 4);
        crate::common::give(&a, held[41], 4);
        let got = take(&a, 3, Movable);
        sound(&a);
        got.0 / 16
    };
    // Order 4 is pageblock_order / 2, so such a block may bring its pageblock; the largest comes first.
    assert_eq!(from(bare(Config::linux_4_10())), 40);
    assert_eq!(from(bare(Config::linux_6_1())), 40);
    assert_eq!(from(bare(Config::linux_6_18())), 4, "nothing can be claimed, so the smallest is split");
}

#[test]
fn stealing_from_a_pageblock_boosts_the_watermark_but_not_in_4_x() {
    let boost = |name: &str| {
        let mut config = Config::preset(name).unwrap();
        config.cpus = 1;
        config.set("nofragment", "false").unwrap();
        let a = normal(1 << 16, &config);
        // Leave single movable blocks of order 4 only.
        let held: Vec<Pfn> = std::iter::from_fn(|| a.alloc(&CX, &request(4, Movable)).ok()).collect();
        held.iter().step_by(3).for_each(|p| crate::common::give(&a, *p, 4));
        take(&a, 4, Unmovable);
        let z = a.zone_stats(ZoneId(0)).unwrap();
        a.kswapd_tick();
        assert_eq!(a.zone_stats(ZoneId(0)).unwrap().boost, Frames(0), "the reclaimer's run ends it");
        sound(&a);
        (z.boost, z.watermarks.high)
    };
    assert_eq!(boost("linux-4.10").0, Frames(0));
    for name in ["linux-6.1", "linux-6.18"] {
        let (boost, high) = boost(name);
        assert_eq!(boost, Frames(512), "{name}: a pageblock a steal, and at most 150 % of {high}");
    }
}

#[test]
fn a_high_order_request_that_cannot_wait_sets_a_pageblock_aside() {
    for name in ["linux-6.1", "linux-6.18"] {
        let mut config = Config::preset(name).unwrap();
        config.cpus = 1;
        let a = normal(1 << 18, &config);
        let atomic =
            Request::new(Order::of(4), Unmovable).with(RequestFlags::HIGH | RequestFlags::NON_BLOCKING);
        // Above the low watermark the request needs no privilege, and nothing is set aside.
        a.alloc(&CX, &atomic).unwrap();
        assert_eq!(a.zone_stats(ZoneId(0)).unwrap().highatomic, Frames(0), "{name}");
        // Down to just above the min watermark.
        let plain = Request::new(Order::of(4), Unmovable);
        while a.alloc(&CX, &plain).is_ok() {}
        a.alloc(&CX, &atomic).unwrap();
        let z = a.zone_stats(ZoneId(0)).unwrap();
        assert_eq!(z.highatomic, PAGEBLOCK_ORDER.frames(), "{name}");
        assert_eq!(z.pageblocks[HighAtomic.index()], 1);
        assert_eq!(a.stats()[Counter::HighatomicReserve], 1);
        sound(&a);
    }
}

#[test]
fn the_patch_of_may_2026_sets_aside_for_large_blocks_alone() {
    let set_aside = |growth: &str, order| {
        let mut config = Config { cpus: 1, ..Config::linux_7_2() };
        config.set("highatomic_growth", growth).unwrap();
        let a = normal(1 << 18, &config);
        let plain = Request::new(Order::of(order), Unmovable);
        while a.alloc(&CX, &plain).is_ok() {}
        let atomic = plain.with(RequestFlags::HIGH | RequestFlags::NON_BLOCKING);
        while a.alloc(&CX, &atomic).is_ok() {}
        sound(&a);
        a.stats()[Counter::HighatomicReserve] > 0
    };
    assert!(set_aside("unlisted", 2) && set_aside("unlisted", 4));
    assert!(!set_aside("costly", 2) && set_aside("costly", 4));
}

#[test]
fn the_reserve_is_given_back_for_requests_that_retry_and_not_for_costly_ones() {
    let mut config = Config::linux_6_18();
    config.cpus = 1;
    let a = normal(1 << 18, &config);
    let atomic = Request::new(Order::of(4), Unmovable).with(RequestFlags::HIGH | RequestFlags::NON_BLOCKING);
    let plain = Request::new(Order::of(4), Unmovable).with(RequestFlags::NON_BLOCKING);
    while a.alloc(&CX, &plain).is_ok() {}
    while a.zone_stats(ZoneId(0)).unwrap().highatomic.0 == 0 {
        a.alloc(&CX, &atomic).unwrap();
    }
    let before = a.stats()[Counter::HighatomicUnreserve];
    let given_back = |request: Request| {
        let refused = a.alloc(&CX, &request).is_err();
        (refused, a.stats()[Counter::HighatomicUnreserve] - before)
    };
    let costly = Request::new(Order::of(4), Movable);
    assert_eq!(given_back(costly), (true, 0), "it gives up before that");
    let light = Request::new(Order::of(3), Movable);
    assert_eq!(given_back(light.with(RequestFlags::NORETRY)), (true, 0), "so does this one");
    assert_eq!(given_back(light).1, 1);
    assert_eq!(a.zone_stats(ZoneId(0)).unwrap().highatomic, Frames(0));
    sound(&a);
}

#[test]
fn privileges_reach_below_the_watermark_as_far_as_they_should() {
    let config = Config { cpus: 1, ..Config::linux_6_18() };
    let free_at_refusal = |flags: RequestFlags| {
        let a = normal(1 << 16, &config);
        // Order 4 keeps the per-CPU lists out of it; a movable request never leaves its own type here.
        let r = Request::new(Order::of(4), Movable).with(flags);
        while a.alloc(&CX, &r).is_ok() {}
        sound(&a);
        (a.zone_stats(ZoneId(0)).unwrap().free.0, a.zone_stats(ZoneId(0)).unwrap().watermarks.min.0)
    };
    let (free, min) = free_at_refusal(RequestFlags::empty());
    let within = |free: u64, mark: u64| (mark..mark + 48).contains(&free);
    assert!(within(free, min), "{free} {min}");
    let high = free_at_refusal(RequestFlags::HIGH).0;
    assert!(within(high, min - min / 2), "{high} {min}");
    let atomic = free_at_refusal(RequestFlags::HIGH | RequestFlags::NON_BLOCKING).0;
    let three_eighths = min - min / 2 - (min - min / 2) / 4;
    assert!(within(atomic, three_eighths), "{atomic} {min}");
    assert_eq!(free_at_refusal(RequestFlags::MEMALLOC).0, 0);
}

#[test]
fn an_answer_says_why() {
    let a = normal(1024, &bare(Config::linux_6_18()));
    let alloc = |order: u8, m: Migratetype| a.alloc(&CX, &request(order, m));
    assert_eq!(
        a.alloc(&CX, &request(11, Movable)),
        Err(BadRequest::OrderTooLarge { order: Order::of(11), largest: Order::of(10) }.into())
    );
    assert_eq!(alloc(0, HighAtomic), Err(BadRequest::Migratetype.into()));
    assert_eq!(a.alloc(&Cx::on(CpuId(1)), &request(0, Movable)), Err(BadRequest::NoSuchCpu.into()));
    let elsewhere = Request { nodes: NodeMask::only(NodeId(3)), ..request(0, Movable) };
    assert_eq!(a.alloc(&CX, &elsewhere), Err(BadRequest::NoZone.into()));
    let held: Vec<Pfn> = (0..64).map(|_| take(&a, 4, Movable)).collect();
    assert_eq!(alloc(4, Movable), Err(AllocError::OutOfMemory));
    crate::common::give(&a, held[0], 4);
    crate::common::give(&a, held[2], 4);
    assert_eq!(alloc(5, Movable), Err(AllocError::Fragmented { order: Order::of(5), free: Frames(32) }));
    sound(&a);

    let reserved = normal(1 << 16, &Config { cpus: 1, ..Config::linux_6_18() });
    let plain = Request::new(Order::of(4), Movable);
    while reserved.alloc(&CX, &plain).is_ok() {}
    assert!(matches!(reserved.alloc(&CX, &plain), Err(AllocError::BelowWatermark { .. })));
    sound(&reserved);
}

#[test]
fn a_mixed_pageblock_is_avoided_at_the_cost_of_a_lower_zone_since_5_0() {
    let regions = [
        Region::managed(Pfn(0), Frames(1 << 16), NodeId(0), ZoneKind::Dma32),
        Region::managed(Pfn(1 << 16), Frames(1 << 16), NodeId(0), ZoneKind::Normal),
    ];
    let zone_of_first_unmovable = |name: &str| {
        let mut config = Config { cpus: 1, ..Config::preset(name).unwrap() };
        config.set("min_free_kbytes", "2048").unwrap();
        config.watermark.lowmem_reserve_ratio = [0; 5];
        let a = LinuxAllocator::new(&MemoryMap::new(&regions).unwrap(), &config).unwrap();
        // Normal holds movable blocks of order 4 with holes; no whole pageblock is left in it.
        let normal_only = |p: &Pfn| p.0 >= 1 << 16;
        let held: Vec<Pfn> = (0..4096).map(|_| take(&a, 4, Movable)).collect();
        held.iter().filter(|p| normal_only(p)).step_by(3).for_each(|p| crate::common::give(&a, *p, 4));
        let got = a.alloc(&CX, &Request::new(Order::of(4), Unmovable)).unwrap();
        sound(&a);
        if normal_only(&got) { ZoneKind::Normal } else { ZoneKind::Dma32 }
    };
    assert_eq!(zone_of_first_unmovable("linux-4.10"), ZoneKind::Normal);
    assert_eq!(zone_of_first_unmovable("linux-6.1"), ZoneKind::Dma32);
    assert_eq!(zone_of_first_unmovable("linux-6.18"), ZoneKind::Dma32);
}

#[test]
fn low_memory_is_kept_from_requests_that_could_use_more() {
    let regions = [
        Region::managed(Pfn(0), Frames(1 << 15), NodeId(0), ZoneKind::Dma32),
        Region::managed(Pfn(1 << 15), Frames(1 << 17), NodeId(0), ZoneKind::Normal),
    ];
    let config = Config { cpus: 1, ..Config::linux_6_18() };
    let a = LinuxAllocator::new(&MemoryMap::new(&regions).unwrap(), &config).unwrap();
    let z = a.zone_stats(ZoneId(0)).unwrap();
    assert_eq!(z.protection[ZoneKind::Normal.index()], Frames((1 << 17) / 256));
    let r = Request::new(Order::of(4), Movable);
    while a.alloc(&CX, &r).is_ok() {}
    let left = a.zone_stats(ZoneId(0)).unwrap().free.0;
    let floor = z.watermarks.min.0 + z.protection[ZoneKind::Movable.index()].0;
    assert!((floor..floor + 48).contains(&left), "{left} {floor}");
    let low = Request { highest_zone: ZoneKind::Dma32, ..r };
    assert!(a.alloc(&CX, &low).is_ok(), "what is kept back is there for those who need it");
    sound(&a);
}

#[test]
fn interrupts_bypass_the_lists_where_only_preemption_is_off() {
    for (protection, softirq, hardirq) in [
        ("irqsave", 0, 0),
        ("trylock", 0, 0),
        ("soft_irq_allowed", 0, 1),
        ("soft_irq_off", 1, 1),
        ("preempt_only", 1, 1),
    ] {
        let mut config = bare(Config::linux_4_10());
        config.set("pcp_protection", protection).unwrap();
        for (context, bypassed) in [(Context::Softirq, softirq), (Context::Hardirq, hardirq)] {
            let a = normal(1 << 16, &config);
            let cx = Cx { context, ..CX };
            let pfn = a.alloc(&cx, &request(0, Movable)).unwrap();
            assert_eq!(1 - a.stats()[Counter::PcpRefill], bypassed, "{protection} {context:?}");
            a.free(&cx, pfn, Order::ZERO).unwrap();
            sound(&a);
        }
    }
}

#[test]
fn isolated_pageblocks_leave_the_free_count_and_come_back() {
    let a = normal(4096, &bare(Config::linux_6_18()));
    a.set_pageblock_migratetype(Pfn(512).pageblock(), Migratetype::Isolate);
    assert_eq!(a.zone_stats(ZoneId(0)).unwrap().free, Frames(4096 - 512));
    assert_eq!(a.audit().unwrap().isolated, Frames(512));
    let held: Vec<Pfn> = std::iter::from_fn(|| a.alloc(&CX, &request(0, Movable)).ok()).collect();
    assert_eq!(held.len(), 4096 - 512);
    assert!(held.iter().all(|p| p.pageblock().0 != 1));
    held.iter().for_each(|p| crate::common::give(&a, *p, 0));
    a.drain(CpuSet::All);
    a.set_pageblock_migratetype(Pfn(512).pageblock(), Movable);
    assert_eq!(a.zone_stats(ZoneId(0)).unwrap().free, Frames(4096));
    sound(&a);
}

#[test]
fn reclaimable_requests_prefer_unmovable_pageblocks() {
    let a = normal(1024, &bare(Config::linux_6_18()));
    a.set_pageblock_migratetype(Pfn(0).pageblock(), Unmovable);
    take(&a, 4, Reclaimable);
    assert_eq!((pageblocks(&a, Unmovable), pageblocks(&a, Reclaimable), pageblocks(&a, Movable)), (0, 1, 1));
    sound(&a);
}

#[test]
fn a_block_of_two_pageblocks_is_set_aside_with_both_from_6_10_on() {
    for (preset, pageblocks) in [(Config::linux_6_1(), 1), (Config::linux_6_12(), 2)] {
        set_aside_two(preset, pageblocks);
    }
}

fn set_aside_two(preset: Config, set_aside: u64) {
    // Found by random operations: the second pageblock's half was freed to a list that no pageblock belonged to.
    let mut config = Config { cpus: 1, ..preset };
    config.set("min_free_kbytes", "8192").unwrap();
    let a = normal(1 << 17, &config);
    let plain = Request::new(Order::of(10), Movable);
    let held: Vec<Pfn> = std::iter::from_fn(|| a.alloc(&CX, &plain).ok()).collect();
    let atomic = Request::new(Order::of(10), Movable).with(RequestFlags::HIGH | RequestFlags::NON_BLOCKING);
    let got = a.alloc(&CX, &atomic).unwrap();
    assert_eq!(pageblocks(&a, HighAtomic), set_aside);
    crate::common::give(&a, got, 10);
    for pfn in held {
        crate::common::give(&a, pfn, 10);
    }
    // Everything but the reserve can be allocated again: requests without watermarks have no part in it.
    let all = std::iter::from_fn(|| a.alloc(&CX, &request(9, Movable)).ok()).count() as u64;
    assert_eq!(all * 512 + a.zone_stats(ZoneId(0)).unwrap().free.0, 1 << 17);
    assert!(all >= 254, "{all}");
    sound(&a);
}

/// Frees blocks of orders 0 to 4 as fragments' blocks; returns how many frames each left in the lists.
fn listed_fragments(config: &Config) -> [u64; 5] {
    let a = normal(1 << 16, config);
    let blocks = [0, 1, 2, 3, 4].map(|order| take(&a, order, Unmovable));
    let cached = || a.zone_stats(ZoneId(0)).unwrap().cached.0;
    let left = [0, 1, 2, 3, 4].map(|order: u8| {
        let before = cached();
        a.free_frag(&CX, blocks[usize::from(order)], Order::of(order)).unwrap();
        let after = cached();
        assert!(
            a.free_frag(&CX, blocks[usize::from(order)], Order::of(order)).is_err(),
            "a second free is found"
        );
        after - before
    });
    sound(&a);
    left
}

#[test]
fn a_fragments_frame_goes_where_the_knob_says() {
    for (frag_free, listed) in [("buddy", [0; 5]), ("pcp", [1, 0, 0, 0, 0])] {
        let mut config = bare(Config::linux_4_10());
        config.set("frag_free", frag_free).unwrap();
        assert_eq!(listed_fragments(&config), listed, "{frag_free}: these lists have single frames only");
    }
}

#[test]
fn fragments_blocks_of_up_to_eight_frames_go_to_the_lists_that_take_them() {
    for config in [Config::linux_6_1(), Config::linux_6_18()] {
        let config = bare(config);
        assert_eq!(listed_fragments(&config), [1, 2, 4, 8, 0], "{}", config.name);
        let mut buddy = config.clone();
        buddy.set("frag_free", "buddy").unwrap();
        assert_eq!(listed_fragments(&buddy), [0; 5], "{}", config.name);
    }
}

#[test]
fn cold_requests_take_from_the_far_end_in_4_x() {
    for (name, cold) in [("linux-4.10", 1), ("linux-6.18", 3)] {
        let a = normal(1 << 16, &bare(Config::preset(name).unwrap()));
        let held: Vec<Pfn> = (0..31).map(|_| take(&a, 0, Movable)).collect();
        a.drain(CpuSet::All);
        for i in [1, 2, 3] {
            crate::common::give(&a, held[i], 0);
        }
        let r = request(0, Movable).with(RequestFlags::COLD);
        assert_eq!(a.alloc(&CX, &r), Ok(held[cold]), "{name}");
    }
}

#[test]
fn lists_keep_four_batches_while_reclaim_runs() {
    for name in ["linux-6.1", "linux-6.18"] {
        let a = normal(1 << 20, &Config { cpus: 1, ..Config::preset(name).unwrap() });
        let held: Vec<Pfn> = (0..8192).map(|_| take(&a, 0, Movable)).collect();
        let cached = || a.pcp_stats(ZoneId(0), CpuId(0)).unwrap();
        let batch = cached().batch;
        held[..4096].iter().for_each(|p| crate::common::give(&a, *p, 0));
        assert!(cached().count > 4 * batch, "{name}: {:?}", cached());
        a.wake_kswapd(ZoneId(0));
        held[4096..].iter().for_each(|p| crate::common::give(&a, *p, 0));
        assert!(cached().count <= 4 * batch, "{name}: {:?}", cached());
        a.kswapd_tick();
        sound(&a);
    }
}

#[test]
fn a_fraction_bounds_the_lists_of_every_generation() {
    for (name, high, batch) in
        [("linux-4.10", 1 << 17, 96), ("linux-6.1", 1 << 16, 63), ("linux-6.18", 1 << 16, 63)]
    {
        let mut config = Config { cpus: 2, ..Config::preset(name).unwrap() };
        config.set("percpu_pagelist_high_fraction", "8").unwrap();
        let pcp = normal(1 << 20, &config).pcp_stats(ZoneId(0), CpuId(0)).unwrap();
        assert_eq!((pcp.high_min, pcp.high_max, pcp.batch), (high, high, batch), "{name}");
    }
}
