//! `bench sweep` as JSON and as text: ratios first, nanoseconds after.

use super::environment::{
    disturbance_json, disturbance_text, machine_json, machine_text, skipped_json, skipped_text,
};
use pageyard_bench::sweep::{Sweep, SweepRow};
use serde_json::{Value, json};
use std::fmt::Write;

/// Returns the rows, what was skipped, and what the run stands on.
pub fn to_json(sweep: &Sweep) -> Value {
    let rows = sweep.rows.iter().map(|r| {
        let mut row = json!({
            "allocator": r.allocator, "threads": r.threads, "order": r.order, "batch": r.batch,
            "pattern": r.pattern.name(), "alloc_ns": r.alloc_ns, "free_ns": r.free_ns,
            "total_ns_min": r.total_ns_min, "total_ns_median": r.total_ns_median,
            "refills": r.refills, "spills": r.spills, "moves_seen": r.moves_seen,
            "samples": r.samples, "disturbed": r.disturbed, "measured_apart": r.apart,
        });
        if r.x_floor > 0.0 {
            row["floor"] = json!(r.floor);
            row["x_floor"] = json!(r.x_floor);
        }
        if !r.apart {
            row["blocks"] = json!(r.blocks);
        }
        if r.threads > 1 {
            row["overlap_pct"] = json!(100.0 * r.overlap);
        }
        if r.x_one_thread > 0.0 {
            row["x_one_thread"] = json!(r.x_one_thread);
        }
        row
    });
    let mut all = json!({
        "machine": machine_json(&sweep.machine),
        "disturbance": disturbance_json(sweep.settings, sweep.apart_most, &sweep.taken),
        "rows": rows.collect::<Vec<_>>(), "skipped": skipped_json(&sweep.skipped),
    });
    if let Some(note) = &sweep.note {
        all["note"] = json!(note);
    }
    all
}

/// Columns of a table: an allocator, then one figure for each batch.
struct Table<'a> {
    rows: Vec<&'a SweepRow>,
    batches: Vec<usize>,
    names: Vec<&'static str>,
}

impl<'a> Table<'a> {
    fn of(rows: Vec<&'a SweepRow>) -> Table<'a> {
        let (mut batches, mut names): (Vec<usize>, Vec<&'static str>) = (Vec::new(), Vec::new());
        for row in &rows {
            if !batches.contains(&row.batch) {
                batches.push(row.batch);
            }
            if !names.contains(&row.allocator) {
                names.push(row.allocator);
            }
        }
        Table { rows, batches, names }
    }

    fn at(&self, name: &str, batch: usize) -> Option<&'a SweepRow> {
        self.rows.iter().find(|r| r.allocator == name && r.batch == batch).copied()
    }

    fn head(&self, text: &mut String, title: &str) {
        let _ = write!(text, "  {title:<32}");
        for batch in &self.batches {
            let mark = self.rows.iter().any(|r| r.batch == *batch && r.disturbed);
            let _ = write!(text, " {:>8}", format!("{batch}{}", if mark { "!" } else { "" }));
        }
        text.push('\n');
    }

    fn line(&self, text: &mut String, name: &str, figure: impl Fn(usize) -> Option<String>) {
        let _ = write!(text, "  {name:<32}");
        for batch in &self.batches {
            let _ = write!(text, " {:>8}", figure(*batch).unwrap_or_else(|| "-".into()));
        }
        text.push('\n');
    }
}

/// Three tables for each order, number of threads and pattern; then what each row moved.
pub fn to_text(sweep: &Sweep) -> String {
    let mut text = machine_text(&sweep.machine);
    text += &disturbance_text(sweep.settings, sweep.apart_most, &sweep.taken);
    text += "Columns are batches: that many blocks are allocated, then freed. A pair is one allocation and its free.\n";
    let mut groups: Vec<Vec<&SweepRow>> = Vec::new();
    let setting = |r: &SweepRow| (r.order, r.threads, r.pattern.name());
    for row in &sweep.rows {
        match groups.iter_mut().find(|g| setting(g[0]) == setting(row)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    for group in groups {
        let first = group[0];
        let threads = if first.threads == 1 { "one thread" } else { "two threads" };
        let _ = writeln!(text, "\n== order {}, {threads}, {}", first.order, first.pattern.name());
        tables(&mut text, &Table::of(group));
    }
    if let Some(note) = &sweep.note {
        let _ = writeln!(text, "\n{note}.");
    }
    skipped_text(&mut text, &sweep.skipped);
    text
}

fn tables(text: &mut String, table: &Table<'_>) {
    let floor = table.rows.iter().find(|r| r.x_floor > 0.0).map_or("the floor", |r| r.floor);
    table.head(text, &format!("times {floor}"));
    for name in &table.names {
        table.line(text, name, |b| {
            table.at(name, b).filter(|r| r.x_floor > 0.0).map(|r| format!("{:.2}", r.x_floor))
        });
    }
    let ours = |name: &str| name == "pageyard" || name == "pageyard-exclusive" || name == "pageyard-trylock";
    for mine in table.names.iter().filter(|n| ours(n)) {
        text.push('\n');
        table.head(text, &format!("{mine} is faster than"));
        for name in table.names.iter().filter(|n| !ours(n) && !n.starts_with("floor")) {
            table.line(text, name, |b| {
                let ratio = table.at(name, b)?.total_ns_median / table.at(mine, b)?.total_ns_median.max(0.01);
                Some(format!("{ratio:.2} x"))
            });
        }
    }
    text.push('\n');
    table.head(text, "nanoseconds a pair, each thread");
    for name in &table.names {
        table.line(text, name, |b| Some(format!("{:.2}", table.at(name, b)?.total_ns_median)));
    }
    if table.rows.iter().any(|r| r.threads > 1) {
        text.push('\n');
        table.head(text, "times one thread's blocks");
        for name in &table.names {
            table.line(text, name, |b| {
                table.at(name, b).filter(|r| r.x_one_thread > 0.0).map(|r| format!("{:.2}", r.x_one_thread))
            });
        }
        text.push('\n');
        table.head(text, "overlap of the threads, %");
        for name in &table.names {
            table.line(text, name, |b| Some(format!("{:.0}", 100.0 * table.at(name, b)?.overlap)));
        }
    }
    text.push('\n');
    table.head(text, "taking / giving back, ns");
    for name in &table.names {
        table.line(text, name, |b| table.at(name, b).map(|r| format!("{:.1}/{:.1}", r.alloc_ns, r.free_ns)));
    }
    text.push('\n');
    table.head(text, "refills+spills, 1000 blocks");
    for name in &table.names {
        let seen = table.rows.iter().any(|r| r.allocator == *name && r.moves_seen && !r.apart);
        table.line(text, name, |b| {
            let row = table.at(name, b).filter(|_| seen)?;
            let per = |n: u64| 1000.0 * n as f64 / row.blocks.max(1) as f64;
            Some(format!("{:.1}+{:.1}", per(row.refills), per(row.spills)))
        });
    }
}
