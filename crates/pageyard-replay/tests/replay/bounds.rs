//! The claims of a trace do not decide how much memory a replay takes.

use pageyard::Context;
use pageyard_replay::engine::{Engine, EngineSpec};
use pageyard_replay::replay::{ReplayOptions, replay};
use pageyard_trace::{Event, EventKind, FrameKind, Meta, Run, Snapshot, Trace, TraceWriter};
use std::path::Path;

/// A trace of one allocation on CPU 1, of a host that claims this many CPUs.
fn claims(cpus: u32) -> Trace {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("claims-{cpus}.trace"));
    drop(std::fs::remove_dir_all(&path));
    let mut writer = TraceWriter::create(&path).unwrap();
    let event = Event {
        time_ns: 1000,
        pfn: 2000,
        gfp: 0,
        tid: 1,
        cpu: 1,
        kind: EventKind::Alloc,
        order: 0,
        migratetype: 1,
        context: Context::Task,
        irqs_off: false,
    };
    writer.push(&event).unwrap();
    let run = Run { pfn: 0, frames: 1 << 14, kind: FrameKind::Free, thp: false, unevictable: false };
    writer.finish(Meta::new(cpus), Some(&Snapshot { runs: vec![run] }), None).unwrap()
}

#[test]
fn cpus_that_a_trace_claims_and_never_names_cost_nothing() {
    let names: Vec<&str> = Engine::names().collect();
    let engines = EngineSpec::parse_all(&names, &[]).unwrap();
    for (claimed, replayed) in [(2, 2), (64, 64), (8192, 64)] {
        let report =
            replay(&claims(claimed), &engines, &ReplayOptions::default(), &mut |_, _, _| ()).unwrap();
        assert_eq!(report.trace.cpus, replayed);
        assert!(report.engines.iter().all(|e| e.is_sound()));
    }
}

#[test]
fn a_cpu_that_does_nothing_gets_no_thread() {
    let engines = EngineSpec::parse_all(&["linux-6.18"], &[]).unwrap();
    let options = ReplayOptions { threads: true, ..ReplayOptions::default() };
    let report = replay(&claims(8192), &engines, &options, &mut |_, _, _| ()).unwrap();
    assert_eq!(report.engines[0].waiting.unwrap().threads, 1);
}
