//! The compaction and migration done on the host, in step with a trace's events.

use super::hidden::HiddenMoves;
use super::walk::EventCounts;
use pageyard_trace::proctext::Vmstat;
use pageyard_trace::{Move, MoveKind, MoveReader, Trace, TraceError};
use serde::Serialize;

/// The frames that the host moved, by what a replay knows of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MoveCounts {
    /// Frames of moves of which the recording names both frames.
    pub seen: u64,
    /// Frames of moves that follow from other events.
    pub inferred: u64,
    /// The other frames that the host moved, by its own count: the replay holds them where they were.
    pub unknown: u64,
    /// How good the inference is, where the seen moves were hidden from it (`--hide-seen-moves`): then none is `seen`.
    /// Left out otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<HiddenMoves>,
}

impl MoveCounts {
    /// Makes counts of what a replay found and of what the host counted.
    pub(super) fn new(found: &EventCounts, migrated: u64, check: Option<HiddenMoves>) -> MoveCounts {
        let (seen, inferred) = (found.seen_frames, found.inferred_frames);
        MoveCounts { seen, inferred, unknown: migrated.saturating_sub(seen + inferred), check }
    }
}

/// Reads a trace's moves, if it has any, in the order of time.
pub struct Moves {
    reader: Option<MoveReader>,
    /// Whether the trace records moves at all.
    recorded: bool,
    batch: Vec<Move>,
    /// How much of the batch was used.
    used: usize,
    /// When the next row is due; never, once there is none.
    due: u64,
    /// Frames that the host counted as moved, in the rows so far.
    migrated: u64,
}

impl Moves {
    /// Starts reading.
    ///
    /// # Errors
    /// When the trace's file of moves is not one.
    pub fn of(trace: &Trace) -> Result<Moves, TraceError> {
        let reader = trace.moves()?;
        let recorded = reader.is_some();
        let due = if recorded { 0 } else { u64::MAX };
        Ok(Moves { reader, recorded, batch: Vec::new(), used: 0, due, migrated: 0 })
    }

    /// Calls `each` with every row up to a time.
    ///
    /// # Errors
    /// At the first row that is damaged or cannot be true.
    #[inline]
    pub fn until(&mut self, time: u64, each: impl FnMut(&Move)) -> Result<(), TraceError> {
        if self.due > time { Ok(()) } else { self.take(time, each) }
    }

    /// Returns how many frames the host moved by its own count, after the last row; `None` where the trace does not
    /// say.
    ///
    /// # Errors
    /// When the trace's `vmstat` cannot be read.
    pub fn migrated(&self, trace: &Trace) -> Result<Option<u64>, TraceError> {
        if self.recorded { Ok(Some(self.migrated)) } else { migrated_by_vmstat(trace) }
    }

    fn take(&mut self, time: u64, mut each: impl FnMut(&Move)) -> Result<(), TraceError> {
        let Some(reader) = &mut self.reader else { return Ok(()) };
        loop {
            while let Some(row) = self.batch.get(self.used) {
                self.due = row.time_ns;
                if row.time_ns > time {
                    return Ok(());
                }
                if row.kind == MoveKind::Migrated {
                    self.migrated += u64::from(row.done);
                }
                each(row);
                self.used += 1;
            }
            self.used = 0;
            if !reader.next_batch(&mut self.batch)? {
                self.reader = None;
                self.due = u64::MAX;
                return Ok(());
            }
        }
    }
}

/// Returns the frames that the host moved from before the recording to after it, by `/proc/vmstat`.
fn migrated_by_vmstat(trace: &Trace) -> Result<Option<u64>, TraceError> {
    let count = |texts: &Option<pageyard_trace::ProcTexts>| match texts {
        Some(texts) => Ok(Vmstat::parse(&texts.vmstat)?.get("pgmigrate_success")),
        None => Ok(None),
    };
    let meta = trace.meta();
    let (before, after) = (count(&meta.before)?, count(&meta.after)?);
    Ok(before.zip(after).map(|(before, after)| after.saturating_sub(before)))
}
