//! A recording with samples of its host, as a user meets it: replayed beside another one of the same job, and summed
//! up.

use pageyard_documents::figures::check;
use pageyard_documents::schemas;
use pageyard_replay::engine::EngineSpec;
use pageyard_replay::replay::{Follow, ReplayOptions, replay};
use pageyard_trace::{
    Context, Document, Event, EventKind, FrameKind, HostSample, Meta, Move, MoveKind, MovesWriter, ProcTexts,
    Run, SamplesWriter, Snapshot, Summary, Trace, TraceWriter,
};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// 64 MiB, a frame allocated each millisecond, and a host whose free memory shrinks as fast.
fn made(name: &str, faster: u64) -> (PathBuf, Trace) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.trace"));
    drop(std::fs::remove_dir_all(&path));
    let texts = |ms: u64| {
        let single = 2000 - 3 * ms * faster;
        let buddyinfo = format!("Node 0, zone DMA {single} 7 6 5 4 3 2 1 9 8 7\n");
        let vmstat = format!("nr_free_pages {}\npgfree 77\npgalloc_dma {}\n", 20_000 - ms, 1000 + ms);
        let zoneinfo = format!(
            "Node 0, zone   DMA\n  pages free     3840\n        min      16\n        low      20\n        high     24\n\
             \x20       spanned  16384\n        present  16384\n        managed  16384\n        protection: (0, 0)\n\
             \x20 pagesets\n    cpu: 0\n              count:    {}\n              high:     414\n  start_pfn:           0\n",
            13 + ms
        );
        ProcTexts { buddyinfo, zoneinfo, vmstat, ..ProcTexts::default() }
    };
    let mut writer = TraceWriter::create(&path).unwrap();
    let (mut samples, mut moves) = (SamplesWriter::default(), MovesWriter::default());
    for ms in 0..100 {
        let event = Event {
            time_ns: ms * 1_000_000,
            pfn: 2048 + ms,
            gfp: 1 << 1 | 1 << 3 | 1 << 10 | 1 << 11,
            tid: 1,
            cpu: 0,
            kind: EventKind::Alloc,
            order: 0,
            migratetype: 1,
            context: Context::Task,
            irqs_off: false,
        };
        writer.push(&event).unwrap();
        if ms % 8 == 3 {
            let ProcTexts { buddyinfo, zoneinfo, vmstat, .. } = texts(ms);
            let sample = HostSample::of_texts(event.time_ns, &buddyinfo, &zoneinfo, &vmstat).unwrap();
            samples.push(&writer, &sample).unwrap();
        }
    }
    let row = |kind, done| {
        let (pfn, to) = (2050, 12_288);
        Move { time_ns: 90_000_000, cpu: 0, tid: 1, kind, pfn, to, order: 0, scanned: 0, done, failed: 0 }
    };
    moves.push(&writer, row(MoveKind::Move, 0)).unwrap();
    moves.push(&writer, row(MoveKind::Migrated, 23)).unwrap();
    samples.finish(&writer).unwrap();
    moves.finish(&writer, true).unwrap();
    let run = |pfn, frames, kind| Run { pfn, frames, kind, thp: false, unevictable: false };
    let map = Snapshot { runs: vec![run(0, 1024, FrameKind::Anon), run(1024, 15 * 1024, FrameKind::Free)] };
    let meta =
        Meta { duration_ns: 100_000_000, before: Some(texts(0)), after: Some(texts(100)), ..Meta::new(1) };
    let trace = writer.finish(meta, Some(&map), Some(&map)).unwrap();
    (path, trace)
}

#[test]
fn a_sampled_replay_prints_what_its_document_has() {
    let (_, trace) = made("sampled-first", 1);
    let (_, again) = made("sampled-again", 2);
    let engines = EngineSpec::parse_all(&["linux-6.18", "pageyard-exclusive"], &[]).unwrap();
    let orders: Vec<f64> = (0..=10).map(f64::from).collect();
    for (follow, moves) in [
        (Follow::SeenAndInferred, "1 were seen, 0 inferred, 22 are unknown"),
        (Follow::InferredOnly, "of 1 frames that were hidden, 0 were inferred"),
    ] {
        let options = ReplayOptions { repeat: Some(again.clone()), follow, ..ReplayOptions::default() };
        let report = replay(&trace, &engines, &options, &mut |_, _, _| ()).unwrap();
        let text = report.to_string();
        check(&text, &report.json(), &["99 % ", "unusable[9]", "extfrag[9]"], &orders);
        for part in ["host again", "nothing changed", "--repeat", moves, "0.10 s"] {
            assert!(text.contains(part), "`{part}` is not in\n{text}");
        }
    }
    let summary = Summary::of(&trace, |_| ()).unwrap();
    let wording = [
        "extfrag_index, where a request would fail: 0 for lack of memory, 1 because of fragmentation)",
        "Free huge frames (2 MiB)",
        "Pageblocks (2 MiB)",
    ];
    check(&summary.to_string(), &summary.json(), &wording, &orders);
}

fn pageyard(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pageyard")).args(arguments).output().unwrap()
}

#[test]
fn the_command_takes_a_second_recording_and_says_what_is_wrong_with_it() {
    let (first, _) = made("sampled-command", 1);
    let (again, _) = made("sampled-command-again", 3);
    let (first, again) = (first.to_str().unwrap(), again.to_str().unwrap());
    let out = pageyard(&["replay", first, "--repeat", again, "--engine", "linux-6.18", "--json"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let document = schemas::document(&out.stdout);
    let distance = &document["engines"][0]["distance"];
    for baseline in ["no_change", "host_repeat"] {
        let distances = &distance["baselines"][baseline];
        assert!(distances["end"]["blocks_pct"].as_f64().unwrap() > 0.0, "{distances}");
        assert!(!distances["over_time"].as_array().unwrap().is_empty(), "{distances}");
    }
    assert_eq!(document["engines"][0]["moves"]["unknown"], 22);
    let out = pageyard(&["replay", first, "--repeat", "/nowhere/at/all.trace"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        !out.status.success() && said.contains("/nowhere/at/all.trace") && said.lines().count() == 1,
        "{said}"
    );
}

#[test]
fn an_interval_that_is_none_is_refused() {
    for wrong in ["-1", "x", "3600001", "0.5"] {
        let out = pageyard(&["record", &format!("--sample-ms={wrong}"), "--", "true"]);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success() && said.contains("--sample-ms"), "{said}");
    }
}
