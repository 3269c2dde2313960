//! `bench mixed` as text.

use super::{
    disturbance_text, external_text, figure, machine_text, quick_text, samples_text, shown_name,
    skipped_text, threads_text,
};
use crate::mixed::{Mixed, MixedRow};
use pageyard::PAGE_SIZE;
use pageyard_replay::text::bytes;
use pageyard_trace::text::Grid;
use std::fmt::Write;

impl Mixed {
    /// Writes a table for each setting.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = quick_text(self.quick, "blocks handed over, and four times as many blocks a sample")
            + &machine_text(&self.machine);
        text += &disturbance_text(&self.disturbance);
        text += &samples_text(self.samples);
        let _ = writeln!(
            text,
            "Blocks taken in runs and given back in runs, at random, while half of a zone of {} is in use; nanoseconds a block, both \
             calls, each thread.\nThe harness is the same loop over an allocator that does nothing; it is in every figure but those \
             less it.",
            bytes(self.zone_frames * PAGE_SIZE)
        );
        text += "Shares of the orders, as recorded:";
        for of in &self.orders {
            let _ = write!(text, " {} {:.4} %", of.order, 100.0 * of.share);
        }
        text.push('\n');
        let setting = |r: &MixedRow| (r.threads, r.pattern, r.touched);
        for rows in self.rows.chunk_by(|a, b| setting(a) == setting(b)) {
            let first = &rows[0];
            let threads = threads_text(first.threads);
            let touched = if first.touched { "touched" } else { "not touched" };
            let doubtful = if first.disturbed { " !" } else { "" };
            let _ = writeln!(text, "\n== {threads}, {}, {touched}{doubtful}", first.pattern.name());
            let heads =
                ["", "ns", "less harness", "harness", "failed", "in 100,000", "no lock", "taken back"];
            let mut grid = Grid::new(heads);
            rows.iter().for_each(|row| grid.row(line(row)));
            let _ = write!(text, "{grid}");
        }
        external_text(&mut text, self.external.as_ref());
        skipped_text(&mut text, &self.skipped);
        text
    }
}

fn line(row: &MixedRow) -> [String; 8] {
    [
        shown_name(&row.allocator, row.external),
        figure(row.ns_median, 2),
        figure(row.less_harness_ns, 2),
        figure(row.harness_ns, 2),
        row.failed.to_string(),
        figure(row.failed_per_100_000, 1),
        figure(row.biased_share, 2),
        row.revocations.map_or_else(|| "-".into(), |n| n.to_string()),
    ]
}
