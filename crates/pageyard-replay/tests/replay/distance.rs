//! How far a replay is from the host: at the end, at the host's samples, and beside what that is worth.

use crate::made::{alloc, free, memory, try_replay};
use pageyard_replay::engine::EngineSpec;
use pageyard_replay::replay::{Distances, EngineReport, ReplayOptions, ReplayReport, SlowPath, replay};
use pageyard_trace::{
    Document, Event, FrameKind, HostSample, Meta, Move, MoveKind, MovesWriter, ProcTexts, SamplesWriter,
    Snapshot, Trace, TraceWriter,
};
use std::path::Path;

/// A made-up host's account of itself.
#[derive(Default)]
struct Said {
    before: Option<String>,
    samples: Vec<(u64, String)>,
    after: Option<String>,
    /// Frames of moves by the host's own count, before the one that is seen; and whether moves are recorded at all.
    migrated: Option<u32>,
    /// `pgmigrate_success` before and after.
    vmstat: Option<(u64, u64)>,
}

/// 64 MiB with 1,024 frames in use; an event each microsecond.
fn made(name: &str, said: &Said) -> Trace {
    let events = [alloc(2048, 0), alloc(4096, 3), free(2048, 0), alloc(8192, 9), alloc(9000, 0)];
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("distance-{name}.trace"));
    drop(std::fs::remove_dir_all(&path));
    let mut writer = TraceWriter::create(&path).unwrap();
    for (event, i) in events.iter().zip(1..) {
        writer.push(&Event { time_ns: i * 1000, ..*event }).unwrap();
    }
    let mut samples = SamplesWriter::default();
    for (time, buddyinfo) in &said.samples {
        samples.push(&writer, &HostSample::of_texts(*time, buddyinfo, "", "").unwrap()).unwrap();
    }
    assert_eq!(samples.refused(), 0);
    samples.finish(&writer).unwrap();
    if let Some(done) = said.migrated {
        let mut moves = MovesWriter::default();
        let row = |kind, done| {
            let (pfn, to) = (4096, 12_288);
            Move { time_ns: 4500, cpu: 0, tid: 1, kind, pfn, to, order: 3, scanned: 0, done, failed: 0 }
        };
        moves.push(&writer, row(MoveKind::Move, 0)).unwrap();
        moves.push(&writer, row(MoveKind::Migrated, done)).unwrap();
        moves.finish(&writer, true).unwrap();
    }
    let texts = |buddyinfo: &Option<String>, migrated: Option<u64>| {
        let vmstat = migrated.map(|n| format!("pgmigrate_success {n}\n")).unwrap_or_default();
        let buddyinfo = buddyinfo.clone().unwrap_or_default();
        (!buddyinfo.is_empty() || !vmstat.is_empty()).then(|| ProcTexts {
            buddyinfo,
            vmstat,
            ..ProcTexts::default()
        })
    };
    let meta = Meta {
        before: texts(&said.before, said.vmstat.map(|v| v.0)),
        after: texts(&said.after, said.vmstat.map(|v| v.1)),
        ..Meta::new(2)
    };
    let map = Snapshot { runs: memory(FrameKind::Anon).unwrap() };
    writer.finish(meta, Some(&map), None).unwrap()
}

fn line(zone: &str, row: &[u64]) -> String {
    let row: Vec<_> = row.iter().map(u64::to_string).collect();
    format!("Node 0, zone {zone} {}\n", row.join(" "))
}

/// The text that an engine's end would make.
fn end_of(engine: &EngineReport) -> String {
    engine.buddyinfo.iter().map(|(zone, row)| line(zone, row)).collect()
}

fn of(trace: &Trace, engine: &str, options: &ReplayOptions) -> ReplayReport {
    let report =
        replay(trace, &[EngineSpec::parse(engine, &[]).unwrap()], options, &mut |_, _, _| ()).unwrap();
    let json = report.json().to_string();
    assert!(report.engines[0].is_sound() && !json.contains("null"), "{report} {json}");
    report
}

fn blocks(distances: &Distances) -> Vec<(u64, bool)> {
    distances.over_time.iter().map(|d| (d.time_ns, d.distance.blocks_pct == 0.0)).collect()
}

