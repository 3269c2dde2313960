//! Written traces are read back, by this crate and by other readers.

use std::fs;
use std::process::Command;

use crate::support::{MEMORY, Random, events, memory, meta, read_all, small_trace};
use pageyard_trace::{Columns, Event, FAILED, Meta, Snapshot, Trace, TraceError, TraceWriter};

#[test]
fn a_trace_of_several_row_groups_comes_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (path, written) = small_trace(folder.path(), 600_000);
    assert!(read_all(&path).unwrap() == written);
    let trace = Trace::open(&path).unwrap();
    assert_eq!(trace.name(), "small");
    assert_eq!(trace.rows().unwrap(), 600_000);
    let mut expected = meta();
    expected.events = Some(600_000);
    let summed: Vec<&str> = trace.meta().checksums.keys().map(String::as_str).collect();
    assert_eq!(summed, ["after.parquet", "before.parquet", "events.parquet"]);
    expected.checksums = trace.meta().checksums.clone();
    assert_eq!(*trace.meta(), expected);
    let mut random = Random(600_000);
    events(&mut random, 600_000);
    assert_eq!(trace.before().unwrap().unwrap(), memory(&mut random));
}

#[test]
fn a_trace_of_nothing_comes_back_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.trace");
    let trace = TraceWriter::create(&path).unwrap().finish(meta(), None, Some(&Snapshot::default())).unwrap();
    assert_eq!(trace.rows().unwrap(), 0);
    assert!(read_all(&path).unwrap().is_empty());
    assert_eq!((trace.before().unwrap(), trace.after().unwrap()), (None, Some(Snapshot::default())));
}

#[test]
fn an_existing_folder_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("taken.trace");
    fs::create_dir(&path).unwrap();
    assert!(matches!(TraceWriter::create(&path), Err(TraceError::Exists { .. })));
    assert!(fs::read_dir(&path).unwrap().next().is_none());

    let late = folder.path().join("late.trace");
    let writer = TraceWriter::create(&late).unwrap();
    fs::create_dir(&late).unwrap();
    assert!(matches!(writer.finish(meta(), None, None), Err(TraceError::Exists { .. })));
    assert!(fs::read_dir(&late).unwrap().next().is_none());
}

#[test]
fn a_writer_that_is_dropped_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = TraceWriter::create(&folder.path().join("half.trace")).unwrap();
    for event in events(&mut Random(1), 300_000) {
        writer.push(&event).unwrap();
    }
    assert_eq!(writer.rows(), 300_000);
    drop(writer);
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
}

#[test]
fn what_a_reader_would_refuse_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let create = || TraceWriter::create(&folder.path().join("bad.trace")).unwrap();
    let good = Event { pfn: 1024, order: 10, time_ns: 5, cpu: 0, ..events(&mut Random(2), 1)[0] };
    for bad in [
        Event { order: 11, ..good },
        Event { pfn: 1, ..good },
        Event { migratetype: 6, ..good },
        Event { time_ns: 4, ..good },
        Event { kind: pageyard_trace::EventKind::Free, pfn: FAILED, ..good },
    ] {
        let mut writer = create();
        writer.push(&good).unwrap();
        let error = writer.push(&bad).unwrap_err().to_string();
        assert!(error.contains("bad.trace/events.parquet, row 1: "), "{error}");
    }
    let mut writer = create();
    writer.push(&Event { cpu: 4, ..good }).unwrap();
    assert!(writer.finish(meta(), None, None).unwrap_err().to_string().contains("name CPU 4"));
    let mut writer = create();
    writer.push(&Event { pfn: MEMORY, ..good }).unwrap();
    let before = memory(&mut Random(3));
    assert!(writer.finish(meta(), Some(&before), None).unwrap_err().to_string().contains("memory ends"));
    let mut overlapping = before.clone();
    overlapping.runs[1].pfn -= 1;
    assert!(create().finish(meta(), Some(&overlapping), None).unwrap_err().to_string().contains("overlaps"));
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
}

