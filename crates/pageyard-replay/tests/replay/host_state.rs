//! The host's state, as a replay takes it from its recording: watermarks, lists, pageblock types, background reclaim.

use crate::made::{KERNEL, alloc, event, free, run};
use pageyard_replay::engine::EngineSpec;
use pageyard_replay::machine::Machine;
use pageyard_replay::replay::{EngineReport, ReplayOptions, ReplayReport, replay};
use pageyard_trace::{
    Event, EventKind, FrameKind, HostSample, Meta, ProcTexts, Run, SamplesWriter, Snapshot, Trace,
    TraceWriter,
};
use std::path::Path;

/// A zone of 64 MiB whose watermarks were computed when half of it was managed, and CPU 0's list with `count` frames.
fn zoneinfo(count: u64) -> String {
    format!(
        "Node 0, zone   Normal\n  pages free 15000\n        boost    0\n        min      300\n        low      375\n        high     450\n        spanned  16384\n        present  16384\n        managed  16384\n        protection: (0, 0, 0)\n  pagesets\n    cpu: 0\n              count: {count}\n              high:  700\n              batch: 3\n  start_pfn: 0\n"
    )
}

/// Writes a trace of that zone; an event each microsecond, and a first sample `sample`, where there is one.
fn made(name: &str, events: &[Event], texts: ProcTexts, sample: Option<(u64, u64)>) -> Trace {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("state-{name}.trace"));
    drop(std::fs::remove_dir_all(&path));
    let mut writer = TraceWriter::create(&path).unwrap();
    for (event, i) in events.iter().zip(1..) {
        writer.push(&Event { time_ns: i * 1000, ..*event }).unwrap();
    }
    let mut samples = SamplesWriter::default();
    if let Some((time, count)) = sample {
        let sample = HostSample::of_texts(time, &texts.buddyinfo, &zoneinfo(count), "").unwrap();
        samples.push(&writer, &sample).unwrap();
        assert_eq!(samples.refused(), 0);
    }
    samples.finish(&writer).unwrap();
    let runs: Vec<Run> = vec![
        run(0, 1024, FrameKind::Other),
        run(1024, 1024, FrameKind::Anon),
        run(2048, 14 * 1024, FrameKind::Free),
    ];
    let meta = Meta { before: Some(texts), ..Meta::new(2) };
    writer.finish(meta, Some(&Snapshot { runs }), None).unwrap()
}

fn texts(count: u64) -> ProcTexts {
    let buddyinfo = "Node 0, zone   Normal      0      0      0      0      0      0      0      0      0      0     14\n";
    ProcTexts { zoneinfo: zoneinfo(count), buddyinfo: buddyinfo.into(), ..ProcTexts::default() }
}

fn of(trace: &Trace, engine: &str) -> ReplayReport {
    let engines = EngineSpec::parse_all(&[engine], &[]).unwrap();
    replay(trace, &engines, &ReplayOptions::default(), &mut |_, _, _| ()).unwrap()
}

fn fallbacks(engine: &EngineReport) -> u64 {
    engine.fallbacks.iter().flatten().flatten().sum()
}

#[test]
fn watermarks_are_the_recorded_ones_until_a_knob_sets_them() {
    let trace = made("marks", &[alloc(4096, 0)], texts(0), None);
    for engine in ["linux-6.18", "linux-6.1", "linux-4.10"] {
        let marks = of(&trace, engine).engines[0].marks[0].1;
        assert_eq!([marks.min.0, marks.low.0, marks.high.0], [300, 375, 450], "{engine}");
    }
    // A kernel that is told another value computes all of them anew.
    let marks = of(&trace, "linux-6.18:min_free_kbytes=4000").engines[0].marks[0].1;
    assert_eq!(marks.min.0, 1000);
}

#[test]
fn the_first_sample_less_the_rows_before_it_says_what_lists_held() {
    // The first row puts a frame into the list, and the sample comes before the second one takes it.
    let events = [free(1024, 0), alloc(1024, 0)];
    let cached = |name, sample| {
        let report = of(&made(name, &events, texts(200), sample), "linux-6.18");
        report.engines[0].samples[0].cached
    };
    assert_eq!(cached("text", None), 200, "the text's");
    assert_eq!(cached("sample", Some((1500, 61))), 60);
    assert_eq!(cached("late", Some((5_000_000_000, 61))), 200, "that is not the beginning");
}

