//! Remains of a trace whose writer did not finish.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use pageyard::Context;

use super::*;
use crate::event::EventKind;
use crate::moves::{Move, MoveKind};
use crate::samples::HostSample;
use crate::snapshot::{FrameKind, Run};

/// An event every 10 ms.
fn event(i: u64) -> Event {
    Event {
        time_ns: i * 10_000_000,
        pfn: i % 1000,
        gfp: 0xcc0,
        tid: 1,
        cpu: 1,
        kind: if i.is_multiple_of(2) { EventKind::Alloc } else { EventKind::Free },
        order: 0,
        migratetype: 0,
        context: Context::Task,
        irqs_off: false,
    }
}

/// The host at a time.
fn sample(time_ns: u64) -> HostSample {
    HostSample::of_texts(time_ns, "Node 0, zone Normal 1 2 3\n", "", &format!("pgfree {time_ns}\n")).unwrap()
}

fn before() -> Snapshot {
    Snapshot {
        runs: vec![Run { pfn: 0, frames: 4096, kind: FrameKind::Free, thp: false, unevictable: false }],
    }
}

fn begin(path: &Path) -> TraceWriter {
    let mut writer = TraceWriter::create(path).unwrap();
    let meta = Meta { kernel: "Linux 6.18".to_owned(), ..Meta::new(2) };
    writer.keep(&meta, Some(&before())).unwrap();
    writer
}

/// Leaves everything as it is, as a killed process does.
fn kill(writer: TraceWriter) {
    let TraceWriter { temporary, file, .. } = writer;
    // Its buffer would be written by dropping it.
    std::mem::forget(file);
    temporary.leave();
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Starts a recording, is killed after `n` events, and returns the folder that it leaves.
fn killed(folder: &Path, n: u64) -> PathBuf {
    let path = folder.join("a.trace");
    let mut writer = begin(&path);
    let (mut moves, mut samples) = (MovesWriter::default(), SamplesWriter::default());
    writer.lost().store(5, Ordering::Relaxed);
    for i in 0..n {
        let event = event(i);
        writer.push(&event).unwrap();
        let row = Move {
            time_ns: event.time_ns,
            cpu: 1,
            tid: 1,
            kind: MoveKind::Move,
            pfn: i,
            to: i + 1,
            order: 0,
            scanned: 0,
            done: 0,
            failed: 0,
        };
        moves.push(&writer, row).unwrap();
        if i.is_multiple_of(25) {
            samples.push(&writer, &sample(event.time_ns)).unwrap();
        }
    }
    std::mem::forget((moves, samples));
    kill(writer);
    folder.join("a.trace.partial")
}

#[test]
fn a_killed_recording_becomes_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let partial = killed(folder.path(), 1050);
    // In the middle of a row group, as a kill finds it most often.
    for table in [EVENTS, MOVES, SAMPLES] {
        let mut file = fs::File::options().append(true).open(partial.join(table)).unwrap();
        file.write_all(&[0x15; 1000]).unwrap();
    }
    assert!(Trace::open(&partial).unwrap_err().to_string().contains("`pageyard import"));
    let (trace, salvaged) = salvage(&partial, None).unwrap();
    // A row group a second; what waited for the eleventh is lost.
    assert_eq!((salvaged.events, salvaged.moves), (1010, Some(1010)));
    // One each 250 ms, and five in a row group.
    assert_eq!(salvaged.samples, Some(40));
    let mut samples = trace.samples().unwrap().unwrap();
    assert_eq!(samples.next_sample(), Ok(Some(sample(0))));
    assert_eq!(samples.next_sample(), Ok(Some(sample(250_000_000))));
    let meta = trace.meta();
    assert_eq!((meta.partial.as_deref(), meta.lost), (Some("the recorder was killed"), 5));
    assert_eq!((meta.duration_ns, meta.checksums.len()), (10_090_000_000, 4));
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    let mut reader = trace.events(Columns::All).unwrap();
    while reader.next_batch(&mut batch).unwrap() {
        all.append(&mut batch);
    }
    assert_eq!(all, (0..1010).map(event).collect::<Vec<_>>());
    assert_eq!(trace.before().unwrap(), Some(before()));
    assert_eq!(trace.after().unwrap(), None);
    let text = crate::Summary::of(&trace, |_| {}).unwrap().to_string();
    assert!(text.contains("the recording ended early, because the recorder was killed"), "{text}");
    assert_eq!(names(folder.path()), ["a.trace"]);
    assert_eq!(
        names(&folder.path().join("a.trace")),
        ["before.parquet", "events.parquet", "meta.json", "moves.parquet", "samples.parquet"]
    );
}

