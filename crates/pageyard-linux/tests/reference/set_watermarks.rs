//! Watermarks that are set while the allocator runs.

use crate::common::{CX, normal, sound};
use pageyard_core::Migratetype::{Movable, Unmovable};
use pageyard_core::watermark::WatermarkKnobs;
use pageyard_core::{
    CpuId, Cx, Frames, MemoryMap, NodeId, Order, PageAllocator, Pfn, Region, Request, ZoneId, ZoneKind,
};
use pageyard_linux::{Config, LinuxAllocator};

const PRESETS: [&str; 4] = ["linux-5.10", "linux-6.1", "linux-6.18", "linux-7.3"];

fn preset(name: &str) -> Config {
    let mut config = Config::preset(name).unwrap();
    config.set("min_free_kbytes", "4096").unwrap();
    config
}

/// Settings that differ from a preset's in each knob.
fn other() -> WatermarkKnobs {
    WatermarkKnobs {
        min_free_kbytes: Some(16_384),
        watermark_scale_factor: 200,
        watermark_boost_factor: 5000,
        lowmem_reserve_ratio: [64, 64, 16, 0, 0],
        ..WatermarkKnobs::default()
    }
}

/// Makes a machine of two zones.
fn two_zones(config: &Config) -> LinuxAllocator {
    let regions = [
        Region::managed(Pfn(0), Frames(1 << 16), NodeId(0), ZoneKind::Dma32),
        Region::managed(Pfn(1 << 16), Frames(1 << 17), NodeId(0), ZoneKind::Normal),
    ];
    LinuxAllocator::new(&MemoryMap::new(&regions).unwrap(), config).unwrap()
}

#[test]
fn watermarks_reserves_and_limits_are_those_of_an_allocator_that_was_made_with_the_settings() {
    for name in PRESETS {
        let changed = two_zones(&preset(name));
        changed.set_watermarks(&other());
        let made = two_zones(&Config { watermark: other(), ..preset(name) });
        for zone in [ZoneId(0), ZoneId(1)] {
            let of = |a: &LinuxAllocator| {
                let (zone, lists) = (a.zone_stats(zone).unwrap(), a.pcp_stats(zone, CX.cpu).unwrap());
                (zone.watermarks, zone.protection, lists.batch, lists.high_min, lists.high_max)
            };
            assert_eq!(of(&changed), of(&made), "{name}");
            assert_ne!(of(&changed), of(&two_zones(&preset(name))), "{name}");
        }
        sound(&changed);
    }
}

#[test]
fn the_next_request_meets_the_new_watermark() {
    for name in PRESETS {
        let a = normal(1 << 16, &preset(name));
        let plain = Request::new(Order::ZERO, Movable).with(pageyard_core::RequestFlags::NON_BLOCKING);
        while a.alloc(&CX, &plain).is_ok() {}
        a.set_watermarks(&WatermarkKnobs { min_free_kbytes: Some(1024), ..other() });
        assert!(a.alloc(&CX, &plain).is_ok(), "{name}: the lower one");
        a.set_watermarks(&other());
        a.drain(pageyard_core::CpuSet::All);
        assert!(a.alloc(&CX, &plain).is_err(), "{name}: the higher one");
        sound(&a);
    }
}

#[test]
fn a_boost_ends_and_the_next_ones_go_as_far_as_the_new_factor_says() {
    // Unmovable requests take pageblocks that are in use by movable ones: each raises the boost, up to a limit.
    let boosted = |a: &LinuxAllocator| {
        let of = |m| Request::new(Order::of(4), m);
        let held: Vec<Pfn> = (0..20_000).map_while(|_| a.alloc(&CX, &of(Movable)).ok()).collect();
        for pfn in held.iter().step_by(2) {
            a.free(&CX, *pfn, Order::of(4)).unwrap();
        }
        let taken: Vec<Pfn> = (0..1000).map_while(|_| a.alloc(&CX, &of(Unmovable)).ok()).collect();
        let boost = a.zone_stats(ZoneId(0)).unwrap().boost;
        for pfn in held.iter().skip(1).step_by(2).chain(&taken) {
            a.free(&CX, *pfn, Order::of(4)).unwrap();
        }
        boost
    };
    let a = normal(1 << 18, &Config { cpus: 1, ..preset("linux-6.18") });
    assert_ne!(boosted(&a), Frames::ZERO);
    a.set_watermarks(&WatermarkKnobs { watermark_boost_factor: 0, ..other() });
    assert_eq!(a.zone_stats(ZoneId(0)).unwrap().boost, Frames::ZERO, "it ends");
    assert_eq!(boosted(&a), Frames::ZERO, "none follows");
    sound(&a);
    let none = WatermarkKnobs { watermark_boost_factor: 0, ..other() };
    let a = normal(1 << 18, &Config { cpus: 1, watermark: none, ..preset("linux-6.18") });
    a.set_watermarks(&other());
    assert_ne!(boosted(&a), Frames::ZERO, "the factor counts");
}

#[test]
fn lists_that_are_too_long_shrink_with_ticks_and_the_next_free() {
    for name in ["linux-6.1", "linux-6.18"] {
        let a = normal(1 << 18, &Config { watermark: other(), ..preset(name) });
        let single = Request::new(Order::ZERO, Movable);
        let long = a.pcp_stats(ZoneId(0), CX.cpu).unwrap().high_min;
        let frames: Vec<Pfn> = (0..2 * long).map(|_| a.alloc(&CX, &single).unwrap()).collect();
        let (last, rest) = frames.split_last().unwrap();
        for pfn in rest {
            a.free(&CX, *pfn, Order::ZERO).unwrap();
        }
        a.set_watermarks(&WatermarkKnobs { min_free_kbytes: Some(1024), ..WatermarkKnobs::default() });
        let lists = || a.pcp_stats(ZoneId(0), CX.cpu).unwrap();
        let before = lists();
        assert!(before.count > before.high_min, "{name}: nothing moves yet");
        (0..20).for_each(|_| a.vmstat_tick_of(CX.cpu));
        a.free(&CX, *last, Order::ZERO).unwrap();
        assert!(lists().count < before.count, "{name}");
        sound(&a);
    }
}

#[test]
fn requests_run_while_watermarks_change_and_no_frame_is_lost() {
    let a = two_zones(&Config { cpus: 2, ..preset("linux-6.18") });
    let small = WatermarkKnobs { min_free_kbytes: Some(1024), ..WatermarkKnobs::default() };
    let large = other();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|s| {
        let work = |cpu: u32| {
            let (a, done) = (&a, &done);
            move || {
                let cx = Cx::on(CpuId(cpu));
                for round in 0..200u64 {
                    let order = Order::of((round % 4) as u8);
                    let request = Request::new(order, if cpu == 0 { Movable } else { Unmovable });
                    let held: Vec<Pfn> = (0..400).map_while(|_| a.alloc(&cx, &request).ok()).collect();
                    for pfn in held {
                        a.free(&cx, pfn, order).unwrap();
                    }
                }
                done.store(true, std::sync::atomic::Ordering::Release);
            }
        };
        s.spawn(work(0));
        s.spawn(work(1));
        let mut changes = 0;
        while changes < 100 || !done.load(std::sync::atomic::Ordering::Acquire) {
            a.set_watermarks(if changes % 2 == 0 { &small } else { &large });
            changes += 1;
        }
    });
    sound(&a);
}
