//! Handlers of a storm of timer signals allocate and free while their threads do, on restartable sequences and under a
//! try-lock; meanwhile threads drain every CPU's lists. The load and its rules: `pageyard_testkit::storm`.
//!
//! Storms of handles and of packet buffers are those of the example `stress`, for a few rounds.
//!
//! As tests, a hundred thousand allocations in handlers; with `PAGEYARD_STORM=1000000`, as many as that says.

mod counting;
#[path = "../../examples/stress/handles.rs"]
mod handles;
#[path = "../../examples/stress/pools.rs"]
mod pools;

use counting::{Counting, IN_USE};
use pageyard::engine::BiasStats;
use pageyard::{PerCpu, TryLock};
use pageyard_arena::rseq::{Counts, Rseq, possible_cpus, register_thread};
use pageyard_testkit::storm::{self, Guard, Make, Mix, Plan, Report, Signals, Variant};
use std::cell::Cell;
use std::fmt::Display;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Storms share the CPUs and a counter.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn allocations() -> u64 {
    std::env::var("PAGEYARD_STORM").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000)
}

/// Runs a storm until handlers have made enough allocations and `seen` says that what is to happen did, or five minutes
/// are over. A busy host may keep all threads on one CPU for a second, so counting allocations is not enough.
fn run<P: PerCpu>(
    name: &'static str,
    make: &(dyn Fn() -> P + Sync),
    seen: impl Fn(&P, BiasStats) -> bool,
) -> Report {
    let mix = Mix::parse("alloc,free,bulk,bulk-free,drain,contest,signals").unwrap();
    // More threads than CPUs, so that they are preempted and moved too.
    let threads = 2 * std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    // Long stretches, so that threads are in the engine most of the time.
    let stretches = Some((20_000, 5));
    let plan = Plan { time: Duration::from_secs(300), threads, mix, stretches, ..Plan::default() };
    let report = storm::run(
        &plan,
        &Variant {
            cpus: possible_cpus().max(2),
            enter: &|| Box::new(register_thread()),
            signals: Some(Signals::every(Duration::from_micros(100))),
            enough: &|report, lists| {
                lists.is_some_and(|(percpu, bias)| seen(percpu, bias)) && report.by_handlers >= allocations()
            },
            ..Variant::new(name, Make::Pageyard(make))
        },
    );
    println!("{name}: {report}");
    assert!(report.faults.is_empty(), "{}", report.faults[0]);
    assert!(report.by_handlers >= allocations(), "the storm was too weak");
    report
}

/// Runs a storm on restartable sequences, with pageblocks biased to CPUs or not.
fn storm_on_sequences<const BIASED: bool>(of: fn(Rseq) -> Rseq<BIASED>) {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let make = || of(Rseq::new().expect("this host has restartable sequences"));
    let (sums, sum) = (Cell::new([0; 5]), |sums: &Cell<[u64; 5]>, more: [u64; 5]| {
        let old = sums.get();
        sums.set(core::array::from_fn(|at| old[at] + more[at]));
        sums.get()
    });
    run("restartable sequences", &make, |rseq, BiasStats { armed, revoked, .. }| {
        let Counts { aborts, drains, strangers, .. } = rseq.counts();
        let [aborts, drains, _, _, revoked] = sum(&sums, [aborts, drains, strangers, armed, revoked]);
        aborts >= allocations() / 100 && drains > 0 && (revoked > 0 || !BIASED)
    });
    let [aborts, drains, strangers, armed, revoked] = sums.get();
    println!("{aborts} aborts, {drains} drains; {armed} pageblocks biased, {revoked} of them revoked");
    assert!(aborts >= allocations() / 100 && drains > 0, "too weak: {aborts} aborts, {drains} drains");
    assert_eq!(strangers, 0);
    assert_eq!((armed > 0, revoked > 0), (BIASED, BIASED), "{armed} pageblocks biased, {revoked} revoked");
}

#[test]
fn sequences_lose_nothing() {
    storm_on_sequences(|rseq| rseq);
}

#[test]
fn biased_sequences_lose_nothing() {
    storm_on_sequences(Rseq::biased);
}

#[test]
fn a_try_lock_loses_nothing() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    run("try-lock", &|| Counting, |_, _| IN_USE.load(Relaxed) > 0);
    let in_use = IN_USE.load(Relaxed);
    println!("{in_use} calls found their list in use");
    assert!(in_use > 0, "no handler came while its thread used the list");
}

/// Runs a storm of so many rounds under a try-lock, and on restartable sequences where this host has them.
fn in_rounds<T: Display>(
    rounds: u64,
    trylock: impl Fn(&Plan, &Variant<'_, TryLock>) -> T,
    sequences: impl Fn(&Plan, &Variant<'_, Rseq<true>>) -> T,
    is_strong: impl Fn(&T) -> bool,
) {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let plan = Plan { time: Duration::from_secs(300), rounds, ..Plan::default() };
    let enter = || -> Guard { Box::new(register_thread()) };
    let did =
        trylock(&plan, &Variant { enter: &enter, ..Variant::new("try-lock", Make::Pageyard(&|| TryLock)) });
    println!("try-lock: {did}");
    assert!(is_strong(&did), "the storm was too weak: {did}");
    if let Err(why) = Rseq::new() {
        println!("skipped on restartable sequences: {why}");
        return;
    }
    let make = || Rseq::new().expect("this host has restartable sequences").biased();
    let biased =
        Variant { cpus: possible_cpus(), enter: &enter, ..Variant::new("biased", Make::Pageyard(&make)) };
    let did = sequences(&plan, &biased);
    println!("biased sequences: {did}");
    assert!(is_strong(&did), "the storm was too weak: {did}");
}

/// Handles that are dropped while a compaction has their frames give their slots back, and no content is lost.
#[test]
fn handles_lose_nothing_in_a_full_arena_that_is_compacted() {
    let is_strong =
        |did: &handles::Handles| did.refused > 1_000 && did.isolated > 10_000 && did.handed_over > 1_000;
    in_rounds(6, handles::run, handles::run, is_strong);
}

#[test]
fn pools_and_fragments_lose_nothing() {
    let is_strong = |did: &pools::Pools| {
        did.refused > 10
            && did.lost > 0
            && did.rings_full > 100
            && did.through_rings > 1_000
            && did.recovered > 0
    };
    in_rounds(4, pools::run, pools::run, is_strong);
}
