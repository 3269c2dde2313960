//! `bench scale` as JSON and as text.

use pageyard_bench::refused::RefusedRow;
use pageyard_bench::scale::ScaleRow;
use pageyard_replay::text::bytes;
use serde_json::{Value, json};
use std::fmt::Write;

/// Returns the rows.
pub fn to_json(rows: &[ScaleRow], refused: &[RefusedRow]) -> Value {
    let rows = rows.iter().map(|r| {
        json!({
            "allocator": r.allocator, "frames": r.frames, "full_pct": r.full_pct, "order": r.order,
            "steps_max": r.steps_max, "total_ns_median": r.total_ns_median,
        })
    });
    let refused = refused.iter().map(|r| {
        json!({
            "allocator": r.allocator, "frames": r.frames, "cpus": r.cpus, "order": 9, "may_wait": r.may_wait,
            "why": r.why.to_string(), "ns_median": r.ns_median, "ns_max": r.ns_max,
        })
    });
    json!({"rows": rows.collect::<Vec<_>>(), "refused": refused.collect::<Vec<_>>()})
}

/// Writes a table.
pub fn to_text(rows: &[ScaleRow], refused: &[RefusedRow]) -> String {
    let mut text = String::from(
        "Nanoseconds for taking a block and giving it back, per-CPU lists bypassed, and the most steps a search took.\n\
         Ratios are to 16 GiB at the same order and filling.\n\n",
    );
    let _ = writeln!(
        text,
        "  {:<18} {:>10} {:>7} {:>6} {:>9} {:>9} {:>7}",
        "allocator", "memory", "full", "order", "x 16 GiB", "median", "steps"
    );
    for r in rows {
        let base =
            rows.iter().find(|b| b.frames == 1 << 22 && b.order == r.order && b.full_pct == r.full_pct);
        let ratio = base.map_or("-".to_owned(), |b| format!("{:.2}", r.total_ns_median / b.total_ns_median));
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
        refused.first().map_or(0, |r| r.cpus),
        "allocator",
        "memory",
        "may wait",
        "median",
        "most",
    );
    for r in refused {
        let waits = if r.may_wait { "yes" } else { "no" };
        let (median, most, memory) = (r.ns_median / 1000.0, r.ns_max / 1000.0, bytes(r.frames * 4096));
        let _ = writeln!(
            text,
            "  {:<18} {memory:>10} {waits:<10} {median:>9.2} {most:>9.2}  {}",
            r.allocator, r.why
        );
    }
    text
}
