//! Every argument of the safe functions of engine, pools and arena, drawn at random: a value, never a fault, and no
//! frame is lost.
//!
//! A failure prints the seed, and the calls that were made. `fuzz/run` draws the same from what libFuzzer finds.

use pageyard_arena::hostile::TARGETS;

/// The bytes of an input: about a call for every eight.
const MOST: usize = 2_000;

/// Inputs of a target. Those of arenas map, fill and check memory.
fn inputs(target: &str) -> u64 {
    if target == "arena" { 200 } else { 3_000 }
}

#[test]
fn wild_arguments_are_values_and_lose_no_frame() {
    for target in TARGETS {
        for seed in 0..inputs(target.name) {
            let mut rng = fastrand::Rng::with_seed(seed);
            let n = rng.usize(..MOST);
            let bytes: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(n).collect();
            let run = std::panic::catch_unwind(|| (target.run)(&bytes));
            assert!(run.is_ok(), "target {}, seed {seed}", target.name);
        }
    }
}

/// Replays libFuzzer's findings: inputs that once broke something, named after what broke.
#[test]
fn what_was_found_is_a_value_now() {
    let found = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/found");
    for target in TARGETS {
        let Ok(files) = found.join(target.name).read_dir() else { continue };
        for file in files {
            let path = file.unwrap().path();
            let run = std::panic::catch_unwind(|| (target.run)(&std::fs::read(&path).unwrap()));
            assert!(run.is_ok(), "{}", path.display());
        }
    }
}
