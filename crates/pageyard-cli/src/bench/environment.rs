//! The head of every table: which machine, and what disturbed the run.

use pageyard_bench::environment::{Machine, Taken};
use pageyard_bench::{Noise, Skipped};
use serde_json::{Value, json};
use std::fmt::Write;

pub fn machine_json(m: &Machine) -> Value {
    json!({"cpu": m.cpu, "cpus": m.cpus, "kernel": m.kernel})
}

pub fn machine_text(m: &Machine) -> String {
    let cpus = if m.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", m.cpus) };
    format!("{}, {cpus}, Linux {}\n", m.cpu, m.kernel)
}

pub fn skipped_json(skipped: &[Skipped]) -> Value {
    skipped.iter().map(|s| json!({"allocator": s.allocator, "why": s.why})).collect()
}

pub fn skipped_text(text: &mut String, skipped: &[Skipped]) {
    if !skipped.is_empty() {
        text.push('\n');
    }
    for s in skipped {
        let _ = writeln!(text, "skipped: {}: {}", s.allocator, s.why);
    }
}

/// Describes a run of many settings, of which some may have been disturbed.
pub fn disturbance_json(settings: (usize, usize), apart: f64, taken: &Taken) -> Value {
    json!({
        "settings": settings.0, "disturbed": settings.1, "pair_apart_pct_max": 100.0 * apart,
        "waited_ms": taken.waited_ms, "steal_ms": taken.steal_ms, "elapsed_ms": taken.elapsed_ms,
    })
}

pub fn disturbance_text(settings: (usize, usize), apart: f64, taken: &Taken) -> String {
    let Taken { steal_ms, waited_ms, elapsed_ms } = taken;
    if settings.1 == 0 {
        return format!(
            "Undisturbed: in all {} settings a pair of the same code agreed within 5 %, and others took little time.\n",
            settings.0
        );
    }
    format!(
        "DISTURBED: {} of {} settings are doubtful (!): a pair of the same code disagreed, by {:.0} % at most, or others \
         took time ({waited_ms:.0} ms of waiting and {steal_ms:.0} ms stolen, of {elapsed_ms:.0} ms).\n",
        settings.1,
        settings.0,
        100.0 * apart,
    )
}

/// The same for a run of one setting.
pub fn noise_json(noise: &Noise) -> Value {
    disturbance_json((1, usize::from(noise.disturbs())), noise.apart, &noise.taken)
}

pub fn noise_text(noise: &Noise) -> String {
    disturbance_text((1, usize::from(noise.disturbs())), noise.apart, &noise.taken)
}
