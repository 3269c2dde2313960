//! The host's own line being told.

use super::chunk::Chunks;
use super::moments::Moments;
use super::owners::{Owners, RecordingIndex};
use super::pack::Told;
use super::recorded::Recorded;
use super::scene::Scene;
use super::telling::Telling;
use crate::error::ReplayError;
use crate::rows::{Row, each_row};
use crate::text::count;
use pageyard_trace::Trace;
use std::cell::RefCell;

/// The host's own line being told. Its moments are those of all lines.
pub struct Host<'a> {
    recorded: Recorded<'a>,
    /// The line.
    pub telling: Telling<'a>,
    /// Changes beyond which every other moment is dropped.
    most_changes: usize,
    has_snapshot: bool,
    of: RecordingIndex,
}

impl<'a> Host<'a> {
    /// Begins with the opening.
    pub fn begin(
        scene: &'a Scene<'_>,
        moments: Moments,
        most_changes: usize,
        owners: &mut Owners,
        chunks: &'a RefCell<Chunks>,
    ) -> Host<'a> {
        let (line, recorded) = scene.recorded(owners, moments);
        let (telling, has_snapshot) = (Telling::begin(line, chunks, None), scene.snapshot.is_some());
        Host { recorded, telling, most_changes, has_snapshot, of: scene.of }
    }

    /// Follows all rows, where no engine is followed beside it, and packs the line; returns the moments that are left.
    pub fn follow(
        mut self,
        trace: &Trace,
        owners: &mut Owners,
        chunks: &RefCell<Chunks>,
        left_out: &mut Vec<String>,
        at: &mut dyn FnMut(u64, u64),
    ) -> Result<(Told, Moments), ReplayError> {
        let read = each_row(trace, at, |row| {
            while self.telling.line.is_due(row.time_ns()) {
                self.end();
            }
            self.row(owners, &row);
        })?;
        while self.telling.line.moment() < self.telling.line.moments.count {
            self.end();
        }
        let moments = self.telling.line.moments;
        Ok((self.finish(read.migrated, chunks, left_out), moments))
    }

    /// Follows a row.
    pub fn row(&mut self, owners: &mut Owners, row: &Row<'_>) {
        self.recorded.row(&mut self.telling.line, owners, row);
    }

    /// Ends a moment; says whether that halved all moments.
    pub fn end(&mut self) -> bool {
        let counters = self.recorded.counters(&self.telling.line.frames);
        self.telling.end(counters);
        let halves = self.telling.is_crowded(self.most_changes);
        if halves {
            self.telling.halve();
        }
        halves
    }

    /// Packs the line, and says what it does not have. `migrated` is how many frames the host moved by its own count.
    pub fn finish(self, migrated: Option<u64>, chunks: &RefCell<Chunks>, left_out: &mut Vec<String>) -> Told {
        let Recorded { moved, unresolved_frees, outside, .. } = self.recorded;
        if let Some(unseen) = migrated.map(|all| all.saturating_sub(moved)).filter(|n| *n > 0) {
            left_out.push(format!(
                "The host moved {} frames to places that no row names: the recorded line has them as free.",
                count(unseen)
            ));
        }
        if unresolved_frees > 0 {
            left_out.push(format!(
                "{} rows of the recording free frames that nothing is known to hold: what they were is not shown.",
                count(unresolved_frees)
            ));
        }
        if outside > 0 {
            left_out.push(format!(
                "{} rows of the recording name frames beyond memory: they are not followed.",
                count(outside)
            ));
        }
        if !self.has_snapshot {
            left_out.push(
                "The recording has no snapshot of memory: all of it is shown as free at the start."
                    .to_owned(),
            );
        }
        self.telling.finish("recorded".to_owned(), "recorded", self.of, chunks, left_out)
    }
}
