//! Requests that must not use the reserves, whatever else they say: `__GFP_NOMEMALLOC`.

use crate::common::{CX, normal, sound};
use pageyard_core::Migratetype::{HighAtomic, Movable, Unmovable};
use pageyard_core::{
    Counter, Frames, Gfp, GfpMap, Order, PAGEBLOCK_ORDER, PageAllocator, PageblockId, Request, RequestFlags,
    ZoneId,
};
use pageyard_linux::{Config, LinuxAllocator};

const PRESETS: [&str; 3] = ["linux-6.1", "linux-6.12", "linux-6.18"];

fn preset(name: &str) -> Config {
    Config { cpus: 1, ..Config::preset(name).unwrap() }
}

/// Reads gfp flags as a recording of the newest kernel has them.
fn of_gfp(order: u8, gfp: Gfp) -> Request {
    let bits = (0..32).filter(|bit| gfp.intersects(GfpMap::LINUX_6_18.decode(1 << bit)));
    Request::from_gfp(bits.fold(0, |raw, bit| raw | 1 << bit), &GfpMap::LINUX_6_18, Order::of(order), None)
}

/// `GFP_ATOMIC` since 6.4; before, the recorded bit of `__GFP_ATOMIC` says no more.
const ATOMIC: Gfp = Gfp::HIGH.union(Gfp::KSWAPD_RECLAIM);

/// Fills a machine to its least watermark, with one pageblock set aside.
fn full_with_a_reserve(config: &Config) -> LinuxAllocator {
    let a = normal(1 << 18, config);
    let plain = Request::new(Order::of(4), Unmovable).with(RequestFlags::NON_BLOCKING);
    while a.alloc(&CX, &plain).is_ok() {}
    while a.zone_stats(ZoneId(0)).unwrap().highatomic == Frames::ZERO {
        a.alloc(&CX, &of_gfp(4, ATOMIC)).unwrap();
    }
    a
}

#[test]
fn a_refused_atomic_request_that_must_not_use_the_reserve_gives_none_of_it_back() {
    for name in PRESETS {
        let a = full_with_a_reserve(&preset(name));
        let denied = of_gfp(3, ATOMIC | Gfp::NOMEMALLOC);
        while a.alloc(&CX, &denied).is_ok() {}
        assert_eq!(a.zone_stats(ZoneId(0)).unwrap().highatomic, PAGEBLOCK_ORDER.frames(), "{name}");
        assert_eq!(a.stats()[Counter::HighatomicUnreserve], 0, "{name}");
        // One that may wait does: it retries before it fails.
        let waits = of_gfp(3, ATOMIC | Gfp::DIRECT_RECLAIM);
        while a.alloc(&CX, &waits).is_ok() {}
        assert_eq!(a.stats()[Counter::HighatomicUnreserve], 1, "{name}");
        sound(&a);
    }
}

#[test]
fn an_atomic_request_that_must_not_use_the_reserve_goes_half_below_the_watermark_and_takes_no_reserved_block()
{
    for name in PRESETS {
        let free_at_refusal = |gfp: Gfp| {
            let a = full_with_a_reserve(&preset(name));
            while a.alloc(&CX, &of_gfp(4, gfp)).is_ok() {}
            let z = a.zone_stats(ZoneId(0)).unwrap();
            (z.free.0, z.watermarks.min.0, z.free_blocks.iter().map(|by| by[HIGH_ATOMIC]).sum::<u64>())
        };
        let (free, min, reserved) = free_at_refusal(ATOMIC | Gfp::NOMEMALLOC);
        assert!((min / 2..min).contains(&free), "{name}: {free} of {min}");
        assert_ne!(reserved, 0, "{name}");
        let (free, _, _) = free_at_refusal(ATOMIC);
        assert!((min * 3 / 8..min / 2).contains(&free), "{name}: {free} of {min}");
    }
}

