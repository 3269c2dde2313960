//! A summary's figures for failures and moves.

use pageyard::Context;
use pageyard_trace::{
    Event, EventKind, FAILED, FAILURES_SHOWN, FailureReason, FrameKind, Meta, Move, MoveKind, MovesWriter,
    ProcTexts, Run, Snapshot, Summary, TraceWriter,
};

const ZONEINFO: &str = "Node 0, zone   Normal\n  pages free 512\n        boost    0\n        min      8\n        low      10\n        \
    high     12\n        spanned  2048\n        present  2048\n        managed  2000\n        protection: (0, 0, 0, 0, 0)\n  \
    start_pfn: 0\n";

fn event(time_ns: u64, kind: EventKind, pfn: u64, order: u8) -> Event {
    Event {
        time_ns,
        pfn,
        gfp: 0xcc0,
        tid: 5,
        cpu: 1,
        kind,
        order,
        migratetype: 0,
        context: Context::Softirq,
        irqs_off: false,
    }
}

/// 2,048 frames, of which every other one of the first 1,024 is free: 2 MiB, and no block larger than a frame.
fn before() -> Snapshot {
    let run = |pfn, frames, kind| Run { pfn, frames, kind, thp: false, unevictable: false };
    let mut runs: Vec<Run> = (0..1024)
        .map(|pfn| run(pfn, 1, if pfn % 2 == 0 { FrameKind::Free } else { FrameKind::Slab }))
        .collect();
    runs.push(run(1024, 1024, FrameKind::Anon));
    Snapshot { runs }
}

fn summary(events: &[Event], moves: &[Move], texts: Option<ProcTexts>) -> Summary {
    summary_with(events, moves, texts, None)
}

fn summary_with(
    events: &[Event],
    moves: &[Move],
    texts: Option<ProcTexts>,
    after: Option<&Snapshot>,
) -> Summary {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = TraceWriter::create(&folder.path().join("a.trace")).unwrap();
    for event in events {
        writer.push(event).unwrap();
    }
    let mut rows = MovesWriter::default();
    for row in moves {
        rows.push(&writer, *row).unwrap();
    }
    rows.finish(&writer, !moves.is_empty()).unwrap();
    let meta = Meta { before: texts, duration_ns: 1_000_000, ..Meta::new(2) };
    let trace = writer.finish(meta, Some(&before()), after).unwrap();
    Summary::of(&trace, |_| {}).unwrap()
}

fn texts() -> Option<ProcTexts> {
    Some(ProcTexts { zoneinfo: ZONEINFO.into(), ..ProcTexts::default() })
}

#[test]
fn a_failure_says_what_was_asked_for_what_was_free_and_why() {
    let mut events = vec![event(10, EventKind::Alloc, FAILED, 3)];
    // A free next to free frames makes a block of order 1, and another one a block of order 2.
    events.push(event(20, EventKind::Free, 1, 0));
    events.push(event(21, EventKind::Free, 3, 0));
    events.push(event(30, EventKind::Alloc, FAILED, 2));
    // All but eight of the 514 frames go.
    events.extend(
        (0..506).map(|i| event(40, EventKind::Alloc, if i < 2 { i * 2 + 1 } else { 1022 - (i - 2) * 2 }, 0)),
    );
    events.push(event(50, EventKind::Alloc, FAILED, 0));
    events.push(event(60, EventKind::Alloc, FAILED, 9));
    let found = summary(&events, &[], texts());
    let first = &found.failures.first;
    let reasons: Vec<_> = first.iter().map(|f| f.reason.unwrap()).collect();
    assert_eq!(
        reasons,
        [
            FailureReason::Fragmented,
            FailureReason::Unexplained,
            FailureReason::BelowWatermark,
            FailureReason::OutOfMemory
        ]
    );
    assert_eq!(first[0].free_blocks.unwrap()[..2], [512, 0]);
    assert_eq!(first[1].free_blocks.unwrap()[..3], [510, 0, 1]);
    assert_eq!(first[2].free_blocks.unwrap()[0], 8);
    let json = found.json();
    assert_eq!(json["failures"]["count"], 4);
    let row = &json["failures"]["first"][0];
    assert_eq!(
        (&row["gfp"], &row["order"], &row["reason"]),
        (&"GFP_KERNEL".into(), &3.into(), &"fragmented".into())
    );
    assert_eq!(
        (&row["context"], &row["thread"], &row["time_ns"]),
        (&"softirq".into(), &5.into(), &10.into())
    );
    assert_eq!(json["failures"]["by_kind"].as_array().unwrap().len(), 4);
    assert!(!json.to_string().contains("null"));
    let text = found.to_string();
    assert!(
        text.contains("Failures: 4 requests got nothing\n") && text.contains("below watermark"),
        "{text}"
    );
}

