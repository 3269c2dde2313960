//! `bench primitives` as JSON and as text.

use super::ground::{machine_json, machine_text, noise_json, noise_text, skipped_json, skipped_text};
use pageyard_lab::bench::primitives::Primitives;
use serde_json::{Value, json};
use std::fmt::Write;

/// Returns the rows, and what was skipped.
pub fn to_json(all: &Primitives) -> Value {
    let rows = all.rows.iter().map(|r| {
        let mut row = json!({"primitive": r.primitive, "how": r.how, "ns_median": r.ns, "ns_min": r.ns_min});
        if r.cycles > 0.0 {
            row["cycles_tsc"] = json!(r.cycles);
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
    let _ = writeln!(text, "  {:<38} {:>9} {:>10}  how", "", "ns", "TSC cycles");
    for r in &all.rows {
        let _ = writeln!(text, "  {:<38} {:>9.2} {:>10.1}  {}", r.primitive, r.ns, r.cycles, r.how);
    }
    skipped_text(&mut text, &all.skipped);
    text
}
