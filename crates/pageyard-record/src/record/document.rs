//! A recording as a document.

use super::Recorded;
use pageyard_trace::{Document, EventKind, lost_pct};
use serde::Serialize;
use std::collections::BTreeMap;

/// The totals and the cost of a recording. Unknown values are omitted.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordDocument<'a> {
    /// Where the trace is.
    pub trace: &'a str,
    /// Events of all kinds.
    pub events: u64,
    /// Events by kind.
    pub by_event: BTreeMap<&'static str, u64>,
    /// Events by second of the recording.
    pub events_per_s: f64,
    /// Events that the kernel had no room for.
    pub lost: u64,
    /// The same as a percentage of all that happened.
    pub lost_pct: f64,
    /// Events with a value that no kernel writes; they were left out.
    pub impossible: u64,
    /// Events that arrived too late to be sorted in; each has the time of the event after it.
    pub late: u64,
    /// Seconds that the recording took.
    pub seconds: f64,
    /// The recorded CPUs.
    pub cpus: u32,
    /// The size of each CPU's buffer, in bytes.
    pub buffer_bytes: u64,
    /// Which of the kernel's buffers were used: `tracefs` or `perf`.
    pub buffers: &'a str,
    /// Why those of tracefs, in which an event costs about half as much, could not be used; omitted if they were,
    /// or were not wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_cheapest: Option<&'a str>,
    /// Processor time that the recorder used, in seconds.
    pub recorder_cpu_seconds: f64,
    /// The same as a percentage of all processor time.
    pub recorder_cpu_pct: f64,
    /// Tracepoints that this kernel does not have.
    pub missing_tracepoints: &'a [String],
    /// Rows about compaction and migration; omitted if the kernel has no tracepoints for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moves: Option<MoveRows>,
    /// The function of the kernel that was watched for moves: then every move is among the rows. Omitted if only
    /// moves of mapped frames are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moves_by: Option<&'a str>,
    /// Why none was watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moves_not_watched: Option<&'a str>,
    /// Blocks of the host's free lists whose order at the start is known; omitted if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_lists_blocks: Option<u64>,
    /// Why it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_lists_not_read: Option<&'a str>,
    /// Blocks of the host's per-CPU lists whose order at the start is known; omitted if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percpu_lists_blocks: Option<u64>,
    /// Why it is not, where that of the free lists is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percpu_lists_not_read: Option<&'a str>,
    /// Samples of the host; omitted if none were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<SamplingDocument>,
    /// The cost of an event in the kernel, in nanoseconds, measured just before the recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_ns: Option<f64>,
    /// The share of the host's processor time that recorder and events took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overhead: Option<f64>,
    /// Threads whose names are in `thread_names.json`; omitted if they were not to be kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_names: Option<u64>,
    /// Whether the recorder's priority could be raised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_raised: Option<bool>,
    /// Why the recording ended early; omitted if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<&'a str>,
    /// The exit status of the recorded command; omitted if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<u8>,
}

impl Document for RecordDocument<'_> {
    const SCHEMA: &'static str = "pageyard.record/1";
}

/// Rows about compaction and migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MoveRows {
    /// All of them.
    pub rows: u64,
    /// Those that name both frames of a move.
    pub with_both_frames: u64,
}

/// Samples of the host's free blocks, per-CPU lists and counters, and what they cost.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SamplingDocument {
    /// Samples in the trace.
    pub taken: u64,
    /// Samples left out, because the host's texts could not be read.
    pub left_out: u64,
    /// Milliseconds from one to the next, as asked for.
    pub every_ms: f64,
    /// Processor time that taking them took, in seconds; a part of the recorder's.
    pub cpu_seconds: f64,
    /// The same as a percentage of all processor time.
    pub cpu_pct: f64,
}

impl Recorded {
    /// Returns the recording as a document: `trace` is where it went, `exit_status` that of the recorded command.
    #[must_use]
    pub fn document<'a>(&'a self, trace: &'a str, exit_status: Option<u8>) -> RecordDocument<'a> {
        let overhead = self.event_ns.zip(self.overhead());
        let lists = self.lists.as_ref().ok();
        RecordDocument {
            trace,
            events: self.events(),
            by_event: EventKind::ALL.iter().map(|k| k.name()).zip(self.by_kind).collect(),
            events_per_s: self.events_per_s(),
            lost: self.lost,
            lost_pct: lost_pct(self.lost, self.events()),
            impossible: self.impossible,
            late: self.late,
            seconds: self.seconds,
            cpus: self.cpus,
            buffer_bytes: self.buffer_bytes,
            buffers: self.buffers,
            not_cheapest: self.not_cheapest.as_deref(),
            recorder_cpu_seconds: self.own_seconds,
            recorder_cpu_pct: self.own_pct(),
            missing_tracepoints: &self.missing,
            moves: self.moves.map(|rows| MoveRows { rows, with_both_frames: self.moved }),
            moves_by: self.moves_by.as_deref(),
            moves_not_watched: self.not_watched.as_deref(),
            free_lists_blocks: lists.map(|lists| lists.free),
            free_lists_not_read: self.lists.as_ref().err().map(String::as_str),
            percpu_lists_blocks: lists.and_then(|lists| lists.cached.as_ref().ok()).copied(),
            percpu_lists_not_read: lists.and_then(|lists| lists.cached.as_ref().err()).map(String::as_str),
            samples: self.sampling.zip(self.sampling_pct()).map(|(sampling, cpu_pct)| SamplingDocument {
                taken: sampling.taken,
                left_out: sampling.left_out,
                every_ms: sampling.every.as_secs_f64() * 1e3,
                cpu_seconds: sampling.cpu_seconds,
                cpu_pct,
            }),
            event_ns: overhead.map(|(ns, _)| ns),
            overhead: overhead.map(|(_, all)| all),
            thread_names: self.names,
            priority_raised: self.raised,
            partial: self.partial.as_deref(),
            exit_status,
        }
    }
}
