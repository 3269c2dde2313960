//! Every call refuses a CPU that does not exist, and changes nothing.

use crate::common::{normal, request, sound, take};
use pageyard_core::reclaim::{NoHelp, PressureAllocator};
use pageyard_core::{
    AllocError, BadRequest, Counter, CpuId, Cx, FreeError, Migratetype::Movable, Order, PageAllocator, Pfn,
    ZoneId,
};
use pageyard_linux::{Config, LinuxAllocator};

/// The first CPU that does not exist, and the last number there is.
const NONE: [CpuId; 2] = [CpuId(2), CpuId(u32::MAX)];

fn machines() -> impl Iterator<Item = LinuxAllocator> {
    Config::PRESETS
        .into_iter()
        .map(|name| normal(1 << 14, &Config { cpus: 2, ..Config::preset(name).unwrap() }))
}

#[test]
fn a_request_from_a_cpu_that_does_not_exist_is_refused() {
    for a in machines() {
        for cx in NONE.map(Cx::on) {
            for order in [0, 3, 9] {
                let r = request(order, Movable);
                let refused = AllocError::BadRequest(BadRequest::NoSuchCpu);
                assert_eq!(a.alloc(&cx, &r), Err(refused));
                assert_eq!(a.alloc_interleaved(&cx, &r), Err(refused));
                assert_eq!(a.alloc_with(&cx, &r, &NoHelp).unwrap_err().why, refused);
                assert_eq!(a.alloc_bulk(&cx, &r, &mut [Pfn(0); 8]), 0);
            }
        }
        let s = a.stats();
        for untouched in [Counter::Pgalloc, Counter::AllocSlow, Counter::KswapdWake, Counter::AllocFail] {
            assert_eq!(s[untouched], 0, "{untouched:?}");
        }
        sound(&a);
    }
}

#[test]
fn a_free_from_a_cpu_that_does_not_exist_is_refused_and_the_block_stays_allocated() {
    for a in machines() {
        let pfn = take(&a, 0, Movable);
        for cx in NONE.map(Cx::on) {
            assert_eq!(a.free(&cx, pfn, Order::ZERO), Err(FreeError::NoSuchCpu));
            assert_eq!(a.free_cold(&cx, pfn, Order::ZERO), Err(FreeError::NoSuchCpu));
            assert_eq!(a.free_frag(&cx, pfn, Order::ZERO), Err(FreeError::NoSuchCpu));
            let mut wrong = Vec::new();
            a.free_bulk(&cx, &[pfn], Order::ZERO, &mut |pfn, why| wrong.push((pfn, why)));
            assert_eq!(wrong, [(pfn, FreeError::NoSuchCpu)]);
        }
        crate::common::give(&a, pfn, 0);
        sound(&a);
    }
}

#[test]
fn background_work_on_a_cpu_that_does_not_exist_does_not_run() {
    for a in machines() {
        for cx in NONE.map(Cx::on) {
            a.wake_kswapd(ZoneId(0));
            assert_eq!(a.kswapd_with(&cx, &NoHelp), Err(BadRequest::NoSuchCpu));
            assert_eq!(a.kcompactd_with(&cx, &NoHelp), Err(BadRequest::NoSuchCpu));
            assert_eq!(a.compact_zone_with(&cx, ZoneId(0), &NoHelp), Err(BadRequest::NoSuchCpu));
        }
        assert!(
            a.compact_zone_with(&crate::common::CX, ZoneId(0), &NoHelp).is_ok(),
            "it does on one that exists"
        );
        sound(&a);
    }
}

#[test]
fn a_cpu_that_does_not_exist_has_no_lists() {
    for a in machines() {
        let pfn = take(&a, 0, Movable);
        for cpu in NONE {
            assert_eq!(a.pcp_stats(ZoneId(0), cpu), None);
            assert!(!a.restore_cached(cpu, pfn, Order::ZERO, Movable, true));
            a.restore_pcp_high(ZoneId(0), cpu, 1);
        }
        crate::common::give(&a, pfn, 0);
        sound(&a);
    }
}
