//! A watch's totals, as a document and as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use pageyard_trace::{Document, grouped};
use serde::Serialize;

use super::{Metrics, Snapshot, Watcher};

/// The totals of a watch.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchDocument<'a> {
    /// How much was watched: `light` or `full`.
    pub level: &'static str,
    /// The length of the watch.
    pub seconds: f64,
    /// Bytes of events that may be kept.
    pub ring_bytes: u64,
    /// Bytes of the kernel's buffers.
    pub kernel_buffer_bytes: u64,
    /// Requests that got nothing, by order; orders without any are left out.
    pub failures: BTreeMap<usize, u64>,
    /// Of those, the ones that have something to fall back to.
    pub quiet_failures: u64,
    /// Blocks taken from a pageblock of another type.
    pub fallbacks: u64,
    /// Requests that compacted.
    pub compact_stalls: u64,
    /// Those of them for which it failed.
    pub compact_fails: u64,
    /// Events that were read.
    pub events: u64,
    /// Events that were replaced before they were read.
    pub overwritten: u64,
    /// Processor time that this process took, in seconds.
    pub own_seconds: f64,
    /// The same time as a share of one CPU.
    pub own_pct: f64,
    /// The extra time that a frame's allocation and free take in the kernel, in nanoseconds; omitted if not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame_ns: Option<f64>,
    /// The same cost for all frames that the host allocated, as a share of one CPU: an upper bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_pct: Option<f64>,
    /// Snapshots in their order.
    pub snapshots: &'a [SnapshotDocument],
    /// Triggers too soon after a snapshot.
    pub passed_over: u64,
    /// Snapshots that could not be written.
    pub failed: u64,
}

/// One snapshot.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SnapshotDocument {
    /// Where it is, or was before newer ones replaced it.
    pub trace: String,
    /// Why it was taken.
    pub reason: String,
    /// Events in it.
    pub events: u64,
    /// Samples of the host in it.
    pub samples: u64,
    /// Seconds from its beginning to the trigger.
    pub before_seconds: f64,
    /// Seconds from its beginning to its end.
    pub seconds: f64,
    /// Seconds that writing it took.
    pub took_seconds: f64,
    /// Of those, the seconds that the picture of all frames took; omitted if none was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub picture_seconds: Option<f64>,
}

impl SnapshotDocument {
    /// Describes a snapshot that was triggered at a time by the clock of the events.
    #[must_use]
    pub fn new(trace: String, reason: String, at_ns: u64, of: &Snapshot) -> SnapshotDocument {
        SnapshotDocument {
            trace,
            reason,
            events: of.events,
            samples: of.samples,
            before_seconds: at_ns.saturating_sub(of.start_ns) as f64 / 1e9,
            seconds: of.seconds,
            took_seconds: of.took,
            picture_seconds: of.picture,
        }
    }
}

impl Document for WatchDocument<'_> {
    const SCHEMA: &'static str = "pageyard.watch/2";
}

impl<'a> WatchDocument<'a> {
    /// Describes a watch.
    #[must_use]
    pub fn new(watcher: &Watcher, metrics: &Metrics, snapshots: &'a [SnapshotDocument]) -> WatchDocument<'a> {
        let counts = watcher.counts();
        let (own_seconds, seconds) = watcher.own_seconds();
        let (kernel_buffer_bytes, _, ring_bytes) = watcher.memory();
        let kernel = watcher.kernel_seconds();
        let failures = counts.failures.iter().copied().enumerate().filter(|(_, n)| *n > 0);
        WatchDocument {
            level: watcher.level.name(),
            seconds,
            ring_bytes,
            kernel_buffer_bytes,
            failures: failures.collect(),
            quiet_failures: counts.quiet_failures.iter().sum(),
            fallbacks: counts.fallbacks,
            compact_stalls: counts.compact_stalls,
            compact_fails: counts.compact_fails,
            events: counts.events,
            overwritten: counts.overwritten,
            own_seconds,
            own_pct: 100.0 * own_seconds / seconds.max(1e-9),
            frame_ns: kernel.map(|(ns, _)| ns),
            kernel_pct: kernel.map(|(_, of)| 100.0 * of / seconds.max(1e-9)),
            snapshots,
            passed_over: metrics.passed_over,
            failed: metrics.failed,
        }
    }

    /// Writes it for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!(
            "Watched for {:.0} s: {} events, {} replaced before they were read.\n",
            self.seconds,
            grouped(self.events),
            grouped(self.overwritten)
        );
        let failures: u64 = self.failures.values().sum();
        let _ = writeln!(
            text,
            "{} requests got nothing ({} of them have something to fall back to), {} fell back to another type, {} compacted and for {} that failed.",
            grouped(failures),
            grouped(self.quiet_failures),
            grouped(self.fallbacks),
            grouped(self.compact_stalls),
            grouped(self.compact_fails)
        );
        let _ = write!(
            text,
            "It took {:.3} s of processor time, {:.2} % of one CPU",
            self.own_seconds, self.own_pct
        );
        let _ = match (self.frame_ns, self.kernel_pct) {
            (Some(ns), Some(pct)) => writeln!(
                text,
                ", and the kernel at most {pct:.2} %: {ns:.0} ns for each frame allocated and freed."
            ),
            _ => writeln!(text, "; what the kernel took could not be measured."),
        };
        for s in self.snapshots {
            let _ = writeln!(
                text,
                "{}: {}; {} events and {} samples of {:.1} s before it, written in {:.2} s",
                s.trace,
                s.reason,
                grouped(s.events),
                grouped(s.samples),
                s.before_seconds,
                s.took_seconds
            );
        }
        if self.passed_over + self.failed > 0 {
            let _ = writeln!(
                text,
                "{} triggers came too soon after a snapshot; {} snapshots could not be written.",
                grouped(self.passed_over),
                grouped(self.failed)
            );
        }
        text
    }
}
