//! Experiments: published figures are shown beside measurements and never enter them.

use pageyard_bench::experiment::{self, EXPERIMENTS, ExperimentReport, Published, Run};
use std::collections::BTreeSet;
use std::sync::OnceLock;

fn outcome(name: &str, tables: &Published) -> ExperimentReport {
    let mut silent = |_: &'static str, _, _| {};
    experiment::run(experiment::find(name).unwrap(), Run::new(true, &mut silent), tables).unwrap()
}

/// The report that two tests look at, made once.
fn page_frag() -> &'static ExperimentReport {
    static REPORT: OnceLock<ExperimentReport> = OnceLock::new();
    REPORT.get_or_init(|| outcome("page-frag", &Published::carried()))
}

fn measured(outcome: &ExperimentReport) -> BTreeSet<(String, String)> {
    let rows = outcome.rows.iter().filter(|r| !r.column.starts_with("published"));
    rows.map(|r| (r.metric.clone(), r.column.clone())).collect()
}

#[test]
fn an_experiment_without_published_tables_measures_the_same_rows() {
    let (with, without) = (page_frag(), outcome("page-frag", &Published::none()));
    assert!(!measured(with).is_empty());
    assert_eq!(measured(with), measured(&without));
    assert!(with.rows.iter().any(|r| r.column.starts_with("published")));
    assert!(without.rows.iter().all(|r| !r.column.starts_with("published")));
    assert!(without.notes.iter().any(|n| n.contains("data/published")), "{:?}", without.notes);
    assert!(!with.claims.is_empty() && with.rows.iter().all(|r| r.value.is_finite()));
}

#[test]
fn published_rows_are_all_of_published_columns() {
    // `what-if` reproduces no document.
    for e in EXPERIMENTS.iter().filter(|e| e.name() != "what-if") {
        let rows = e.published(&Published::carried());
        assert!(rows.iter().count() > 3, "{}", e.name());
        assert!(rows.iter().all(|r| r.column.starts_with("published:")), "{}", e.name());
        assert_eq!(e.published(&Published::none()).iter().count(), 0, "{}", e.name());
    }
}

#[test]
fn a_document_s_own_figures_are_carried_over() {
    let rows = experiment::find("irq-safe").unwrap().published(&Published::carried());
    assert_eq!(rows.get("total-odr0-64", "published:vanilla"), Some(211.38));
    assert_eq!(rows.get("gain free-odr0-1", "published:irqsafe"), Some(46.06));
    assert_eq!(rows.get("page_bench02", "published:irqsafe"), Some(46.056));
    // "Thus, expected improvement is: 38-11 = 27 cycles": in nanoseconds of the same machine.
    let saving = rows.get("expected saving for one section", "published:time_bench").unwrap();
    assert!((saving - (9.665 - 2.794)).abs() < 1e-9);
    let rows = experiment::find("zonelist").unwrap().published(&Published::carried());
    assert_eq!(rows.get("Min alloc-odr0-1", "published:optiter"), Some(382.0));
}

#[test]
fn an_unknown_experiment_is_answered_with_those_there_are() {
    let why = experiment::find("irqsafe").err().unwrap().to_string();
    assert!(EXPERIMENTS.iter().all(|e| why.contains(e.name())), "{why}");
}

#[test]
fn an_experiment_has_no_metric_twice_for_a_column_and_a_setting() {
    let mut seen = BTreeSet::new();
    for r in page_frag().rows.iter() {
        assert!(seen.insert((&r.metric, &r.column, r.whole_setting())), "{r:?} appears twice");
    }
    let quick = experiment::find("direct-compaction").unwrap().quick_cannot_show();
    assert!(quick.contains("another machine"), "{quick}");
}
