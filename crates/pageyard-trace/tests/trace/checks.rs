//! Faults in a trace's files are found by their readers and by the summary.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::support::{Random, edit_meta, events, memory, meta, old_trace, read_all};
use pageyard_trace::{Move, MoveKind, MovesWriter, Summary, Trace, TraceWriter};

const FILES: [&str; 4] = ["events.parquet", "before.parquet", "after.parquet", "moves.parquet"];

/// Writes a trace that has every file.
fn whole_trace(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("whole.trace");
    let mut random = Random(7);
    let mut writer = TraceWriter::create(&path).unwrap();
    for event in events(&mut random, 5000) {
        writer.push(&event).unwrap();
    }
    let mut moves = MovesWriter::default();
    for i in 0..500 {
        let row = Move {
            time_ns: i * 100,
            cpu: 1,
            tid: 3,
            kind: MoveKind::Move,
            pfn: i * 7,
            to: i * 9 + 10_000,
            order: 0,
            scanned: 0,
            done: 0,
            failed: 0,
        };
        moves.push(&writer, row).unwrap();
    }
    moves.finish(&writer, true).unwrap();
    let memory = memory(&mut random);
    writer.finish(meta(), Some(&memory), Some(&memory)).unwrap();
    path
}

fn summary(path: &Path) -> Result<Summary, String> {
    let trace = Trace::open(path).map_err(|e| e.to_string())?;
    Summary::of(&trace, |_| {}).map_err(|e| e.to_string())
}

#[test]
fn every_flipped_bit_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = whole_trace(folder.path());
    summary(&path).unwrap();
    let mut random = Random(1);
    for name in FILES {
        let bytes = fs::read(path.join(name)).unwrap();
        let file = File::options().write(true).open(path.join(name)).unwrap();
        for _ in 0..100 {
            let at = random.below(bytes.len());
            file.write_all_at(&[bytes[at] ^ 1 << random.below(8)], at as u64).unwrap();
            let error = summary(&path).expect_err(name);
            assert!(error.contains(name) && error.lines().count() == 1, "{error}");
            file.write_all_at(&bytes[at..=at], at as u64).unwrap();
        }
    }
    summary(&path).unwrap();
}

#[test]
fn a_file_that_is_missing_or_of_another_trace_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = whole_trace(folder.path());
    let kept = fs::read(path.join("moves.parquet")).unwrap();
    fs::remove_file(path.join("moves.parquet")).unwrap();
    let error = summary(&path).unwrap_err();
    assert!(error.contains("it has a checksum of moves.parquet, which is missing"), "{error}");
    fs::write(path.join("moves.parquet"), kept).unwrap();
    fs::copy(path.join("before.parquet"), path.join("after.parquet")).unwrap();
    summary(&path).unwrap();
    fs::copy(path.join("moves.parquet"), path.join("after.parquet")).unwrap();
    let error = summary(&path).unwrap_err();
    assert!(error.contains("after.parquet: it is not as it was written"), "{error}");
}

#[test]
fn traces_without_checksums_are_read_as_ever() {
    let folder = tempfile::tempdir().unwrap();
    let (path, events) = old_trace(folder.path(), 1000);
    assert!(Trace::open(&path).unwrap().meta().checksums.is_empty());
    assert!(read_all(&path).unwrap() == events);
    summary(&path).unwrap();
}

#[test]
fn a_checksum_that_is_none_is_refused_and_one_of_another_kind_is_not_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let path = whole_trace(folder.path());
    edit_meta(&path, |meta| meta["checksums"]["events.parquet"] = "sha3:something".into());
    summary(&path).unwrap();
    edit_meta(&path, |meta| meta["checksums"]["events.parquet"] = "xxh64:short".into());
    let error = Trace::open(&path).unwrap_err().to_string();
    assert!(error.ends_with("meta.json: a checksum has 16 hexadecimal digits"), "{error}");
}

#[test]
fn the_summary_refuses_broken_pictures_and_moves_of_traces_without_checksums() {
    for name in ["after.parquet", "moves.parquet"] {
        let folder = tempfile::tempdir().unwrap();
        let path = whole_trace(folder.path());
        edit_meta(&path, |meta| drop(meta.as_object_mut().unwrap().remove("checksums")));
        summary(&path).unwrap();
        let bytes = fs::read(path.join(name)).unwrap();
        fs::write(path.join(name), &bytes[..bytes.len() / 2]).unwrap();
        let error = summary(&path).unwrap_err();
        assert!(error.contains(name), "{error}");
    }
}
