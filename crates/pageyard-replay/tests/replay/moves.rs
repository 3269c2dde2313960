//! Moves that no row names, inferred from what compaction reports of itself.

use crate::made::{alloc, free, memory, run, sound};
use pageyard_replay::engine::EngineSpec;
use pageyard_replay::replay::{Follow, HiddenMoves, ReplayOptions, ReplayReport, SlowPath, replay};
use pageyard_trace::{
    Document, Event, FrameKind, Meta, Move, MoveKind, MovesWriter, Snapshot, Trace, TraceWriter,
};
use std::path::Path;

/// The thread that compacts; the events of [`alloc`] and [`free`] are its.
const COMPACTOR: u32 = 1;

/// A row of the compactor at a time.
fn row(time_ns: u64, kind: MoveKind, pfn: u64, to: u64, done: u32) -> Move {
    Move { time_ns, cpu: 0, tid: COMPACTOR, kind, pfn, to, order: 0, scanned: 99, done, failed: 0 }
}

/// A compaction around the first two events, that took frames below 512 and moved them to somewhere from 8192 on.
fn compaction(migrated: u32) -> Vec<Move> {
    vec![
        row(100, MoveKind::CompactBegin, 0, 16_384, 0),
        row(200, MoveKind::IsolateMigrate, 0, 512, 2),
        row(300, MoveKind::IsolateFree, 8192, 8704, 4),
        row(2400, MoveKind::Migrated, 0, 0, migrated),
        row(2500, MoveKind::CompactEnd, 512, 8192, 0),
    ]
}

/// 64 MiB, 1,024 frames of it in use; an event each microsecond, and rows about moves.
fn made(name: &str, events: &[Event], mut rows: Vec<Move>) -> Trace {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("moves-{name}.trace"));
    drop(std::fs::remove_dir_all(&path));
    let mut writer = TraceWriter::create(&path).unwrap();
    for (event, i) in events.iter().zip(1..) {
        writer.push(&Event { time_ns: i * 1000, ..*event }).unwrap();
    }
    rows.sort_by_key(|row| row.time_ns);
    let mut moves = MovesWriter::default();
    for row in rows {
        moves.push(&writer, row).unwrap();
    }
    assert_eq!(moves.refused(), 0);
    moves.finish(&writer, true).unwrap();
    let map = Snapshot { runs: memory(FrameKind::Anon).unwrap() };
    writer.finish(Meta::new(2), Some(&map), None).unwrap()
}

/// Replays it on every kind of engine, and in every way on the first.
fn replayed(trace: &Trace, follow: Follow) -> ReplayReport {
    let names = ["linux-6.18", "linux-4.10", "pageyard-exclusive"];
    let engines: Vec<_> = names.iter().map(|e| EngineSpec::parse(e, &[]).unwrap()).collect();
    let plain = ReplayOptions { follow, ..ReplayOptions::default() };
    let slow_path = Some("reclaim,compaction".parse::<SlowPath>().unwrap());
    let report = replay(trace, &engines, &plain, &mut |_, _, _| ()).unwrap();
    let threads = ReplayOptions { threads: true, ..plain.clone() };
    let others = [
        replay(trace, &engines[..1], &threads, &mut |_, _, _| ()).unwrap(),
        replay(trace, &engines[..1], &ReplayOptions { slow_path, ..plain }, &mut |_, _, _| ()).unwrap(),
    ];
    let held = |report: &ReplayReport| report.engines[0].audit.unwrap().allocated;
    for other in &others {
        assert_eq!((other.trace.counts, held(other)), (report.trace.counts, held(&report)));
        assert_eq!(other.engines[0].moves, report.engines[0].moves);
    }
    for e in report.engines.iter().chain(others.iter().flat_map(|r| &r.engines)) {
        assert!(e.is_sound(), "{e}");
    }
    report
}

/// The frames held at the end, on each engine.
fn held(report: &ReplayReport) -> Vec<u64> {
    report.engines.iter().map(|e| e.audit.unwrap().allocated.0).collect()
}

