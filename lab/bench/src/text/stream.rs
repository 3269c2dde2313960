//! `bench stream` as text, beside what document 003 prints for its router.

use super::{disturbance_text, machine_text, quick_text, skipped_text};
use crate::document::{StreamDocument, StreamRowDocument};
use crate::stream::Kernel;
use pageyard_replay::text::bytes;
use pageyard_trace::grouped;
use std::fmt::Write;

impl StreamDocument<'_> {
    /// Writes a table for each number of threads, the published ones beside it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = quick_text(
            self.quick,
            "more repetitions. It cannot show that the best of so few is what this machine reaches, nor how far they spread",
        );
        text += &machine_text(self.machine);
        text += &disturbance_text(&self.disturbance);
        text += &self.arrays_text();
        for warning in &self.warnings {
            let _ = writeln!(text, "WARNING: {warning}.");
        }
        text += "MB (10^6 bytes) a second, from the fastest sample, and the times of one pass. Bytes count as the original counts them: what an\n\
                 operation reads and writes. Stores go through the caches, and the lines that they fetch first are not counted.\n";
        self.rows_text(&mut text);
        self.validated_text(&mut text);
        skipped_text(&mut text, self.skipped);
        text
    }

    fn arrays_text(&self) -> String {
        let mut text = format!(
            "Three arrays of {} elements of {} bytes: {} each, {} together. The clock steps by {} ns, and the shortest sample took {} of \
             its steps.\n",
            grouped(self.elements as u64),
            self.element_bytes,
            bytes(self.array_bytes),
            bytes(self.all_bytes),
            self.clock_step_ns,
            grouped(self.shortest_sample_steps)
        );
        if let Some(caches) = self.last_level_caches_bytes {
            let _ = writeln!(text, "The last-level caches of the CPUs used have {}.", bytes(caches));
        }
        let _ = writeln!(
            text,
            "Each operation was run {} times; the first does not count, which leaves {} samples.",
            self.repetitions, self.samples
        );
        text
    }

    fn rows_text(&self, text: &mut String) {
        let columns = self.published_columns();
        let mut threads = None;
        for row in &self.rows {
            if threads != Some(row.threads) {
                threads = Some(row.threads);
                let head = format!("{} thread{}", row.threads, if row.threads == 1 { "" } else { "s" });
                let _ = write!(
                    text,
                    "\n  {head:<16} {:>10} {:>12} {:>12} {:>12}",
                    "MB/s", "mean", "shortest", "longest"
                );
                for (nodes, threads) in &columns {
                    let _ = write!(text, "  {:>32}", published_head(nodes, *threads));
                }
                text.push('\n');
            }
            self.row_text(text, row, &columns);
        }
    }

    fn row_text(&self, text: &mut String, row: &StreamRowDocument, columns: &[(&str, usize)]) {
        // To the nanosecond where that is more than the last digit.
        let ms = |ns: f64| format!("{:.*} ms", if ns < 1e6 { 6 } else { 3 }, ns / 1e6);
        let [mean, shortest, longest] = [row.avg_ns, row.min_ns as f64, row.max_ns as f64].map(ms);
        let _ = write!(
            text,
            "  {:<16} {:>10.1} {mean:>12} {shortest:>12} {longest:>12}",
            row.kernel.name(),
            row.mbps_best
        );
        for (nodes, threads) in columns {
            let there = self.published_at(row.kernel, nodes, *threads);
            let there = there.map_or_else(|| "-".to_owned(), |mbps| format!("{mbps:.1}"));
            let _ = write!(text, "  {there:>32}");
        }
        text.push('\n');
    }

    /// Returns the published tables: where their threads ran, and how many they were.
    fn published_columns(&self) -> Vec<(&'static str, usize)> {
        let mut columns: Vec<_> = self.published.iter().map(|p| (p.nodes, p.threads)).collect();
        columns.dedup();
        columns
    }

    fn published_at(&self, kernel: Kernel, nodes: &str, threads: usize) -> Option<f64> {
        let figure =
            self.published.iter().find(|p| (p.kernel, p.nodes, p.threads) == (kernel, nodes, threads));
        figure.map(|p| p.mbps_best)
    }

    fn validated_text(&self, text: &mut String) {
        let arrays = || self.validated.iter().flat_map(|v| &v.arrays);
        let largest = arrays().map(|a| a.average_relative_error).fold(0.0, f64::max);
        let _ = writeln!(
            text,
            "\nValid: after the last repetition, every element of every array is what the operations come to (average relative error \
             {largest}, tolerance {:e}).",
            self.tolerance
        );
    }
}

fn published_head(nodes: &str, threads: usize) -> String {
    format!("published: {nodes}, {threads} threads")
}
