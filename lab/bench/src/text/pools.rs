//! `bench pools` as text.

use super::{disturbance_text, figure, machine_text, quick_text, samples_text, skipped_text};
use crate::pools::{PoolRow, Pools};
use pageyard_trace::text::Grid;
use std::fmt::Write;

impl Pools {
    /// Writes a table for each setting.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text =
            quick_text(self.quick, "four times as many buffers a sample") + &machine_text(&self.machine);
        text += &disturbance_text(&self.disturbance);
        text += &samples_text(self.samples);
        text += "Buffers taken and given back; nanoseconds a buffer. Halves are timed by themselves, across CPUs only those.\n";
        let setting = |r: &PoolRow| (r.threads, r.at, r.batch);
        for rows in self.rows.chunk_by(|a, b| setting(a) == setting(b)) {
            let (threads, at, batch) = setting(&rows[0]);
            let plural = if threads == 1 { "" } else { "s" };
            let title = format!("{threads} thread{plural}, {}, {batch} at a time", at.name());
            let mut grid = Grid::new([&*title, "x pageyard", "get", "put", "pair"]);
            for r in rows {
                let figures = [r.x_pageyard, Some(r.get_ns), Some(r.put_ns), Some(r.pair_ns)];
                grid.row([r.pool.to_owned()].into_iter().chain(figures.map(|of| figure(of, 2))));
            }
            let _ = write!(text, "\n{grid}");
        }
        skipped_text(&mut text, &self.skipped);
        text
    }
}