#[test]
fn each_sample_is_compared_with_the_engine_at_its_time() {
    for engine in ["linux-6.18", "pageyard-exclusive"] {
        let none = ReplayOptions::default();
        // What the engine has at its end is told by a replay of the same without samples.
        let plain = of(&made("plain", &Said::default()), engine, &none);
        let end = end_of(&plain.engines[0]);
        assert!(plain.engines[0].distance.is_none());
        assert!(plain.json()["engines"][0].get("distance").is_none());
        let begun = of(&made("begun", &Said { before: Some(end.clone()), ..Said::default() }), engine, &none);
        assert!(begun.engines[0].distance.is_none(), "a beginning alone is nothing to compare with");
        let zones = plain.engines[0].buddyinfo.iter();
        let other: String = zones.map(|(zone, _)| line(zone, &[9, 9, 9, 0, 0, 0, 0, 0, 0, 0, 0])).collect();
        let samples =
            vec![(500, other.clone()), (4999, other.clone()), (5500, end.clone()), (9000, end.clone())];
        let said = Said { before: Some(other), samples, after: Some(end), ..Said::default() };
        let trace = made(&format!("sampled-{engine}"), &said);
        for options in [
            none.clone(),
            ReplayOptions {
                slow_path: Some("none".parse::<SlowPath>().unwrap()),
                ..ReplayOptions::default()
            },
        ] {
            let report = of(&trace, engine, &options);
            let distance = report.engines[0].distance.as_ref().unwrap();
            // The last two come after the last row.
            assert_eq!(blocks(&distance.engine), [(500, false), (4999, false), (5500, true), (9000, true)]);
            assert_eq!(distance.engine.end.unwrap().blocks_pct, 0.0);
            let no_change = distance.baselines.no_change.as_ref().unwrap();
            assert_eq!(blocks(no_change), [(500, true), (4999, true), (5500, false), (9000, false)]);
            assert!(no_change.end.unwrap().blocks_pct > 50.0 && distance.baselines.host_repeat.is_none());
            let json = &report.json()["engines"][0]["distance"];
            assert_eq!(json["end"]["frames_pct"], 0.0);
            assert_eq!(
                json["over_time"][2],
                serde_json::json!({"time_ns": 5500, "blocks_pct": 0.0, "frames_pct": 0.0})
            );
            assert!(json["baselines"].get("host_repeat").is_none());
            assert_eq!(json["baselines"]["no_change"]["over_time"].as_array().unwrap().len(), 4);
            // The end's distance is the one that was there before.
            let p = report.engines[0].prediction.as_ref().unwrap();
            let d = distance.engine.end.unwrap();
            assert_eq!(
                (d.blocks_pct, d.frames_pct),
                (p.distance.distance_pct, p.distance.distance_frames_pct)
            );
            let d = no_change.end.unwrap();
            let unchanged = p.unchanged.unwrap();
            assert_eq!((d.blocks_pct, d.frames_pct), (unchanged.distance_pct, unchanged.distance_frames_pct));
            let text = report.to_string();
            for part in ["this engine", "nothing changed", "0.0 / 0.0"] {
                assert!(text.contains(part), "`{part}` is not in\n{text}");
            }
            assert!(!text.contains("host again") && !text.contains("--repeat"), "{text}");
        }
    }
}

#[test]
fn samples_are_compared_on_threads_too_and_without_an_end() {
    let said = Said { samples: vec![(10, line("DMA", &[1])), (20, line("DMA", &[2]))], ..Said::default() };
    let trace = made("threads", &said);
    let report = of(&trace, "pageyard", &ReplayOptions { threads: true, ..ReplayOptions::default() });
    let distance = report.engines[0].distance.as_ref().unwrap();
    assert_eq!((distance.engine.over_time.len(), distance.engine.end), (2, None));
    // The snapshot of memory is a beginning as well, where there is no text.
    assert!(distance.baselines.no_change.is_some());
    let json = &report.json()["engines"][0]["distance"];
    assert!(json.get("end").is_none() && json["over_time"].as_array().unwrap().len() == 2, "{json}");
}

