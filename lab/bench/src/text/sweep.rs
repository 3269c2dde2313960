//! `bench sweep` as text: ratios first, nanoseconds after.

use super::{
    across, disturbance_text, external_text, figure, machine_text, marked, quick_text, samples_text,
    shown_name, skipped_text, threads_text, unique,
};
use crate::sweep::{Sweep, SweepRow};
use std::fmt::Write;

impl Sweep {
    /// Writes tables for each order, number of threads and pattern: ratios, nanoseconds, and what each row moved.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = quick_text(self.quick, "more orders, more batch sizes and other orders of frees")
            + &machine_text(&self.machine);
        text += &disturbance_text(&self.disturbance);
        text += &samples_text(self.samples);
        text += "Columns are batches: that many blocks are allocated, then freed. A pair is one allocation and its free.\n";
        let setting = |row: &SweepRow| (row.order, row.threads, row.pattern.name());
        for group in unique(self.rows.iter().map(setting)) {
            let rows: Vec<&SweepRow> = self.rows.iter().filter(|row| setting(row) == group).collect();
            let (order, threads, pattern) = group;
            let _ = writeln!(text, "\n== order {order}, {}, {pattern}", threads_text(threads));
            Setting::of(&rows).tables(&mut text);
        }
        if let Some(note) = &self.note {
            let _ = writeln!(text, "\n{note}.");
        }
        external_text(&mut text, self.external.as_ref());
        skipped_text(&mut text, &self.skipped);
        text
    }
}

/// The rows of one order, number of threads and pattern.
struct Setting<'a> {
    rows: &'a [&'a SweepRow],
    batches: Vec<usize>,
    names: Vec<&'a str>,
}

impl<'a> Setting<'a> {
    fn of(rows: &'a [&'a SweepRow]) -> Setting<'a> {
        let batches = unique(rows.iter().map(|row| row.batch));
        Setting { rows, batches, names: unique(rows.iter().map(|row| &*row.allocator)) }
    }

    /// Writes a table of the allocators against the batches; an allocator without any figure is left out.
    fn table(&self, text: &mut String, title: &str, cell: impl Fn(&SweepRow) -> Option<String>) {
        let headings = self
            .batches
            .iter()
            .map(|batch| marked(*batch, self.rows.iter().any(|row| row.batch == *batch && row.disturbed)));
        let lines = self.names.iter().map(|name| {
            let of_name = || self.rows.iter().filter(|row| row.allocator == *name);
            let cells = self.batches.iter().map(|batch| cell(of_name().find(|row| row.batch == *batch)?));
            (shown_name(name, of_name().any(|row| row.external)), cells.collect())
        });
        text.push_str(&across(title, headings, lines));
    }

    fn tables(&self, text: &mut String) {
        let floor = self.rows.iter().find_map(|row| row.floor.as_deref()).unwrap_or("the floor");
        self.table(text, &format!("times {floor}"), |row| Some(figure(row.x_floor?, 2)));
        for mine in unique(self.rows.iter().filter(|row| row.is_ours()).map(|row| &*row.allocator)) {
            self.table(text, &format!("{mine} is faster than"), |row| {
                Some(format!("{:.2} x", row.x_engines.get(mine)?))
            });
        }
        self.table(text, "nanoseconds a pair, each thread", |row| Some(figure(row.total_ns_median, 2)));
        self.table(text, "times one thread's blocks", |row| Some(figure(row.x_one_thread?, 2)));
        self.table(text, "overlap of the threads, %", |row| Some(figure(row.overlap_pct?, 0)));
        self.table(text, "taking / giving back, ns", |row| {
            Some(format!("{:.1}/{:.1}", row.alloc_ns, row.free_ns))
        });
        self.table(text, "refills+spills, 1000 blocks", |row| {
            Some(format!("{:.1}+{:.1}", row.refills_per_1000_blocks?, row.spills_per_1000_blocks?))
        });
        self.table(text, "locked instructions a pair", |row| Some(figure(row.locked_per_pair?, 2)));
        self.table(text, "share of frees without a lock", |row| Some(figure(row.biased_share?, 2)));
        self.table(text, "bias taken back, times", |row| Some(row.revocations?.to_string()));
    }
}
