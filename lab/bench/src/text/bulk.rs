//! `bench bulk` as text.

use super::{machine_text, quick_text, samples_text, skipped_text};
use crate::bulk::Where;
use crate::document::{BufferRowDocument, BulkDocument, BulkRowDocument};
use std::fmt::Write;

impl BulkDocument<'_> {
    /// Writes a block for each place: ratios first, then nanoseconds, then what a call gains.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = quick_text(self.quick, "more sizes of a call") + &machine_text(self.machine);
        let all = self.disturbance.settings;
        let _ = match self.disturbance.disturbed {
            0 => writeln!(
                text,
                "Undisturbed: a pair of the same code agreed within 5 % in all {all} settings."
            ),
            n => writeln!(text, "DISTURBED: {n} of {all} settings are doubtful (!)."),
        };
        text += &samples_text(self.samples);
        text +=
            "Frames allocated with one call and freed with one, on one thread; figures are for one frame.\n";
        let mut calls: Vec<usize> = self.rows.iter().map(|r| r.row.bulk).collect();
        calls.sort_unstable();
        calls.dedup();
        let mut names: Vec<&str> = Vec::new();
        for BulkRowDocument { row, .. } in &self.rows {
            if !names.contains(&row.allocator) {
                names.push(row.allocator);
            }
        }
        for at in [Where::InCache, Where::Across] {
            let mut table = |title: &str, figure: &dyn Fn(&BulkRowDocument<'_>) -> String| {
                let _ = write!(text, "\n  {:<32}", format!("{}: {title}", at.name()));
                for call in &calls {
                    let mark =
                        self.rows.iter().any(|r| r.row.bulk == *call && r.row.at == at && r.row.disturbed);
                    let _ = write!(text, " {:>7}", format!("{call}{}", if mark { "!" } else { "" }));
                }
                text.push('\n');
                for name in &names {
                    let _ = write!(text, "  {name:<32}");
                    for call in &calls {
                        let row = self
                            .rows
                            .iter()
                            .find(|r| (r.row.allocator, r.row.bulk, r.row.at) == (name, *call, at));
                        let _ = write!(text, " {:>7}", row.map_or_else(|| "-".into(), figure));
                    }
                    text.push('\n');
                }
            };
            table("times floor-array", &|r| r.x_floor.map_or_else(|| "-".into(), |x| format!("{x:.2}")));
            table("ns a frame", &|r| format!("{:.2}", r.row.total_ns_median));
            table("ns one by one", &|r| format!("{:.2}", r.row.one_by_one_ns_median));
            table("saved by the call, %", &|r| format!("{:.0}", r.gain_pct));
        }
        let _ = writeln!(
            text,
            "\n  {:<24} {:>9} {:>12} {:>12} {:>14}",
            "a receive buffer, 256 KiB", "where", "64 at once", "one by one", "one of order 6"
        );
        for BufferRowDocument { row: b, order_6_ns, .. } in &self.receive_buffer {
            let block = order_6_ns.map_or_else(|| "-".into(), |ns| format!("{ns:.0} ns"));
            let _ = writeln!(
                text,
                "  {:<25} {:>9} {:>9.0} ns {:>9.0} ns {block:>14}",
                b.allocator,
                b.at.name(),
                b.bulk_ns,
                b.one_by_one_ns
            );
        }
        skipped_text(&mut text, self.skipped);
        text
    }
}