#[test]
fn a_drained_block_lay_in_the_list_that_had_room_for_it_whoever_drained() {
    // Unknown frames, of which CPU 1 drains some. Its own lists hold nothing.
    let drained = |n: u64| (0..n).map(|pfn| Event { cpu: 1, ..event(EventKind::PcpuDrain, pfn, 0, 0) });
    let opening = |name, n| {
        let events: Vec<Event> = drained(n).collect();
        of(&made(name, &events, texts(60), None), "linux-6.18").trace.opening.counts
    };
    let counts = opening("drained", 40);
    assert_eq!((counts.cached_by_event, counts.cached_by_count), (40, 20), "they are among CPU 0's 60");
    let counts = opening("drained-more", 70);
    assert_eq!((counts.cached_by_event, counts.cached_by_count), (70, 0), "ten had come to CPU 1's unseen");
}

#[test]
fn a_pageblock_that_a_fallback_took_had_another_type_before() {
    let fallback = event(EventKind::AllocExtfrag, 4096, 3, 10 << 8 | 1);
    let taken = event(EventKind::AllocZoneLocked, 4096, 3, KERNEL);
    let got = event(EventKind::Alloc, 4096, 3, KERNEL);
    // Until 6.11 the fallback's row comes first, later the block's.
    for (name, events) in [("6.1", [fallback, taken, got]), ("6.12", [taken, fallback, got])] {
        let report = of(&made(name, &events, texts(0), None), "linux-6.18");
        assert_eq!(fallbacks(&report.engines[0]), 1, "{name}");
    }
    let report = of(&made("no-fallback", &[taken, got], texts(0), None), "linux-6.18");
    assert_eq!(fallbacks(&report.engines[0]), 0, "it was of that type already");
}

#[test]
fn whole_free_pageblocks_have_the_types_that_pagetypeinfo_counts() {
    let line = |name: &str, largest: u64| {
        format!("Node    0, zone   Normal, type {name:>12} 0 0 0 0 0 0 0 0 0 0 {largest}\n")
    };
    let pagetypeinfo = |unmovable: u64| {
        format!(
            "Page block order: 9\nPages per block:  512\n\nFree pages count per migrate type at order       0      1      2      3      4      5      6      7      8      9     10\n{}{}\nNumber of blocks type     Unmovable      Movable\nNode 0, zone   Normal {:12} {:12}\n",
            line("Unmovable", unmovable),
            line("Movable", 14 - unmovable),
            2 * unmovable,
            32 - 2 * unmovable
        )
    };
    for (unmovable, falls_back) in [(0, 1), (1, 0)] {
        let texts = ProcTexts { pagetypeinfo: pagetypeinfo(unmovable), ..texts(0) };
        let got = event(EventKind::Alloc, 9000, 0, KERNEL);
        let report = of(&made(&format!("free-{unmovable}"), &[got], texts, None), "linux-6.18");
        assert_eq!(report.trace.opening.counts.types_by_contents, 2 * unmovable);
        assert_eq!(fallbacks(&report.engines[0]), falls_back, "{unmovable} free blocks of that type");
        assert!(report.engines[0].is_sound());
    }
}

fn shipped(name: &str) -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../data/traces/{name}.trace"));
    Trace::open(&path).unwrap()
}

/// The host took 27 blocks of another type. A replay once met none of them: the pageblocks had their later types from
/// the start.
#[test]
fn a_replay_falls_back_about_as_often_as_its_host() {
    let report = of(&shipped("net"), "linux-6.18");
    assert_eq!(report.trace.counts.extfrag, 27);
    assert!((20..=34).contains(&fallbacks(&report.engines[0])), "{}", fallbacks(&report.engines[0]));
}

/// A kernel that reclaims keeps its lists short, and so does its replay: the two nodes' lists once held 10,052 frames
/// at the end where the host's held 653.
#[test]
fn lists_stay_short_while_the_host_reclaims() {
    let trace = shipped("guest-6.1-files");
    let mut machine = Machine::read(&trace, &mut |_, _| ()).unwrap();
    let opening = machine.open(&mut |_, _| ()).unwrap();
    assert_eq!(opening.reclaimers().count(), 2, "one a node");
    let report = of(&trace, "linux-6.1");
    let lists = &report.engines[0].prediction.as_ref().unwrap().lists;
    let sum = |of: fn(&pageyard_replay::replay::ListPrediction) -> u64| lists.iter().map(of).sum::<u64>();
    let (predicted, recorded) = (sum(|l| l.predicted.count), sum(|l| l.recorded.count));
    assert!(predicted < 2 * recorded, "{predicted} predicted, {recorded} recorded");
    assert_eq!(report.engines[0].failures.allocs, 0, "the host refused none");
}
