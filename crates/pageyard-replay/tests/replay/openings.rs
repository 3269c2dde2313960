//! Opening states are states that a kernel could be in, and the same memory is free on every engine.

use pageyard_replay::engine::EngineSpec;
use pageyard_replay::replay::{EngineReport, ReplayOptions, ReplayReport, SlowPath, replay};
use pageyard_trace::Trace;
use std::path::Path;

const ENGINES: [&str; 6] =
    ["linux-6.18", "linux-6.1", "linux-4.10", "linux-4.6", "pageyard-exclusive", "pageyard"];

fn run(name: &str, engines: &[&str], options: &ReplayOptions) -> ReplayReport {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../data/traces/{name}.trace"));
    let engines = EngineSpec::parse_all(engines, &[]).unwrap();
    replay(&Trace::open(&path).unwrap(), &engines, options, &mut |_, _, _| ()).unwrap()
}

fn smaller(memory: u64) -> ReplayOptions {
    ReplayOptions { memory: Some(memory), ..ReplayOptions::default() }
}

/// Returns the parts of the first sample that must be the same on every engine.
fn first(e: &EngineReport) -> (u64, [Option<f64>; 3]) {
    let s = e.samples[0];
    (s.unheld, [s.free_huge_pct, s.unusable_index, s.extfrag_index])
}

#[test]
fn the_lists_of_a_smaller_machine_do_not_hold_most_of_its_memory() {
    let report = run("build", &ENGINES, &smaller(800 << 20));
    let expected = report.engines[0].samples[0];
    for e in &report.engines {
        assert!(e.is_sound(), "{e}");
        assert_eq!(e.samples[0], expected, "{}", e.name);
        assert!(e.opened.left_in_zones > 0, "{}: the recorded lists held 758 MiB", e.name);
        // 24,534 on linux-6.18 when nearly all free memory lay in lists, where no fallback finds it.
        assert!(e.stats[pageyard::Counter::Extfrag] < 1000, "{e}");
        // Two CPUs and three zones, four batches of 31 at most.
        assert!((1..6 * 4 * 31).contains(&expected.cached), "{expected:?}");
    }
}

#[test]
fn a_smaller_machine_opens_above_its_low_watermarks_or_says_so() {
    for memory in [800 << 20, 770 << 20] {
        let report = run("build", &["linux-6.18"], &smaller(memory));
        let e = &report.engines[0];
        let low: u64 = e.marks.iter().map(|(_, marks, _)| marks.low.0).sum();
        let short: u64 = e.opened.short.iter().map(|zone| zone.short_frames).sum();
        assert!(e.samples[0].free + short >= low, "{e}");
        assert_eq!(e.to_string().contains("opens short of memory"), short > 0, "{e}");
    }
}

#[test]
fn every_engine_opens_with_the_same_frames_free_or_in_lists() {
    for name in ["build", "net-order0"] {
        let report = run(name, &ENGINES, &ReplayOptions::default());
        for e in &report.engines {
            assert_eq!(first(e), first(&report.engines[0]), "{name} on {}", e.name);
        }
        // The recorded kernel's own lists hold what they held.
        assert_eq!(report.engines[0].opened.left_in_zones, 0, "{name}");
        assert!(report.engines[2].opened.left_in_zones > 0, "{name}: a list of 4.10 holds 186 frames");
    }
}

#[test]
fn a_slow_path_and_threads_do_not_change_what_free_means() {
    let plain = run("build", &["linux-6.18"], &smaller(800 << 20));
    let slow_path = Some(SlowPath { reclaim: true, compaction: true, pinned: 0.0 });
    let slow = run("build", &["linux-6.18"], &ReplayOptions { slow_path, ..smaller(800 << 20) });
    let threads = run("build", &["linux-6.18"], &ReplayOptions { threads: true, ..smaller(800 << 20) });
    let expected = plain.engines[0].samples[0];
    assert_eq!(slow.engines[0].samples[0], expected);
    assert_eq!(threads.engines[0].samples[0], expected);
    for report in [plain, slow, threads] {
        let e = &report.engines[0];
        let last = e.samples.last().unwrap();
        let census = e.audit.unwrap();
        assert_eq!((last.free, last.cached), (census.free.0, census.cached.0), "{e}");
    }
}
