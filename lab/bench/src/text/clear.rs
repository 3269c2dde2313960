//! `bench clear` as text.

use super::{disturbance_text, figure, machine_text, quick_text, samples_text, skipped_text};
use crate::clear::{ClearRow, Cleared};
use pageyard_replay::text::bytes;
use pageyard_trace::text::Grid;
use std::fmt::Write;

impl Cleared {
    /// Writes a table for each setting: ratios first.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = quick_text(self.quick, "all sizes from 4 KiB to 1 GiB") + &machine_text(&self.machine);
        text += &disturbance_text(&self.disturbance);
        text += &samples_text(self.samples);
        if let Some(choice) = self.choice {
            let _ = writeln!(
                text,
                "pageyard clears a hot frame with {}, cold memory and extents from {} on with {}.",
                choice.cached,
                bytes(choice.threshold_bytes),
                choice.streaming
            );
        }
        text += "Gigabytes (10^9 bytes) a second, all threads together, and the standard deviation; x memset: a page at a time.\n";
        let setting = |r: &ClearRow| (r.extent_bytes, r.cold, r.threads);
        for rows in self.rows.chunk_by(|a, b| setting(a) == setting(b)) {
            let (extent, cold, threads) = setting(&rows[0]);
            let state = if cold { "cold" } else { "hot" };
            let threads = if threads == 1 { String::new() } else { format!(", {threads} threads") };
            let title = format!("{} {state}{threads}", bytes(extent));
            let mut grid = Grid::new([&*title, "mode", "at a time", "x memset", "x best", "GB/s", "+-"]);
            for r in rows {
                let names = [r.primitive.to_owned(), r.mode.name().to_owned(), bytes(r.batch_bytes)];
                let figures = [r.x_memset, r.x_best, Some(r.gbps_median), Some(r.gbps_stdev)];
                grid.row(names.into_iter().chain(figures.map(|of| figure(of, 2))));
            }
            let _ = write!(text, "\n{grid}");
        }
        skipped_text(&mut text, &self.skipped);
        text
    }
}
