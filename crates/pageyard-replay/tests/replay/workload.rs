//! The workloads of the studies: the fragmenter says how close it came, and a load is deterministic and loses nothing.

use pageyard::{
    Census, Counter, CpuId, Frames, MemoryMap, Migratetype, NodeId, Order, PAGEBLOCK_ORDER, PageAllocator,
    Pageyard, Pfn, PressureAllocator, Region, Request, Stats, TryLock, ZoneId, ZoneKind, metrics,
};
use pageyard_linux::{Config, LinuxAllocator};
use pageyard_replay::engine::ReplayEngine;
use pageyard_replay::workload::fragment::{CLUSTERED_PINS, Free, RANDOM_PINS, State, Unmovable, WORN, bring};
use pageyard_replay::workload::stress::{self, Phases, Settings, Turns};
use pageyard_replay::workload::{Load, LoadTrace, Owners, Role, Shape, Shares};
use pageyard_trace::Trace;
use std::path::Path;

/// 1 GiB in one zone.
const FRAMES: u64 = 1 << 18;

fn engine(frames: u64) -> LinuxAllocator {
    let regions = [Region::managed(Pfn(0), Frames(frames), NodeId(0), ZoneKind::Normal)];
    let config = Config { cpus: 2, ..Config::linux_6_18() };
    LinuxAllocator::new(&MemoryMap::new(&regions).unwrap(), &config).unwrap()
}

/// A quarter free, half of that in whole pageblocks; a third of the pageblocks spoiled.
const HALF_WHOLE: State = State {
    name: "a quarter free, half of it in whole pageblocks",
    free: Free::Blocks(0.25, [0.0, 0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.5]),
    unmovable: Unmovable::Pageblocks(0.33, 4),
    cache: 0.5,
};

