//! Frees of the host's reclaim that come early, because a request would be refused.

use crate::made::{alloc, free, run};
use pageyard_replay::engine::EngineSpec;
use pageyard_replay::replay::{EngineReport, ReplayOptions, replay};
use pageyard_trace::{
    Document, Event, EventKind, FAILED, FrameKind, Meta, Move, MoveKind, MovesWriter, Snapshot, Trace,
    TraceWriter,
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

/// CPU 1 frees some frames, which then lie in its list.
fn listed(ms: u64) -> impl Iterator<Item = Event> {
    (2000..2040).map(move |pfn| at(ms, Event { cpu: 1, ..free(pfn, 0) }))
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

#[test]
fn a_request_that_may_wait_finds_the_lists_of_all_cpus_emptied() {
    let events: Vec<Event> = listed(0).chain(demand(150)).collect();
    // Nothing comes early, and who reclaims need not be known.
    for rows in [reclaiming(), Vec::new()] {
        let trace = made("lists", &events, &rows);
        // The lists of 4.10 hold nothing in a zone this small, and our engine finds what lies in others' by itself.
        for (engine, expected) in [("linux-6.18", 40..60), ("linux-4.10", 0..1)] {
            let once = replayed_with(&trace, engine, true).failures.allocs;
            let fewer = once - replayed(&trace, engine).failures.allocs;
            assert!(expected.contains(&fewer), "{engine}: {fewer} of {once}");
        }
    }
    let waits_not = |e: Event| Event { gfp: e.gfp & !(1 << 10), ..e };
    let events: Vec<Event> = listed(0).chain(demand(150).into_iter().map(waits_not)).collect();
    let trace = made("waits-not", &events, &reclaiming());
    let once = replayed_with(&trace, "linux-6.18", true).failures.allocs;
    assert_eq!(replayed(&trace, "linux-6.18").failures.allocs, once);
}

#[test]
fn the_reserve_of_atomic_requests_outlasts_what_reclaim_serves() {
    // A block of two that cannot wait is served below the low watermark, and sets its pageblock aside.
    const ATOMIC: u32 = 1 << 5 | 1 << 11;
    let mut events: Vec<Event> = (0..230).map(|pfn| at(1, alloc(pfn, 0))).collect();
    events.push(at(1, Event { gfp: ATOMIC, migratetype: 0, ..alloc(230, 1) }));
    events.extend((232..250).map(|pfn| at(1, alloc(pfn, 0))));
    // More than the reserve.
    events.extend((1024..3072).map(|pfn| reclaimed(50, pfn)));
    let trace = made("reserve", &events, &reclaiming());
    let reserve = |as_recorded| {
        let e = replayed_with(&trace, "linux-6.1", as_recorded);
        ["highatomic_reserve", "highatomic_unreserve"].map(|name| e.counters[name])
    };
    let [[set_aside, given_back], [kept, lost]] = [true, false].map(reserve);
    assert!(set_aside > 0 && given_back > 0, "{set_aside} {given_back} {kept} {lost}");
    assert!(kept > 0 && lost == 0, "{kept} {lost}");
}

#[test]
fn lists_are_emptied_when_the_host_emptied_them() {
    let drained = (2000..2040)
        .map(|pfn| at(2, Event { cpu: 0, ..alloc(pfn, 0) }))
        .map(|e| Event { kind: EventKind::PcpuDrain, ..e });
    let events: Vec<Event> = listed(1).chain(drained).chain([at(3, alloc(0, 0))]).collect();
    let cached = |name, rows: &[Move]| {
        replayed(&made(name, &events, rows), "linux-6.18").samples.last().unwrap().cached
    };
    let (followed, not) = (cached("emptied", &reclaiming()), cached("not-emptied", &[]));
    assert!(not >= 40 && followed < 40, "{followed} {not}");
}