#[test]
fn what_the_compacting_thread_frees_is_held_until_it_is_freed_where_it_went() {
    let moved = [free(10, 0), free(11, 0)];
    let trace = made("adrift", &[&moved[..], &[alloc(2048, 0)]].concat(), compaction(2));
    let report = replayed(&trace, Follow::default());
    assert_eq!(held(&report), [1024 + 1; 3], "nothing was freed");
    let moves = report.engines[0].moves.unwrap();
    assert_eq!((moves.seen, moves.inferred, moves.unknown, moves.check), (0, 2, 0, None));
    assert_eq!(held(&replayed(&trace, Follow::SeenOnly)), [1024 - 2 + 1; 3]);

    // Two are freed where they went; a third free there is of nothing known.
    let after = [alloc(2048, 0), free(8200, 0), free(8703, 0), free(8300, 0)];
    let trace = made("found", &[&moved[..], &after].concat(), compaction(2));
    let report = replayed(&trace, Follow::default());
    assert_eq!(held(&report), [1024 - 2 + 1; 3]);
    let c = report.trace.counts;
    assert_eq!((c.inferred_frames, c.freed_after_inferred), (2, 2));
    assert_eq!((c.unknown_frees, c.unresolved_frees), (1, 1));
    let c = replayed(&trace, Follow::SeenOnly).trace.counts;
    assert_eq!((c.inferred_frames, c.unknown_frees, c.unresolved_frees), (0, 5, 3));
    let json = report.json();
    let moves = serde_json::json!({"seen": 0, "carried_out": 0, "inferred": 2, "unknown": 0});
    assert_eq!(json["engines"][0]["moves"], moves);
}

#[test]
fn frees_of_others_elsewhere_and_after_the_end_are_frees() {
    let by = |tid, event| Event { tid, ..event };
    let softirq = Event { context: pageyard::Context::Softirq, ..free(12, 0) };
    // The third comes after the end of the compaction.
    for (name, first) in [("other", by(2, free(12, 0))), ("softirq", softirq), ("elsewhere", free(700, 0))] {
        let trace = made(name, &[first, free(10, 0), free(13, 0), alloc(2048, 0)], compaction(1));
        let report = replayed(&trace, Follow::default());
        assert_eq!(report.trace.counts.inferred_frames, 1, "{name}");
        assert_eq!(held(&report), [1024 - 2 + 1; 3], "{name}");
    }
}

#[test]
fn large_blocks_move_whole_and_are_freed_in_parts() {
    let events = [free(256, 6), free(10, 0), alloc(2048, 0), free(8192, 5), free(8224, 4), free(8700, 0)];
    let report = replayed(&made("large", &events, compaction(65)), Follow::default());
    assert_eq!(held(&report), [1024 - 32 - 16 - 1 + 1; 3]);
    let moves = report.engines[0].moves.unwrap();
    assert_eq!((moves.inferred, moves.unknown), (65, 0));
}

#[test]
fn what_was_allocated_or_seen_to_move_there_is_not_what_was_adrift() {
    let named = row(900, MoveKind::Move, 10, 8200, 0);
    let rows = [compaction(2), vec![named]].concat();
    let events = [free(10, 0), free(11, 0), alloc(8300, 0), free(8300, 0), free(8300, 0), free(8200, 0)];
    let report = replayed(&made("settled", &events, rows), Follow::default());
    // 8300 was free when it was allocated, so what was at 11 is elsewhere; 8200 is what was at 10.
    assert_eq!(held(&report), [1024 - 1; 3]);
    let c = report.trace.counts;
    assert_eq!((c.moves, c.freed_after_moves, c.inferred_frames, c.unresolved_frees), (1, 1, 1, 1));
    let moves = report.engines[0].moves.unwrap();
    assert_eq!((moves.seen, moves.inferred, moves.unknown), (1, 1, 0));
}

