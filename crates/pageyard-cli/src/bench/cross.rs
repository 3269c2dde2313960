//! `bench cross` as JSON and as text.

use super::environment::{machine_json, machine_text, noise_json, noise_text, skipped_json, skipped_text};
use pageyard_bench::cross::{Cross, GROUP};
use serde_json::{Value, json};
use std::fmt::Write;

/// Returns the rows, the queue's own cost, and what was skipped.
pub fn to_json(cross: &Cross) -> Value {
    let rows = cross.rows.iter().map(|r| {
        let (refills, spills) = r.moves.unwrap_or_default();
        json!({
            "allocator": r.allocator, "threads": 2, "order": 0, "group": GROUP, "alloc_ns": r.alloc_ns,
            "free_ns": r.free_ns, "total_ns_min": r.total_ns_min, "total_ns_median": r.total_ns_median,
            "elapsed_ns_median": r.elapsed_ns_median, "elapsed_less_queue_ns": r.elapsed_less_queue_ns,
            "refills": refills, "spills": spills, "moves_seen": r.moves.is_some(),
        })
    });
    json!({
        "machine": machine_json(&cross.machine), "disturbance": noise_json(&cross.noise),
        "queue_ns_median": cross.queue_ns, "rows": rows.collect::<Vec<_>>(),
        "skipped": skipped_json(&cross.skipped),
    })
}

/// A table: ratios to the floor first.
pub fn to_text(cross: &Cross) -> String {
    let mut text = machine_text(&cross.machine);
    text += &noise_text(&cross.noise);
    let _ = writeln!(
        text,
        "Frames taken on one CPU, handed over {GROUP} at a time and given back on the other; nanoseconds a frame.\n\
         Taking and giving back are timed by themselves; the queue takes {:.2} ns of the time that passes.\n",
        cross.queue_ns
    );
    let floor = cross.rows.iter().find(|r| r.allocator.starts_with("floor"));
    let _ = writeln!(
        text,
        "  {:<30} {:>12} {:>9} {:>9} {:>9} {:>9} {:>12}",
        "",
        floor.map_or("x floor".into(), |f| format!("x {}", f.allocator.trim_start_matches("floor-"))),
        "pair",
        "taking",
        "giving",
        "elapsed",
        "less queue"
    );
    for r in &cross.rows {
        let ratio = floor.map_or(0.0, |f| r.total_ns_median / f.total_ns_median.max(0.01));
        let _ = writeln!(
            text,
            "  {:<30} {ratio:>12.2} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>12.2}",
            r.allocator,
            r.total_ns_median,
            r.alloc_ns,
            r.free_ns,
            r.elapsed_ns_median,
            r.elapsed_less_queue_ns
        );
    }
    skipped_text(&mut text, &cross.skipped);
    text
}
