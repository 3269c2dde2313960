//! `bench mixed` as text.

use super::{
    disturbance_text, external_text, machine_text, quick_text, samples_text, shown_name, skipped_text,
    threads_text,
};
use crate::document::{MixedDocument, MixedRowDocument};
use pageyard::PAGE_SIZE;
use pageyard_replay::text::bytes;
use std::fmt::Write;

impl MixedDocument<'_> {
    /// Writes a table for each setting.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = quick_text(self.quick, "blocks handed over, and four times as many blocks a sample")
            + &machine_text(self.machine);
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
        let setting = |r: &MixedRowDocument<'_>| (r.row.threads, r.row.pattern, r.row.touched);
        for rows in self.rows.chunk_by(|a, b| setting(a) == setting(b)) {
            let first = rows[0].row;
            let threads = threads_text(first.threads);
            let touched = if first.touched { "touched" } else { "not touched" };
            let doubtful = if first.disturbed { " !" } else { "" };
            let _ = writeln!(text, "\n== {threads}, {}, {touched}{doubtful}", first.pattern.name());
            let _ = writeln!(
                text,
                "  {:<36} {:>9} {:>12} {:>9} {:>8} {:>16} {:>12} {:>10}",
                "", "ns", "less harness", "harness", "failed", "in 100,000", "no lock", "taken back"
            );
            rows.iter().for_each(|row| line(&mut text, row));
        }
        external_text(&mut text, self.external);
        skipped_text(&mut text, self.skipped);
        text
    }
}

fn line(text: &mut String, r: &MixedRowDocument<'_>) {
    let row = r.row;
    let share = row.biased_share.map_or_else(|| "-".into(), |share| format!("{share:.2}"));
    let revoked = row.revocations.map_or_else(|| "-".into(), |n| n.to_string());
    let _ = writeln!(
        text,
        "  {:<36} {:>9.2} {:>12.2} {:>9.2} {:>8} {:>16.1} {share:>12} {revoked:>10}",
        shown_name(row.allocator, row.external),
        row.ns_median,
        r.less_harness_ns,
        row.harness_ns,
        row.failed,
        r.failed_per_100_000
    );
}
