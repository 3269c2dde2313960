//! The totals of a watch on the kernel's reports, as a document and as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use pageyard_trace::{Document, grouped};
use serde::Serialize;

use super::Reports;
use crate::record::watch::{COUNTER, Metrics, head, one};

/// The totals of a watch on the kernel's reports.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReportsDocument<'a> {
    /// How much was watched: `reports`.
    pub level: &'static str,
    /// The length of the watch.
    pub seconds: f64,
    /// Reports by kind, named as in the doctor's documents.
    pub reports: &'a BTreeMap<&'static str, u64>,
    /// Lines that the kernel logged.
    pub lines: u64,
    /// Records of its log that were replaced before they were read.
    pub lost: u64,
    /// Processor time that this process took, in seconds.
    pub own_seconds: f64,
    /// The same time as a share of one CPU.
    pub own_pct: f64,
    /// Folders that were saved, in their order.
    pub snapshots: &'a [SavedDocument],
    /// Reports too soon after one that was saved.
    pub passed_over: u64,
    /// Reports that could not be saved.
    pub failed: u64,
}

/// A report that was saved.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SavedDocument {
    /// Its folder, for `pageyard doctor --from`; newer ones may have replaced it.
    pub folder: String,
    /// Its first line, or `SIGUSR1`.
    pub reason: String,
    /// Bytes in it.
    pub bytes: u64,
}

impl Reports {
    /// Returns the metrics in the text format of Prometheus.
    #[must_use]
    pub fn metrics(&self, metrics: &Metrics) -> String {
        let counts = self.counts();
        let mut text = String::new();
        head(&mut text, "reports_total", COUNTER, "Reports that the kernel logged, by kind.");
        for (kind, n) in &counts.by_kind {
            _ = writeln!(text, "pageyard_watch_reports_total{{kind=\"{kind}\"}} {n}");
        }
        one(&mut text, "lines_total", COUNTER, "Lines that the kernel logged.", counts.lines as f64);
        let help = "Records of its log that were replaced before they were read.";
        one(&mut text, "lines_lost_total", COUNTER, help, counts.lost as f64);
        metrics.of_any(&mut text, self.own_seconds());
        text
    }
}

impl Document for ReportsDocument<'_> {
    const SCHEMA: &'static str = "pageyard.watch-reports/1";
}

impl<'a> ReportsDocument<'a> {
    /// Describes a watch.
    #[must_use]
    pub fn new(
        reports: &'a Reports,
        metrics: &Metrics,
        snapshots: &'a [SavedDocument],
    ) -> ReportsDocument<'a> {
        let (own_seconds, seconds) = reports.own_seconds();
        let counts = reports.counts();
        ReportsDocument {
            level: "reports",
            seconds,
            reports: &counts.by_kind,
            lines: counts.lines,
            lost: counts.lost,
            own_seconds,
            own_pct: 100.0 * own_seconds / seconds.max(1e-9),
            snapshots,
            passed_over: metrics.passed_over,
            failed: metrics.failed,
        }
    }

    /// Writes it for people.
    #[must_use]
    pub fn text(&self) -> String {
        let all: u64 = self.reports.values().sum();
        let kinds: Vec<String> = self
            .reports
            .iter()
            .map(|(kind, n)| format!("{} {}", grouped(*n), kind.replace('_', " ")))
            .collect();
        let mut text =
            format!("Watched the kernel's log for {:.0} s: {} reports", self.seconds, grouped(all));
        if !kinds.is_empty() {
            _ = write!(text, " ({})", kinds.join(", "));
        }
        _ = writeln!(
            text,
            " in {} lines, {} records replaced unread.",
            grouped(self.lines),
            grouped(self.lost)
        );
        _ = writeln!(
            text,
            "It took {:.3} s of processor time, {:.3} % of one CPU, and allocations nothing.",
            self.own_seconds, self.own_pct
        );
        for saved in self.snapshots {
            _ = writeln!(text, "{}: {}", saved.folder, saved.reason);
        }
        if self.passed_over + self.failed > 0 {
            _ = writeln!(
                text,
                "{} reports came too soon after one that was saved; {} could not be saved.",
                grouped(self.passed_over),
                grouped(self.failed)
            );
        }
        text
    }
}
