//! `bench bulk` as text.

use super::{
    across, disturbance_text, figure, machine_text, marked, quick_text, samples_text, skipped_text, unique,
};
use crate::bulk::{Bulk, BulkRow, Where};
use pageyard_trace::text::Grid;
use std::fmt::Write;

impl Bulk {
    /// Writes a block for each place: ratios first, then nanoseconds, then what a call gains.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = quick_text(self.quick, "more sizes of a call") + &machine_text(&self.machine);
        text += &disturbance_text(&self.disturbance);
        text += &samples_text(self.samples);
        text +=
            "Frames allocated with one call and freed with one, on one thread; figures are for one frame.\n";
        for at in [Where::InCache, Where::Across] {
            let rows: Vec<&BulkRow> = self.rows.iter().filter(|row| row.at == at).collect();
            let mut table = |title: &str, cell: fn(&BulkRow) -> Option<String>| {
                text.push_str(&table(&format!("{}: {title}", at.name()), &rows, cell));
            };
            table("times floor-array", |row| Some(figure(row.x_floor?, 2)));
            table("ns a frame", |row| Some(figure(row.total_ns_median, 2)));
            table("ns one by one", |row| Some(figure(row.one_by_one_ns_median, 2)));
            table("saved by the call, %", |row| Some(figure(row.gain_pct, 0)));
        }
        let mut grid =
            Grid::new(["a receive buffer, 256 KiB", "where", "64 at once", "one by one", "one of order 6"]);
        for buffer in &self.receive_buffer {
            let ns = [Some(buffer.bulk_ns), Some(buffer.one_by_one_ns), buffer.order_6_ns];
            let ns = ns.map(|ns| ns.map_or_else(|| "-".into(), |ns| format!("{ns:.0} ns")));
            grid.row([buffer.allocator.to_owned(), buffer.at.name().to_owned()].into_iter().chain(ns));
        }
        let _ = write!(text, "\n{grid}");
        skipped_text(&mut text, &self.skipped);
        text
    }
}

/// Returns a table of the allocators against the sizes of a call.
fn table(title: &str, rows: &[&BulkRow], cell: fn(&BulkRow) -> Option<String>) -> String {
    let mut calls: Vec<usize> = unique(rows.iter().map(|row| row.bulk));
    calls.sort_unstable();
    let headings =
        calls.iter().map(|call| marked(*call, rows.iter().any(|row| row.bulk == *call && row.disturbed)));
    let lines = unique(rows.iter().map(|row| row.allocator)).into_iter().map(|name| {
        let row = |call: &usize| rows.iter().find(|row| (row.allocator, row.bulk) == (name, *call));
        (name.to_owned(), calls.iter().map(|call| cell(row(call)?)).collect())
    });
    across(title, headings, lines)
}
