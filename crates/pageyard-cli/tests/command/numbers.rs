//! Every number that a text prints is in the JSON document of the same run.
//!
//! A number of a text is found where a number of the document, or of one of its texts and keys, is the same to the
//! printed precision, once the unit that is printed behind it has been converted as `UNITS` says.

use crate::printed::{Printed, numbers};
use pageyard_bench::Order;
use pageyard_bench::bulk::{BulkOptions, bulk};
use pageyard_bench::clear::{ClearOptions, clear};
use pageyard_bench::cross::{CrossOptions, cross};
use pageyard_bench::document::{RouterDocument, ScaleDocument};
use pageyard_bench::experiment::{self, ExperimentReport, Published, Settings};
use pageyard_bench::fault::{FaultOptions, fault};
use pageyard_bench::machine::Machine;
use pageyard_bench::mixed::{MixedOptions, mixed};
use pageyard_bench::pools::{PoolsOptions, pools};
use pageyard_bench::primitives::primitives;
use pageyard_bench::refused::refused;
use pageyard_bench::router::{self, RouterSettings};
use pageyard_bench::scale::{ScaleOptions, scale};
use pageyard_bench::stream::{Elements, StreamOptions, stream};
use pageyard_bench::sweep::{Pattern, SweepOptions, sweep};
use pageyard_record::HostSummary;
use pageyard_record::host::AskedFor;
use pageyard_record::import::import;
use pageyard_record::record::{MoveRows, RecordDocument, SamplingDocument};
use pageyard_replay::engine::{EngineSpec, KnobsDocument, all_knobs};
use pageyard_replay::replay::{ReplayOptions, SlowPath, replay};
use pageyard_replay::story::blame;
use pageyard_trace::{
    Context, Document, Event, EventKind, FAILED, FrameKind, Meta, Run, Snapshot, Summary, Trace, TraceWriter,
};
use serde_json::Value;
use std::path::{Path, PathBuf};

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

/// The numbers of a document.
#[derive(Default)]
struct Known {
    numbers: Vec<f64>,
    /// Those in its texts and keys, each with what is printed behind it.
    printed: Vec<(f64, String)>,
}

impl Known {
    fn of(document: &Value, derived: &[f64]) -> Known {
        let mut known = Known { numbers: derived.to_vec(), ..Known::default() };
        known.collect(document);
        known
    }

