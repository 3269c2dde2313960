//! Repeated runs agree to the last count, and each knob of compaction changes what it should.

use crate::common::normal;
use pageyard_core::{
    Counter, CpuId, CpuSet, Cx, Migratetype, Order, PageAllocator, PressureAllocator, Request, Stats,
};
use pageyard_linux::{Config, LinuxAllocator};
use pageyard_testkit::owner::{Fault, Owner, Use};

const CX: Cx = Cx::on(CpuId(0));
const FRAMES: u64 = 48 * 512;

/// A load that depends on nothing but the engine's answers: unmovable blocks of order 4 in fragmented memory, with pins.
fn run(knobs: &[(&str, &str)]) -> Stats {
    let mut config = Config { cpus: 1, ..Config::linux_4_6() };
    config.set("compaction.extfrag_threshold", "0").unwrap();
    for (knob, value) in knobs {
        config.set(knob, value).unwrap();
    }
    let engine: LinuxAllocator = normal(FRAMES, &config);
    let owner = Owner::new(&engine, Fault::FailsHalfway);
    let chance = |n: u64, of: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 1000 < of;
    owner.fill(&CX, |pfn| if chance(pfn.0, 15) { Use::Pinned } else { Use::Movable });
    owner.free_if(&CX, |pfn| !chance(pfn.0, 15) && pfn.0 % 2 == 1);
    engine.drain(CpuSet::All);
    for i in 0..120 {
        let request = Request::new(Order::of(4), Migratetype::Unmovable);
        if let Ok(pfn) = engine.alloc_with(&CX, &request, &owner) {
            owner.keep(pfn, Order::of(4), Use::Pinned);
        }
        if i % 10 == 0 {
            engine.kswapd_with(&CX, &owner).unwrap();
            engine.kcompactd_with(&CX, &owner).unwrap();
        }
    }
    owner.check(&[]);
    engine.stats()
}

const PATCH2: (&str, &str) = ("compaction.last_migrated_drain", "true");
const PATCH3: (&str, &str) = ("compaction.skip_on_failure", "direct_async");
const PATCH4: (&str, &str) = ("compaction.direct_free", "direct_async");

#[test]
fn the_same_run_twice_counts_the_same() {
    for knobs in [&[][..], &[PATCH2], &[PATCH2, PATCH3], &[PATCH2, PATCH3, PATCH4]] {
        let (a, b) = (run(knobs), run(knobs));
        assert!(a.iter().eq(b.iter()), "{knobs:?}");
        assert!(
            a[Counter::CompactStall] > 0 && a[Counter::PgmigrateSuccess] > 0,
            "{knobs:?} has something to do"
        );
    }
}

#[test]
fn counters_of_a_technique_that_is_off_stay_at_zero() {
    let off = run(&[]);
    for c in [
        Counter::CompactFreeDirectAlloc,
        Counter::CompactFreeDirectMiss,
        Counter::CompactAbandoned,
        Counter::CompactConflict,
        Counter::CompactCapture,
    ] {
        assert_eq!(off[c], 0, "{}", c.name());
    }
    let skipping = run(&[PATCH3]);
    assert!(skipping[Counter::CompactAbandoned] > 0);
    assert_eq!(skipping[Counter::CompactFreeDirectAlloc], 0);
    let direct = run(&[PATCH4]);
    assert!(direct[Counter::CompactFreeDirectAlloc] > 0);
    assert!(direct[Counter::CompactFreeDirectMiss] <= direct[Counter::CompactFreeDirectAlloc]);
    assert_eq!(direct[Counter::CompactAbandoned], 0);
    assert!(run(&[("compaction.capture", "true")])[Counter::CompactCapture] > 0);
    let disabled = run(&[("compaction.enabled", "false")]);
    assert_eq!(disabled[Counter::CompactStall] + disabled[Counter::CompactMigrateScanned], 0);
}

#[test]
fn leases_of_a_lone_compactor_change_nothing() {
    let (off, on) = (run(&[]), run(&[("compaction.leases", "true")]));
    assert!(off.iter().eq(on.iter()));
}

#[test]
fn a_budget_that_is_never_reached_changes_nothing_and_a_small_one_ends_compactions_early() {
    let (off, ample) = (run(&[]), run(&[("compaction.async_budget", "1000000000")]));
    assert!(off.iter().eq(ample.iter()));
    let small = run(&[("compaction.async_budget", "600"), ("compaction.deferral", "off")]);
    let unlimited = run(&[("compaction.deferral", "off")]);
    assert!(small.iter().ne(unlimited.iter()));
}
