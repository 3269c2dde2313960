//! What a recording was like, in words.

use pageyard_record::record::Recorded;
use pageyard_trace::{EventKind, grouped, lost_sentence};
use std::fmt::Write as _;

/// Writes it for people.
pub fn text(recorded: &Recorded, place: &str) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{place}: {} events in {:.1} s, {} a second; {} lost",
        grouped(recorded.events()),
        recorded.seconds,
        grouped(recorded.events_per_s() as u64),
        grouped(recorded.lost)
    );
    let kinds: Vec<String> = EventKind::ALL
        .iter()
        .zip(recorded.by_kind)
        .map(|(k, n)| format!("{} {}", grouped(n), k.name()))
        .collect();
    let _ = writeln!(out, "  {}", kinds.join(", "));
    if let Some(moves) = recorded.moves {
        let _ = writeln!(
            out,
            "  {} rows about compaction and migration, {} of them name both frames of a move",
            grouped(moves),
            grouped(recorded.moved)
        );
    }
    let _ = write!(
        out,
        "  cost: the recorder took {:.2} s of processor time, {:.1} % of {} CPUs",
        recorded.own_seconds,
        recorded.own_pct(),
        recorded.cpus
    );
    match (recorded.event_ns, recorded.overhead()) {
        (Some(ns), Some(all)) => {
            let _ = writeln!(out, "; an event takes {ns:.0} ns in the kernel: {:.1} % in all", all * 100.0);
        }
        _ => out.push('\n'),
    }
    if let Some(lost) = lost_sentence(recorded.lost, recorded.events()) {
        let _ = writeln!(out, "  of the events {lost}");
    }
    if let Some(why) = &recorded.partial {
        let _ = writeln!(out, "  partial, because {why}: the trace has what was written until then");
    }
    if recorded.raised == Some(false) {
        out.push_str("  the recorder's priority could not be raised, so it may lose events on a busy host\n");
    }
    for (n, what) in [
        (recorded.impossible, "events were impossible, and are left out"),
        (recorded.late, "events came too late to be sorted in, and carry their successors' time"),
    ] {
        if n > 0 {
            let _ = writeln!(out, "  {} {what}", grouped(n));
        }
    }
    if !recorded.missing.is_empty() {
        let _ = writeln!(out, "  this kernel has no {}", recorded.missing.join(", "));
    }
    out
}
