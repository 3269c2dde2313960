//! Repeated runs agree to the last count, and each knob of compaction changes what it should.

use crate::common::normal;
use pageyard_core::{
    Counter, CpuId, CpuSet, Cx, Migratetype, Order, PageAllocator, PressureAllocator, Request, RequestFlags,
    Stats,
};
use pageyard_linux::{Config, LinuxAllocator};
use pageyard_testkit::owner::{Fault, Owner, Use};

const CX: Cx = Cx::on(CpuId(0));
const FRAMES: u64 = 48 * 512;

/// A load that depends on nothing but the engine's answers: unmovable blocks of order 4 in fragmented memory, with
/// pins.
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

/// Takes unmovable frames under `defrag_mode` from memory that is movable and a third free, frame by frame; says how
/// many blocks were taken from another type's pageblocks, how many pageblocks were converted, and what compaction did.
fn under_defrag_mode(knobs: &[(&str, &str)]) -> Stats {
    let mut config = Config { cpus: 1, ..Config::linux_6_18() };
    config.set("defrag_mode", "1").unwrap();
    for (knob, value) in knobs {
        config.set(knob, value).unwrap();
    }
    let engine: LinuxAllocator = normal(FRAMES, &config);
    let owner = Owner::new(&engine, Fault::None);
    owner.fill(&CX, |_| Use::Movable);
    owner.free_if(&CX, |pfn| pfn.0 % 3 == 1);
    engine.drain(CpuSet::All);
    for _ in 0..700 {
        let pfn = engine.alloc_with(&CX, &Request::new(Order::ZERO, Migratetype::Unmovable), &owner).unwrap();
        owner.keep(pfn, Order::ZERO, Use::Pinned);
    }
    owner.check(&[]);
    engine.stats()
}

#[test]
fn with_the_series_of_june_2026_what_cannot_be_moved_gets_pageblocks_that_are_made_for_it() {
    let before = under_defrag_mode(&[]);
    assert_eq!(before[Counter::CompactStall], 0, "a single frame is no order to compact for");
    assert!(before[Counter::ExtfragSteal] > 0, "types are mixed in the end");
    let after =
        under_defrag_mode(&[("defrag_promotes", "true"), ("compaction.whole_empties_movable", "true")]);
    assert!(after[Counter::CompactStall] > 0 && after[Counter::PgmigrateSuccess] > 0);
    assert_eq!(after[Counter::ExtfragSteal], 0, "every frame is of a pageblock of its type");
    assert!(after[Counter::ExtfragClaim] >= 2);
}

#[test]
fn a_request_for_a_whole_pageblock_looks_at_movable_ones_without_waiting_where_it_may() {
    let scanned = |may| {
        let mut config = Config { cpus: 1, ..Config::linux_6_18() };
        config.set("compaction.whole_empties_movable", may).unwrap();
        let engine: LinuxAllocator = normal(FRAMES, &config);
        let owner = Owner::new(&engine, Fault::Refuses);
        owner.fill(&CX, |_| Use::Movable);
        owner.free_if(&CX, |pfn| pfn.0 % 2 == 1);
        engine.drain(CpuSet::All);
        // One round, which does not wait.
        let light = Request::new(Order::of(9), Migratetype::Unmovable).with(RequestFlags::NORETRY);
        assert!(engine.alloc_with(&CX, &light, &owner).is_err());
        owner.check(&[]);
        (engine.stats()[Counter::CompactStall], engine.stats()[Counter::CompactMigrateScanned] > 0)
    };
    assert_eq!((scanned("false"), scanned("true")), ((2, false), (2, true)));
}
