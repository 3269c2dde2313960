//! Frees of the host's reclaim that come early, because a request would be refused.

use crate::made::{alloc, free, run};
use pageyard_replay::engine::EngineSpec;
use pageyard_replay::replay::{EngineReport, ReplayOptions, replay};
use pageyard_trace::{
    Document, Event, FAILED, FrameKind, Meta, Move, MoveKind, MovesWriter, Snapshot, Trace, TraceWriter,
};
use std::path::Path;

/// The thread that reclaims.
const RECLAIMER: u32 = 9;

/// Frames that are free at the start, and that the other thread asks for.
const FREE: u64 = 512;

/// The frames that reclaim frees.
const RECLAIMED: std::ops::Range<u64> = 1024..1536;

const MS: u64 = 1_000_000;

fn at(ms: u64, event: Event) -> Event {
    Event { time_ns: ms * MS, ..event }
}

fn reclaimed(ms: u64, pfn: u64) -> Event {
    at(ms, Event { tid: RECLAIMER, ..free(pfn, 0) })
}

/// All free frames are asked for within a millisecond, and reclaim frees as many later.
fn demand(reclaim_ms: u64) -> Vec<Event> {
    let asked = (0..FREE).map(|pfn| at(1, alloc(pfn, 0)));
    asked.chain(RECLAIMED.map(|pfn| reclaimed(reclaim_ms, pfn))).collect()
}

/// 64 MiB full of page cache, but for the free frames.
fn made(name: &str, events: &[Event], rows: &[Move]) -> Trace {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("early-{name}.trace"));
    drop(std::fs::remove_dir_all(&path));
    let mut writer = TraceWriter::create(&path).unwrap();
    for event in events {
        writer.push(event).unwrap();
    }
    let mut moves = MovesWriter::default();
    for row in rows {
        moves.push(&writer, *row).unwrap();
    }
    moves.finish(&writer, true).unwrap();
    let map = Snapshot { runs: vec![run(0, FREE, FrameKind::Free), run(FREE, 15_872, FrameKind::File)] };
    writer.finish(Meta::new(2), Some(&map), None).unwrap()
}

fn row(ms: u64, kind: MoveKind, pfn: u64, to: u64) -> Move {
    let tid = RECLAIMER;
    Move { time_ns: ms * MS, cpu: 0, tid, kind, pfn, to, order: 0, scanned: 0, done: 0, failed: 0 }
}

/// From the start on.
fn reclaiming() -> Vec<Move> {
    vec![row(0, MoveKind::ReclaimBegin, 0, 0)]
}

fn replayed_with(trace: &Trace, engine: &str, as_recorded: bool) -> EngineReport {
    let engines = EngineSpec::parse_all(&[engine], &[]).unwrap();
    let options = ReplayOptions { as_recorded, ..ReplayOptions::default() };
    let mut report = replay(trace, &engines, &options, &mut |_, _, _| ()).unwrap();
    assert_eq!(report.trace.counts.unresolved_frees, 0, "the row of an early free does nothing");
    let e = report.engines.remove(0);
    assert!(e.is_sound(), "{e}");
    e
}

fn replayed(trace: &Trace, engine: &str) -> EngineReport {
    replayed_with(trace, engine, false)
}

const ENGINES: [&str; 3] = ["linux-6.18", "linux-4.10", "pageyard-exclusive"];

#[test]
fn what_reclaim_frees_soon_serves_a_request_that_would_be_refused() {
    let trace = made("serves", &demand(50), &reclaiming());
    for engine in ENGINES {
        let as_recorded = replayed_with(&trace, engine, true);
        assert!(as_recorded.early.is_none());
        assert!((100..400).contains(&as_recorded.failures.allocs), "{as_recorded}");
        let e = replayed(&trace, engine);
        let early = e.early.unwrap();
        assert_eq!(e.failures.allocs, 0, "{e}");
        assert_eq!(early.requests, early.served);
        assert!((as_recorded.failures.allocs..=512).contains(&early.frames), "{e}");
        // Their rows do nothing then: every frame is freed once.
        assert_eq!(e.audit.unwrap().allocated.0, 15_872 - 512 + FREE, "{e}");
    }
}

#[test]
fn it_comes_early_where_the_host_refused_too() {
    let mut events = demand(50);
    // The request that no engine can serve any more.
    events[FREE as usize - 1].pfn = FAILED;
    let e = replayed(&made("refused", &events, &reclaiming()), "linux-6.18");
    assert_eq!((e.failures.allocs, e.failures.served_where_host_failed), (0, 1), "{e}");
}

#[test]
fn nothing_comes_earlier_than_the_bounds_say() {
    let late = replayed(&made("late", &demand(150), &reclaiming()), "linux-6.18");
    assert!(late.failures.allocs >= 100 && late.early.unwrap().frames == 0, "{late}");
}

#[test]
fn what_is_not_held_yet_is_not_freed_early() {
    // Reclaim frees what is allocated, or came to its frame, after the requests.
    let mut events = demand(50);
    let given = [at(2, free(1, 0)), at(3, alloc(1, 0)), reclaimed(50, 1)];
    events.splice(FREE as usize.., given);
    let mut rows = reclaiming();
    rows.push(row(4, MoveKind::Move, 2000, 3));
    events.insert(FREE as usize, at(2, free(3, 0)));
    events.push(reclaimed(50, 3));
    let e = replayed(&made("later", &events, &rows), "linux-6.18");
    assert_eq!(e.early.unwrap().frames, 0, "{e}");
    assert!(e.failures.allocs >= 100, "{e}");
}

#[test]
fn a_policy_that_keeps_memory_back_is_refused_all_the_same() {
    let asked = (0..FREE).map(|pfn| at(1, alloc(pfn, 0)));
    let events: Vec<Event> = asked.chain((8192..12_000).map(|pfn| reclaimed(50, pfn))).collect();
    let bad = replayed(&made("bad", &events, &reclaiming()), "linux-6.18:min_free_kbytes=16384");
    let early = bad.early.unwrap();
    assert_eq!((early.frames, early.most_frames), (1024, 1024), "{bad}");
    assert_eq!((bad.failures.allocs, early.served), (FREE, 0), "{bad}");
}

#[test]
fn a_recording_that_does_not_say_who_reclaims_is_replayed_as_recorded() {
    let e = replayed(&made("unnamed", &demand(50), &[]), "linux-6.18");
    assert!(e.early.is_none() && e.failures.allocs >= 100, "{e}");
    let mut rows = reclaiming();
    rows.push(row(20, MoveKind::ReclaimEnd, 0, 0));
    let ended = replayed(&made("ended", &demand(50), &rows), "linux-6.18");
    assert!(ended.early.is_none(), "{ended}");
    let trace = made("json", &demand(50), &reclaiming());
    let engine = EngineSpec::parse("linux-6.18", &[]).unwrap();
    let report = replay(&trace, &[engine], &ReplayOptions::default(), &mut |_, _, _| ()).unwrap();
    assert_eq!(report.json()["engines"][0]["early"]["most_ms"], 100);
}
