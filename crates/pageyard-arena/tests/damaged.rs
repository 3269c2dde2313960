//! Bits of an engine's metadata flipped between calls with wild arguments: each call ends with a value.
//!
//! A failure prints the seed, and the calls that were made. With `PAGEYARD_DAMAGED=10000000`, as many words as that
//! says. A process of its own, because assertions about any engine are off once something was damaged.

use pageyard_arena::hostile::damaged;
use std::panic::catch_unwind;

/// The bytes of an input: about a call for every eight.
const MOST: usize = 2_000;

#[test]
fn calls_on_damaged_metadata_end() {
    let wanted = std::env::var("PAGEYARD_DAMAGED").ok().and_then(|n| n.parse().ok()).unwrap_or(50_000);
    let (mut words, mut inputs) = (0, 0);
    while words < wanted {
        let mut rng = fastrand::Rng::with_seed(inputs);
        let n = rng.usize(..MOST);
        let bytes: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(n).collect();
        words += catch_unwind(|| damaged(&bytes)).unwrap_or_else(|_| panic!("seed {inputs}"));
        inputs += 1;
    }
    println!("{words} words damaged in {inputs} inputs");
}

/// Replays libFuzzer's findings: inputs that once broke something, named after what broke.
#[test]
fn what_was_found_ends() {
    let found = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/found/damaged");
    let Ok(files) = found.read_dir() else { return };
    for file in files {
        let path = file.unwrap().path();
        let run = catch_unwind(|| damaged(&std::fs::read(&path).unwrap()));
        assert!(run.is_ok(), "{}", path.display());
    }
}
