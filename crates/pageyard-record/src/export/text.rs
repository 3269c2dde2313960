//! An export in words.

use super::{ExportDocument, Exported, ForLlfree};
use pageyard_trace::grouped;
use std::fmt::Write as _;

impl ExportDocument<'_> {
    /// Writes the document as text.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.contents {
            Exported::Perfetto(made) => format!(
                "{}: {} bytes for Perfetto: {} events, {} of them refused requests, {} samples of free memory. Open it at ui.perfetto.dev.\n",
                self.file,
                grouped(made.bytes),
                grouped(made.events),
                grouped(made.refused),
                grouped(made.samples),
            ),
            Exported::Llfree(made) => for_llfree(self.file, made),
        }
    }
}

fn for_llfree(file: &str, made: &ForLlfree) -> String {
    let mut out = format!(
        "{file}: {} bytes for LLFree's replay: {} allocations and frees\n",
        grouped(made.bytes),
        grouped(made.records)
    );
    for (n, what) in [
        (
            made.unknown_frees,
            "frees are of what no record allocated, so a replay passes over them: it opens with all memory free",
        ),
        (made.delayed, "records have a later microsecond than their events, to keep the order of CPUs"),
        (made.flags_left_out, "allocations have a gfp flag that a record has no place for"),
        (made.refused_left_out, "requests that got nothing are left out"),
        (made.frame_0_left_out, "events of a block at frame 0 are left out"),
        (made.other_events_left_out, "events that are neither an allocation nor a free are left out"),
        (made.moves_left_out, "rows about moves, compaction and reclaim are left out"),
    ] {
        if n > 0 {
            let _ = writeln!(out, "  {} {what}", grouped(n));
        }
    }
    if made.snapshot_left_out {
        out += "  the snapshot of memory is left out\n";
    }
    out
}
