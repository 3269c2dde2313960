//! `bench scale` as JSON and as text.

use pageyard_lab::bench::scale::ScaleRow;
use pageyard_lab::text::bytes;
use serde_json::{Value, json};
use std::fmt::Write;

/// Returns the rows.
pub fn to_json(rows: &[ScaleRow]) -> Value {
    let rows = rows.iter().map(|r| {
        json!({
            "allocator": r.allocator, "frames": r.frames, "full_pct": r.full_pct, "order": r.order,
            "steps_max": r.steps_max, "total_ns_median": r.total_ns_median,
        })
    });
    json!({"rows": rows.collect::<Vec<_>>()})
}

/// Writes a table.
pub fn to_text(rows: &[ScaleRow]) -> String {
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
    text
}
