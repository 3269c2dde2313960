//! Samples of the host: written, read back, summed up; impossible rows are named.

use std::fs;
use std::path::{Path, PathBuf};

use crate::rows::{Column, write};
use crate::support::{meta, old_trace};
use pageyard_trace::{HostSample, SamplesWriter, Summary, Trace, TraceWriter};

const SCHEMA: &str = "message schema {
    REQUIRED INT64 time_ns (INTEGER(64,false));
    REQUIRED BYTE_ARRAY kind (STRING);
    REQUIRED INT32 node (INTEGER(8,false));
    REQUIRED BYTE_ARRAY zone (STRING);
    REQUIRED INT32 cpu (INTEGER(32,false));
    REQUIRED INT32 order (INTEGER(8,false));
    REQUIRED BYTE_ARRAY counter (STRING);
    REQUIRED INT64 value (INTEGER(64,false));
    REQUIRED INT64 high (INTEGER(64,false));
}";

/// The host at a time; `n` counts on.
fn sample(time_ns: u64, n: u64) -> HostSample {
    let zoneinfo = format!(
        "Node 0, zone   Normal\n  pages free     3840\n        protection: (0, 0)\n  pagesets\n    cpu: 0\n\
         \x20             count:    {n}\n              high:     14\n    cpu: 3\n              count:    2\n\
         \x20             high:     9\n  start_pfn:           1\n"
    );
    let buddyinfo = format!("Node 0, zone Normal 1 {n} 3\n");
    let vmstat = format!("nr_free_pages {}\npgfree {n}\npgalloc_normal 7\n", 13 + 2 * n);
    HostSample::of_texts(time_ns, &buddyinfo, &zoneinfo, &vmstat).unwrap()
}

/// Writes a trace with samples at these times, and returns its folder and how many samples were refused.
fn trace_with(folder: &Path, samples: &[HostSample]) -> (PathBuf, u64) {
    let path = folder.join("sampled.trace");
    let writer = TraceWriter::create(&path).unwrap();
    let mut out = SamplesWriter::default();
    for sample in samples {
        out.push(&writer, sample).unwrap();
    }
    let (written, refused) = (out.samples(), out.refused());
    assert_eq!(written + refused, samples.len() as u64);
    out.finish(&writer).unwrap();
    writer.finish(meta(), None, None).unwrap();
    (path, refused)
}

/// Reads every sample.
fn all(path: &Path) -> Result<Vec<HostSample>, pageyard_trace::TraceError> {
    let mut reader = Trace::open(path)?.samples()?.expect("the trace has samples");
    let mut all = Vec::new();
    while let Some(sample) = reader.next_sample()? {
        all.push(sample);
    }
    assert_eq!(reader.next_sample()?, None);
    Ok(all)
}

#[test]
fn samples_come_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    // Several row groups, and batches that end inside a sample.
    let written: Vec<_> = (0..12_000).map(|i| sample(i * 250, i)).collect();
    let (path, refused) = trace_with(folder.path(), &written);
    assert_eq!(refused, 0);
    assert!(all(&path).unwrap() == written);
    let trace = Trace::open(&path).unwrap();
    assert!(trace.meta().checksums.contains_key("samples.parquet"));
    let rows_of_one = 3 + 2 + 3;
    assert_eq!(trace.samples().unwrap().unwrap().rows(), 12_000 * rows_of_one);
    assert_eq!(trace.samples().unwrap().unwrap().count(), Ok(12_000));
    let summary = Summary::of(&trace, |_| {}).unwrap();
    let text = summary.to_string();
    for line in [
        "12,000 samples from 0.00 s to 0.00 s",
        "free, zone Normal of node 0",
        "in per-CPU lists, zone Normal of node 0",
        "nr_free_pages",
    ] {
        assert!(text.contains(line), "`{line}` is not in\n{text}");
    }
    let json = summary.json();
    assert_eq!(json["samples"]["counters_rose"], serde_json::json!({"pgfree": 11_999}));
    assert_eq!(json["samples"]["free_frames"][0]["most"], 1 + 2 * 11_999 + 12);
    assert_eq!(json["samples"]["mean_interval_ns"], 250);
}

