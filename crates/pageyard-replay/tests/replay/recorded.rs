//! Real recordings, replayed: the engines keep their promises, and the counts are the recordings' own.

use pageyard_replay::engine::{Engine, EngineSpec};
use pageyard_replay::replay::{ReplayOptions, ReplayReport, replay};
use pageyard_trace::{Document, Trace};
use std::path::{Path, PathBuf};

/// A recording, and what is known of it: allocations, frees, failed, unknown frees, reallocations.
const RECORDED: [(&str, [u64; 5]); 5] = [
    ("build", [310_967, 178_950, 0, 1_050, 597]),
    ("fork", [870_687, 850_185, 0, 3_086, 21_442]),
    ("net", [496_450, 501_212, 0, 5_721, 42]),
    ("net-order0", [1_000_826, 997_061, 0, 105, 61]),
    ("pressure", [491_625, 765_413, 1_891, 283_989, 22]),
];

/// Finds a recording: those that ship are in the repository, the others beside it if available.
fn find(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let places = [root.join("data/traces"), root.join("../shared/data/traces")];
    places.into_iter().map(|p| p.join(format!("{name}.trace"))).find(|p| p.is_dir())
}

fn run(path: &Path, engines: &[&str], memory: Option<u64>) -> ReplayReport {
    run_with(path, engines, &ReplayOptions { memory, ..ReplayOptions::default() })
}

fn run_with(path: &Path, engines: &[&str], options: &ReplayOptions) -> ReplayReport {
    let trace = Trace::open(path).unwrap();
    let engines = EngineSpec::parse_all(engines, &[]).unwrap();
    replay(&trace, &engines, options, &mut |_, _, _| ()).unwrap()
}

#[test]
fn every_recording_replays_soundly_and_its_counts_are_known() {
    for (name, counts) in RECORDED {
        let Some(path) = find(name) else {
            println!("skipped {name}: the recording is not here (it does not ship with the repository)");
            continue;
        };
        let engines: Vec<&str> = Engine::names().collect();
        let report = run(&path, &engines, None);
        let c = report.trace.counts;
        assert_eq!([c.allocs, c.frees, c.failed, c.unknown_frees, c.reallocations], counts, "{name}");
        for e in &report.engines {
            assert!(e.is_sound(), "{name} on {}: {e}", e.name);
            assert_eq!(e.failures.double_frames, 0, "{name} on {}", e.name);
            assert_eq!(e.failures.refused_frees, 0, "{name} on {}", e.name);
            assert!(e.rows == counts[0] + counts[1] && e.alloc.is_some_and(|l| l.timed > 1000));
            assert!(e.prediction.is_some());
        }
    }
}

#[test]
fn every_recording_replays_soundly_on_a_thread_a_cpu() {
    for (name, counts) in RECORDED {
        let Some(path) = find(name) else {
            println!("skipped {name}: the recording is not here (it does not ship with the repository)");
            continue;
        };
        let options = ReplayOptions { threads: true, ..ReplayOptions::default() };
        let report = run_with(&path, &["pageyard-trylock", "linux-6.18"], &options);
        let c = report.trace.counts;
        assert_eq!([c.allocs, c.frees, c.failed, c.unknown_frees, c.reallocations], counts, "{name}");
        for e in &report.engines {
            assert!(e.is_sound(), "{name} on {}: {e}", e.name);
            assert_eq!(e.waiting.unwrap().threads, 2);
        }
    }
}

#[test]
fn a_replay_on_threads_says_how_many_frees_found_their_pageblock_biased_to_their_cpu() {
    let options = ReplayOptions { threads: true, ..ReplayOptions::default() };
    let report = run_with(&find("build").unwrap(), &["pageyard-biased", "pageyard", "linux-6.18"], &options);
    let document = report.json();
    for (engine, document) in report.engines.iter().zip(document["engines"].as_array().unwrap()) {
        assert!(engine.is_sound(), "{}: {engine}", engine.name);
        let (threads, text) = (&document["threads"], engine.to_string());
        // Where the host has no restartable sequences, nothing is biased.
        if engine.name == "pageyard-biased" && pageyard_arena::rseq::Rseq::new().is_ok() {
            assert!((0.0..=1.0).contains(&threads["biased_share"].as_f64().unwrap()), "{threads}");
            assert!(threads["revocations"].is_u64() && text.contains("taken back"), "{threads}\n{text}");
        } else {
            assert!(threads.get("biased_share").is_none() && threads.get("revocations").is_none());
            assert!(!text.contains("taken back"), "{text}");
        }
    }
}

#[test]
fn an_engine_for_one_thread_is_not_run_on_two() {
    let trace = Trace::open(&find("build").unwrap()).unwrap();
    let engine = EngineSpec::parse_all(&["pageyard-exclusive"], &[]).unwrap();
    let options = ReplayOptions { threads: true, ..ReplayOptions::default() };
    let why = replay(&trace, &engine, &options, &mut |_, _, _| ()).unwrap_err().to_string();
    assert!(why.contains("pageyard-trylock"), "{why}");
}

