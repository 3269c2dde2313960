//! `bench stream` as text.

use super::{disturbance_text, machine_text, quick_text, skipped_text};
use crate::document::StreamDocument;
use pageyard_replay::text::bytes;
use pageyard_trace::grouped;
use std::fmt::Write;

impl StreamDocument<'_> {
    /// Returns the document as a table for each number of threads.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = quick_text(
            self.quick,
            "more repetitions. It cannot show that the best of so few is what this machine reaches",
        );
        text += &machine_text(self.machine);
        text += &disturbance_text(&self.disturbance);
        let caches =
            self.last_level_caches_bytes.map(|caches| format!("; last-level caches of {}", bytes(caches)));
        let _ = writeln!(
            text,
            "Three arrays of {} elements, {} each{}. {} samples of each operation.",
            grouped(self.elements as u64),
            bytes(self.array_bytes),
            caches.unwrap_or_default(),
            self.samples
        );
        if let Some(warning) = &self.warning {
            let _ = writeln!(text, "WARNING: {warning}.");
        }
        text += "MB (10^6 bytes) a second in the fastest sample, and the times of one pass. Counted are the bytes that an operation reads\n\
                 and writes, without the lines that its stores fetch first.\n";
        for rows in self.rows.chunk_by(|a, b| a.threads == b.threads) {
            let head = format!("{} thread{}", rows[0].threads, if rows[0].threads == 1 { "" } else { "s" });
            let _ = writeln!(
                text,
                "\n  {head:<16} {:>10} {:>12} {:>12} {:>12}",
                "MB/s", "mean", "shortest", "longest"
            );
            for row in rows {
                // To the nanosecond where that is more than the last digit.
                let ms = |ns: f64| format!("{:.*} ms", if ns < 1e6 { 6 } else { 3 }, ns / 1e6);
                let [mean, shortest, longest] = [row.avg_ns, row.min_ns as f64, row.max_ns as f64].map(ms);
                let kernel = format!("{:?}", row.kernel);
                let _ = writeln!(
                    text,
                    "  {kernel:<16} {:>10.1} {mean:>12} {shortest:>12} {longest:>12}",
                    row.mbps_best
                );
            }
        }
        skipped_text(&mut text, self.skipped);
        text
    }
}
