//! The rows of a trace's two files, in the order of their time.

use crate::error::ReplayError;
use crate::kept::{KeptEvents, KeptReader};
use pageyard_trace::proctext::Vmstat;
use pageyard_trace::{
    Columns, Event, EventKind, FAILED, Move, MoveKind, MoveReader, Prefetch, Trace, TraceError,
};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Rows that are foreseen at a time: about as many as a core can wait for memory at once.
const FORESEEN: usize = 32;

/// A row of either file of a trace.
#[derive(Clone, Copy, Debug)]
pub enum Row<'a> {
    /// Something was allocated or freed.
    Event(&'a Event),
    /// A block moved, or compaction reports what it does.
    Move(&'a Move),
}

impl Row<'_> {
    /// Returns its time in nanoseconds.
    pub fn time_ns(&self) -> u64 {
        match self {
            Row::Event(event) => event.time_ns,
            Row::Move(row) => row.time_ns,
        }
    }
}

/// The recorder's own requests, where they are left out.
struct LeftOut<'t> {
    /// The recorder's threads.
    threads: &'t [u32],
    /// The blocks that they got, by their first frames.
    blocks: HashSet<u64>,
}

impl LeftOut<'_> {
    fn of(trace: &Trace) -> LeftOut<'_> {
        LeftOut { threads: trace.left_out_threads(), blocks: HashSet::new() }
    }

    /// Returns whether a row is left out: the recorder's requests, and the moves and frees of what it got.
    #[inline]
    fn has(&mut self, row: Row<'_>) -> bool {
        !self.threads.is_empty() && self.note(row)
    }

    fn note(&mut self, row: Row<'_>) -> bool {
        match row {
            Row::Event(event) => {
                let is_own = self.threads.contains(&event.tid);
                match event.kind {
                    EventKind::Free => self.blocks.remove(&event.pfn),
                    EventKind::Alloc if event.pfn == FAILED => is_own,
                    // A block that another thread gets was freed, if no row says so.
                    EventKind::Alloc if !is_own => {
                        self.blocks.remove(&event.pfn);
                        false
                    }
                    EventKind::Alloc => {
                        self.blocks.insert(event.pfn);
                        true
                    }
                    _ => is_own,
                }
            }
            Row::Move(row) => {
                let is_own = row.kind == MoveKind::Move && self.blocks.remove(&row.pfn);
                if is_own {
                    self.blocks.insert(row.to);
                }
                is_own
            }
        }
    }
}

/// The totals of reading a trace's rows.
pub(crate) struct RowsRead {
    /// Frames that the host moved by its own count, where the trace says.
    pub migrated: Option<u64>,
    /// The time spent waiting for rows, and on them.
    pub reading: Duration,
    pub working: Duration,
}

/// Hands each row of a trace to `row`, those about moves among the others by their time, but for those that are to be
/// left out.
///
/// # Errors
/// [`ReplayError::Trace`] where a row cannot be read.
pub(crate) fn each_row(
    trace: &Trace,
    progress: &mut dyn FnMut(u64, u64),
    mut row: impl FnMut(Row<'_>),
) -> Result<RowsRead, ReplayError> {
    each_row_foreseen(trace, None, progress, &mut row, |_, _| (), |row, next| row(next))
}

/// The events of a trace, decoded or kept.
enum Events<'k> {
    Decoded(Prefetch),
    Kept(Box<KeptReader<'k>>),
}

impl Events<'_> {
    /// Replaces `out` by the next events; `false` when there are none left.
    ///
    /// # Errors
    /// As [`Prefetch::next_batch`].
    fn next_batch(&mut self, out: &mut Vec<Event>) -> Result<bool, TraceError> {
        match self {
            Events::Decoded(reader) => reader.next_batch(out),
            Events::Kept(reader) => Ok(reader.next_batch(out)),
        }
    }
}