#[test]
fn a_knob_that_some_engines_have_is_set_on_those() {
    let knob = |k: &str, v: &str| [(k.to_owned(), v.to_owned())];
    let engines = ["pageyard-exclusive", "linux-6.18"];
    assert!(EngineSpec::parse_all(&engines, &knob("fallback", "alike")).is_ok());
    assert!(EngineSpec::parse_all(&engines, &knob("pcp", "false")).is_ok());
    let why = EngineSpec::parse_all(&engines, &knob("fallback", "maybe")).unwrap_err().to_string();
    assert!(why.contains("claim_or_steal"), "{why}");
    let why = EngineSpec::parse_all(&engines, &knob("swappiness", "1")).unwrap_err().to_string();
    assert!(why.contains("swappiness"), "{why}");
}

#[test]
fn the_recorded_kernel_is_predicted_better_than_an_older_one() {
    let report = run(&find("build").unwrap(), &["linux-6.18", "linux-4.6"], None);
    let distance = |i: usize| report.engines[i].prediction.as_ref().unwrap().distance.distance_pct;
    assert!(distance(0) < 10.0, "{}", distance(0));
    assert!(distance(0) < distance(1), "{} {}", distance(0), distance(1));
}

#[test]
fn a_replay_is_deterministic() {
    let path = find("build").unwrap();
    let stable = || {
        let mut json = run(&path, &["linux-6.18"], None).json();
        let engine = &mut json["engines"][0];
        for timing in ["events_per_s", "seconds", "alloc_ns", "free_ns"] {
            assert!(engine.as_object_mut().unwrap().remove(timing).is_some(), "{timing}");
        }
        json
    };
    assert_eq!(stable(), stable());
}

#[test]
fn a_smaller_machine_runs_short() {
    /// Little more than what is in use at the start and freed by the trace.
    const SMALL: u64 = 800 << 20;
    let path = find("build").unwrap();
    let full = run(&path, &["linux-6.18"], None);
    let managed = full.trace.managed.as_bytes();
    let small = run(&path, &["linux-6.18"], Some(SMALL));
    assert_eq!(small.trace.managed.as_bytes(), SMALL);
    assert_eq!(small.trace.taken_away.as_bytes(), managed - SMALL);
    let slow = |r: &ReplayReport| r.engines[0].stats[pageyard::Counter::AllocSlow];
    assert_eq!(slow(&full), 0);
    assert!(slow(&small) > 0 && small.engines[0].failures.allocs > 0, "{small}");
    assert!(small.engines[0].is_sound());
}

#[test]
fn memory_that_cannot_be_had_is_refused_in_one_sentence() {
    let trace = Trace::open(&find("build").unwrap()).unwrap();
    let engine = [EngineSpec::parse("linux-6.18", &[]).unwrap()];
    for memory in [4096, 1 << 40] {
        let options = ReplayOptions { memory: Some(memory), ..ReplayOptions::default() };
        let why = replay(&trace, &engine, &options, &mut |_, _, _| ()).unwrap_err().to_string();
        assert!(why.contains("MiB") && !why.contains('\n'), "{why}");
    }
}

#[test]
fn engines_and_knobs_that_do_not_exist_are_named() {
    let why = EngineSpec::parse("linux-5.0", &[]).unwrap_err().to_string();
    assert!(why.contains("linux-5.0") && why.contains("linux-6.18"), "{why}");
    let why = EngineSpec::parse("linux-6.1", &[("swappiness".into(), "1".into())]).unwrap_err().to_string();
    assert!(why.contains("swappiness") && why.contains("min_free_kbytes"), "{why}");
}

#[test]
fn the_report_reads_as_text_and_as_json() {
    let report = run(&find("build").unwrap(), &["linux-6.18", "linux-6.1"], None);
    let text = report.to_string();
    for part in ["linux-6.18", "rate", "prediction", "Trace quality", "double allocations"] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    let json = report.json();
    let engine = &json["engines"][0];
    for key in [
        "name",
        "events_per_s",
        "seconds",
        "alloc_ns",
        "free_ns",
        "failed_allocs",
        "double_allocations",
        "leaked_frames",
        "fallbacks",
        "free_huge_frames_pct_of_optimum",
        "metadata_bytes_per_frame",
        "buddyinfo",
        "after",
    ] {
        assert!(!engine[key].is_null(), "{key}");
    }
    assert!(engine["after"]["distance_pct"].is_f64());
    assert_eq!(engine["buddyinfo"]["Normal"].as_array().unwrap().len(), 11);
    assert!(!json.to_string().contains("null"), "no value is missing");
}

#[test]
fn an_engine_whose_audit_failed_is_not_sound_and_leaks_an_unknown_number_of_frames() {
    let mut report = run(&find("build").unwrap(), &["linux-6.18"], None);
    let engine = &mut report.engines[0];
    assert_eq!((engine.leaked_frames, engine.is_sound()), (Some(0), true));
    assert!(engine.broken_promises().contains("0 leaked frames"), "{engine}");
    engine.leaked_frames = None;
    assert!(!engine.is_sound(), "an unknown number of leaked frames is not 0");
    let text = engine.to_string();
    assert!(text.contains("double allocations, 0 frees refused") && !text.contains("leaked"), "{text}");
    assert!(report.json()["engines"][0].get("leaked_frames").is_none());
}
