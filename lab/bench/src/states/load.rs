//! The load that followed a recorded state: the recording's events, moved to the state's frames.

use super::memory::Places;
use crate::error::BenchError;
use pageyard::{Order, PageblockId, Pfn};
use pageyard_trace::{Columns, Event, FAILED, Meta, Move, MoveKind, MovesWriter, Trace, TraceWriter};
use std::collections::BTreeSet;

/// The load that followed a recorded state.
pub struct Load<'t> {
    trace: &'t Trace,
    places: &'t Places,
}

impl<'t> Load<'t> {
    /// Takes the load of a recording that the state at its start is from.
    #[must_use]
    pub fn of(trace: &'t Trace, places: &'t Places) -> Load<'t> {
        Load { trace, places }
    }

    /// Returns the pageblocks that a recording's events name: they are in use, whatever flags their frames have.
    ///
    /// # Errors
    /// [`BenchError::Trace`] where the recording cannot be read.
    pub fn pageblocks(trace: &Trace) -> Result<BTreeSet<PageblockId>, BenchError> {
        let mut named = BTreeSet::new();
        let mut events = trace.events(Columns::Replay)?;
        let mut batch = Vec::new();
        while events.next_batch(&mut batch)? {
            for event in batch.iter().filter(|e| !e.failed()) {
                let last = event.pfn.saturating_add((1 << event.order) - 1);
                named.extend([Pfn(event.pfn), Pfn(last)].map(Pfn::pageblock));
            }
        }
        Ok(named)
    }

    /// Writes the events and what compaction and migration did. A block of two pageblocks that lie otherwise in the
    /// state is left out.
    ///
    /// # Errors
    /// [`BenchError::Trace`] where the recording cannot be read.
    pub(super) fn write(&self, writer: &mut TraceWriter) -> Result<(), BenchError> {
        let mut events = self.trace.events(Columns::All)?;
        let mut batch = Vec::new();
        while events.next_batch(&mut batch)? {
            for event in &batch {
                if let Some(pfn) = self.place(event.pfn, event.order) {
                    writer.push(&Event { pfn, ..*event })?;
                }
            }
        }
        let mut rows = MovesWriter::default();
        let mut batch = Vec::new();
        let mut moves = self.trace.moves()?;
        while let Some(moves) = &mut moves
            && moves.next_batch(&mut batch)?
        {
            for row in batch.iter().filter_map(|row| self.moved(row)) {
                rows.push(writer, row)?;
            }
        }
        Ok(rows.finish(writer, moves.is_some())?)
    }

    fn place(&self, pfn: u64, order: u8) -> Option<u64> {
        let order = Order::new(order)?;
        if pfn == FAILED {
            Some(pfn)
        } else {
            self.places.block(pfn, order).filter(|at| Pfn(*at).is_aligned(order))
        }
    }

    /// Moves a row about moves to the state's frames.
    fn moved(&self, row: &Move) -> Option<Move> {
        let (pfn, to) = match row.kind {
            MoveKind::Move => (self.place(row.pfn, row.order)?, self.place(row.to, row.order)?),
            _ => (self.places.border(row.pfn), self.places.border(row.to)),
        };
        Some(Move { pfn, to, ..*row })
    }

    /// Describes a recording of the state and this load.
    pub(super) fn meta(&self, state: Meta) -> Meta {
        let host = self.trace.meta();
        Meta {
            cpus: host.cpus,
            duration_ns: host.duration_ns,
            gfp_bits: host.gfp_bits.clone(),
            settings: host.settings.clone(),
            moves_by: host.moves_by.clone(),
            recorder_threads: host.recorder_threads.clone(),
            ..state
        }
    }
}
