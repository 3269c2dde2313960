//! `bench sweep` as text: ratios first, nanoseconds after.

use super::{
    disturbance_text, external_text, machine_text, quick_text, samples_text, shown_name, skipped_text,
    threads_text,
};
use crate::document::{SweepDocument, SweepRowDocument};
use std::fmt::Write;

/// Columns of a table: an allocator, then one figure for each batch.
struct Table<'a> {
    rows: Vec<&'a SweepRowDocument<'a>>,
    batches: Vec<usize>,
    names: Vec<&'static str>,
}

impl<'a> Table<'a> {
    fn of(rows: Vec<&'a SweepRowDocument<'a>>) -> Table<'a> {
        let (mut batches, mut names): (Vec<usize>, Vec<&'static str>) = (Vec::new(), Vec::new());
        for SweepRowDocument { row, .. } in &rows {
            if !batches.contains(&row.batch) {
                batches.push(row.batch);
            }
            if !names.contains(&row.allocator) {
                names.push(row.allocator);
            }
        }
        Table { rows, batches, names }
    }

    fn at(&self, name: &str, batch: usize) -> Option<&'a SweepRowDocument<'a>> {
        self.rows.iter().find(|r| r.row.allocator == name && r.row.batch == batch).copied()
    }

    fn head(&self, text: &mut String, title: &str) {
        let _ = write!(text, "  {title:<32}");
        for batch in &self.batches {
            let mark = self.rows.iter().any(|r| r.row.batch == *batch && r.row.disturbed);
            let _ = write!(text, " {:>8}", format!("{batch}{}", if mark { "!" } else { "" }));
        }
        text.push('\n');
    }

    fn line(&self, text: &mut String, name: &str, figure: impl Fn(usize) -> Option<String>) {
        let external = self.rows.iter().any(|r| r.row.allocator == name && r.row.external);
        let _ = write!(text, "  {:<32}", shown_name(name, external));
        for batch in &self.batches {
            let _ = write!(text, " {:>8}", figure(*batch).unwrap_or_else(|| "-".into()));
        }
        text.push('\n');
    }
}

impl SweepDocument<'_> {
    /// Writes tables for each order, number of threads and pattern: ratios, nanoseconds, and what each row moved.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = quick_text(self.quick, "more orders, more batch sizes and other orders of frees")
            + &machine_text(self.machine);
        text += &disturbance_text(&self.disturbance);
        text += &samples_text(self.samples);
        text += "Columns are batches: that many blocks are allocated, then freed. A pair is one allocation and its free.\n";
        let mut groups: Vec<Vec<&SweepRowDocument<'_>>> = Vec::new();
        let setting = |r: &SweepRowDocument<'_>| (r.row.order, r.row.threads, r.row.pattern.name());
        for row in &self.rows {
            match groups.iter_mut().find(|g| setting(g[0]) == setting(row)) {
                Some(group) => group.push(row),
                None => groups.push(vec![row]),
            }
        }
        for group in groups {
            let first = group[0].row;
            let threads = threads_text(first.threads);
            let _ = writeln!(text, "\n== order {}, {threads}, {}", first.order, first.pattern.name());
            tables(&mut text, &Table::of(group));
        }
        if let Some(note) = &self.note {
            let _ = writeln!(text, "\n{note}.");
        }
        external_text(&mut text, self.external);
        skipped_text(&mut text, self.skipped);
        text
    }
}

fn tables(text: &mut String, table: &Table<'_>) {
    let floor = table.rows.iter().find_map(|r| r.floor).unwrap_or("the floor");
    table.head(text, &format!("times {floor}"));
    for name in &table.names {
        table.line(text, name, |b| Some(format!("{:.2}", table.at(name, b)?.x_floor?)));
    }
    let ours = |name: &str| table.rows.iter().any(|r| r.row.allocator == name && r.is_ours());
    for mine in table.names.iter().filter(|n| ours(n)) {
        text.push('\n');
        table.head(text, &format!("{mine} is faster than"));
        for name in table.names.iter().filter(|n| !ours(n) && !n.starts_with("floor")) {
            table.line(text, name, |b| Some(format!("{:.2} x", table.at(name, b)?.x_engines.get(mine)?)));
        }
    }
    text.push('\n');
    table.head(text, "nanoseconds a pair, each thread");
    for name in &table.names {
        table.line(text, name, |b| Some(format!("{:.2}", table.at(name, b)?.row.total_ns_median)));
    }
    if table.rows.iter().any(|r| r.row.threads > 1) {
        text.push('\n');
        table.head(text, "times one thread's blocks");
        for name in &table.names {
            table.line(text, name, |b| Some(format!("{:.2}", table.at(name, b)?.x_one_thread?)));
        }
        text.push('\n');
        table.head(text, "overlap of the threads, %");
        for name in &table.names {
            table.line(text, name, |b| Some(format!("{:.0}", table.at(name, b)?.overlap_pct?)));
        }
    }
    text.push('\n');
    table.head(text, "taking / giving back, ns");
    for name in &table.names {
        table.line(text, name, |b| {
            let row = table.at(name, b)?.row;
            Some(format!("{:.1}/{:.1}", row.alloc_ns, row.free_ns))
        });
    }
    text.push('\n');
    table.head(text, "refills+spills, 1000 blocks");
    for name in &table.names {
        table.line(text, name, |b| {
            let row = table.at(name, b)?;
            Some(format!("{:.1}+{:.1}", row.refills_per_1000_blocks?, row.spills_per_1000_blocks?))
        });
    }
    let locked: Vec<_> = table
        .names
        .iter()
        .filter(|n| table.rows.iter().any(|r| r.row.allocator == **n && r.row.locked_per_pair.is_some()))
        .collect();
    if !locked.is_empty() {
        text.push('\n');
        table.head(text, "locked instructions a pair");
        for name in &locked {
            table.line(text, name, |b| Some(format!("{:.2}", table.at(name, b)?.row.locked_per_pair?)));
        }
    }
    let biased: Vec<_> = table
        .names
        .iter()
        .filter(|n| table.rows.iter().any(|r| r.row.allocator == **n && r.row.biased_share.is_some()))
        .collect();
    if !biased.is_empty() {
        text.push('\n');
        table.head(text, "share of frees without a lock");
        for name in &biased {
            table.line(text, name, |b| Some(format!("{:.2}", table.at(name, b)?.row.biased_share?)));
        }
        text.push('\n');
        table.head(text, "bias taken back, times");
        for name in &biased {
            table.line(text, name, |b| Some(table.at(name, b)?.row.revocations?.to_string()));
        }
    }
}