#[test]
fn hidden_moves_say_how_good_the_inference_is() {
    let named = row(900, MoveKind::Move, 10, 8200, 0);
    let events = [free(10, 0), free(11, 0), alloc(2048, 0), free(8200, 0), free(8201, 0)];
    let check = |migrated, name: &str| {
        let rows = [compaction(migrated), vec![named]].concat();
        let report = replayed(&made(name, &events, rows), Follow::InferredOnly);
        let text = report.to_string();
        assert!(text.contains("of 1 frames that were hidden, 1 were inferred"), "{text}");
        report.engines[0].moves.unwrap()
    };
    // The other move ends as well, where no row says: one more is claimed.
    let good = HiddenMoves {
        hidden: 1,
        inferred: 1,
        freed: 1,
        freed_inferred: 1,
        freed_claimed: 2,
        beyond_count: 0,
    };
    let moves = check(2, "hidden");
    assert_eq!((moves.seen, moves.inferred, moves.unknown, moves.check), (0, 2, 0, Some(good)));
    // The host counts one move, and two are inferred: one of them is wrong.
    let moves = check(1, "hidden-beyond");
    assert_eq!(moves.check, Some(HiddenMoves { beyond_count: 1, ..good }));
}

/// 64 MiB without a free huge frame, half of each pageblock free. The host moves what the third one holds into the
/// fourth, and serves a request for a huge frame there. `moves_by` says that the rows name every move.
fn emptied(name: &str, moves_by: Option<&str>) -> Trace {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("moves-{name}.trace"));
    drop(std::fs::remove_dir_all(&path));
    let mut writer = TraceWriter::create(&path).unwrap();
    let mut moves = MovesWriter::default();
    moves.push(&writer, row(100, MoveKind::CompactBegin, 1024, 16_384, 0)).unwrap();
    moves.push(&writer, row(200, MoveKind::IsolateMigrate, 1024, 1536, 256)).unwrap();
    for i in 0..256 {
        moves.push(&writer, row(1000 + i, MoveKind::Move, 1024 + i, 1792 + i, 0)).unwrap();
        writer.push(&Event { time_ns: 1000 + i, ..free(1024 + i, 0) }).unwrap();
    }
    moves.push(&writer, row(2000, MoveKind::Migrated, 0, 0, 256)).unwrap();
    moves.push(&writer, row(2500, MoveKind::CompactEnd, 1536, 2048, 0)).unwrap();
    writer.push(&Event { time_ns: 3000, ..alloc(1024, 9) }).unwrap();
    writer.push(&Event { time_ns: 4000, ..free(1792, 0) }).unwrap();
    moves.finish(&writer, true).unwrap();
    let held = |at| if at == 1024 { FrameKind::Anon } else { FrameKind::Slab };
    let runs = (0..16 * 1024).step_by(512);
    let runs = runs.flat_map(|at| [run(at, 256, held(at)), run(at + 256, 256, FrameKind::Free)]).collect();
    let meta = Meta { moves_by: moves_by.map(str::to_owned), ..Meta::new(2) };
    writer.finish(meta, Some(&Snapshot { runs }), None).unwrap()
}

#[test]
fn a_pageblock_that_the_host_emptied_is_emptied_here_where_rows_name_every_move() {
    let held = 32 * 256 - 1;
    let report = sound(&emptied("emptied", Some("folio_migrate_flags")));
    for e in &report.engines {
        let moves = e.moves.unwrap();
        assert_eq!((moves.seen, moves.carried_out, e.failures.allocs), (256, 256, 0), "{e}");
        assert_eq!(e.audit.unwrap().allocated.0, held + 512, "{e}");
    }
    let text = report.to_string();
    assert!(text.contains("256 were seen and 256 of them moved here too, 0 inferred"), "{text}");
    // A recording that may lack some: a part of a compaction would free no pageblock.
    let report = sound(&emptied("not-all", None));
    for e in &report.engines {
        let moves = e.moves.unwrap();
        assert_eq!((moves.seen, moves.carried_out, e.failures.allocs), (256, 0, 1), "{e}");
        assert_eq!(e.audit.unwrap().allocated.0, held, "{e}");
    }
}