#[test]
fn free_lists_come_back_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let block = |pfn: u64, order, migratetype| FreeBlock {
        pfn,
        order,
        migratetype,
        cpu: (pfn < 800).then_some(pfn as u32 % 3),
    };
    let blocks: Vec<FreeBlock> =
        (0..3000).rev().map(|n| block(n * 8, (n % 4) as u8, (n % 3) as i8)).collect();
    let writer = begin(&folder.path().join("a.trace"));
    for (bad, why) in [
        (block(8, 11, 0), "order 11 is above 10"),
        (block(12, 3, 1), "order 3 begins at frame 12"),
        (blocks[0], "the block at frame 23992 is on two lists"),
    ] {
        let error = writer.free_lists(&[blocks[0], bad]).unwrap_err().to_string();
        assert!(error.contains("free_lists.parquet") && error.contains(why), "{error}");
    }
    writer.free_lists(&blocks).unwrap();
    let trace = writer.finish(Meta::new(2), Some(&before()), None).unwrap();
    assert_eq!(trace.free_lists().unwrap(), Some(blocks));
    assert!(trace.meta().checksums.contains_key("free_lists.parquet"));
    let none = begin(&folder.path().join("b.trace")).finish(Meta::new(2), Some(&before()), None).unwrap();
    assert_eq!(none.free_lists().unwrap(), None);
}

#[test]
fn a_recording_that_goes_on_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.trace");
    let mut writer = begin(&path);
    for i in 0..300 {
        writer.push(&event(i)).unwrap();
    }
    let partial = folder.path().join("a.trace.partial");
    let error = salvage(&partial, None).unwrap_err().to_string();
    assert!(error.ends_with("a.trace.partial is being written by another pageyard: name another folder"));
    let error = TraceWriter::create(&path).err().unwrap().to_string();
    assert!(error.contains("is being written by another pageyard"), "{error}");
    let trace = writer.finish(Meta::new(2), Some(&before()), None).unwrap();
    assert_eq!((trace.rows().unwrap(), trace.meta().partial.clone()), (300, None));
    assert_eq!(names(&path), ["before.parquet", "events.parquet", "meta.json"]);
}

#[test]
fn what_a_killed_writer_left_is_named_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let partial = killed(folder.path(), 1050);
    let error = TraceWriter::create(&folder.path().join("a.trace")).err().unwrap().to_string();
    assert!(
        error.contains("a.trace.partial was left by a recording") && error.lines().count() == 1,
        "{error}"
    );
    assert!(error.contains("`pageyard import "), "{error}");
    // Elsewhere, and not over something.
    let other = folder.path().join("b.trace");
    fs::create_dir(&other).unwrap();
    assert!(matches!(salvage(&partial, Some(&other)), Err(TraceError::Exists { .. })));
    fs::remove_dir(&other).unwrap();
    salvage(&partial, Some(&other)).unwrap();
    assert_eq!(names(folder.path()), ["b.trace"]);
}

#[test]
fn what_holds_no_event_is_not_made_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let partial = killed(folder.path(), 3);
    let error = salvage(&partial, None).unwrap_err().to_string();
    assert!(error.contains("nothing was recorded yet"), "{error}");
    let trace = folder.path().join("whole.trace");
    let mut writer = TraceWriter::create(&trace).unwrap();
    writer.push(&event(0)).unwrap();
    writer.finish(Meta::new(2), None, None).unwrap();
    let error = salvage(&trace, Some(&folder.path().join("c.trace"))).unwrap_err().to_string();
    assert!(error.contains("it is not an unfinished recording"), "{error}");
    let error = salvage(folder.path(), None).unwrap_err().to_string();
    assert!(error.contains("NAME.trace.partial"), "{error}");
    assert_eq!(names(folder.path()), ["a.trace.partial", "whole.trace"]);
}

#[test]
fn a_spoilt_checkpoint_is_no_trace_and_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let partial = killed(folder.path(), 1050);
    let checkpoint = table::checkpoint_of(&partial.join(EVENTS));
    let good = fs::read(&checkpoint).unwrap();
    for spoilt in
        [good[..10].to_vec(), [&u64::MAX.to_le_bytes(), &good[8..]].concat(), good[..good.len() / 2].to_vec()]
    {
        fs::write(&checkpoint, spoilt).unwrap();
        let error = salvage(&partial, None).unwrap_err().to_string();
        assert!(error.contains("events.parquet") && error.lines().count() == 1, "{error}");
    }
    fs::write(&checkpoint, good).unwrap();
    assert_eq!(salvage(&partial, None).unwrap().1.events, 1010);
}

#[test]
fn a_partial_end_keeps_what_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = begin(&folder.path().join("a.trace"));
    for i in 0..1050 {
        writer.push(&event(i)).unwrap();
    }
    let meta =
        Meta { partial: Some("the disk is full".to_owned()), duration_ns: 99_000_000_000, ..Meta::new(2) };
    let trace = writer.finish_partial(meta, Some(&before()), None).unwrap();
    assert_eq!((trace.rows().unwrap(), trace.meta().duration_ns), (1010, 10_090_000_000));
    crate::Summary::of(&trace, |_| {}).unwrap();
}
