//! An import's totals, in words.

use super::ImportDocument;
use super::kernel::Recorder;
use crate::record::kinds;
use pageyard_trace::grouped;
use std::fmt::Write as _;

impl ImportDocument<'_> {
    /// Writes the document as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        let lost = if self.recorder == Recorder::Llfree.name() {
            "an LLFree trace does not say what was lost".to_owned()
        } else {
            format!("{} lost {}", self.recorder, grouped(self.lost))
        };
        let _ = writeln!(
            out,
            "{}: {} events over {:.1} s, imported in {:.1} s ({:.1} million a second); {lost}",
            self.trace,
            grouped(self.events),
            self.duration_seconds,
            self.seconds,
            self.events_per_s / 1e6
        );
        let _ = writeln!(out, "  {}", kinds(&self.by_event));
        for (n, what) in [
            (self.moves.rows, "rows about compaction and migration"),
            (self.other_events, "events of other kinds skipped"),
            (self.impossible, "events were impossible, and are left out"),
            (self.late, "events came too late to be sorted in, and carry their successors' time"),
        ] {
            if n > 0 {
                let _ = writeln!(out, "  {} {what}", grouped(n));
            }
        }
        if let Some(warning) = &self.warning {
            let _ = writeln!(out, "  warning: {warning}");
        }
        out
    }
}
