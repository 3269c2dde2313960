//! The blocks that the host moved, in step with a trace's events.

use pageyard_trace::{Move, MoveKind, MoveReader, Trace, TraceError};

/// Reads a trace's moves, if it has any, in the order of time.
pub struct Moves {
    reader: Option<MoveReader>,
    batch: Vec<Move>,
    /// How much of the batch was used.
    used: usize,
    /// When the next row is due; never, once there is none.
    due: u64,
}

impl Moves {
    /// Starts reading.
    ///
    /// # Errors
    /// When the trace's file of moves is not one.
    pub fn of(trace: &Trace) -> Result<Moves, TraceError> {
        let reader = trace.moves()?;
        let due = if reader.is_some() { 0 } else { u64::MAX };
        Ok(Moves { reader, batch: Vec::new(), used: 0, due })
    }

    /// Calls `each` with every block that moved up to a time.
    ///
    /// # Errors
    /// At the first row that is damaged or cannot be true.
    #[inline]
    pub fn until(&mut self, time: u64, each: impl FnMut(&Move)) -> Result<(), TraceError> {
        if self.due > time { Ok(()) } else { self.take(time, each) }
    }

    fn take(&mut self, time: u64, mut each: impl FnMut(&Move)) -> Result<(), TraceError> {
        let Some(reader) = &mut self.reader else { return Ok(()) };
        loop {
            while let Some(row) = self.batch.get(self.used) {
                self.due = row.time_ns;
                if row.time_ns > time {
                    return Ok(());
                }
                if row.kind == MoveKind::Move {
                    each(row);
                }
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