    fn collect(&mut self, value: &Value) {
        match value {
            Value::Number(n) => self.numbers.extend(n.as_f64()),
            Value::String(text) => self.read(text),
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            Value::Object(entries) => {
                for (key, entry) in entries {
                    self.read(key);
                    self.collect(entry);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn read(&mut self, text: &str) {
        for number in numbers(text) {
            self.numbers.push(number.value);
            self.printed.push((number.value, number.unit.to_owned()));
        }
    }

    fn has(&self, number: &Printed<'_>) -> bool {
        let factors = UNITS.iter().find(|(unit, _)| *unit == number.unit).map_or(&[1.0][..], |(_, by)| by);
        let half = 0.5 * 10f64.powi(-number.decimals);
        let near = |found: f64| (found - number.value).abs() <= half * (1.0 + 1e-9) + 1e-12;
        self.numbers.iter().any(|n| factors.iter().any(|by| near(n * by)))
            || self.printed.iter().any(|(n, unit)| near(*n) && unit == number.unit)
    }
}

/// Returns the numbers of a text that its document lacks.
fn missing<'a>(text: &'a str, document: &Value, derived: &[f64]) -> Vec<Printed<'a>> {
    let known = Known::of(document, derived);
    numbers(text).into_iter().filter(|number| !known.has(number)).collect()
}

/// Checks a document against its schema, and a text against its document. `wording` is what the text says with figures
/// that are no results; `derived` are numbers that follow from the document.
pub fn check(text: &str, document: &Value, wording: &[&str], derived: &[f64]) {
    assert!(numbers(text).len() > 50, "few numbers in\n{text}");
    check_short(text, document, wording, derived);
}

/// The same, of a text that has few numbers anyway.
pub fn check_short(text: &str, document: &Value, wording: &[&str], derived: &[f64]) {
    crate::schemas::document(&serde_json::to_vec(document).unwrap());
    let plain = wording.iter().fold(text.to_owned(), |text, words| {
        assert!(text.contains(words), "`{words}` is not printed:\n{text}");
        text.replace(words, "")
    });
    assert!(!numbers(&plain).is_empty(), "no number in\n{text}");
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
    let smaller = ReplayOptions { memory: Some(763 << 20), ..ReplayOptions::default() };
    let helped = ReplayOptions { slow_path, ..smaller.clone() };
    for (options, refuses) in [(ReplayOptions::default(), false), (smaller, true), (helped, true)] {
        let report = replay(&shipped("build"), &engines, &options, &mut |_, _, _| ()).unwrap();
        let (text, document) = (report.to_string(), report.json());
        assert_eq!(text.contains("one by one"), refuses, "{text}");
        let derived: Vec<f64> = document["engines"].as_array().unwrap().iter().flat_map(times).collect();
        check(&text, &document, &["99 % ", "unusable[9]", "extfrag[9]"], &[orders(), derived].concat());
    }
}

/// The times of refused requests in seconds, as tables have them.
fn times(of: &Value) -> Vec<f64> {
    let first = of["failures"]["first"].as_array().unwrap();
    first.iter().map(|failure| failure["time_ns"].as_f64().unwrap() / 1e9).collect()
}

#[test]
fn a_summary() {
    for name in ["build", "net-order0"] {
        let summary = Summary::of(&shipped(name), |_| ()).unwrap();
        let wording = [
            "extfrag_index, where a request would fail: 0 for lack of memory, 1 because of fragmentation)",
            "Free huge frames (2 MiB)",
            "Pageblocks (2 MiB)",
        ];
        check(&summary.to_string(), &summary.json(), &wording, &orders());
    }
}

#[test]
fn a_summary_with_blame() {
    for name in ["build", "guest-6.12-huge"] {
        let report = blame(&shipped(name), &mut |_, _, _| ()).unwrap();
        let document = report.document().json();
        // How many rows the tables leave out.
        let kinds =
            document["by"].as_object().unwrap().values().map(|by| by.as_array().unwrap().len() as f64 - 12.0);
        check(&report.to_string(), &document, &["pageblocks (2 MiB)"], &kinds.collect::<Vec<_>>());
    }
}

#[test]
fn a_summary_of_failures() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("numbers-failures.trace");
    drop(std::fs::remove_dir_all(&folder));
    let mut writer = TraceWriter::create(&folder).unwrap();
    for n in 0..57 {
        let event = Event {
            time_ns: n * 1_234_567,
            pfn: FAILED,
            gfp: 0xcc0,
            tid: n as u32 % 13,
            cpu: 0,
            kind: EventKind::Alloc,
            order: 4,
            migratetype: 1,
            context: Context::Task,
            irqs_off: false,
        };
        writer.push(&event).unwrap();
    }
    let runs = vec![Run { pfn: 0, frames: 3001, kind: FrameKind::Free, thp: false, unevictable: false }];
    let meta = Meta { lost: 7, duration_ns: 98_765_432, ..Meta::new(1) };
    let trace = writer.finish(meta, Some(&Snapshot { runs }), None).unwrap();
    let summary = Summary::of(&trace, |_| ()).unwrap();
    let (text, document) = (summary.to_string(), summary.json());
    assert!(text.contains("37 left out") && text.contains("10.94 % of all"), "{text}");
    // The text has the ten most frequent kinds; the others are what is left of all failures.
    let told: u64 = document["failures"]["by_kind"].as_array().unwrap()[..10]
        .iter()
        .map(|k| k["count"].as_u64().unwrap())
        .sum();
    let derived = [orders(), times(&document), vec![20.0, 57.0 - told as f64]].concat();
    check(&text, &document, &["Pageblocks (2 MiB)"], &derived);
}

#[test]
fn a_summary_of_this_host() {
    let host = HostSummary::collect(AskedFor::Kernel).unwrap();
    let text = host.to_string();
    let wording: Vec<&str> = [
        "extfrag_index, where a request would fail: 0 for lack of memory, 1 because of fragmentation)",
        "Free huge frames (2 MiB)",
        "one huge frame (2 MiB)",
        "Pageblocks (2 MiB)",
        "Huge frames (2 MiB)",
    ]
    .into_iter()
    .filter(|words| text.contains(words))
    .collect();
    check(&text, &host.json(), &wording, &orders());
}

/// A host whose every part has numbers of its own, as files that stand in for `/proc`.
fn write_host(folder: &Path) {
    let file = |name: &str, text: String| std::fs::write(folder.join(name), text).unwrap();
    let zone = |name: &str, start: u64, managed: u64| {
        format!(
            "Node 0, zone {name}\n  pages free {}\n        boost 3\n        min 21\n        low 27\n        high 33\n\
             \x20       spanned 8192\n        present 8192\n        managed {managed}\n        protection: (0, 0)\n\
             \x20 pagesets\n    cpu: 0\n              count: 17\n  start_pfn: {start}\n",
            managed / 2
        )
    };
    file("zoneinfo", zone("DMA32", 0, 8000) + &zone("Normal", 8192, 7001));
    file(
        "buddyinfo",
        "Node 0, zone DMA32 41 20 10 5 4 3 2 1 1 1 2\nNode 0, zone Normal 501 204 108 51 49 31 25 15 12 0 0\n".to_owned(),
    );
    file(
        "vmstat",
        "compact_stall 31\ncompact_fail 22\ncompact_success 9\nallocstall_normal 71\nthp_fault_alloc 1234\n\
         balloon_inflate 300\nballoon_deflate 40\nnr_shmem 811\nnr_mlock 612\nnr_unevictable 613\n"
            .to_owned(),
    );
    file(
        "meminfo",
        "KernelStack: 640 kB\nVmallocUsed: 960 kB\nPercpu: 736 kB\nHugetlb: 4096 kB\n".to_owned(),
    );
    file(
        "pagetypeinfo",
        "Page block order: 9\nPages per block:  512\n\nNumber of blocks type     Unmovable      Movable\n\
         Node 0, zone DMA32 1 15\nNode 0, zone Normal 6 10\n"
            .to_owned(),
    );
    let caches = (1..=13).map(|n| {
        format!(
            "cache-{n} {} {} {} 8 2 : tunables 0 0 0 : slabdata {n} {} 0\n",
            90 + n,
            120 + n,
            8 * n,
            10 * n
        )
    });
    file("slabinfo", caches.collect());
    let areas = (1..=12).map(|n| format!("0x1-0x2 8192 caller_{n}+0x1/0x2 pages={} vmalloc\n", 7 * n));
    file("vmallocinfo", areas.collect());
    // Pageblocks of each kind: processes' memory of different sizes beside free memory, slab, nothing that has a flag.
    let [buddy, anon, slab] = [1u64 << 10, 1 << 12 | 1 << 5, 1 << 7];
    let mut words: Vec<u64> = Vec::new();
    for block in 0..32 {
        let used = if block % 8 == 7 { 0 } else { 13 * block };
        words.extend(vec![[anon, anon, slab, 0, anon][block % 5]; used]);
        words.extend(vec![buddy; 512 - used]);
    }
    std::fs::write(
        folder.join("kpageflags"),
        words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>(),
    )
    .unwrap();
}

#[test]
fn a_host() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("numbers-host");
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder).unwrap();
    write_host(&folder);
    for asked in AskedFor::ALL {
        let host = HostSummary::collect_from(&folder, asked).unwrap();
        assert!(host.not_read.is_empty(), "{host}");
        let text = host.to_string();
        for part in ["could become free", "cache-13", "caller_12", "others", "shared memory", "ballooned"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let wording = [
            "extfrag_index, where a request would fail: 0 for lack of memory, 1 because of fragmentation)",
            "Free huge frames (2 MiB)",
            "Pageblocks (2 MiB)",
            "Huge frames (2 MiB)",
        ];
        check(&text, &host.json(), &wording, &orders());
    }
}

