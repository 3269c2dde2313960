//! Every number that a text prints is in the JSON document of the same run.
//!
//! A number of a text is found where a number of the document, or of one of its texts and keys, is the same to the printed
//! precision, once the unit that is printed behind it has been converted as `UNITS` says.

use crate::printed::{Printed, numbers};
use pageyard_bench::document::ScaleDocument;
use pageyard_bench::refused::refused;
use pageyard_bench::scale::{ScaleOptions, scale};
use pageyard_replay::engine::EngineSpec;
use pageyard_replay::replay::{ReplayOptions, SlowPath, replay};
use pageyard_trace::{Document, Summary, Trace, ZoneFragmentation};
use serde_json::Value;
use std::path::Path;

const KIB: f64 = 1024.0;

/// What is printed behind a number, and by which factors a number of a document becomes one in that unit.
const UNITS: [(&str, &[f64]); 8] = [
    // Bytes, or frames.
    ("KiB", &[1.0 / KIB, 4.0]),
    ("MiB", &[1.0 / KIB / KIB, 4.0 / KIB]),
    ("GiB", &[1.0 / KIB / KIB / KIB, 4.0 / KIB / KIB]),
    ("TiB", &[1.0 / KIB / KIB / KIB / KIB, 4.0 / KIB / KIB / KIB]),
    // Per cent, or shares.
    ("%", &[1.0, 100.0]),
    // Milliseconds, or nanoseconds.
    ("ms", &[1.0, 1e-6]),
    // Seconds, or nanoseconds.
    ("s", &[1.0, 1e-9]),
    ("million", &[1e-6]),
];

/// Collects the numbers of a document, those in its texts and keys included.
fn collect(value: &Value, into: &mut Vec<f64>) {
    match value {
        Value::Number(n) => into.extend(n.as_f64()),
        Value::String(text) => into.extend(numbers(text).iter().map(|n| n.value)),
        Value::Array(items) => items.iter().for_each(|item| collect(item, into)),
        Value::Object(entries) => {
            for (key, entry) in entries {
                into.extend(numbers(key).iter().map(|n| n.value));
                collect(entry, into);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

fn is_there(number: &Printed<'_>, known: &[f64]) -> bool {
    let factors = UNITS.iter().find(|(unit, _)| *unit == number.unit).map_or(&[1.0][..], |(_, by)| by);
    let half = 0.5 * 10f64.powi(-number.decimals);
    let near = |found: f64| (found - number.value).abs() <= half * (1.0 + 1e-9) + 1e-12;
    known.iter().any(|n| factors.iter().any(|by| near(n * by)))
}

/// Returns the numbers of a text that its document lacks.
fn missing<'a>(text: &'a str, document: &Value, derived: &[f64]) -> Vec<Printed<'a>> {
    let mut known = derived.to_vec();
    collect(document, &mut known);
    numbers(text).into_iter().filter(|number| !is_there(number, &known)).collect()
}

/// Checks a text against its document. `wording` is what the text says with figures that are no results; `derived` are numbers
/// that follow from the document.
fn check(text: &str, document: &Value, wording: &[&str], derived: &[f64]) {
    let plain = wording.iter().fold(text.to_owned(), |text, words| {
        assert!(text.contains(words), "`{words}` is not printed:\n{text}");
        text.replace(words, "")
    });
    assert!(numbers(&plain).len() > 50, "few numbers in\n{text}");
    let missing = missing(&plain, document, derived);
    assert!(missing.is_empty(), "not in the document: {missing:?}\n{text}");
}

fn shipped(name: &str) -> Trace {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces");
    Trace::open(&folder.join(format!("{name}.trace"))).unwrap()
}

/// The orders, which head the columns of tables.
fn orders() -> Vec<f64> {
    (0..=10).map(f64::from).collect()
}

#[test]
fn a_number_that_a_document_lacks_is_found_missing() {
    let document = serde_json::json!({ "frames": 3200, "share": 0.125, "of": ["linux-6.18 of 4 CPUs"] });
    let of = |text| missing(text, &document, &[]).iter().map(|n| n.value).collect::<Vec<_>>();
    assert!(of("3,200 frames, 12.5 MiB, 12.5 %, 4 CPUs").is_empty());
    assert_eq!(of("3,201 frames, 12.6 MiB, 12.4 %, 5 CPUs"), [3201.0, 12.6, 12.4, 5.0]);
    assert_eq!(of("12.5 GiB, 12.5"), [12.5, 12.5], "a unit converts as its own does");
}

#[test]
fn a_replay() {
    let engines = ["linux-6.18:pcp_policy=classic", "pageyard-exclusive"];
    let engines = EngineSpec::parse_all(&engines, &[]).unwrap();
    let slow_path = Some(SlowPath { reclaim: true, compaction: true, pinned: 0.135 });
    let smaller = ReplayOptions { memory: Some(763 << 20), slow_path, ..ReplayOptions::default() };
    for options in [ReplayOptions::default(), smaller] {
        let report = replay(&shipped("build"), &engines, &options, &mut |_, _, _| ()).unwrap();
        check(&report.to_string(), &report.json(), &["99 % ", "unusable[9]", "extfrag[9]"], &orders());
    }
}

#[test]
fn a_summary() {
    for name in ["build", "net-order0"] {
        let summary = Summary::of(&shipped(name), |_| ()).unwrap();
        let mut derived = orders();
        for zones in [&summary.before, &summary.after] {
            derived.extend(huge_frames(zones));
        }
        let wording = [
            "extfrag_index, where a request would fail: 0 for lack of memory, 1 because of fragmentation)",
            "Free huge frames (2 MiB)",
        ];
        check(&summary.to_string(), &summary.json(), &wording, &derived);
    }
}

/// The free huge frames of all zones together, how many the free memory could make, and the one as a share of the other.
fn huge_frames(zones: &[ZoneFragmentation]) -> [f64; 3] {
    let of = |blocks: &[u64]| -> u64 { blocks.iter().enumerate().skip(9).map(|(o, n)| n << (o - 9)).sum() };
    let huge: u64 = zones.iter().map(|zone| of(&zone.free_blocks)).sum();
    let best: u64 = zones.iter().map(|zone| zone.free_frames >> 9).sum();
    [huge as f64, best as f64, huge as f64 / best.max(1) as f64]
}

#[test]
fn bench_scale() {
    let options = ScaleOptions::quick();
    let rows = scale(&options, &mut |_, _| ());
    let refused = refused(&options.frames);
    let document = ScaleDocument::of(&rows, &refused);
    // Requests that are refused are printed in microseconds.
    let micros =
        refused.iter().flat_map(|row| [row.ns_median / 1000.0, row.ns_max / 1000.0]).collect::<Vec<_>>();
    check(&document.text(), &document.json(), &[], &micros);
}
