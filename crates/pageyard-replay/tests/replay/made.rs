//! Traces made up of a few events, and their replays on every reference.

use pageyard::Context;
use pageyard_replay::ReplayError;
use pageyard_replay::engine::EngineSpec;
use pageyard_replay::replay::{ReplayOptions, ReplayReport, replay};
use pageyard_trace::{
    Document, Event, EventKind, FrameKind, Meta, Move, MoveKind, MovesWriter, ProcTexts, Run, Snapshot,
    Trace, TraceWriter,
};
use std::path::Path;

/// GFP_HIGHUSER_MOVABLE as 6.18 has it, enough of it: highmem, movable, may reclaim.
pub const USER: u32 = 1 << 1 | 1 << 3 | 1 << 10 | 1 << 11;
/// GFP_KERNEL: I/O, file system, may reclaim.
pub const KERNEL: u32 = 1 << 6 | 1 << 7 | 1 << 10 | 1 << 11;

pub fn event(kind: EventKind, pfn: u64, order: u8, gfp: u32) -> Event {
    let migratetype = match kind {
        EventKind::Free => -1,
        _ if gfp == USER => 1,
        _ => 0,
    };
    Event {
        time_ns: 0,
        pfn,
        gfp,
        tid: 1,
        cpu: 0,
        kind,
        order,
        migratetype,
        context: Context::Task,
        irqs_off: false,
    }
}

pub fn alloc(pfn: u64, order: u8) -> Event {
    event(EventKind::Alloc, pfn, order, USER)
}

pub fn free(pfn: u64, order: u8) -> Event {
    event(EventKind::Free, pfn, order, 0)
}

pub fn run(pfn: u64, frames: u64, kind: FrameKind) -> Run {
    Run { pfn, frames, kind, thp: false, unevictable: false }
}

/// Writes a trace of two CPUs; events get one microsecond each.
pub fn trace(name: &str, events: &[Event], before: Option<Vec<Run>>, texts: Option<ProcTexts>) -> Trace {
    trace_with_moves(name, events, &[], before, texts)
}

/// The same with blocks that moved: right after which event, from where, to where, and their order.
pub fn trace_with_moves(
    name: &str,
    events: &[Event],
    moves: &[(u64, u64, u64, u8)],
    before: Option<Vec<Run>>,
    texts: Option<ProcTexts>,
) -> Trace {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.trace"));
    drop(std::fs::remove_dir_all(&path));
    let mut writer = TraceWriter::create(&path).unwrap();
    for (event, i) in events.iter().zip(1..) {
        writer.push(&Event { time_ns: i * 1000, ..*event }).unwrap();
    }
    let mut moved = MovesWriter::default();
    for &(after, pfn, to, order) in moves {
        let (time_ns, kind) = (after * 1000 + 1, MoveKind::Move);
        let row = Move { time_ns, cpu: 1, tid: 1, kind, pfn, to, order, scanned: 0, done: 0, failed: 0 };
        moved.push(&writer, row).unwrap();
    }
    moved.finish(&writer, !moves.is_empty()).unwrap();
    let meta = Meta { before: texts, ..Meta::new(2) };
    writer.finish(meta, before.map(|runs| Snapshot { runs }).as_ref(), None).unwrap()
}

pub fn try_replay(trace: &Trace, options: &ReplayOptions) -> Result<ReplayReport, ReplayError> {
    let engines = ["linux-6.18", "linux-6.1", "linux-4.10", "linux-4.6"];
    let engines: Vec<_> = engines.iter().map(|e| EngineSpec::parse(e, &[]).unwrap()).collect();
    replay(trace, &engines, options, &mut |_, _, _| ())
}

pub fn sound(trace: &Trace) -> ReplayReport {
    let report = try_replay(trace, &ReplayOptions::default()).unwrap();
    for e in &report.engines {
        assert!(e.is_sound(), "{e}");
    }
    let json = report.json().to_string();
    assert!(!json.contains("null"), "{json}");
    assert!(!report.to_string().is_empty());
    report
}

/// 64 MiB, all of it free but the first 1,024 frames.
pub fn memory(first: FrameKind) -> Option<Vec<Run>> {
    Some(vec![run(0, 1024, first), run(1024, 15 * 1024, FrameKind::Free)])
}