#[test]
fn reclaim_that_was_not_enough_gives_one_pageblock_of_the_reserve_back_and_keeps_the_last() {
    for name in PRESETS {
        let a = full_with_a_reserve(&preset(name));
        let reserved = || a.zone_stats(ZoneId(0)).unwrap().highatomic;
        while reserved().0 < 2 * PAGEBLOCK_ORDER.frames().0 {
            a.alloc(&CX, &of_gfp(4, ATOMIC)).unwrap();
        }
        a.free(&CX, a.alloc(&CX, &of_gfp(0, ATOMIC)).unwrap(), Order::ZERO).unwrap();
        assert_ne!(a.pcp_stats(ZoneId(0), CX.cpu).unwrap().count, 0);
        a.reclaim_was_not_enough(Movable);
        assert_eq!(reserved(), PAGEBLOCK_ORDER.frames(), "{name}");
        assert_eq!(a.pcp_stats(ZoneId(0), CX.cpu).unwrap().count, 0, "{name}: lists are empty");
        a.reclaim_was_not_enough(Movable);
        assert_eq!((reserved(), a.stats()[Counter::HighatomicUnreserve]), (PAGEBLOCK_ORDER.frames(), 1));
        sound(&a);
    }
}

#[test]
fn a_pageblock_that_opens_in_the_reserve_counts_in_it() {
    let a = normal(1 << 14, &preset("linux-6.18"));
    let reserved = || a.zone_stats(ZoneId(0)).unwrap().highatomic;
    for (m, frames) in [(HighAtomic, 512), (HighAtomic, 512), (Movable, 0), (Unmovable, 0)] {
        a.set_pageblock_migratetype(PageblockId(3), m);
        assert_eq!(reserved(), Frames(frames), "{m}");
    }
    sound(&a);
}

const HIGH_ATOMIC: usize = pageyard_core::Migratetype::HighAtomic.index();

/// Returns whether single frames are given below the least watermark as a boost has raised it.
fn is_spared_the_boost(name: &str, flags: RequestFlags) -> bool {
    let a = normal(1 << 16, &preset(name));
    let min = a.zone_stats(ZoneId(0)).unwrap().watermarks.min.0;
    let mut opening = a.opening();
    opening.zones[0].boost = Frames(8 * min);
    a.open(&opening).unwrap();
    let request = Request::new(Order::ZERO, Unmovable).without(RequestFlags::WAKE_RECLAIM).with(flags);
    while a.alloc(&CX, &request).is_ok() {}
    a.zone_stats(ZoneId(0)).unwrap().free.0 < min
}

#[test]
fn until_6_4_atomic_requests_are_spared_the_boost_and_from_then_on_urgent_ones() {
    let (high, waits_not) = (RequestFlags::HIGH, RequestFlags::NON_BLOCKING);
    let atomic = high | waits_not;
    for name in PRESETS {
        for (flags, since_6_4, before) in [
            (RequestFlags::empty(), false, false),
            (high, true, false),
            (waits_not, false, false),
            (atomic, true, true),
            (atomic | RequestFlags::NO_RESERVE, true, true),
            (high | RequestFlags::NO_RESERVE, true, false),
            (RequestFlags::OOM_VICTIM, false, false),
            (atomic | RequestFlags::OOM_VICTIM, true, true),
        ] {
            let spared = if name == "linux-6.1" { before } else { since_6_4 };
            assert_eq!(is_spared_the_boost(name, flags), spared, "{name}: {flags:?}");
        }
    }
}

#[test]
fn tasks_that_reclaim_and_victims_that_must_not_use_the_reserves_are_held_to_the_watermark() {
    for name in PRESETS {
        for flags in [RequestFlags::MEMALLOC, RequestFlags::OOM_VICTIM] {
            let free_at_refusal = |flags: RequestFlags| {
                let a = normal(1 << 16, &preset(name));
                while a.alloc(&CX, &Request::new(Order::of(4), Unmovable).with(flags)).is_ok() {}
                sound(&a);
                let z = a.zone_stats(ZoneId(0)).unwrap();
                z.free.0 >= z.watermarks.min.0
            };
            assert!(!free_at_refusal(flags), "{name}: {flags:?}");
            assert!(free_at_refusal(flags | RequestFlags::NO_RESERVE), "{name}: {flags:?}");
        }
    }
}