#[test]
fn a_router() {
    let mut settings = RouterSettings::default();
    for (name, value) in [("cpus", "3"), ("offered-gbit", "40"), ("run-us", "2000"), ("warm-up-us", "500")] {
        settings.set(name, value).unwrap();
    }
    let machine = Machine::this();
    let routed = router::route(&settings).unwrap();
    let one = RouterDocument::of_one(&machine, &routed);
    check_short(&one.text(), &one.json(), &[], &[]);
    settings.set("run-us", "300").unwrap();
    let found = router::sweep(&settings, true, &mut |_, _| ()).unwrap();
    let sweep = RouterDocument::of_sweep(&machine, &settings, &found);
    check(&sweep.text(), &sweep.json(), &[], &[]);
}

#[test]
fn a_recording() {
    let document = RecordDocument {
        trace: "a.trace",
        events: 41_717,
        by_event: [("alloc", 20_732), ("free", 19_978), ("drain", 1_007)].into(),
        events_per_s: 149_955.0,
        lost: 317,
        lost_pct: 0.75,
        impossible: 3,
        late: 5,
        seconds: 0.2782,
        cpus: 2,
        buffer_bytes: 64 << 20,
        buffers: "perf",
        not_cheapest: Some("the kernel refuses an instance of its tracer"),
        recorder_cpu_seconds: 0.0997,
        recorder_cpu_pct: 17.9,
        missing_tracepoints: &["kmem:mm_page_alloc_extfrag".to_owned()],
        moves: Some(MoveRows { rows: 77, with_both_frames: 71 }),
        moves_by: Some("move_to_new_folio"),
        moves_not_watched: Some("the kernel does not allow it"),
        samples: Some(SamplingDocument {
            taken: 1203,
            left_out: 2,
            every_ms: 250.0,
            cpu_seconds: 0.0412,
            cpu_pct: 0.0312,
        }),
        event_ns: Some(393.2),
        overhead: Some(0.2134),
        priority_raised: Some(false),
        partial: Some("the disk is full"),
        exit_status: Some(9),
    };
    let text = document.text();
    check_short(&text, &document.json(), &[], &[]);
    for part in [
        "a.trace: 41,717 events",
        "20,732 alloc, 19,978 free",
        "77 rows",
        "1,203 samples",
        "priority",
        "disk is full",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
}

#[test]
fn an_import() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("numbers-import");
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder).unwrap();
    let (file, output) = (folder.join("perf.data"), folder.join("a.trace"));
    std::fs::write(&file, &pageyard_record::hostile::seeds("perf_data")[0]).unwrap();
    let (trace, imported) = import(&file, &output, &mut |_, _| ()).unwrap();
    let document = imported.document("a.trace", trace.meta().duration_ns as f64 / 1e9);
    check_short(&document.text(), &document.json(), &[], &[]);
}

