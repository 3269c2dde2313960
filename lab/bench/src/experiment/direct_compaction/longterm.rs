//! Long-term fragmentation: many phases under load, each technique on and off.

use super::super::{Plot, Rows, Run, Series};
use super::candidate::{Candidate, Job, run_all};
use crate::error::BenchError;
use pageyard_replay::workload::LoadTrace;
use pageyard_replay::workload::stress::{HUGE, Phases, Report, Settings};

/// The section of the table.
pub const SECTION: &str = "Long-term fragmentation";

/// Returns the candidates: the patches; patch 3's technique in synchronous direct compaction too, as the thread's last
/// message asks for; a pivot; patch 4's technique without patch 3's; both everywhere; and the engine.
fn candidates() -> Vec<Candidate> {
    vec![
        Candidate::patch(2),
        Candidate::patch(3),
        Candidate::patch(3).variant(&[("skip_on_failure", "direct")]),
        Candidate::patch(3).variant(&[("pivot", "restarting")]),
        Candidate::patch(3).variant(&[("pivot", "forgetting")]),
        Candidate::patch(4),
        Candidate::patch(2).variant(&[("direct_free", "direct_async")]),
        Candidate::patch(4).variant(&[("skip_on_failure", "all"), ("direct_free", "direct")]),
        Candidate::pageyard(),
    ]
}

/// Returns the metric of fragmentation after a phase.
pub fn index(phase: usize) -> String {
    format!("unusable_index of order 9, phase {phase}")
}

/// Measures `phases` phases.
pub fn measure(
    trace: &LoadTrace,
    settings: &Settings,
    phases: usize,
    seeds: &[u64],
    run: &mut Run<'_>,
) -> Result<Rows, BenchError> {
    let candidates = candidates();
    let job = |candidate, seed: &u64| Job {
        candidate,
        trace,
        settings: *settings,
        phases: Phases::UnderLoad(phases),
        seed: *seed,
    };
    let jobs: Vec<Job<'_>> =
        candidates.iter().flat_map(|s| seeds.iter().map(move |seed| job(s, seed))).collect();
    let reports = run_all("long-term fragmentation", &jobs, run)?;
    let mut rows = Rows::default();
    rows.setting(super::extent::setting(settings, trace, seeds));
    rows.section(SECTION);
    for candidate in &candidates {
        let of: Vec<&Report> = jobs
            .iter()
            .zip(&reports)
            .filter(|(j, _)| j.candidate.column == candidate.column)
            .map(|(_, r)| r)
            .collect();
        for n in 0..phases {
            let mean =
                |read: &dyn Fn(&Report) -> f64| of.iter().map(|r| read(r)).sum::<f64>() / of.len() as f64;
            let phase = n + 1;
            let column = candidate.column.as_str();
            rows.add(format!("Success {phase}"), column, mean(&|r| r.phases[n].success()), "%");
            let unusable = mean(&|r| r.phases[n].after.unusable_index[HUGE]);
            rows.add(index(phase), column, unusable, "");
            let spoiled = mean(&|r| r.phases[n].after.spoiled * 100.0);
            rows.add(format!("Pageblocks spoiled, phase {phase}"), column, spoiled, "%");
        }
    }
    Ok(rows)
}

/// Draws success and fragmentation over the phases.
pub fn plots(rows: &Rows) -> Vec<Plot> {
    let plot = |title: &str, y, prefix: &str| Plot {
        title: title.to_owned(),
        x: "phase",
        y,
        series: rows
            .columns(SECTION)
            .iter()
            .map(|column| Series {
                name: (*column).to_owned(),
                points: (1..)
                    .map_while(|n| Some((f64::from(n), rows.get(&format!("{prefix}{n}"), column)?)))
                    .collect(),
            })
            .collect(),
    };
    match rows.columns(SECTION).is_empty() {
        true => Vec::new(),
        false => vec![
            plot("Success over phases under load", "held of attempted, %", "Success "),
            plot(
                "Fragmentation after each phase",
                "unusable_index of order 9",
                "unusable_index of order 9, phase ",
            ),
        ],
    }
}