#[test]
fn a_trace_without_samples_is_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = trace_with(folder.path(), &[]);
    let trace = Trace::open(&path).unwrap();
    assert!(trace.samples().unwrap().is_none());
    let summary = Summary::of(&trace, |_| {}).unwrap();
    assert!(!summary.to_string().contains("The host meanwhile"));
    assert!(summary.json().get("samples").is_none());
}

#[test]
fn samples_that_a_reader_would_refuse_are_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let huge = HostSample::of_texts(30, "Node 0, zone Normal 1 2 3 0 0 0 0 0 0 0 0 0 4\n", "", "").unwrap();
    let mut unnamed = sample(31, 1);
    unnamed.counters.push(("no_such_counter", 1));
    let mut turned = sample(32, 1);
    turned.lists.reverse();
    let other_zones = HostSample::of_texts(33, "Node 1, zone Normal 1 2 3\n", "", "").unwrap();
    let nothing = HostSample { time_ns: 34, ..HostSample::default() };
    let good = [sample(10, 1), sample(20, 2), sample(40, 3)];
    let [a, b, c] = good.clone();
    let (path, refused) =
        trace_with(folder.path(), &[a, b.clone(), b, huge, unnamed, turned, other_zones, nothing, c]);
    assert_eq!(refused, 6);
    assert_eq!(all(&path).unwrap(), good);
}

/// Two samples, of three orders, a list and a counter each.
fn rows() -> Vec<Column> {
    let twice = |names: [&'static str; 5]| Column::Names([names, names].concat());
    vec![
        Column::I64(vec![5, 5, 5, 5, 5, 9, 9, 9, 9, 9]),
        twice(["free_blocks", "free_blocks", "free_blocks", "list", "counter"]),
        Column::I32(vec![0; 10]),
        twice(["Normal", "Normal", "Normal", "Normal", ""]),
        Column::I32(vec![0, 0, 0, 3, 0, 0, 0, 0, 3, 0]),
        Column::I32(vec![0, 1, 2, 0, 0, 0, 1, 2, 0, 0]),
        twice(["", "", "", "", "pgfree"]),
        Column::I64(vec![7, 8, 9, 10, -1, 7, 8, 9, 10, -1]),
        Column::I64(vec![0, 0, 0, 14, 0, 0, 0, 0, 14, 0]),
    ]
}

/// Writes the rows with column `index` replaced, and returns what reading them says.
fn with(index: usize, column: Column) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = old_trace(folder.path(), 3);
    let mut columns = rows();
    columns[index] = column;
    write(&path.join("samples.parquet"), SCHEMA, columns, None);
    let said = match all(&path) {
        Ok(samples) => format!("{} samples", samples.len()),
        Err(e) => e.to_string().rsplit_once("samples.parquet").unwrap().1.to_owned(),
    };
    // The summary reads them too.
    let summary = Summary::of(&Trace::open(&path).unwrap(), |_| {});
    match summary {
        Ok(summary) => assert_eq!(format!("{} samples", summary.sampled.unwrap().samples), said),
        Err(e) => assert!(e.to_string().ends_with(&said), "{e}"),
    }
    said
}