/// A trace without a snapshot, as some recorders make it, bounds its frames all the same.
#[test]
fn memory_ends_where_the_snapshot_or_else_the_description_says() {
    let folder = tempfile::tempdir().unwrap();
    let at = |pfn| Event { time_ns: 0, order: 0, pfn, ..events(&mut Random(1), 1)[0] };
    let write = |name: &str, pfn, memory_end, before: Option<&Snapshot>| {
        let mut writer = TraceWriter::create(&folder.path().join(name)).unwrap();
        writer.push(&at(pfn)).unwrap();
        writer.finish(Meta { memory_end, ..meta() }, before, None)
    };
    let trace = write("a.trace", 1023, Some(1024), None).unwrap();
    assert_eq!(
        (trace.memory_end().unwrap(), read_all(&folder.path().join("a.trace")).unwrap().len()),
        (Some(1024), 1)
    );
    let error = write("b.trace", 1024, Some(1024), None).unwrap_err().to_string();
    assert!(error.contains("memory ends at frame 1024"), "{error}");
    assert_eq!(write("c.trace", 1024, None, None).unwrap().memory_end().unwrap(), None);
    let before = memory(&mut Random(1));
    let both = write("d.trace", 1024, Some(1024), Some(&before)).unwrap();
    assert_eq!(both.memory_end().unwrap(), Some(before.end()), "the snapshot counts");
    for end in [0, (1 << 36) + 1] {
        let error = write("e.trace", 0, Some(end), None).unwrap_err().to_string();
        assert!(error.contains(&format!("memory cannot end at frame {end}")), "{error}");
    }
    // One that says so afterwards is read up to the row at fault.
    let file = folder.path().join("a.trace/meta.json");
    fs::write(&file, fs::read_to_string(&file).unwrap().replace("1024", "1000")).unwrap();
    let error = read_all(&folder.path().join("a.trace")).unwrap_err().to_string();
    assert!(error.contains("row 0"), "{error}");
}

#[test]
fn another_library_reads_what_was_written() {
    const SCRIPT: &str = "
import sys, json
try: import pyarrow.parquet as pq
except ImportError: print('skip'); sys.exit()
t = pq.read_table(sys.argv[1] + '/events.parquet')
s = pq.read_table(sys.argv[1] + '/before.parquet')
print(json.dumps([[f'{f.name}:{f.type}' for f in t.schema], t.num_rows, t['pfn'][7].as_py(), t['event'][7].as_py(),
    t['migratetype'][7].as_py(), [f'{f.name}:{f.type}' for f in s.schema], s['kind'][0].as_py()]))";
    let folder = tempfile::tempdir().unwrap();
    let (path, written) = small_trace(folder.path(), 1000);
    let output = match Command::new("python3").arg("-c").arg(SCRIPT).arg(&path).output() {
        Ok(output) if output.stdout.trim_ascii() != b"skip" => output,
        _ => return println!("skipped: there is no python3 with pyarrow"),
    };
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let kind = Trace::open(&path).unwrap().before().unwrap().unwrap().runs[0].kind.name();
    let expected = serde_json::json!([
        [
            "time_ns:uint64",
            "cpu:uint32",
            "event:string",
            "pfn:uint64",
            "order:uint8",
            "gfp:uint32",
            "migratetype:int8",
            "context:string",
            "tid:uint32",
            "irqs_off:bool"
        ],
        1000,
        written[7].pfn,
        written[7].kind.name(),
        written[7].migratetype,
        ["pfn:uint64", "frames:uint64", "kind:string", "thp:bool", "unevictable:bool"],
        kind
    ]);
    assert_eq!(found, expected);
}

#[test]
fn a_trace_inside_the_program_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (path, written) = small_trace(folder.path(), 100);
    // Leaked, as a program's own bytes live as long as it does.
    let file = |name: &'static str| -> (&'static str, &'static [u8]) {
        (name, Box::leak(fs::read(path.join(name)).unwrap().into_boxed_slice()))
    };
    fs::remove_file(path.join("before.parquet")).unwrap();
    crate::support::edit_meta(&path, |meta| {
        drop(meta["checksums"].as_object_mut().unwrap().remove("before.parquet"))
    });
    let files = Box::leak(Box::new([file("events.parquet"), file("meta.json")]));
    let trace = Trace::embedded("inside", files).unwrap();
    assert_eq!((trace.name(), trace.before().unwrap()), ("inside", None));
    let mut batch = Vec::new();
    assert!(trace.events(Columns::All).unwrap().next_batch(&mut batch).unwrap());
    assert_eq!(batch, written);
    let error = Trace::embedded("none", &[]).unwrap_err().to_string();
    assert_eq!(error, "none is not a trace: it holds neither events.parquet nor meta.json");
}
