//! The series that a replay writes, beside what it reports.

use crate::made::{alloc, free, memory, trace};
use pageyard_replay::engine::EngineSpec;
use pageyard_replay::replay::{ReplayOptions, ReplayReport, replay};
use pageyard_trace::series::SeriesFormat;
use pageyard_trace::{Event, FrameKind};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn report(name: &str, series: bool) -> ReplayReport {
    // More than there is, so that some requests are refused.
    let events: Vec<Event> = (0..2000)
        .flat_map(|i| [alloc(1024 + i * 8 % 15_000 / 8 * 8, 3), free(1024 + i * 24 % 15_000 / 8 * 8, 3)])
        .collect();
    let trace = trace(name, &events, memory(FrameKind::Anon), None);
    let engines =
        EngineSpec::parse_all(&["linux-6.18:pcp_policy=classic", "pageyard-exclusive"], &[]).unwrap();
    let options = ReplayOptions { series, samples: Some(7), ..ReplayOptions::default() };
    replay(&trace, &engines, &options, &mut |_, _, _| ()).unwrap()
}

fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    drop(fs::remove_dir_all(&path));
    path
}

/// Reads a table: each row by the names of its columns.
fn table(folder: &Path, name: &str) -> Vec<BTreeMap<String, String>> {
    let text = fs::read_to_string(folder.join(format!("{name}.csv"))).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let names: Vec<String> = lines.next().unwrap().collect();
    lines.map(|cells| names.iter().cloned().zip(cells).collect()).collect()
}

/// Adds up what `value` makes of the rows, by engine, sample and zone.
fn sums(
    rows: &[BTreeMap<String, String>],
    zone: bool,
    value: impl Fn(&BTreeMap<String, String>) -> u64,
) -> BTreeMap<(String, String, String), u64> {
    let mut sums = BTreeMap::new();
    for row in rows {
        let zone = if zone { row["zone"].clone() } else { String::new() };
        *sums.entry((row["engine"].clone(), row["sample"].clone(), zone)).or_default() += value(row);
    }
    sums
}

fn number(row: &BTreeMap<String, String>, column: &str) -> u64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} of {row:?}"))
}

#[test]
fn blocks_make_up_the_zones_and_zones_the_samples() {
    let (report, folder) = (report("series", true), folder("series-csv"));
    report.write_series(&folder, SeriesFormat::Csv).unwrap();
    let [samples, zones, blocks, pageblocks] =
        ["samples", "zones", "blocks", "pageblocks"].map(|name| table(&folder, name));
    assert_eq!(samples.len(), report.engines.iter().map(|e| e.samples.len()).sum::<usize>());
    assert!(samples.len() >= 2 * 8 && samples[0]["engine"] == "linux-6.18:pcp_policy=classic");
    let taken = report.engines.iter().flat_map(|e| &e.samples);
    for (row, sample) in samples.iter().zip(taken) {
        assert_eq!(row["extfrag_index"].parse().ok(), sample.extfrag_index, "{row:?}");
        assert_eq!(row["unusable_index"].parse().ok(), sample.unusable_index, "{row:?}");
    }
    assert_eq!(samples[0]["extfrag_index"], "", "a request would succeed");
    let free = |row: &_| number(row, "free_frames");
    assert_eq!(sums(&zones, false, free), sums(&samples, false, free));
    let in_blocks = |row: &_| number(row, "free_blocks") << number(row, "order");
    assert_eq!(sums(&blocks, true, in_blocks), sums(&zones, true, free));
    let all = sums(&pageblocks, false, |row| number(row, "pageblocks"));
    assert!(all.values().all(|n| *n == 32), "64 MiB: {all:?}");
    assert!(blocks.iter().any(|row| row["migratetype"] == "Movable" && number(row, "free_blocks") > 0));
    let low = zones.iter().map(|row| number(row, "low_frames")).max();
    assert!(low > Some(0) && zones.iter().all(|row| number(row, "min_frames") <= number(row, "low_frames")));
}

#[test]
fn failures_are_those_of_the_report() {
    let (report, folder) = (report("series-failures", true), folder("series-failures-csv"));
    report.write_series(&folder, SeriesFormat::Csv).unwrap();
    let rows = table(&folder, "failures");
    let refused: usize = report.engines.iter().map(|e| e.refusals.first.len()).sum();
    assert_eq!(rows.len(), refused);
    for e in &report.engines {
        let expected = (e.failures.allocs as usize).min(1000);
        assert_eq!(e.refusals.first.len(), expected, "{}: more than the document has", e.name);
    }
    for row in &rows {
        let frames: u64 = (0..11).map(|o| number(row, &format!("free_blocks_{o}")) << o).sum();
        assert_eq!(frames, number(row, "free_frames"));
        assert_eq!((row["refused_on_host"].as_str(), number(row, "order")), ("false", 3));
    }
}

#[test]
fn series_are_written_once_and_whole() {
    let (report, folder) = (report("series-parquet", true), folder("series-parquet"));
    report.write_series(&folder, SeriesFormat::Parquet).unwrap();
    let mut names: Vec<_> =
        fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(
        names,
        ["blocks", "failures", "pageblocks", "samples", "zones"].map(|n| format!("{n}.parquet"))
    );
    for name in names {
        let bytes = fs::read(folder.join(name)).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    }
    let why = report.write_series(&folder, SeriesFormat::Csv).unwrap_err().to_string();
    assert!(why.contains("already exists") && why.lines().count() == 1, "{why}");
}

#[test]
fn without_series_no_zone_is_kept() {
    let report = report("no-series", false);
    assert!(report.engines.iter().all(|e| e.zones.is_empty() && e.refusals.first.len() <= 20));
}