#[test]
fn the_host_is_compared_with_itself_in_another_recording() {
    let rows = |n: u64| line("DMA", &[n, 0, 7]);
    let said = |n: u64, last: u64| Said {
        before: Some(rows(1)),
        samples: vec![(1000, rows(n)), (last, rows(n))],
        after: Some(rows(2 * n)),
        ..Said::default()
    };
    let (first, second) = (made("first", &said(3, 9000)), made("second", &said(9, 8000)));
    let options = |repeat: &Trace| ReplayOptions { repeat: Some(repeat.clone()), ..ReplayOptions::default() };
    let report = of(&first, "linux-6.18", &options(&second));
    let repeat = report.engines[0].distance.as_ref().unwrap().baselines.host_repeat.clone().unwrap();
    // Of 9 + 3 single frames and twice 7 larger blocks, 6 are apart. The other recording was over at 8,000 ns.
    assert_eq!(repeat.over_time.iter().map(|d| d.time_ns).collect::<Vec<_>>(), [1000]);
    assert!((repeat.over_time[0].distance.blocks_pct - 100.0 * 6.0 / 26.0).abs() < 1e-9, "{repeat:?}");
    assert!((repeat.end.unwrap().blocks_pct - 100.0 * 12.0 / 38.0).abs() < 1e-9, "{repeat:?}");
    let text = report.to_string();
    assert!(
        text.contains("in the other recording (--repeat), is 31.6 % apart") && text.contains("host again"),
        "{text}"
    );
    let same = of(&first, "linux-6.18", &options(&first));
    let same = same.engines[0].distance.as_ref().unwrap().baselines.host_repeat.clone().unwrap();
    assert!(
        same.end.unwrap().blocks_pct == 0.0 && same.over_time.iter().all(|d| d.distance.blocks_pct == 0.0)
    );
}

#[test]
fn another_recording_that_cannot_be_compared_is_refused() {
    let said = |zone: &str| Said {
        before: Some(line(zone, &[1])),
        after: Some(line(zone, &[1])),
        ..Said::default()
    };
    let first = made("one", &said("DMA"));
    let refused = |repeat: &Trace| {
        let options = ReplayOptions { repeat: Some(repeat.clone()), ..ReplayOptions::default() };
        try_replay(&first, &options).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&made("elsewhere", &said("Normal"))),
        "--repeat distance-elsewhere: its host has other zones; record the same job on the same host again"
    );
    let endless = Said { before: Some(line("DMA", &[1])), ..Said::default() };
    assert_eq!(
        refused(&made("endless", &endless)),
        "--repeat distance-endless: it has neither samples nor an end; record the job again, to its end"
    );
}

#[test]
fn frames_that_the_host_moved_are_seen_or_unknown() {
    let moves = |name: &str, said: Said| {
        let report = of(&made(name, &said), "linux-6.18", &ReplayOptions::default());
        let text = report.to_string();
        (report.json()["engines"][0].get("moves").cloned(), text)
    };
    let (json, text) = moves("moved", Said { migrated: Some(11), ..Said::default() });
    assert_eq!(json, Some(serde_json::json!({"seen": 8, "carried_out": 0, "inferred": 0, "unknown": 3})));
    assert!(text.contains("8 were seen, 0 inferred, 3 are unknown"), "{text}");
    // Without a file of moves, by the host's own counter.
    let (json, _) = moves("moved-unseen", Said { vmstat: Some((100, 105)), ..Said::default() });
    assert_eq!(json, Some(serde_json::json!({"seen": 0, "carried_out": 0, "inferred": 0, "unknown": 5})));
    let (json, text) = moves("moved-nothing", Said::default());
    assert!(json.is_none() && !text.contains("  moves "), "{text}");
}

#[test]
fn a_bad_sample_ends_a_replay_in_one_sentence() {
    let trace = made("spoilt", &Said { samples: vec![(10, line("DMA", &[1]))], ..Said::default() });
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("distance-spoilt.trace");
    std::fs::write(path.join("samples.parquet"), "PAR1 nothing of the kind PAR1").unwrap();
    let error = try_replay(&trace, &ReplayOptions::default()).unwrap_err().to_string();
    assert!(error.contains("samples.parquet") && error.lines().count() == 1, "{error}");
}
