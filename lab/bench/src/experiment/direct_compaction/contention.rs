//! Contention: what makes asynchronous compaction give way, how often, and what becomes of the request.

use super::super::{Rows, Run};
use super::candidate::{Candidate, Job, Knob, run_all, sets};
use super::extent::PACE;
use super::table::{count, mean};
use crate::error::BenchError;
use pageyard::Counter;
use pageyard_replay::workload::stress::{Phases, Report, Settings, Turns};
use pageyard_replay::workload::{End, LoadTrace};
use std::time::Duration;

/// The section of the table.
pub const SECTION: &str = "Contention: how asynchronous compaction ends";

/// Compaction that goes on whatever is held or wanted.
const GOES_ON: [Knob; 2] = [("contended_lock", "waits"), ("yields", "between_zones")];

/// Returns whether a column sets this knob.
pub fn asks_for(knob: &str) -> bool {
    sets(&GOES_ON, knob)
}

/// A load beside the requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// The load has a thread of its own: a competing allocator.
    Load,
    /// The same, and it asks for large blocks whole: a competing compactor.
    Compactor,
}

/// A case: its name, the load, and after how many milliseconds another task wants the CPU. Linux's tick is 4 ms at
/// 250 Hz and 1 ms at 1,000 Hz, and a task that shares its CPU with others gives it up at one. Fixed beforehand.
pub const CASES: [(&str, Beside, Option<u64>); 4] = [
    ("load beside", Beside::Load, None),
    ("load beside, CPU wanted after 4 ms", Beside::Load, Some(4)),
    ("load beside, CPU wanted after 1 ms", Beside::Load, Some(1)),
    ("compactor beside, CPU wanted after 4 ms", Beside::Compactor, Some(4)),
];

/// Returns the patches, and the first and the last of them where they go on.
fn candidates() -> Vec<Candidate> {
    let goes_on = [2, 4].map(|n| Candidate::patch(n).variant(&GOES_ON));
    (2..=4).map(Candidate::patch).chain(goes_on).collect()
}

/// Returns the column of a patch where it goes on.
pub fn going_on(patch: usize) -> String {
    Candidate::patch(patch).variant(&GOES_ON).column
}

/// Returns the metric of requests whose asynchronous compaction ended so.
pub fn ending(case: &str, end: End) -> String {
    format!("{case}: a compaction that {}", end.words())
}

/// Returns the metric of a phase's success.
pub fn success(case: &str, phase: usize) -> String {
    format!("{case}: Success {phase}")
}

/// Measures every patch, as it is, and two where they go on.
pub fn measure(
    load: &LoadTrace,
    large: &LoadTrace,
    settings: &Settings,
    seeds: &[u64],
    run: &mut Run<'_>,
) -> Result<Rows, BenchError> {
    let candidates = candidates();
    let of_case = |(_, beside, wanted): &(&str, Beside, Option<u64>)| {
        let mut s = *settings;
        s.turns = Turns::Beside(PACE);
        s.cpu_wanted_after = wanted.map(Duration::from_millis);
        (if *beside == Beside::Compactor { large } else { load }, s)
    };
    let mut jobs = Vec::new();
    for case in &CASES {
        let (trace, settings) = of_case(case);
        for candidate in &candidates {
            let phases = Phases::UnderLoad(2);
            jobs.extend(seeds.iter().map(|seed| Job { candidate, trace, settings, phases, seed: *seed }));
        }
    }
    let reports = run_all("contention", &jobs, run)?;
    let mut rows = Rows::default();
    rows.setting(super::extent::setting(settings, load, seeds) + ", requests as the row names");
    rows.section(SECTION);
    let mut chunks = reports.chunks(seeds.len());
    for (name, ..) in &CASES {
        for (candidate, of) in candidates.iter().zip(&mut chunks) {
            add(&mut rows, name, &candidate.column, &of.iter().collect::<Vec<_>>());
        }
    }
    Ok(rows)
}

fn add(rows: &mut Rows, case: &str, column: &str, of: &[&Report]) {
    for phase in 0..2 {
        let got = mean(of, |r| r.phases[phase].success());
        rows.add(success(case, phase + 1), column, got, "%");
        let least = of.iter().map(|r| r.phases[phase].success()).fold(f64::INFINITY, f64::min);
        rows.add(format!("{}, least of the seeds", success(case, phase + 1)), column, least, "%");
        let most = of.iter().map(|r| r.phases[phase].success()).fold(0.0, f64::max);
        rows.add(format!("{}, most of the seeds", success(case, phase + 1)), column, most, "%");
    }
    let sum = |end: End| of.iter().map(|r| r.ends.of(end)).fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
    let all: u64 = End::ALL.iter().map(|end| sum(*end).0).sum();
    for end in End::ALL {
        let (requests, served) = sum(end);
        let share = requests as f64 / all.max(1) as f64 * 100.0;
        rows.add(ending(case, end), column, share, "% of requests that compacted");
        if requests > 0 {
            let served = served as f64 / requests as f64 * 100.0;
            rows.add(format!("{}, served", ending(case, end)), column, served, "% of them");
        }
    }
    for (what, counter) in [
        ("compactions that met a held lock", Counter::CompactLockContended),
        ("compactions that yielded", Counter::CompactYield),
    ] {
        rows.add(format!("{case}: {what}"), column, mean(of, |r| count(r, counter)), "");
    }
}
