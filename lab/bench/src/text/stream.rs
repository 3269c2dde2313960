//! `bench stream` as text.

use super::{disturbance_text, machine_text, quick_text, skipped_text};
use crate::stream::Streamed;
use pageyard_replay::text::bytes;
use pageyard_trace::{grouped, text::Grid};
use std::fmt::Write;

impl Streamed {
    /// Returns the document as a table for each number of threads.
    #[must_use]
    pub fn text(&self) -> String {
        let beside = "more repetitions. It cannot show that the best of so few is what this machine reaches";
        let mut text = quick_text(self.quick, beside) + &machine_text(&self.machine);
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
        // To the nanosecond where that is more than the last digit.
        let ms = |ns: f64| format!("{:.*} ms", if ns < 1e6 { 6 } else { 3 }, ns / 1e6);
        for rows in self.rows.chunk_by(|a, b| a.threads == b.threads) {
            let head = format!("{} thread{}", rows[0].threads, if rows[0].threads == 1 { "" } else { "s" });
            let mut grid = Grid::new([&head, "MB/s", "mean", "shortest", "longest"]);
            for row in rows {
                let [mean, shortest, longest] = [row.avg_ns, row.min_ns as f64, row.max_ns as f64].map(ms);
                let best = format!("{:.1}", row.mbps_best);
                grid.row([format!("{:?}", row.kernel), best, mean, shortest, longest]);
            }
            let _ = write!(text, "\n{grid}");
        }
        skipped_text(&mut text, &self.skipped);
        text
    }
}
