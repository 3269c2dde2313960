//! The thread's open questions: a table for each question, each technique turned on and off alone.

use super::super::{Rows, Run};
use super::candidate::{Candidate, Job, Knob, run_all, sets};
use super::table::{DIRECT, FREE, MIGRATE, ROWS, count, mean};
use crate::error::BenchError;
use pageyard::Counter;
use pageyard_replay::workload::LoadTrace;
use pageyard_replay::workload::stress::{HUGE, Phases, Report, Settings};

/// A question: its table, and the variants of patch 2, 3 or 4 that answer it.
type Question = (&'static str, &'static [(usize, &'static [Knob])]);

/// The questions. The patch itself stands first in each table.
pub const QUESTIONS: [Question; 14] = [
    ("Why direct free pages cut migrate scanning too", &[(2, &[]), (3, &[]), (4, &[])]),
    ("Leftovers released after a failed migration", &[(4, &[]), (4, &[("release_leftovers", "true")])]),
    (
        "A migrate scanner that ignores the free scanner's position",
        &[(4, &[]), (4, &[("migrate_ignores_free_scanner", "true")])],
    ),
    (
        "Both techniques in synchronous direct compaction",
        &[
            (4, &[]),
            (4, &[("skip_on_failure", "direct")]),
            (4, &[("direct_free", "direct")]),
            (4, &[("skip_on_failure", "direct"), ("direct_free", "direct")]),
        ],
    ),
    (
        "Skipping on failure in the background compactor, up to an order",
        &[
            (4, &[]),
            (4, &[("skip_on_failure", "all"), ("skip_on_failure_order", "1")]),
            (4, &[("skip_on_failure", "all"), ("skip_on_failure_order", "3")]),
            (4, &[("skip_on_failure", "all"), ("skip_on_failure_order", "9")]),
        ],
    ),
    (
        "Deferral by mode",
        &[
            (3, &[]),
            (3, &[("deferral", "by_mode")]),
            (3, &[("deferral", "off")]),
            (4, &[]),
            (4, &[("deferral", "by_mode")]),
            (4, &[("deferral", "off")]),
        ],
    ),
    (
        "Skip hints against random skipping",
        &[
            (3, &[]),
            (3, &[("skip", "nothing")]),
            (3, &[("skip", "random:250")]),
            (3, &[("skip", "random:500")]),
            (4, &[]),
            (4, &[("skip", "nothing")]),
            (4, &[("skip", "random:500")]),
        ],
    ),
    (
        "Where the scanners set out",
        &[
            (2, &[]),
            (2, &[("pivot", "restarting")]),
            (2, &[("pivot", "forgetting")]),
            (3, &[]),
            (3, &[("pivot", "restarting")]),
            (3, &[("pivot", "forgetting")]),
            (4, &[]),
            (4, &[("pivot", "restarting")]),
            (4, &[("pivot", "forgetting")]),
        ],
    ),
    (
        "The reviewer's algorithm: both scanners through the whole zone",
        &[(2, &[]), (2, &[("whole_zone", "true")]), (3, &[]), (3, &[("whole_zone", "true")])],
    ),
    (
        "Asynchronous compaction that leaves the scanners where they met",
        &[
            (2, &[]),
            (2, &[("async_resets", "false")]),
            (3, &[]),
            (3, &[("async_resets", "false")]),
            (4, &[]),
            (4, &[("async_resets", "false")]),
        ],
    ),
    (
        "Try everything, or report a real failure",
        &[(3, &[]), (3, &[("thorough", "true")]), (4, &[]), (4, &[("thorough", "true")])],
    ),
    (
        "Complete, but only movable pageblocks were seen",
        &[
            (3, &[]),
            (3, &[("async_movable_only", "false")]),
            (4, &[]),
            (4, &[("async_movable_only", "false")]),
        ],
    ),
    (
        "Less direct reclaim, intended or not",
        &[(2, &[]), (3, &[]), (4, &[]), (4, &[("capture", "true")]), (4, &[("enabled", "false")])],
    ),
    (
        "A contention rule: frames until asynchronous compaction gives way",
        &[
            (2, &[("async_budget", "4096")]),
            (2, &[("async_budget", "65536")]),
            (3, &[("async_budget", "4096")]),
            (3, &[("async_budget", "65536")]),
            (4, &[("async_budget", "4096")]),
            (4, &[("async_budget", "65536")]),
        ],
    ),
];

/// Returns whether an answer sets this knob.
pub fn asks_for(knob: &str) -> bool {
    QUESTIONS.iter().flat_map(|(_, variants)| *variants).any(|(_, knobs)| sets(knobs, knob))
}

/// A figure of a run that variants are compared by.
type Compared = fn(&Report) -> f64;

/// The figures that each variant is compared by with the patch itself, seed by seed.
const COMPARED: [(&str, Compared); 5] = [
    ("Success 1", |r| r.phases[0].success()),
    ("Success 2", |r| r.phases[1].success()),
    (MIGRATE, |r| count(r, Counter::CompactMigrateScanned)),
    (FREE, |r| count(r, Counter::CompactFreeScanned)),
    (INDEX, |r| r.phases[1].after.unusable_index[HUGE]),
];

/// How fragmented memory is after two phases.
pub const INDEX: &str = "unusable_index of order 9 after phase 2";

/// Returns the metric that says in how many of the seeds a figure is above that of the patch itself.
pub fn above(figure: &str) -> String {
    format!("{figure}: above the patch itself")
}

/// Returns the metric that says how much a figure differs from that of the patch itself, in the mean of the seeds:
/// frames scanned in percent, others in their own unit.
pub fn by(figure: &str) -> String {
    format!("{figure}: more than the patch itself")
}

/// Compares a variant with the patch itself.
fn compare(rows: &mut Rows, column: &str, reports: &[&Report], itself: &[&Report]) {
    for (figure, read) in COMPARED {
        let seeds = reports.iter().zip(itself).map(|(a, b)| (read(a), read(b)));
        let share = seeds.clone().filter(|(a, b)| a > b).count() as f64
            + seeds.clone().filter(|(a, b)| a == b).count() as f64 / 2.0;
        rows.add(above(figure), column, 100.0 * share / reports.len() as f64, "% of the seeds");
        let (is, was) = (mean(reports, read), mean(itself, read));
        let (more, unit) = match figure {
            MIGRATE | FREE => (100.0 * (is / was - 1.0), "%"),
            INDEX => (is - was, ""),
            _ => (is - was, "points"),
        };
        rows.add(by(figure), column, more, unit);
    }
}

/// Adds each variant's figures to the table.
fn add(rows: &mut Rows, column: &str, reports: &[&Report]) {
    for phase in 0..3 {
        let label = format!("{} Mean", ["Success 1", "Success 2", "Success 3"][phase]);
        rows.add(
            label,
            column,
            mean(reports, |r| r.phases.get(phase).map_or(f64::NAN, |p| p.success())),
            "%",
        );
    }
    let kept = ["Compaction stalls", "Compaction success", "Direct pages reclaimed", MIGRATE, FREE, DIRECT];
    for (label, unit, read) in ROWS.iter().filter(|(label, ..)| kept.contains(label)) {
        rows.add(*label, column, mean(reports, read), unit);
    }
    let by_stall = |r: &Report, c| count(r, c) / count(r, Counter::CompactStall).max(1.0);
    rows.add(
        "Migrate scanned by stall",
        column,
        mean(reports, |r| by_stall(r, Counter::CompactMigrateScanned)),
        "",
    );
    let (taken, behind) = (Counter::CompactFreeDirectAlloc, Counter::CompactFreeDirectBehind);
    if reports.iter().any(|r| count(r, taken) > 0.0) {
        let share = |r: &Report| 100.0 * count(r, behind) / count(r, taken).max(1.0);
        rows.add("Taken directly behind the migrate scanner", column, mean(reports, share), "%");
    }
    rows.add("Isolated and put back", column, mean(reports, |r| count(r, Counter::CompactAbandoned)), "");
    rows.add(
        "Zones left alone for a failure",
        column,
        mean(reports, |r| count(r, Counter::CompactDeferred)),
        "",
    );
    let last = |r: &Report| r.phases.get(1).map_or(f64::NAN, |p| p.after.unusable_index[HUGE]);
    rows.add(INDEX, column, mean(reports, last), "");
}

/// Answers the questions.
pub fn measure(
    trace: &LoadTrace,
    settings: &Settings,
    seeds: &[u64],
    run: &mut Run<'_>,
) -> Result<Rows, BenchError> {
    let mut candidates: Vec<Candidate> = Vec::new();
    for (patch, knobs) in QUESTIONS.iter().flat_map(|(_, variants)| *variants) {
        let candidate = Candidate::patch(*patch).variant(knobs);
        if !candidates.iter().any(|s| s.column == candidate.column) {
            candidates.push(candidate);
        }
    }
    let job = |candidate, seed: &u64| Job {
        candidate,
        trace,
        settings: *settings,
        phases: Phases::Three,
        seed: *seed,
    };
    let jobs: Vec<Job<'_>> =
        candidates.iter().flat_map(|s| seeds.iter().map(move |seed| job(s, seed))).collect();
    let reports = run_all("open questions", &jobs, run)?;
    let mut rows = Rows::default();
    rows.setting(super::extent::setting(settings, trace, seeds));
    let of = |column: &str| -> Vec<&Report> {
        jobs.iter().zip(&reports).filter(|(j, _)| j.candidate.column == column).map(|(_, r)| r).collect()
    };
    for (section, variants) in QUESTIONS {
        rows.section(section);
        for (patch, knobs) in variants {
            let itself = Candidate::patch(*patch);
            let column = itself.variant(knobs).column;
            add(&mut rows, &column, &of(&column));
            if !knobs.is_empty() {
                compare(&mut rows, &column, &of(&column), &of(&itself.column));
            }
        }
    }
    Ok(rows)
}
