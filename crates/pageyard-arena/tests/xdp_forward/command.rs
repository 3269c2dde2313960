//! The command, run as its user runs it: real packets, every allocator, and workers that are killed.
//!
//! Where it cannot run (no root, no AF_XDP, no virtual devices, no `ip`) it says why, and the test prints that.

use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Returns the example, which cargo builds beside the tests.
fn example() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let path = here.parent().and_then(|deps| deps.parent()).unwrap().join("examples/xdp-forward");
    assert!(path.exists(), "build the example first: cargo build -p pageyard-arena --example xdp-forward");
    path
}

fn run(arguments: &[&str]) -> Output {
    Command::new(example()).args(arguments).output().unwrap()
}

/// Returns the reason why it did not run, if it did not.
fn skipped(out: &Output) -> Option<String> {
    let said = String::from_utf8_lossy(&out.stdout);
    let reason = said.strip_prefix("skipped: ").map(|why| why.trim().to_owned());
    assert!(reason.is_none() || out.status.success(), "what cannot run is no failure: {out:?}");
    reason
}

fn number(value: &Value, path: &str) -> i64 {
    value.pointer(path).and_then(Value::as_i64).unwrap_or_else(|| panic!("no {path} in {value:#}"))
}

#[test]
fn every_frame_is_accounted_for_after_a_worker_was_killed() {
    let out = run(&["--queues", "2", "--packets", "20000", "--rounds", "1", "--kill", "1", "--json"]);
    if let Some(why) = skipped(&out) {
        println!("skipped: {why}");
        return;
    }
    assert!(
        out.status.success(),
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    let document: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(document["frames_conserved"], true);
    let results = document["results"].as_array().unwrap();
    assert_eq!(results.len(), 10, "five allocators, completions by the same worker and by another");
    for result in results {
        let run = &result["runs"][0];
        assert_eq!(run["killed"].as_array().unwrap().len(), 1, "{result:#}");
        let places = ["allocator", "fill", "rx", "tx", "completion", "kernel"];
        let frames: i64 = places.iter().map(|place| number(run, &format!("/frames/{place}"))).sum();
        assert_eq!(frames, number(&document, "/frames"), "{result:#}");
        for wrong in ["/frames/lost", "/frames/owned_twice", "/packets/damaged", "/packets/disordered"] {
            assert_eq!(number(run, wrong), 0, "{wrong} in {result:#}");
        }
        assert!(number(run, "/packets/arrived") > 0, "{result:#}");
        assert!(number(run, "/packets/arrived") <= number(run, "/packets/routed"), "{result:#}");
    }
}

#[test]
fn without_root_it_says_why_it_does_not_run() {
    let mut command = Command::new(example());
    // A user without rights; a test that is not root itself has nothing to give up.
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    match command.output() {
        Ok(out) => {
            let why = skipped(&out).unwrap_or_else(|| panic!("it ran without root: {out:?}"));
            assert!(why.contains("root"), "{why}");
        }
        Err(why) => println!("skipped: others than root cannot run programs here ({why})"),
    }
}

#[test]
fn wrong_options_are_refused_by_name() {
    for (arguments, expected) in [
        (&["--ring", "1000"][..], "use 512 or 1024"),
        (&["--queues", "0"], "`--queues` takes a number from 1 to 8"),
        (&["--allocators", "slab"], "pool, pool-trusting, engine, mutex, caches"),
        (&["--completion", "neither"], "same, other or both"),
        (&["--size"], "`--size` takes a value"),
        (&["--fast"], "`--fast` is not an option"),
    ] {
        let out = run(arguments);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    let help = run(&["--help"]);
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("example: "));
}