/// Nothing free in single frames, all of it in blocks of order 3.
const THREES: State = State {
    name: "a fifth free, all in blocks of order 3",
    free: Free::Blocks(0.2, [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
    unmovable: Unmovable::Random(0.0),
    cache: 1.0,
};

#[test]
fn the_fragmenter_comes_within_a_fiftieth_of_each_state_and_says_how_close() {
    for state in [&RANDOM_PINS, &CLUSTERED_PINS, &WORN, &HALF_WHOLE, &THREES] {
        let engine = engine(FRAMES);
        let owners = Owners::new(&engine, Shares::NONE, 3);
        let reached = bring(&owners, state, 3).unwrap();
        let name = state.name;
        // The tolerance: 2 % of memory, of an index, of the pageblocks (a quarter of the spread of so many throws).
        assert!((reached.free.0 - reached.free.1).abs() < 0.02, "{name}: {reached:?}");
        assert!(reached.worst() < 0.02, "{name}: {reached:?}");
        let spread = (reached.spoiled.0 * (1.0 - reached.spoiled.0) / (FRAMES / 512) as f64).sqrt();
        assert!((reached.spoiled.0 - reached.spoiled.1).abs() <= 4.0 * spread + 0.001, "{name}: {reached:?}");
        // What it says is what the engine says.
        let row = engine.zone_stats(ZoneId(0)).unwrap().blocks_by_order();
        for (order, (_, says)) in reached.unusable_index.iter().enumerate() {
            assert_eq!(Some(*says), metrics::unusable_index(&row, order), "{name}: order {order}");
        }
        let free = metrics::free_frames(&row);
        assert_eq!(reached.free.1, free as f64 / FRAMES as f64, "{name}");
        let mut spoiled = vec![false; (FRAMES >> PAGEBLOCK_ORDER.get()) as usize];
        owners.for_each(|pfn, _, _, can_move| spoiled[pfn.pageblock().index()] |= !can_move);
        let share = spoiled.iter().filter(|s| **s).count() as f64 / spoiled.len() as f64;
        assert_eq!(reached.spoiled.1, share, "{name}");
        assert_eq!(engine.audit().unwrap().allocated, owners.held_frames(), "{name}");
        let movable = (owners.held(Role::Cache) + owners.held(Role::Anon)).0 as f64;
        assert!((owners.held(Role::Cache).0 as f64 / movable - state.cache).abs() < 0.01, "{name}");
    }
}

#[test]
fn the_fragmenter_makes_the_same_of_a_seed_and_something_else_of_another() {
    let frames_of = |seed| {
        let engine = engine(FRAMES / 8);
        let owners = Owners::new(&engine, Shares::NONE, 1);
        bring(&owners, &WORN, seed).unwrap();
        let mut frames = Vec::new();
        owners.for_each(|pfn, _, role, can_move| frames.push((pfn, role, can_move)));
        frames
    };
    assert_eq!(frames_of(5), frames_of(5));
    assert_ne!(frames_of(5), frames_of(6));
}

#[test]
fn memory_that_is_not_all_free_cannot_be_brought_to_a_state() {
    let engine = engine(FRAMES / 8);
    let request = Request::new(Order::ZERO, Migratetype::Movable);
    engine.alloc(&pageyard::Cx::on(CpuId(0)), &request).unwrap();
    let why = bring(&Owners::new(&engine, Shares::NONE, 1), &WORN, 1).unwrap_err().to_string();
    assert!(why.contains("not all free") && why.lines().count() == 1, "{why}");
}

fn build(shape: &Shape) -> LoadTrace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces/build.trace");
    LoadTrace::read(&Trace::open(&path).unwrap(), shape).unwrap()
}

const SHAPE: Shape = Shape { jobs: 2, large_blocks: false, compactor_ns: 100_000_000 };

/// Runs the load on 1 GiB until memory was short for a while; returns what it came to, and what the engine counted.
fn loaded(trace: &LoadTrace, seed: u64) -> ([u64; 4], Stats, Census, [Frames; 5]) {
    let engine = engine(FRAMES);
    let owners = Owners::new(&engine, Shares::STUDY, seed);
    let mut load = Load::new(trace, &owners, &SHAPE, 0.3);
    load.run_until(2 * trace.duration_ns());
    conserved(&engine, &owners);
    let done = load.done;
    let held = Role::ALL.map(|role| owners.held(role));
    let counts = [done.rows, done.refused, done.fragmented, done.rounds];
    (counts, engine.stats(), engine.audit().unwrap(), held)
}

fn conserved<E: PressureAllocator + ReplayEngine>(engine: &E, owners: &Owners<'_, E>) {
    let census = engine.audit().unwrap();
    assert!(census.is_conserved(), "{census:?}");
    assert_eq!(census.allocated, owners.held_frames(), "frames that only one side knows of");
}

/// The counters of an engine, but for those that measure time.
fn counts(stats: &Stats) -> Vec<(Counter, u64)> {
    let by_clock = [Counter::ZoneLockContended, Counter::ZoneLockWaitNs];
    stats.iter().filter(|(c, _)| !by_clock.contains(c)).collect()
}

#[test]
fn a_load_does_the_same_for_a_seed_every_time_and_loses_no_frame() {
    let trace = build(&SHAPE);
    let (once, again, other) = (loaded(&trace, 7), loaded(&trace, 7), loaded(&trace, 8));
    assert_eq!(once.0, again.0);
    assert_eq!(counts(&once.1), counts(&again.1));
    assert_eq!((once.2, once.3), (again.2, again.3));
    assert!(once.1[Counter::PgstealKswapd] + once.1[Counter::PgstealDirect] > 0, "memory was short");
    assert_ne!(counts(&once.1), counts(&other.1), "the seed decides which frames are pinned and used again");
    assert_eq!(once.0[0], other.0[0], "and not which rows are executed");
}

#[test]
fn a_load_that_ended_leaves_page_cache_alone() {
    let trace = build(&SHAPE);
    let engine = engine(FRAMES);
    let owners = Owners::new(&engine, Shares::NONE, 1);
    let mut load = Load::new(&trace, &owners, &SHAPE, 0.0);
    load.run_until(trace.duration_ns() / 2);
    let cache = owners.held(Role::Cache);
    assert!(owners.held(Role::Anon) > Frames::ZERO && cache > Frames::ZERO);
    load.end();
    let left = Role::ALL.map(|role| owners.held(role));
    assert_eq!(left, Role::ALL.map(|role| if role == Role::Cache { cache } else { Frames::ZERO }));
    conserved(&engine, &owners);
    owners.drop_caches(&pageyard::Cx::on(CpuId(0)));
    assert_eq!(owners.held_frames(), Frames::ZERO);
    conserved(&engine, &owners);
}

#[test]
fn a_stress_test_repeats_to_the_last_count() {
    let settings = Settings { memory: 1 << 30, rounds: 0.25, settle: 0.1, shape: SHAPE, ..Settings::study() };
    let trace = build(&SHAPE);
    let run = |seed| {
        let regions = settings.regions();
        let config = Config { cpus: 2, ..Config::linux_4_6() };
        let engine = LinuxAllocator::new(&MemoryMap::new(&regions).unwrap(), &config).unwrap();
        let report = stress::run(&engine, &trace, &settings, Phases::Three, seed).unwrap();
        assert_eq!((report.leaked, report.audit.is_ok()), (0, true));
        let phases: Vec<_> = report.phases.iter().map(|p| (p.attempted, p.held, p.fragmented)).collect();
        (phases, counts(&report.counters))
    };
    let (once, again) = (run(2), run(2));
    assert_eq!(once, again);
    assert_eq!(once.0.len(), 3);
    assert!(once.0.iter().all(|(attempted, held, _)| *attempted == settings.attempts() && held <= attempted));
    assert_ne!(once.1, run(3).1);
}

/// A load that keeps to its own pace while requests come from another thread: whatever the order was, nothing is lost,
/// and each request came when it was due.
#[test]
fn requests_beside_the_load_lose_no_frame() {
    let settings = Settings {
        memory: 1 << 30,
        rounds: 0.1,
        settle: 0.1,
        shape: SHAPE,
        turns: Turns::Beside(20.0),
        ..Settings::study()
    };
    let trace = build(&SHAPE);
    let regions = settings.regions();
    let config = Config { cpus: 2, ..Config::linux_4_6() };
    let map = MemoryMap::new(&regions).unwrap();
    let reference = LinuxAllocator::new(&map, &config).unwrap();
    let ours = Pageyard::owned(&map, pageyard::Config::new(2), TryLock).unwrap();
    let reports = [
        stress::run(&reference, &trace, &settings, Phases::Three, 2).unwrap(),
        stress::run(&ours, &trace, &settings, Phases::Three, 2).unwrap(),
    ];
    for report in reports {
        assert_eq!((report.leaked, report.audit.is_ok()), (0, true));
        assert!(report.phases.iter().all(|p| p.attempted == settings.attempts() && p.held <= p.attempted));
        let beside: Vec<bool> = report.phases.iter().map(|p| p.lag.is_some()).collect();
        assert_eq!(beside, [true, true, false], "a load that has ended has no thread");
        for phase in &report.phases {
            let sums = phase.tenths.iter().fold((0, 0), |(a, g), t| (a + t.attempted, g + t.got));
            assert_eq!(sums, (phase.attempted, phase.held));
        }
        assert!(report.load.rows > 0 && report.counters[Counter::CompactStall] > 0, "requests met the load");
    }
}

/// 64 MiB that one job cannot live in: the killer ends it, its round is over, and its frames are free.
#[test]
fn where_memory_ends_the_job_that_holds_most_is_killed_and_begins_anew_with_its_next_round() {
    let trace = build(&SHAPE);
    let engine = engine(1 << 14);
    let owners = Owners::new(&engine, Shares::NONE, 1);
    let mut load = Load::new(&trace, &owners, &SHAPE, 0.0);
    load.run_until(trace.duration_ns() - 1);
    let killed = load.done.killed;
    // The second job is half a round ahead, so a second round of its own begins meanwhile.
    assert!((1..=3).contains(&killed), "at most once for each round that began: {killed}");
    conserved(&engine, &owners);
    load.run_until(2 * trace.duration_ns());
    assert!(load.done.killed > killed, "they came back, and met the same end");
    conserved(&engine, &owners);
}
