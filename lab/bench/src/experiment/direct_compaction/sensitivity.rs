//! How much of the result depends on the workload: every parameter changed alone.

use super::super::{Rows, Run};
use super::candidate::{Candidate, Job, run_all};
use super::table::{FREE, MIGRATE, SUM, count, mean};
use crate::error::BenchError;
use pageyard::Counter;
use pageyard_replay::workload::fragment::WORN;
use pageyard_replay::workload::stress::{Phases, Report, Settings};
use pageyard_replay::workload::{LoadTrace, Shares};

/// The section of the table.
pub const SECTION: &str = "Sensitivity: one parameter at a time";

type Change = fn(&mut Settings);

/// The changes, each alone.
const CHANGES: [(&str, Change); 20] = [
    ("defaults", |_| ()),
    ("half as many jobs", |s| s.shape.jobs = (s.shape.jobs / 2).max(1)),
    ("1.5 times as many jobs", |s| s.shape.jobs += s.shape.jobs.div_ceil(2)),
    ("attempts on 50 % of memory", |s| s.share = 0.5),
    ("attempts on 70 % of memory", |s| s.share = 0.7),
    ("no pins", |s| s.shares.pins = 0.0),
    ("pins on 1 %", |s| s.shares.pins = 0.01),
    ("no page locked or written", |s| (s.shares.locked, s.shares.writeback) = (0.0, 0.0)),
    ("5 % of pages locked, 1 % written", |s| (s.shares.locked, s.shares.writeback) = (0.05, 0.01)),
    ("nothing held back at all", |s| s.shares = Shares { reused: s.shares.reused, ..Shares::NONE }),
    ("no cache page used again", |s| s.shares.reused = 0.0),
    ("half of the cache used again", |s| s.shares.reused = 0.5),
    ("slab of 4 %", |s| s.slab = 0.04),
    ("slab of 15 %", |s| s.slab = 0.15),
    ("phases of half a round", |s| s.rounds = 0.5),
    ("phases of two rounds", |s| s.rounds = 2.0),
    ("two rounds before phase 1", |s| s.settle = 2.0),
    ("background compactor every ms", |s| s.shape.compactor_ns = 1_000_000),
    ("no background compactor", |s| s.shape.compactor_ns = u64::MAX),
    ("a worn machine to begin with", |s| s.start = Some(WORN)),
];

/// Measures the three patches under each change, and under the load with large blocks and the other recordings.
pub fn measure(
    loads: &[(String, &LoadTrace)],
    settings: &Settings,
    seeds: &[u64],
    run: &mut Run<'_>,
) -> Result<Rows, BenchError> {
    let candidates: Vec<Candidate> = (2..=4).map(Candidate::patch).collect();
    let Some((_, first)) = loads.first() else { return Ok(Rows::default()) };
    let changed = CHANGES.iter().map(|(name, change)| {
        let mut s = *settings;
        change(&mut s);
        ((*name).to_owned(), *first, s)
    });
    let others = loads.iter().skip(1).map(|(name, load)| (name.clone(), *load, *settings));
    let cases: Vec<(String, &LoadTrace, Settings)> = changed.chain(others).collect();
    let mut jobs = Vec::new();
    for (_, trace, settings) in &cases {
        for candidate in &candidates {
            jobs.extend(seeds.iter().map(|seed| Job {
                candidate,
                trace,
                settings: *settings,
                phases: Phases::UnderLoad(2),
                seed: *seed,
            }));
        }
    }
    let reports = run_all("sensitivity", &jobs, run)?;
    let mut rows = Rows::default();
    rows.setting(super::extent::setting(settings, first, seeds) + ", except for what the row names");
    rows.section(SECTION);
    let mut chunks = reports.chunks(seeds.len());
    for (name, ..) in &cases {
        for (candidate, of) in candidates.iter().zip(&mut chunks) {
            let of: Vec<&Report> = of.iter().collect();
            let column = &candidate.column;
            let success = |n: usize| mean(&of, |r| r.phases[n].success());
            let counter = |c| mean(&of, |r| count(r, c));
            rows.add(format!("{name}: Success 1"), column, success(0), "%");
            rows.add(format!("{name}: Success 2"), column, success(1), "%");
            rows.add(format!("{name}: {MIGRATE}"), column, counter(Counter::CompactMigrateScanned), "");
            rows.add(format!("{name}: {FREE}"), column, counter(Counter::CompactFreeScanned), "");
            let direct = counter(Counter::CompactFreeDirectAlloc);
            rows.add(format!("{name}: {SUM}"), column, counter(Counter::CompactFreeScanned) + direct, "");
        }
    }
    Ok(rows)
}

/// Returns in how many of the cases a comparison of columns holds, of how many.
pub fn holds(rows: &Rows, metric: &str, test: impl Fn(f64, f64, f64) -> bool) -> (usize, usize) {
    let suffix = format!(": {metric}");
    let metrics = rows.metrics(SECTION).into_iter().filter(|m| m.ends_with(&suffix)).collect::<Vec<_>>();
    let values = |m: &str| {
        let get = |n| rows.get(m, &format!("reference:patch{n}"));
        Some((get(2)?, get(3)?, get(4)?))
    };
    let true_for = metrics.iter().filter_map(|m| values(m)).filter(|(a, b, c)| test(*a, *b, *c)).count();
    (true_for, metrics.len())
}
