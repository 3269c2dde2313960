//! `bench fault` as text.

use super::{disturbance_text, figure, machine_text, quick_text, samples_text, skipped_text};
use crate::fault::{FaultRow, Faulted};
use pageyard_replay::text::bytes;
use pageyard_trace::text::Grid;
use std::fmt::Write;

impl Faulted {
    /// Writes a table for each setting: ratios to the kernel's path first.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = quick_text(self.quick, "reserved huge pages, two threads and 1 GiB for each")
            + &machine_text(&self.machine);
        text += &disturbance_text(&self.disturbance);
        text += &samples_text(self.samples);
        text += "Gigabytes (10^9 bytes) a second until a byte of each page has been written, all threads together.\n\
                 populate is also what arena-known-zero and arena-recycled took before, once.\n";
        let setting = |r: &FaultRow| (r.backing, r.threads);
        for rows in self.rows.chunk_by(|a, b| setting(a) == setting(b)) {
            let FaultRow { backing, bytes: size, page_bytes, threads, .. } = &rows[0];
            let threads = if *threads == 1 { String::new() } else { format!(", {threads} threads") };
            let title = format!("{backing}, {} in pages of {}{threads}", bytes(*size), bytes(*page_bytes));
            let mut grid = Grid::new([&*title, "x kernel", "GB/s", "+-"]);
            for r in rows {
                let figures = [r.x_kernel, Some(r.gbps_median), Some(r.gbps_stdev)];
                grid.row([r.path.name().to_owned()].into_iter().chain(figures.map(|of| figure(of, 2))));
            }
            let _ = write!(text, "\n{grid}");
        }
        if let Some(start) = self.start {
            let _ = writeln!(
                text,
                "\nAn arena of {} that is not faulted in: {:.3} ms to map it, {:.2} ms to build the arena over it, {:.2} at most.",
                bytes(start.bytes),
                start.mapping_ms,
                start.arena_ms,
                start.arena_ms_max
            );
        }
        skipped_text(&mut text, &self.skipped);
        text
    }
}
