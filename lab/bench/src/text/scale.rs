//! `bench scale` as text.

use super::{machine_text, quick_text};
use crate::document::{RefusedRowDocument, ScaleDocument, ScaleRowDocument};
use pageyard_replay::text::bytes;
use std::fmt::Write;

impl ScaleDocument<'_> {
    /// Writes a table.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text =
            quick_text(self.quick, "more sizes of memory and more orders") + &machine_text(self.machine);
        text.push_str(
            "Nanoseconds for taking a block and giving it back, per-CPU lists bypassed, and the most steps a search took.\n\
             Ratios are to 16 GiB at the same order and filling.\n\n",
        );
        let _ = writeln!(
            text,
            "  {:<18} {:>10} {:>7} {:>6} {:>9} {:>9} {:>7}",
            "allocator", "memory", "full", "order", "x 16 GiB", "median", "steps"
        );
        for ScaleRowDocument { row: r, x_16_gib } in &self.rows {
            let ratio = x_16_gib.map_or("-".to_owned(), |x| format!("{x:.2}"));
            let _ = writeln!(
                text,
                "  {:<18} {:>10} {:>5} % {:>6} {ratio:>9} {:>9.1} {:>7}",
                r.allocator,
                bytes(r.frames * 4096),
                r.full_pct,
                r.order,
                r.total_ns_median,
                r.steps_max
            );
        }
        let _ = writeln!(
            text,
            "\nMicroseconds for a request of order 9 that is refused, one frame of each pageblock in use and frames in the lists of {} CPUs.\n\n  \
             {:<18} {:>10} {:<10} {:>9} {:>9}  why",
            self.refused.first().map_or(0, |r| r.row.cpus),
            "allocator",
            "memory",
            "may wait",
            "median",
            "most",
        );
        for RefusedRowDocument { row: r, why, .. } in &self.refused {
            let waits = if r.may_wait { "yes" } else { "no" };
            let (median, most, memory) = (r.ns_median / 1000.0, r.ns_max / 1000.0, bytes(r.frames * 4096));
            let _ = writeln!(
                text,
                "  {:<18} {memory:>10} {waits:<10} {median:>9.2} {most:>9.2}  {why}",
                r.allocator
            );
        }
        text
    }
}
