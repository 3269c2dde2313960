//! A recording's totals, in words.

use super::RecordDocument;
use pageyard_trace::{EventKind, grouped, lost_sentence};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Lists events by kind, in the order of the kinds.
pub(crate) fn kinds(by_event: &BTreeMap<&'static str, u64>) -> String {
    let named =
        |kind: &EventKind| by_event.get(kind.name()).map(|n| format!("{} {}", grouped(*n), kind.name()));
    EventKind::ALL.iter().filter_map(named).collect::<Vec<_>>().join(", ")
}

impl RecordDocument<'_> {
    /// Writes the document as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "{}: {} events in {:.1} s, {} a second; {} lost",
            self.trace,
            grouped(self.events),
            self.seconds,
            grouped(self.events_per_s.round() as u64),
            grouped(self.lost)
        );
        let _ = writeln!(out, "  {}", kinds(&self.by_event));
        if let Some(moves) = self.moves {
            let _ = writeln!(
                out,
                "  {} rows about compaction and migration, {} of them name both frames of a move",
                grouped(moves.rows),
                grouped(moves.with_both_frames)
            );
            if let Some(function) = self.moves_by {
                let _ = writeln!(out, "  every move is among them: the kernel's {function} was watched");
            }
            if let Some(why) = self.moves_not_watched {
                let _ = writeln!(out, "  moves of frames that nothing maps are not among them: {why}");
            }
        }
        if let Some(blocks) = self.free_lists_blocks {
            let _ =
                writeln!(out, "  the free lists' order at the start is known: {} blocks", grouped(blocks));
        }
        if let Some(why) = self.free_lists_not_read {
            let _ = writeln!(out, "  the free lists' order at the start is not known: {why}");
        }
        if let Some(blocks) = self.percpu_lists_blocks {
            let _ = writeln!(out, "  so is that of the per-CPU lists: {} blocks", grouped(blocks));
        }
        if let Some(why) = self.percpu_lists_not_read {
            let _ = writeln!(out, "  that of the per-CPU lists is not: {why}");
        }
        if let Some(names) = self.thread_names {
            let _ = writeln!(
                out,
                "  the names of {} threads are in thread_names.json: delete it before you pass the recording on",
                grouped(names)
            );
        }
        if let Some(samples) = self.samples {
            let _ = writeln!(
                out,
                "  {} samples of the host's free blocks, lists and counters, one each {} ms: {:.3} s of processor time, {:.3} % of {} CPUs",
                grouped(samples.taken),
                samples.every_ms,
                samples.cpu_seconds,
                samples.cpu_pct,
                self.cpus
            );
            if samples.left_out > 0 {
                let _ = writeln!(
                    out,
                    "  {} samples are left out: what the host said could not be read",
                    grouped(samples.left_out)
                );
            }
        }
        let _ = write!(
            out,
            "  cost: the recorder took {:.2} s of processor time, {:.1} % of {} CPUs",
            self.recorder_cpu_seconds, self.recorder_cpu_pct, self.cpus
        );
        match (self.event_ns, self.overhead) {
            (Some(ns), Some(all)) => {
                let _ =
                    writeln!(out, "; an event takes {ns:.0} ns in the kernel: {:.1} % in all", all * 100.0);
            }
            _ => out.push('\n'),
        }
        if let Some(why) = self.not_cheapest {
            let _ = writeln!(
                out,
                "  events went through perf, where one costs about twice as much as in the kernel's own trace buffer, because {why}"
            );
        }
        if let Some(lost) = lost_sentence(self.lost, self.events) {
            let _ = writeln!(out, "  {lost}");
        }
        if let Some(why) = self.partial {
            let _ = writeln!(out, "  partial, because {why}: the trace has what was written until then");
        }
        if self.priority_raised == Some(false) {
            out.push_str(
                "  the recorder's priority could not be raised, so it may lose events on a busy host\n",
            );
        }
        for (n, what) in [
            (self.impossible, "events were impossible, and are left out"),
            (self.late, "events came too late to be sorted in, and carry their successors' time"),
        ] {
            if n > 0 {
                let _ = writeln!(out, "  {} {what}", grouped(n));
            }
        }
        if !self.missing_tracepoints.is_empty() {
            let _ = writeln!(out, "  this kernel has no {}", self.missing_tracepoints.join(", "));
        }
        out
    }
}