#[test]
fn each_impossible_row_is_named() {
    let i64s = |at: usize, value: i64, column: usize| {
        let Column::I64(mut values) = rows().swap_remove(column) else { panic!("column {column}") };
        values[at] = value;
        Column::I64(values)
    };
    let i32s = |at: usize, value: i32, column: usize| {
        let Column::I32(mut values) = rows().swap_remove(column) else { panic!("column {column}") };
        values[at] = value;
        Column::I32(values)
    };
    let names = |at: usize, value: &'static str, column: usize| {
        let Column::Names(mut values) = rows().swap_remove(column) else { panic!("column {column}") };
        values[at] = value;
        Column::Names(values)
    };
    assert_eq!(with(0, i64s(0, 5, 0)), "2 samples");
    for (index, column, says) in [
        (0, i64s(5, 4, 0), ", row 5: time goes backwards, from 5 ns to 4 ns"),
        (1, names(2, "blocks", 1), ", row 2: there is no kind of sample called `blocks`"),
        (2, i32s(1, 300, 2), ", row 1: 300 is too large for column `node`"),
        (3, names(0, "HighMem", 3), ", row 0: there is no zone called `HighMem`"),
        (
            3,
            names(0, "DMA", 3),
            ", row 0: zone DMA of node 0 is not one of those that the host's buddyinfo names",
        ),
        (
            2,
            i32s(3, 1, 2),
            ", row 3: zone Normal of node 1 is not one of those that the host's buddyinfo names",
        ),
        (3, names(3, "", 3), ", row 3: a `list` row names no zone"),
        (
            3,
            names(4, "Normal", 3),
            ", row 4: a `counter` row has nothing in column `zone`, and this one does",
        ),
        (4, i32s(3, 4, 4), ", row 3: CPU 4 is not one of the 4 that meta.json says the host had"),
        (4, i32s(0, 1, 4), ", row 0: a `free_blocks` row has nothing in column `cpu`, and this one does"),
        (5, i32s(2, 11, 5), ", row 2: order 11 is above 10, the largest that Linux serves"),
        (5, i32s(2, 3, 5), ", row 2: order 3 of zone Normal of node 0 comes where order 2 is due"),
        (5, i32s(0, 1, 5), ", row 0: order 1 of zone Normal of node 0 comes where order 0 is due"),
        (
            5,
            i32s(1, 0, 5),
            ", row 1: order 0 of zone Normal of node 0 is counted again, or out of order, in the same sample",
        ),
        (6, names(4, "pgsheep", 6), ", row 4: there is no counter called `pgsheep`"),
        (6, names(4, "", 6), ", row 4: a `counter` row names no counter"),
        (
            6,
            names(3, "pgfree", 6),
            ", row 3: a `list` row has nothing in column `counter`, and this one does",
        ),
        (
            7,
            i64s(1, -1, 7),
            ", row 1: order 1 of zone Normal of node 0 counts 18446744073709551615, more than any machine has",
        ),
        (
            8,
            i64s(3, -1, 8),
            ", row 3: CPU 3's lists of zone Normal of node 0 counts 18446744073709551615, more than any machine has",
        ),
        (8, i64s(4, 1, 8), ", row 4: a `counter` row has nothing in column `high`, and this one does"),
    ] {
        assert_eq!(with(index, column), says);
    }
}

#[test]
fn a_sample_of_other_zones_than_the_first_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = old_trace(folder.path(), 3);
    let mut columns = rows();
    for column in &mut columns {
        match column {
            Column::I64(values) => drop(values.remove(7)),
            Column::I32(values) => drop(values.remove(7)),
            Column::Names(values) => drop(values.remove(7)),
            Column::Bools(_) => {}
        }
    }
    write(&path.join("samples.parquet"), SCHEMA, columns, None);
    let error = all(&path).unwrap_err().to_string();
    assert!(
        error.ends_with("samples.parquet, row 5: the sample that begins here has free blocks of other zones or orders than the first sample"),
        "{error}"
    );
}

#[test]
fn columns_that_are_wrong_or_missing_and_files_cut_short_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = old_trace(folder.path(), 3);
    let file = path.join("samples.parquet");
    let fault = || all(&path).unwrap_err().to_string().rsplit_once("samples.parquet").unwrap().1.to_owned();
    write(&file, &SCHEMA.replace("order (INTEGER(8", "order (INTEGER(32"), rows(), None);
    assert_eq!(
        fault(),
        ": column `order` holds unsigned integers of 32 bits and must hold unsigned integers of 8 bits"
    );
    write(&file, &SCHEMA.replace(" high ", " limit "), rows(), None);
    assert_eq!(fault(), ": column `high` is missing");
    write(&file, SCHEMA, rows(), None);
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 9]).unwrap();
    assert!(fault().contains("cut short"), "{}", fault());
    fs::write(&file, "").unwrap();
    assert!(fault().contains("too few for a Parquet file"), "{}", fault());
}
