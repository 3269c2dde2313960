//! `bench pools` as text.

use super::{disturbance_text, machine_text, quick_text, samples_text, skipped_text};
use crate::document::PoolsDocument;
use std::fmt::Write;

impl PoolsDocument<'_> {
    /// Writes a table for each setting.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text =
            quick_text(self.quick, "four times as many buffers a sample") + &machine_text(self.machine);
        text += &disturbance_text(&self.disturbance);
        text += &samples_text(self.samples);
        let _ = writeln!(
            text,
            "Buffers taken and given back; nanoseconds a buffer. Halves are timed by themselves, across CPUs only those."
        );
        let mut setting = None;
        for r in &self.rows {
            let this = (r.row.threads, r.row.at, r.row.batch);
            if setting.replace(this) != Some(this) {
                let (threads, at, batch) = this;
                let plural = if threads == 1 { "" } else { "s" };
                let _ = writeln!(
                    text,
                    "\n  {:<42} {:>10} {:>8} {:>8} {:>8}",
                    format!("{threads} thread{plural}, {}, {batch} at a time", at.name()),
                    "x pageyard",
                    "get",
                    "put",
                    "pair"
                );
            }
            let ratio = r.x_pageyard.map_or_else(|| "-".into(), |x| format!("{x:.2}"));
            let _ = writeln!(
                text,
                "  {:<42} {ratio:>10} {:>8.2} {:>8.2} {:>8.2}",
                r.row.pool, r.row.get_ns, r.row.put_ns, r.row.pair_ns
            );
        }
        skipped_text(&mut text, self.skipped);
        text
    }
}