#[test]
fn failures_are_bounded_and_those_left_out_are_counted() {
    let events: Vec<Event> =
        (0..1000).map(|i| Event { tid: i as u32 % 300, ..event(i, EventKind::Alloc, FAILED, 4) }).collect();
    let found = summary(&events, &[], None);
    assert_eq!(found.failures.first.len(), FAILURES_SHOWN);
    assert!(found.failures.first.iter().all(|f| f.reason.is_none()), "nothing is known of zones");
    let json = found.json();
    assert_eq!(
        (&json["failures"]["left_out"], &json["failures"]["kinds_left_out"]),
        (&980.into(), &200.into())
    );
    let text = found.to_string();
    assert!(text.contains("1,000 requests got nothing; the first 20 of them, 980 left out"), "{text}");
    assert!(text.contains("of other kinds are left out"), "{text}");
    assert!(text.lines().count() < 100);
}

#[test]
fn moves_are_counted_and_their_destinations_are_in_use() {
    let row = |kind, pfn, to, order, scanned, done, failed| Move {
        time_ns: 5,
        cpu: 0,
        tid: 1,
        kind,
        pfn,
        to,
        order,
        scanned,
        done,
        failed,
    };
    let moves = [
        row(MoveKind::CompactBegin, 0, 2048, 0, 0, 0, 0),
        row(MoveKind::IsolateMigrate, 1024, 1536, 0, 512, 30, 0),
        row(MoveKind::IsolateFree, 0, 512, 0, 400, 32, 0),
        row(MoveKind::Move, 1030, 4, 0, 0, 0, 0),
        row(MoveKind::Migrated, 0, 0, 0, 0, 29, 1),
    ];
    let found = summary(&[event(10, EventKind::Alloc, FAILED, 3)], &moves, texts());
    assert_eq!(found.failures.first[0].free_blocks.unwrap()[0], 511);
    let moved = &found.json()["moves"];
    for (key, n) in [
        ("frames_moved", 29),
        ("frames_not_moved", 1),
        ("compact_migrate_scanned", 512),
        ("compact_migrate_isolated", 30),
        ("compact_free_scanned", 400),
        ("compact_free_isolated", 32),
        ("frames_moved_with_both_known", 1),
    ] {
        assert_eq!(moved[key], n, "{key}");
    }
    let text = found.to_string();
    assert!(text.contains("Moves by compaction and migration"), "{text}");
    let none = summary(&[], &[], None);
    assert!(
        none.to_string().contains("Moves: the recording does not say") && none.json().get("moves").is_none()
    );
}

#[test]
fn what_memory_held_is_said_before_and_after() {
    let pagetypeinfo = "Page block order: 9\nPages per block:  512\n\n\
        Number of blocks type     Unmovable      Movable  Reclaimable   HighAtomic\n\
        Node 0, zone   Normal            2            1            1            0\n";
    let texts =
        ProcTexts { zoneinfo: ZONEINFO.into(), pagetypeinfo: pagetypeinfo.into(), ..ProcTexts::default() };
    let run = |pfn, frames, kind| Run { pfn, frames, kind, thp: false, unevictable: false };
    let after = Snapshot { runs: vec![run(0, 1024, FrameKind::Free), run(1024, 1024, FrameKind::File)] };
    let found = summary_with(&[], &[], Some(texts), Some(&after));
    let contents = &found.json()["contents"];
    let (before, after) = (&contents["before"], &contents["after"]);
    let frames =
        |of: &serde_json::Value| ["free", "slab", "anon", "file"].map(|k| of["frames"][k].as_u64().unwrap());
    assert_eq!((frames(before), frames(after)), ([512, 512, 1024, 0], [1024, 0, 0, 1024]));
    let blocks =
        |of: &serde_json::Value| ["free", "movable", "slab"].map(|k| of["pageblocks"][k].as_u64().unwrap());
    assert_eq!((blocks(before), blocks(after)), ([0, 2, 2], [2, 2, 0]));
    assert_eq!(
        (&before["pageblocks_pct"]["slab"], &after["pageblocks_pct"]["slab"]),
        (&50.0.into(), &0.0.into())
    );
    let types = &before["pageblocks_by_migratetype"][0];
    assert_eq!((&types["zone"], &types["pageblocks"]["Unmovable"]), (&"Normal".into(), &2.into()));
    assert!(after.get("pageblocks_by_migratetype").is_none(), "no text was recorded then");
    let text = found.to_string();
    let words: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in [
        "slab 512 2.0 MiB 0 0.0 KiB",
        "slab: the kernel's object caches 2 50.0 % 0 0.0 %",
        "Normal before 0 1 1 2",
    ] {
        assert!(words.iter().any(|l| l == line), "{line:?} is missing in\n{text}");
    }
}

#[test]
fn what_was_not_recorded_of_memory_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let writer = TraceWriter::create(&folder.path().join("a.trace")).unwrap();
    let found = Summary::of(&writer.finish(Meta::new(1), None, None).unwrap(), |_| {}).unwrap();
    let json = found.json();
    assert!(json["contents"].as_object().unwrap().is_empty());
    assert_eq!(json["fragmentation"], serde_json::json!({ "free_huge_frames": {} }));
    assert!(json.get("samples").is_none());
    assert!(found.to_string().contains("What memory held: not recorded."));
}