#[test]
fn the_knobs() {
    let knobs = all_knobs();
    let document = KnobsDocument::of(&knobs);
    check(&document.to_string(), &document.json(), &[], &[]);
}

#[test]
fn an_experiment_with_a_setting() {
    let mut silent = |_: &'static str, _, _| {};
    let mut run = experiment::Run::new(true, &mut silent);
    run.samples = Some(3);
    let chosen = experiment::find("page-frag").unwrap();
    let set = [("percpu_pagelist_high_fraction".to_owned(), "97".to_owned())];
    run.settings = Settings::read(chosen, &set).unwrap();
    let report = experiment::run(chosen, run, &Published::carried()).unwrap();
    let text = report.text();
    assert!(text.contains("percpu_pagelist_high_fraction=97") && text.contains("3 samples"), "{text}");
    check(&text, &report.json(), &[], &tally(&report));
}

#[test]
fn bench_sweep() {
    let mut options = SweepOptions::quick();
    (options.orders, options.batches, options.samples) = (vec![Order::ZERO], vec![64, 1024], 7);
    let result = sweep(&options, &mut |_, _| ());
    let document = result.document();
    let text = document.text();
    assert!(text.contains("Each row has 7 samples"), "{text}");
    // What a figure is, and the bound of a pair.
    let wording = if document.disturbance.disturbed == 0 { vec!["5 %", "in all"] } else { vec!["doubtful"] };
    let per_1000 = ["refills+spills, 1000 blocks"];
    check(&text, &document.json(), &[&wording[..], &per_1000].concat(), &[]);
}

#[test]
fn bench_scale() {
    let options = ScaleOptions::quick();
    let rows = scale(&options, &mut |_, _| ());
    let refused = refused(&options.frames);
    let machine = Machine::measured();
    let document = ScaleDocument::of(&machine, &rows, &refused);
    // Requests that are refused are printed in microseconds.
    let micros =
        refused.iter().flat_map(|row| [row.ns_median / 1000.0, row.ns_max / 1000.0]).collect::<Vec<_>>();
    let quick = ScaleDocument { quick: true, ..document.clone() };
    check(&quick.text(), &quick.json(), &[], &micros);
    assert_eq!(
        (quick.json()["quick"].as_bool(), document.json()["quick"].as_bool()),
        (Some(true), Some(false))
    );
}

/// The numbers of a report's tally, which counts its claims.
fn tally(report: &ExperimentReport) -> Vec<f64> {
    (0..=report.claims.len()).map(|n| n as f64).collect()
}

