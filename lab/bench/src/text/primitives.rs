//! `bench primitives` as text, beside what document 000 prints for its machine.

use super::{disturbance_text, figure, machine_text, skipped_text, words};
use crate::primitives::Primitives;
use pageyard_trace::text::Grid;
use std::fmt::Write;

impl Primitives {
    /// Writes a table.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = machine_text(&self.machine);
        text += &disturbance_text(&self.disturbance);
        text += "The first thirteen are those of document 000, as user space has them. A loop's own cost is in every row.\n\n";
        let mut grid = Grid::new(["", "ns", "TSC cycles", "published, 2017", "how"]);
        for (row, how) in self.rows.iter().zip(words(self.rows.iter().map(|row| row.how))) {
            let there = row.published_ns.zip(row.published_cycles_tsc);
            grid.row([
                row.primitive.to_owned(),
                figure(row.ns_median, 2),
                figure(row.cycles_tsc, 1),
                there.map_or_else(String::new, |(ns, cycles)| format!("{ns:.2} ns, {cycles:.0}")),
                how,
            ]);
        }
        let _ = write!(text, "{grid}");
        skipped_text(&mut text, &self.skipped);
        text
    }
}
