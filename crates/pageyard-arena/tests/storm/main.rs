//! Handlers of a storm of timer signals allocate and free while their threads do, on restartable sequences and under a
//! try-lock; meanwhile another thread drains every CPU's lists.
//!
//! Another load fills an arena with handles, which are dropped and made while others compact it.
//!
//! As tests, a hundred thousand allocations in handlers; with `PAGEYARD_STORM=1000000`, as many as that says.

mod counting;
mod handles;
mod load;

use counting::{Counting, IN_USE};
use pageyard::Pageyard;
use pageyard_arena::rseq::{Rseq, possible_cpus};
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;

/// Storms share their signal and their counters.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn allocations() -> u64 {
    std::env::var("PAGEYARD_STORM").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000)
}

/// More threads than CPUs, so that they are preempted and moved too.
fn threads() -> u32 {
    2 * std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

/// Runs a storm on restartable sequences, with pageblocks biased to CPUs or not.
fn storm_on_sequences<const BIASED: bool>(rseq: Rseq<BIASED>) {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let engine =
        load::machine(|map, config| Pageyard::owned(map, config, rseq), possible_cpus().max(2)).unwrap();
    let interrupted = || engine.percpu().counts().aborts > 0;
    let storm = load::run(&engine, threads(), allocations(), || {
        interrupted() && (engine.bias_stats().revoked > 0 || !BIASED)
    });
    let counts = engine.percpu().counts();
    println!("restartable sequences: {storm}\n{counts:?}");
    storm.is_sound();
    assert!(storm.in_handlers >= allocations(), "the storm was too weak");
    assert!(counts.aborts > 0 && counts.drains > 0, "nothing was interrupted: {counts:?}");
    assert_eq!(counts.strangers, 0);
    let bias = engine.bias_stats();
    println!("{bias:?}");
    assert_eq!((bias.armed > 0, bias.revoked > 0), (BIASED, BIASED), "{bias:?}");
}

#[test]
fn sequences_lose_nothing() {
    storm_on_sequences(Rseq::new().expect("this host has restartable sequences"));
}

#[test]
fn biased_sequences_lose_nothing() {
    storm_on_sequences(Rseq::new().expect("this host has restartable sequences").biased());
}

#[test]
fn a_try_lock_loses_nothing() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let engine =
        load::machine(|map, config| Pageyard::owned(map, config, Counting), possible_cpus().max(2)).unwrap();
    let storm = load::run(&engine, threads(), allocations(), || IN_USE.load(Relaxed) > 0);
    let in_use = IN_USE.load(Relaxed);
    println!("try-lock: {storm}\n{in_use} calls found their list in use");
    storm.is_sound();
    assert!(storm.in_handlers >= allocations(), "the storm was too weak");
    assert!(in_use > 0, "no handler came while its thread used the list");
}

/// Handles that are dropped while a compaction has their frames give their slots back, and no content is lost.
#[test]
fn a_full_arena_keeps_its_handles_under_compaction() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let did = handles::run(&handles::builder().build_locked().unwrap());
    println!("try-lock: {did:?}");
    did.is_strong();
    if let Err(why) = Rseq::new() {
        println!("skipped on restartable sequences: {why}");
        return;
    }
    let did = handles::run(&handles::builder().build().unwrap());
    println!("restartable sequences: {did:?}");
    did.is_strong();
}
