//! Success against fragmentation: the phases under load in tenths of their attempts, so that the end of memory, where
//! nothing can succeed, does not stand for all of it.

use super::super::Rows;
use super::table::mean;
use pageyard::{Counter, PAGE_SIZE};
use pageyard_replay::workload::stress::{Report, Settings, Tenth};

/// The section of the table.
pub const SECTION: &str = "Success by tenth of the attempts";

/// Adds a column.
pub fn add(rows: &mut Rows, column: &str, reports: &[&Report], settings: &Settings) {
    let memory = (settings.memory / PAGE_SIZE) as f64;
    for phase in 0..2 {
        for tenth in 0..10 {
            let of = |read: &dyn Fn(&Tenth) -> f64| {
                mean(reports, |r| r.phases.get(phase).map_or(f64::NAN, |p| read(&p.tenths[tenth])))
            };
            let name = |what| format!("phase {}, tenth {}: {what}", phase + 1, tenth + 1);
            let success = of(&|t| t.got as f64 / t.attempted.max(1) as f64 * 100.0);
            rows.add(name("success"), column, success, "%");
            rows.add(name("free then"), column, of(&|t| t.free.0 as f64 / memory * 100.0), "% of memory");
            rows.add(name("unusable_index of the order then"), column, of(&|t| t.unusable_index), "");
        }
        let of_attempts = |read: &dyn Fn(&Report) -> f64| {
            mean(reports, |r| {
                r.phases.get(phase).map_or(f64::NAN, |p| read(r) / p.attempted.max(1) as f64 * 100.0)
            })
        };
        let phase_name = |what| format!("phase {}: {what}", phase + 1);
        let refused = |r: &Report| (r.phases[phase].attempted - r.phases[phase].held) as f64;
        rows.add(phase_name("refused"), column, of_attempts(&refused), "% of attempts");
        let fragmented = |r: &Report| r.phases[phase].fragmented as f64;
        rows.add(
            phase_name("refused although memory was free"),
            column,
            of_attempts(&fragmented),
            "% of attempts",
        );
    }
    rows.add(
        "jobs of the load that were killed for want of memory",
        column,
        mean(reports, |r| r.load.killed as f64),
        "",
    );
    rows.add("rows of the load that were refused", column, mean(reports, |r| r.load.refused as f64), "");
    let counter = |c: Counter| mean(reports, |r| r.counters[c] as f64);
    rows.add("times that a zone lock was waited for", column, counter(Counter::ZoneLockContended), "");
    rows.add("waited for zone locks", column, counter(Counter::ZoneLockWaitNs) / 1e6, "ms");
    let late = mean(reports, |r| {
        r.phases.iter().filter_map(|p| Some(p.lag?.most_ns as f64 / 1e6)).fold(0.0, f64::max)
    });
    rows.add("the load fell behind a request, at most", column, late, "ms of the recording");
}