/// Runs an experiment with `--quick` and checks its text, and that every claim names rows that are there.
fn experiment(name: &str, samples: Option<usize>) {
    let mut silent = |_: &'static str, _, _| {};
    let mut run = experiment::Run::new(true, &mut silent);
    run.samples = samples;
    let report = experiment::run(experiment::find(name).unwrap(), run, &Published::carried()).unwrap();
    let text = report.text();
    assert!(text.starts_with("A quick run: not the document's setting ("), "{text}");
    check(&text, &report.json(), &[], &tally(&report));
    let (document, rows) = (report.json(), report.rows.iter().count());
    let has = |ground: &Value, column: &Value| {
        let row = |r: &&Value| {
            r["metric"] == ground["metric"] && r["setting"] == ground["setting"] && r["column"] == *column
        };
        document["rows"].as_array().unwrap().iter().filter(row).count() == 1
    };
    assert!(rows > 20);
    for claim in document["claims"].as_array().unwrap() {
        for ground in claim["rows"].as_array().unwrap() {
            let columns = ground["columns"].as_array().unwrap();
            assert!(columns.iter().all(|column| has(ground, column)), "{ground}");
        }
    }
}

#[test]
fn experiment_page_frag() {
    experiment("page-frag", None);
}

#[test]
fn experiment_batched_clear() {
    experiment("batched-clear", Some(3));
}

#[test]
fn experiment_irq_safe() {
    experiment("irq-safe", Some(3));
}

#[test]
fn experiment_zonelist() {
    experiment("zonelist", Some(3));
}

#[test]
#[ignore = "a minute on two CPUs"]
fn experiment_direct_compaction() {
    experiment("direct-compaction", None);
}

/// What every benchmark says of its own measure: two of the same code agree within 5 %.
const AGREED: f64 = 5.0;

#[test]
fn bench_sweep_of_threads() {
    let options = SweepOptions {
        orders: vec![Order::ZERO],
        batches: vec![1, 64],
        threads: vec![1, 2],
        patterns: vec![Pattern::Fifo],
        ..SweepOptions::quick()
    };
    let result = sweep(&options, &mut |_, _| ());
    let document = result.document();
    check(&document.text(), &document.json(), &["1000 blocks"], &[AGREED]);
}

#[test]
fn bench_bulk() {
    let result = bulk(&BulkOptions { calls: vec![8, 64], ..BulkOptions::quick() }, &mut |_, _| ());
    let document = result.document();
    check(&document.text(), &document.json(), &["256 KiB", "64 at once", "order 6"], &[AGREED]);
}

#[test]
fn bench_cross() {
    let result = cross(&CrossOptions::quick(), &mut |_, _| ());
    let document = result.document();
    let text = document.text();
    // Where there are no restartable sequences, nothing is biased.
    let each = if text.contains("100,000 frees") { &["100,000 frees"][..] } else { &[] };
    check(&text, &document.json(), &[&["64 at a time"], each].concat(), &[AGREED]);
}

#[test]
fn bench_pools() {
    let mut options = PoolsOptions::quick();
    options.samples = 3;
    let result = pools(&options, &mut |_, _| ());
    let document = result.document();
    check(&document.text(), &document.json(), &["at a time"], &[AGREED]);
}

#[test]
fn bench_mixed() {
    let mut options = MixedOptions::quick();
    options.samples = 3;
    let result = mixed(&options, &mut |_, _| ());
    let document = result.document();
    check(&document.text(), &document.json(), &["in 100,000"], &[AGREED]);
}

#[test]
fn bench_clear() {
    let options = ClearOptions { samples: 3, ..ClearOptions::quick() };
    let result = clear(&options, &mut |_, _| ());
    check(&result.document().text(), &result.document().json(), &["10^9"], &[AGREED]);
}

#[test]
fn bench_fault() {
    let options = FaultOptions { samples: 3, ..FaultOptions::quick() };
    let result = fault(&options, &mut |_, _| ());
    check_short(&result.document().text(), &result.document().json(), &["10^9"], &[AGREED]);
}

#[test]
fn bench_stream() {
    let options = StreamOptions { elements: Elements::new(123_456).unwrap(), samples: 5 };
    let mut result = stream(&options, &mut |_, _| ()).unwrap();
    // So that there is a warning of it on every machine.
    result.last_level_caches = Some(33 << 20);
    let document = result.document();
    let text = document.text();
    assert!(
        text.contains("33.0 MiB") && text.contains("WARNING") && text.contains("leaves 5 samples"),
        "{text}"
    );
    assert!(text.contains("both nodes, 56 threads") && text.contains("34944.0"), "{text}");
    check_short(&text, &document.json(), &["10^6"], &[AGREED]);
    let without = result.document_beside(&Published::none()).text();
    assert!(!without.contains("published") && without.contains("Triad"), "{without}");
}

#[test]
fn bench_primitives() {
    let result = primitives(&mut |_, _| ());
    let document = result.document();
    check(&document.text(), &document.json(), &["document 000", "published, 2017"], &[AGREED]);
}
