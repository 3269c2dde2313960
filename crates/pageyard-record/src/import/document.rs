//! An import as a document.

use super::Imported;
use crate::record::MoveRows;
use pageyard_trace::{Document, EventKind};
use serde::Serialize;
use std::collections::BTreeMap;

/// The trace that was made from a file of `perf record`, trace-cmd, Perfetto or LLFree, and what making it took.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ImportDocument<'a> {
    /// Where the trace is.
    pub trace: &'a str,
    /// Who wrote the file: `perf`, `trace-cmd`, `perfetto` or `llfree`.
    pub recorder: &'static str,
    /// Events of all kinds.
    pub events: u64,
    /// Events by kind.
    pub by_event: BTreeMap<&'static str, u64>,
    /// Events of other kinds, which were skipped.
    pub other_events: u64,
    /// Events with a value that no kernel writes; they were left out.
    pub impossible: u64,
    /// Events that arrived too late to be sorted in; each has the time of the event after it.
    pub late: u64,
    /// Events that the recorder or its kernel lost.
    pub lost: u64,
    /// Rows about compaction and migration.
    pub moves: MoveRows,
    /// Seconds that were recorded.
    pub duration_seconds: f64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Seconds that the import took.
    pub seconds: f64,
    /// Events by second of the import.
    pub events_per_s: f64,
    /// Why the recording may be unfit for a replay; omitted if nothing speaks against one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

impl Document for ImportDocument<'_> {
    const SCHEMA: &'static str = "pageyard.import/1";
}

impl Imported {
    /// Returns the import as a document: `trace` is where the trace is, `duration_seconds` how long it lasts.
    #[must_use]
    pub fn document<'a>(&self, trace: &'a str, duration_seconds: f64) -> ImportDocument<'a> {
        ImportDocument {
            trace,
            recorder: self.recorder.name(),
            events: self.events(),
            by_event: EventKind::ALL.iter().map(|k| k.name()).zip(self.by_kind).collect(),
            other_events: self.other_events,
            impossible: self.impossible,
            late: self.late,
            lost: self.lost,
            moves: MoveRows { rows: self.moves, with_both_frames: self.moved },
            duration_seconds,
            bytes: self.bytes,
            seconds: self.seconds,
            events_per_s: self.events_per_s(),
            warning: self.warning(),
        }
    }
}
