//! Random runs: every profile over several memory maps, until enough operations were made.

use crate::engine::{Build, Verdict};
use crate::generate::{Generator, PROFILES, Profile};
use crate::maps::{self, Map};
use crate::op::Op;
use crate::session::Session;
use crate::shrink;
use crate::tally::Tally;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// CPUs of a random run's machine.
const CPUS: u32 = 3;

/// Operations after which a run starts over with a new engine: the longest that a failing list can be.
const MOST_OPS: u64 = 100_000;

/// The fewest operations between comparisons of the counts; each comparison looks at every frame.
const CHECK_EVERY: u64 = 2048;

/// Runs every profile over several memory maps and returns what they provoked.
///
/// # Panics
/// When an answer is wrong: with the shortest failing list of operations found, printed as a test.
pub fn random_suite<B: Build>(build: &B, seed: u64, ops: u64) -> Tally {
    let start = Instant::now();
    let maps = maps::random();
    let each = ops.div_ceil((maps.len() * PROFILES.len()) as u64).clamp(1, MOST_OPS);
    let mut tally = Tally::default();
    let mut recorded = Vec::with_capacity(each as usize);
    let mut seeds = fastrand::Rng::with_seed(seed);
    println!("{}: {ops} random operations from seed {seed}", build.name());
    while tally.ops < ops {
        for map in &maps {
            for profile in &PROFILES {
                tally += run(build, map, *profile, seeds.u64(..), each, &mut recorded);
            }
        }
    }
    let rate = tally.ops as f64 / start.elapsed().as_secs_f64() / 1e6;
    println!("{}: {rate:.2} million operations a second\n{tally}", build.name());
    tally
}

/// Returns a number from the environment, or another where it has none.
///
/// # Panics
/// When it has something else.
#[must_use]
pub fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|e| panic!("{name}={text}: {e}")))
}

/// Runs [`random_suite`] and demands that it provoked what the profiles are meant to provoke.
///
/// `PAGEYARD_SEED` and `PAGEYARD_OPS` in the environment replace the seed and the number of operations; runs of fewer
/// than a hundred thousand operations need not provoke anything.
///
/// # Panics
/// As [`random_suite`]; or when something was not provoked.
pub fn random_suite_from_env<B: Build>(build: &B, ops: u64) {
    let tally = random_suite(build, from_env("PAGEYARD_SEED", 0x5eed), from_env("PAGEYARD_OPS", ops));
    if tally.ops < 100_000 {
        return;
    }
    tally.assert_provoked(&[
        "allocs",
        "frees",
        "bulk_allocs",
        "bulk_frees",
        "bulk_partial",
        "splits",
        "claims",
        "drains",
        "checks",
        "bad_request",
        "fragmented",
        "out_of_memory",
        "free_outside",
        "free_not_allocated",
        "free_wrong_order",
        "free_not_head",
        "free_misaligned",
        "free_no_cpu",
        "claim_outside",
        "claim_not_free",
        "claim_misaligned",
    ]);
    if build.has_watermarks() {
        tally.assert_provoked(&["below_watermark"]);
    }
    if build.has_migratetypes() {
        tally.assert_provoked(&["fallbacks"]);
    }
}

fn run<B: Build>(
    build: &B,
    map: &Map,
    profile: Profile,
    seed: u64,
    ops: u64,
    recorded: &mut Vec<Op>,
) -> Tally {
    recorded.clear();
    let mut session = Session::new(build, &map.regions, CPUS);
    // The last operation is recorded before it runs, so a panic in the engine leaves a list that shows it.
    let outcome = catch_unwind(AssertUnwindSafe(|| record(&mut session, profile, seed, ops, recorded)));
    let why = match outcome {
        Ok(Ok(())) => return session.tally,
        Ok(Err(why)) => why,
        Err(_) => "a panic".to_owned(),
    };
    let small = shrink::shrink(build, &map.regions, CPUS, recorded, why);
    panic!(
        "{}, profile \"{}\", map \"{}\", seed {seed}: {}\n\
         {} operations, made from {} in {} runs:\n\n{}",
        build.name(),
        profile.name,
        map.name,
        small.why,
        small.ops.len(),
        recorded.len(),
        small.runs,
        shrink::as_test(&build.expression(), &map.regions, CPUS, &small.ops)
    );
}

fn record<E: pageyard::PageAllocator>(
    session: &mut Session<E>,
    profile: Profile,
    seed: u64,
    ops: u64,
    recorded: &mut Vec<Op>,
) -> Verdict {
    let mut generator = Generator::new(profile, fastrand::Rng::with_seed(seed));
    let check_every = CHECK_EVERY.max(session.model.managed.0 / 4);
    for n in 1..=ops {
        let op = if n % check_every == 0 { Op::Check } else { generator.next(&session.model) };
        recorded.push(op);
        session.apply(op)?;
    }
    session.finish()?;
    session.tally.engine(&session.engine.stats());
    Ok(())
}
