//! `bench primitives` as JSON and as text, beside what document 000 prints for its machine.

use super::environment::{machine_json, machine_text, noise_json, noise_text, skipped_json, skipped_text};
use pageyard_bench::experiment::Published;
use pageyard_bench::primitives::Primitives;
use serde_json::{Value, json};
use std::fmt::Write;

/// What the document prints for an operation: cycles and nanoseconds.
fn published(primitive: &str) -> Option<(f64, f64)> {
    let lines = Published::carried().lines("time_bench");
    let line = lines.iter().find(|l| l.text("primitive") == primitive)?;
    let both = (line.number("cycles_tsc"), line.number("ns"));
    (both.0.is_finite() && both.1.is_finite()).then_some(both)
}

/// Returns the rows, and what was skipped.
pub fn to_json(all: &Primitives) -> Value {
    let rows = all.rows.iter().map(|r| {
        let mut row = json!({"primitive": r.primitive, "how": r.how, "ns_median": r.ns, "ns_min": r.ns_min});
        if r.cycles > 0.0 {
            row["cycles_tsc"] = json!(r.cycles);
        }
        if let Some((cycles, ns)) = published(r.primitive) {
            row["published_cycles_tsc"] = json!(cycles);
            row["published_ns"] = json!(ns);
        }
        row
    });
    json!({
        "machine": machine_json(&all.machine), "disturbance": noise_json(&all.noise),
        "rows": rows.collect::<Vec<_>>(), "skipped": skipped_json(&all.skipped),
    })
}

/// A table.
pub fn to_text(all: &Primitives) -> String {
    let mut text = machine_text(&all.machine);
    text += &noise_text(&all.noise);
    text += "The first thirteen are those of document 000, as user space has them. A loop's own cost is in every row.\n\n";
    let _ = writeln!(text, "  {:<38} {:>9} {:>10} {:>17}  how", "", "ns", "TSC cycles", "published, 2017");
    for r in &all.rows {
        let there =
            published(r.primitive).map_or(String::new(), |(cycles, ns)| format!("{ns:.2} ns, {cycles:.0}"));
        let _ =
            writeln!(text, "  {:<38} {:>9.2} {:>10.1} {there:>17}  {}", r.primitive, r.ns, r.cycles, r.how);
    }
    skipped_text(&mut text, &all.skipped);
    text
}
