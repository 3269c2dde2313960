//! `bench scale` as text.

use super::{figure, machine_text, quick_text, words};
use crate::scale::Scale;
use pageyard_replay::text::bytes;
use pageyard_trace::text::Grid;
use std::fmt::Write;

impl Scale {
    /// Writes a table of each part.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text =
            quick_text(self.quick, "more sizes of memory and more orders") + &machine_text(&self.machine);
        text.push_str(
            "Nanoseconds for taking a block and giving it back, per-CPU lists bypassed, and the most steps a search took.\n\
             Ratios are to 16 GiB at the same order and filling.\n\n",
        );
        let mut grid = Grid::new(["allocator", "memory", "full", "order", "x 16 GiB", "median", "steps"]);
        for r in &self.rows {
            grid.row([
                r.allocator.to_owned(),
                bytes(r.frames * 4096),
                format!("{} %", r.full_pct),
                r.order.to_string(),
                figure(r.x_16_gib, 2),
                figure(r.total_ns_median, 1),
                r.steps_max.map_or_else(|| "-".into(), |steps| steps.to_string()),
            ]);
        }
        let _ = writeln!(
            text,
            "{grid}\nMicroseconds for a request of order 9 that is refused, one frame of each pageblock in use and frames in the lists of {} CPUs.\n",
            self.refused.first().map_or(0, |r| r.cpus),
        );
        let mut grid = Grid::new(["allocator", "memory", "may wait", "median", "most", "why"]);
        let why = words(self.refused.iter().map(|r| &*r.why));
        for (r, why) in self.refused.iter().zip(why) {
            let waits = if r.may_wait { "yes" } else { "no" };
            let [median, most] = [r.ns_median, r.ns_max].map(|ns| figure(ns / 1000.0, 2));
            grid.row([r.allocator.to_owned(), bytes(r.frames * 4096), waits.to_owned(), median, most, why]);
        }
        let _ = write!(text, "{grid}");
        text
    }
}