/// Hands each row of a trace to `row` as [`each_row`] does, and before that, with some that follow it, to `foresee`.
/// Events that were `kept` are not decoded again.
///
/// # Errors
/// [`ReplayError::Trace`] where a row cannot be read.
pub(crate) fn each_row_foreseen<S>(
    trace: &Trace,
    kept: Option<&KeptEvents>,
    progress: &mut dyn FnMut(u64, u64),
    state: &mut S,
    foresee: impl Fn(&mut S, &[Event]),
    mut row: impl FnMut(&mut S, Row<'_>),
) -> Result<RowsRead, ReplayError> {
    let rows = kept.map_or_else(|| trace.rows(), |kept| Ok(kept.len()))?;
    let mut done = 0;
    let mut reading = Duration::ZERO;
    let start = Instant::now();
    let mut reader = match kept {
        Some(kept) => Events::Kept(Box::new(kept.read())),
        // The columns of the asking thread too: reading them costs nothing that can be measured.
        None => Events::Decoded(Prefetch::new(trace.events(Columns::All)?)?),
    };
    let mut moves = Moves::of(trace)?;
    let mut left_out = LeftOut::of(trace);
    let mut hand_over = |state: &mut S, each: Row<'_>| {
        if !left_out.has(each) {
            row(state, each);
        }
    };
    let mut batch = Vec::new();
    loop {
        let before = Instant::now();
        let more = reader.next_batch(&mut batch)?;
        reading += before.elapsed();
        if !more {
            moves.until(u64::MAX, |moved| hand_over(state, Row::Move(moved)))?;
            break;
        }
        for events in batch.chunks(FORESEEN) {
            foresee(state, events);
            for event in events {
                moves.until(event.time_ns, |moved| hand_over(state, Row::Move(moved)))?;
                hand_over(state, Row::Event(event));
            }
        }
        done += batch.len() as u64;
        progress(done, rows);
    }
    Ok(RowsRead { migrated: moves.migrated(trace)?, reading, working: start.elapsed() - reading })
}

/// Reads a trace's moves, if it has any, in the order of time.
struct Moves {
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
    fn of(trace: &Trace) -> Result<Moves, TraceError> {
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
    fn until(&mut self, time: u64, each: impl FnMut(&Move)) -> Result<(), TraceError> {
        if self.due > time { Ok(()) } else { self.take(time, each) }
    }

    /// Returns how many frames the host moved by its own count, after the last row; `None` where the trace does not
    /// say.
    ///
    /// # Errors
    /// When the trace's `vmstat` cannot be read.
    fn migrated(&self, trace: &Trace) -> Result<Option<u64>, TraceError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::{Keeping, Readings};
    use std::path::Path;

    #[test]
    fn every_row_is_foreseen_once_and_before_it_comes_decoded_or_kept() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces/guest-6.1-net.trace");
        let trace = Trace::open(&path).unwrap();
        let mut keeping = Keeping::new(0, Readings::Several);
        let all = events(&trace, None);
        all.iter().for_each(|event| keeping.event(event));
        assert!(all.len() > FORESEEN && all.len() as u64 == trace.rows().unwrap());
        assert_eq!(events(&trace, Some(&keeping.kept().unwrap())), all);
    }

    /// Returns the events of a trace, each of which was foreseen.
    fn events(trace: &Trace, kept: Option<&KeptEvents>) -> Vec<Event> {
        let mut rows = (Vec::new(), 0);
        each_row_foreseen(
            trace,
            kept,
            &mut |_, _| (),
            &mut rows,
            |(foreseen, _), events| foreseen.extend_from_slice(events),
            |(foreseen, seen), row| {
                if let Row::Event(event) = row {
                    assert_eq!(foreseen.get(*seen), Some(event), "event {seen}");
                    *seen += 1;
                }
            },
        )
        .unwrap();
        let (foreseen, seen) = rows;
        assert_eq!(foreseen.len(), seen);
        foreseen
    }
}
