//! The document's own table: its labels, and how a run's counters fill them.

use super::super::{Published, Rows, Samples};
use pageyard::{Counter, compaction::Work};
use pageyard_replay::workload::stress::Report;

/// The section of the document's table.
pub const SECTION: &str = "stress-highalloc";

/// The columns of the patches, published and measured, and of the engine.
pub const PUBLISHED: [&str; 3] = ["published:patch2", "published:patch3", "published:patch4"];
pub const P: [&str; 3] = ["reference:patch2", "reference:patch3", "reference:patch4"];
pub const ENGINE: &str = "pageyard";
/// The column of patch 2, measured once more.
pub const AGAIN: &str = "reference:patch2-again";

/// A row of the table that comes from counters: the document's label, and how to read it.
type Read = fn(&Report) -> f64;

/// The rows below those of success, labelled as in the document.
pub const ROWS: [(&str, &str, Read); 19] = [
    ("User", "s", |r| r.user_s),
    ("System", "s", |r| r.system_s),
    ("Elapsed", "s", |r| r.elapsed_s),
    ("Direct pages scanned", "", |r| count(r, Counter::PgscanDirect)),
    ("Kswapd pages scanned", "", |r| count(r, Counter::PgscanKswapd)),
    ("Kswapd pages reclaimed", "", |r| count(r, Counter::PgstealKswapd)),
    ("Direct pages reclaimed", "", |r| count(r, Counter::PgstealDirect)),
    ("Compaction stalls", "", |r| count(r, Counter::CompactStall)),
    ("Compaction success", "", |r| count(r, Counter::CompactSuccess)),
    ("Compaction failures", "", |r| count(r, Counter::CompactFail)),
    ("Page migrate success", "", |r| count(r, Counter::PgmigrateSuccess)),
    ("Page migrate failure", "", |r| count(r, Counter::PgmigrateFail)),
    ("Compaction pages isolated", "", |r| count(r, Counter::CompactIsolated)),
    (MIGRATE, "", |r| count(r, Counter::CompactMigrateScanned)),
    (FREE, "", |r| count(r, Counter::CompactFreeScanned)),
    (DIRECT, "", |r| count(r, Counter::CompactFreeDirectAlloc)),
    (MISS, "", |r| count(r, Counter::CompactFreeDirectMiss)),
    ("Compaction cost", "", |r| work(r).cost() as f64),
    (SUM, "", |r| count(r, Counter::CompactFreeScanned) + count(r, Counter::CompactFreeDirectAlloc)),
];

/// Labels that the verdict asks for.
pub const MIGRATE: &str = "Compaction migrate scanned";
pub const FREE: &str = "Compaction free scanned";
pub const MISS: &str = "Compaction free dir. all. miss";
pub const DIRECT: &str = "Compaction free direct alloc";
/// A row that the document does not have.
pub const SUM: &str = "Free scanned and direct, the sum";
/// Frames examined for each block that the test got under load.
pub const EXAMINED: &str = "Frames examined by success under load";

pub fn count(report: &Report, counter: Counter) -> f64 {
    report.counters[counter] as f64
}

fn work(report: &Report) -> Work {
    Work {
        moved: report.counters[Counter::PgmigrateSuccess],
        failed: report.counters[Counter::PgmigrateFail],
        migrate_scanned: report.counters[Counter::CompactMigrateScanned],
        isolated: report.counters[Counter::CompactIsolated],
        ..Work::default()
    }
}

/// Returns the frames examined or taken directly for each block held at the end of phases 1 and 2.
pub fn examined_by_success(report: &Report) -> f64 {
    let c = Counter::CompactMigrateScanned;
    let examined = count(report, c)
        + count(report, Counter::CompactFreeScanned)
        + count(report, Counter::CompactFreeDirectAlloc);
    examined / (report.phases.iter().take(2).map(|p| p.held).sum::<u64>() as f64).max(1.0)
}

/// Returns the mean of a figure over runs.
pub fn mean(reports: &[&Report], of: impl Fn(&Report) -> f64) -> f64 {
    reports.iter().map(|r| of(r)).sum::<f64>() / reports.len() as f64
}

/// Computes a column of the document's table: label, unit, value; success over the seeds, the rest as means of a run.
pub fn figures(reports: &[&Report]) -> Vec<(String, &'static str, f64)> {
    let mut figures = Vec::new();
    let phases = reports.first().map_or(0, |r| r.phases.len());
    for phase in 0..phases {
        let samples = Samples::new(reports.iter().map(|r| r.phases[phase].success()).collect());
        for (what, value) in [("Min", samples.min()), ("Mean", samples.mean()), ("Max", samples.max())] {
            figures.push((format!("Success {} {what}", phase + 1), "%", value));
        }
    }
    figures.extend(ROWS.map(|(label, unit, read)| (label.to_owned(), unit, mean(reports, read))));
    figures
}

/// Adds a column of the document's table.
pub fn add(rows: &mut Rows, column: &str, reports: &[&Report]) {
    for (label, unit, value) in figures(reports) {
        rows.add(label, column, value, unit);
    }
    rows.add(EXAMINED, column, mean(reports, examined_by_success), "");
}

/// Reads the document's table.
pub fn published(tables: &Published) -> Rows {
    let mut rows = Rows::default();
    rows.setting("as published");
    rows.section(SECTION);
    for line in tables.lines("direct_compaction") {
        let label = line.text("metric");
        let unit = match label {
            "User" | "System" | "Elapsed" => "s",
            l if l.starts_with("Success") => "%",
            _ => "",
        };
        for (column, field) in [
            ("published:patch2", "patch2_baseline"),
            ("published:patch3", "patch3_skip_on_failure"),
            ("published:patch4", "patch4_direct_free_pages"),
        ] {
            rows.add(label, column, line.number(field), unit);
        }
    }
    rows
}
