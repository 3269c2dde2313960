//! `bench primitives` as text, beside what document 000 prints for its machine.

use super::{disturbance_text, machine_text, skipped_text};
use crate::document::{PrimitiveRowDocument, PrimitivesDocument};
use std::fmt::Write;

impl PrimitivesDocument<'_> {
    /// Writes a table.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = machine_text(self.machine);
        text += &disturbance_text(&self.disturbance);
        text += "The first thirteen are those of document 000, as user space has them. A loop's own cost is in every row.\n\n";
        let _ =
            writeln!(text, "  {:<38} {:>9} {:>10} {:>17}  how", "", "ns", "TSC cycles", "published, 2017");
        for PrimitiveRowDocument { row, cycles_tsc, published_cycles_tsc, published_ns } in &self.rows {
            let there = published_ns.zip(*published_cycles_tsc);
            let there = there.map_or(String::new(), |(ns, cycles)| format!("{ns:.2} ns, {cycles:.0}"));
            let cycles = cycles_tsc.map_or_else(|| "-".into(), |cycles| format!("{cycles:.1}"));
            let _ = writeln!(
                text,
                "  {:<38} {:>9.2} {cycles:>10} {there:>17}  {}",
                row.primitive, row.ns, row.how
            );
        }
        skipped_text(&mut text, self.skipped);
        text
    }
}
