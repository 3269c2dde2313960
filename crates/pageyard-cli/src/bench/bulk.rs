//! `bench bulk` as JSON and as text.

use super::environment::{machine_json, machine_text, skipped_json, skipped_text};
use pageyard_bench::bulk::{BUFFER_FRAMES, Bulk, Where};
use serde_json::{Value, json};
use std::fmt::Write;

/// Returns the rows, the receive buffers, and what was skipped.
pub fn to_json(bulk: &Bulk) -> Value {
    let rows = bulk.rows.iter().map(|r| {
        let mut row = json!({
            "allocator": r.allocator, "threads": 1, "order": 0, "bulk": r.bulk, "where": r.at.name(),
            "pattern": "fifo", "alloc_ns": r.alloc_ns, "free_ns": r.free_ns,
            "total_ns_min": r.total_ns_min, "total_ns_median": r.total_ns_median,
            "one_by_one_ns_median": r.one_by_one_ns_median, "gain_pct": r.gain_pct(),
            "refills": r.refills, "spills": r.spills, "disturbed": r.disturbed,
        });
        if r.x_floor > 0.0 {
            row["floor"] = json!("floor-array");
            row["x_floor"] = json!(r.x_floor);
        }
        row
    });
    let buffers = bulk.buffers.iter().map(|b| {
        let mut row = json!({
            "allocator": b.allocator, "where": b.at.name(), "frames": BUFFER_FRAMES,
            "bytes": BUFFER_FRAMES as u64 * 4096, "bulk_ns": b.bulk_ns, "one_by_one_ns": b.one_by_one_ns,
        });
        if b.order_6_ns > 0.0 {
            row["order_6_ns"] = json!(b.order_6_ns);
        }
        row
    });
    json!({
        "machine": machine_json(&bulk.machine),
        "disturbance": {"settings": bulk.settings.0, "disturbed": bulk.settings.1},
        "rows": rows.collect::<Vec<_>>(), "receive_buffer": buffers.collect::<Vec<_>>(),
        "skipped": skipped_json(&bulk.skipped),
    })
}

/// A block for each place: ratios first, then nanoseconds, then what a call gains.
pub fn to_text(bulk: &Bulk) -> String {
    let mut text = machine_text(&bulk.machine);
    let (all, disturbed) = bulk.settings;
    let _ = match disturbed {
        0 => writeln!(text, "Undisturbed: a pair of the same code agreed within 5 % in all {all} settings."),
        n => writeln!(text, "DISTURBED: {n} of {all} settings are doubtful (!)."),
    };
    text += "Frames allocated with one call and freed with one, on one thread; figures are for one frame.\n";
    let mut calls: Vec<usize> = bulk.rows.iter().map(|r| r.bulk).collect();
    calls.sort_unstable();
    calls.dedup();
    let mut names: Vec<&str> = Vec::new();
    for row in &bulk.rows {
        if !names.contains(&row.allocator) {
            names.push(row.allocator);
        }
    }
    for at in [Where::InCache, Where::Across] {
        let mut table = |title: &str, figure: &dyn Fn(&pageyard_bench::bulk::BulkRow) -> String| {
            let _ = write!(text, "\n  {:<32}", format!("{}: {title}", at.name()));
            for call in &calls {
                let mark = bulk.rows.iter().any(|r| r.bulk == *call && r.at == at && r.disturbed);
                let _ = write!(text, " {:>7}", format!("{call}{}", if mark { "!" } else { "" }));
            }
            text.push('\n');
            for name in &names {
                let _ = write!(text, "  {name:<32}");
                for call in &calls {
                    let row = bulk.rows.iter().find(|r| (r.allocator, r.bulk, r.at) == (name, *call, at));
                    let _ = write!(text, " {:>7}", row.map_or_else(|| "-".into(), figure));
                }
                text.push('\n');
            }
        };
        table("times floor-array", &|r| format!("{:.2}", r.x_floor));
        table("ns a frame", &|r| format!("{:.2}", r.total_ns_median));
        table("ns one by one", &|r| format!("{:.2}", r.one_by_one_ns_median));
        table("saved by the call, %", &|r| format!("{:.0}", r.gain_pct()));
    }
    let _ = writeln!(
        text,
        "\n  {:<24} {:>9} {:>12} {:>12} {:>14}",
        "a receive buffer, 256 KiB", "where", "64 at once", "one by one", "one of order 6"
    );
    for b in &bulk.buffers {
        let block = if b.order_6_ns > 0.0 { format!("{:.0} ns", b.order_6_ns) } else { "-".into() };
        let _ = writeln!(
            text,
            "  {:<25} {:>9} {:>9.0} ns {:>9.0} ns {block:>14}",
            b.allocator,
            b.at.name(),
            b.bulk_ns,
            b.one_by_one_ns
        );
    }
    skipped_text(&mut text, &bulk.skipped);
    text
}
