//! The document's test from a state in which as little succeeds as in the document.

use super::super::{Rows, Run};
use super::candidate::{Candidate, Job, run_all};
use super::table::{FREE, MIGRATE, ROWS, mean};
use crate::error::BenchError;
use pageyard_replay::workload::LoadTrace;
use pageyard_replay::workload::fragment::FRAGMENTED;
use pageyard_replay::workload::stress::{HUGE, Phases, Report, Settings};

/// The section of the table.
pub const SECTION: &str = "A state in which as little succeeds as in the document";

/// Returns the patches, each also with a pivot and with the reviewer's algorithm, and the engine.
fn candidates() -> Vec<Candidate> {
    let others = [[("pivot", "restarting")], [("whole_zone", "true")]];
    let variants = |n| others.iter().map(move |knobs| Candidate::patch(n).variant(knobs));
    (2..=4)
        .map(Candidate::patch)
        .chain(variants(2))
        .chain(variants(3))
        .chain([Candidate::pageyard()])
        .collect()
}

/// Returns the success of a phase by seed.
pub fn metric(phase: usize) -> String {
    format!("fragmented: Success {phase}")
}

/// Measures the candidates. The state was chosen so that patch 2 succeeds in 30 % of phase 1 with the first seed, which
/// is not among these.
pub fn measure(
    trace: &LoadTrace,
    settings: &Settings,
    seeds: &[u64],
    run: &mut Run<'_>,
) -> Result<Rows, BenchError> {
    let settings = Settings { start: Some(FRAGMENTED), ..*settings };
    let candidates = candidates();
    let job =
        |candidate, seed: &u64| Job { candidate, trace, settings, phases: Phases::UnderLoad(2), seed: *seed };
    let jobs: Vec<Job<'_>> =
        candidates.iter().flat_map(|c| seeds.iter().map(move |seed| job(c, seed))).collect();
    let reports = run_all("a fragmented state", &jobs, run)?;
    let mut rows = Rows::default();
    rows.setting(format!("{}, from: {}", super::extent::setting(&settings, trace, seeds), FRAGMENTED.name));
    rows.section(SECTION);
    for (candidate, of) in candidates.iter().zip(reports.chunks(seeds.len())) {
        let of: Vec<&Report> = of.iter().collect();
        let column = candidate.column.as_str();
        for phase in 0..2 {
            let success = |r: &Report| r.phases[phase].success();
            rows.add(metric(phase + 1), column, mean(&of, success), "%");
            let least = of.iter().map(|r| success(r)).fold(f64::INFINITY, f64::min);
            rows.add(format!("{}, least of the seeds", metric(phase + 1)), column, least, "%");
        }
        let kept = ["Compaction stalls", "Direct pages reclaimed", MIGRATE, FREE];
        for (label, unit, read) in ROWS.iter().filter(|(label, ..)| kept.contains(label)) {
            rows.add(format!("fragmented: {label}"), column, mean(&of, read), unit);
        }
        let index = mean(&of, |r| r.phases[1].after.unusable_index[HUGE]);
        rows.add("fragmented: unusable_index of order 9 after phase 2", column, index, "");
    }
    Ok(rows)
}
