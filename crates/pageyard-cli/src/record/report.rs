//! What a recording was like, in words and in JSON.

use super::job;
use pageyard_record::record::Recorded;
use pageyard_trace::{EventKind, grouped, lost_sentence};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitStatus;

/// Writes it for people.
pub fn text(recorded: &Recorded, place: &str) -> String {
    let mut out = String::new();
    let rate = recorded.events() as f64 / recorded.seconds.max(1e-9);
    let _ = writeln!(
        out,
        "{place}: {} events in {:.1} s, {} a second; {} lost",
        grouped(recorded.events()),
        recorded.seconds,
        grouped(rate as u64),
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
    let own = recorded.own_seconds / (recorded.seconds * f64::from(recorded.cpus)).max(1e-9) * 100.0;
    let _ = write!(
        out,
        "  cost: the recorder took {:.2} s of processor time, {own:.1} % of {} CPUs",
        recorded.own_seconds, recorded.cpus
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

/// Writes it as one JSON document.
pub fn document(recorded: &Recorded, place: &str, status: Option<ExitStatus>) -> Value {
    let kinds: serde_json::Map<String, Value> =
        EventKind::ALL.iter().zip(recorded.by_kind).map(|(k, n)| (k.name().to_owned(), n.into())).collect();
    let mut document = json!({
        "trace": place,
        "events": recorded.events(),
        "by_event": kinds,
        "lost": recorded.lost,
        "impossible": recorded.impossible,
        "late": recorded.late,
        "seconds": recorded.seconds,
        "cpus": recorded.cpus,
        "buffer_bytes": recorded.buffer_bytes,
        "recorder_cpu_seconds": recorded.own_seconds,
        "missing_tracepoints": recorded.missing,
    });
    if let Some(moves) = recorded.moves {
        document["moves"] = json!({ "rows": moves, "with_both_frames": recorded.moved });
    }
    if let (Some(ns), Some(all)) = (recorded.event_ns, recorded.overhead()) {
        document["event_ns"] = ns.into();
        document["overhead"] = all.into();
    }
    if let Some(raised) = recorded.raised {
        document["priority_raised"] = raised.into();
    }
    if let Some(why) = &recorded.partial {
        document["partial"] = why.clone().into();
    }
    if let Some(status) = status {
        document["exit_status"] = job::code(status).into();
    }
    document
}
