//! The reference and `pageyard`, asked the same: where they place blocks is each one's own, everything else is not.

pub mod engines;

use engines::{Linux, Ours};
use pageyard_testkit::differential;
use pageyard_testkit::random::from_env;

/// Operations of each pair, and their seed, where the environment has no others.
const OPS: u64 = 400_000;
const SEED: u64 = 0x5eed;

#[test]
fn both_engines_agree_wherever_the_interface_leaves_no_choice() {
    let (seed, ops) = (from_env("PAGEYARD_SEED", SEED), from_env("PAGEYARD_OPS", OPS));
    for preset in ["linux-6.1", "linux-7.3"] {
        for pcp in [true, false] {
            let agreement = differential::random(&Linux(preset), &Ours { pcp }, seed, ops);
            println!("{preset}, lists {pcp}, seed {seed}: {agreement}");
            // Something was compared, of each kind.
            let each = [agreement.granted, agreement.refused, agreement.by_watermark, agreement.wrong];
            assert!(ops < OPS || each.iter().all(|n| *n > ops / 200), "{agreement}");
        }
    }
}

/// Replays what libFuzzer found: inputs on which the engines once differed, named after how.
#[test]
fn both_engines_agree_on_what_was_found() {
    let found = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/found/differential");
    for file in std::fs::read_dir(found).into_iter().flatten() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        for pcp in [true, false] {
            differential::from_bytes(&Linux("linux-7.3"), &Ours { pcp }, &bytes);
        }
    }
}
