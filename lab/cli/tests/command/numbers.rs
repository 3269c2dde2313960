//! Every number that a text prints is in the JSON document of the same run.

use pageyard_bench::Order;
use pageyard_bench::bulk::{BulkOptions, bulk};
use pageyard_bench::clear::{ClearOptions, clear};
use pageyard_bench::cross::{CrossOptions, cross};
use pageyard_bench::document::RouterDocument;
use pageyard_bench::experiment::{self, ExperimentReport, Published, Settings};
use pageyard_bench::fault::{FaultOptions, fault};
use pageyard_bench::machine::Machine;
use pageyard_bench::mixed::{MixedOptions, mixed};
use pageyard_bench::pools::{PoolsOptions, pools};
use pageyard_bench::primitives::primitives;
use pageyard_bench::router::{self, Effort, RouterSettings};
use pageyard_bench::scale::{Scale, ScaleOptions, scale};
use pageyard_bench::stream::stream;
use pageyard_bench::sweep::{Pattern, SweepOptions, sweep};
use pageyard_documents::figures::{check, check_short};
use pageyard_trace::Document;
use serde_json::Value;

#[test]
fn a_router() {
    let mut settings = RouterSettings::default();
    for (name, value) in [("cpus", "3"), ("offered-gbit", "40"), ("run-us", "2000"), ("warm-up-us", "500")] {
        settings.set(name, value).unwrap();
    }
    let machine = Machine::this();
    let routed = router::route(&settings).unwrap();
    let one = RouterDocument::of_one(&machine, &routed);
    let rates = |effort: Effort| [effort.packets_per_wall_s(), effort.packets_per_cpu_s()];
    check_short(&one.text(), &one.json(), &[], &rates(routed.effort));
    settings.set("run-us", "300").unwrap();
    let found = router::sweep(&settings, true, &mut |_, _| ()).unwrap();
    let sweep = RouterDocument::of_sweep(&machine, &settings, &found);
    check(&sweep.text(), &sweep.json(), &[], &rates(found.effort));
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
    let document = sweep(&options, &mut |_, _| ());
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
    let full = scale(&options, &mut |_, _| ());
    // Requests that are refused are printed in microseconds.
    let micros: Vec<f64> =
        full.refused.iter().flat_map(|row| [row.ns_median / 1000.0, row.ns_max / 1000.0]).collect();
    let quick = Scale { quick: true, ..full.clone() };
    check(&quick.text(), &quick.json(), &[], &micros);
    assert_eq!((quick.json()["quick"].as_bool(), full.json()["quick"].as_bool()), (Some(true), Some(false)));
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

/// Checks the noise that a benchmark reports: two measurements of the same code agree within 5 %.
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
    let document = sweep(&options, &mut |_, _| ());
    check(&document.text(), &document.json(), &["1000 blocks"], &[AGREED]);
}

#[test]
fn bench_bulk() {
    let document = bulk(&BulkOptions { calls: vec![8, 64], ..BulkOptions::quick() }, &mut |_, _| ());
    check(&document.text(), &document.json(), &["256 KiB", "64 at once", "order 6"], &[AGREED]);
}

#[test]
fn bench_cross() {
    let document = cross(&CrossOptions::quick(), &mut |_, _| ());
    let text = document.text();
    // Where there are no restartable sequences, nothing is biased.
    let each = if text.contains("100,000 frees") { &["100,000 frees"][..] } else { &[] };
    check(&text, &document.json(), &[&["64 at a time"], each].concat(), &[AGREED]);
}

#[test]
fn bench_pools() {
    let mut options = PoolsOptions::quick();
    options.samples = 3;
    let document = pools(&options, &mut |_, _| ());
    check(&document.text(), &document.json(), &["at a time"], &[AGREED]);
}

#[test]
fn bench_mixed() {
    let mut options = MixedOptions::quick();
    options.samples = 3;
    let document = mixed(&options, &mut |_, _| ());
    check(&document.text(), &document.json(), &["in 100,000"], &[AGREED]);
}

#[test]
fn bench_clear() {
    let options = ClearOptions { samples: 3, ..ClearOptions::quick() };
    let document = clear(&options, &mut |_, _| ());
    check(&document.text(), &document.json(), &["10^9"], &[AGREED]);
}

#[test]
fn bench_fault() {
    let options = FaultOptions { samples: 3, ..FaultOptions::quick() };
    let document = fault(&options, &mut |_, _| ());
    check_short(&document.text(), &document.json(), &["10^9"], &[AGREED]);
}

#[test]
fn bench_stream() {
    // So that there is a warning on every machine.
    let document = stream(123_456, 5, &mut |_, _| ()).unwrap().beside(Some(33 << 20));
    let text = document.text();
    assert!(text.contains("33.0 MiB") && text.contains("WARNING") && text.contains(" 5 samples"), "{text}");
    check_short(&text, &document.json(), &["10^6"], &[AGREED]);
}

#[test]
fn bench_primitives() {
    let document = primitives(&mut |_, _| ());
    check(&document.text(), &document.json(), &["document 000", "published, 2017"], &[AGREED]);
}
