//! Which blocks the host's reclaim freed: what a thread frees between the rows that say that it reclaims.

use crate::rows::Row;
use pageyard::{Context, Order, Pfn};
use pageyard_trace::{Event, EventKind, FAILED, MoveKind, Trace, TraceError};
use std::collections::HashSet;

/// A frame that holds nothing that a row could have freed.
const NOTHING: u32 = u32::MAX;

/// Blocks that are remembered, at 24 bytes each: those after them are freed when their rows come.
const MOST: usize = 4 << 20;

/// A block that reclaim freed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reclaimed {
    /// When, in nanoseconds of the recording.
    pub time_ns: u64,
    pub pfn: u32,
    /// The number of the event after which the block held what was freed: of its allocation, or the last before it
    /// moved here. 0 for the opening state.
    pub since: u32,
    pub order: Order,
}

/// Follows who reclaims, and since when each frame holds what it does.
pub(super) struct Reclaim {
    /// Threads that reclaim.
    at_work: HashSet<u32>,
    since: Vec<u32>,
    events: u32,
    found: Vec<Reclaimed>,
}

impl Reclaim {
    /// Begins before the first row of a trace whose frames end at `end`; `None` where no row says who reclaims.
    ///
    /// # Errors
    /// When the trace's moves cannot be read.
    pub fn of(trace: &Trace, end: Pfn) -> Result<Option<Reclaim>, TraceError> {
        let Some(mut moves) = trace.moves()? else { return Ok(None) };
        let mut batch = Vec::new();
        while moves.next_batch(&mut batch)? {
            if batch.iter().any(|row| row.kind == MoveKind::ReclaimBegin) {
                let since = vec![0; end.0 as usize];
                return Ok(Some(Reclaim { at_work: HashSet::new(), since, events: 0, found: Vec::new() }));
            }
        }
        Ok(None)
    }

    /// Takes in the next row.
    pub fn row(&mut self, row: &Row<'_>) {
        match row {
            Row::Event(event) => self.event(event),
            Row::Move(row) => match row.kind {
                MoveKind::ReclaimBegin => _ = self.at_work.insert(row.tid),
                MoveKind::ReclaimEnd => _ = self.at_work.remove(&row.tid),
                MoveKind::Move => {
                    self.set(row.pfn, row.order, NOTHING);
                    self.set(row.to, row.order, self.events);
                }
                _ => {}
            },
        }
    }

    fn event(&mut self, event: &Event) {
        self.events = self.events.saturating_add(1);
        match event.kind {
            EventKind::Alloc if event.pfn != FAILED => self.set(event.pfn, event.order, self.events),
            EventKind::Free => {
                if event.context == Context::Task && self.at_work.contains(&event.tid) {
                    self.freed(event);
                }
                self.set(event.pfn, event.order, NOTHING);
            }
            _ => {}
        }
    }

    fn freed(&mut self, event: &Event) {
        let Some(order) = Order::new(event.order) else { return };
        let since = self.frames(event.pfn, event.order).iter().copied().max();
        if let Some(since) = since.filter(|since| *since != NOTHING && self.found.len() < MOST) {
            self.found.push(Reclaimed { time_ns: event.time_ns, pfn: event.pfn as u32, since, order });
        }
    }

    fn set(&mut self, pfn: u64, order: u8, since: u32) {
        self.frames(pfn, order).fill(since);
    }

    /// Returns the entries of a block's frames; none where it reaches beyond the machine.
    fn frames(&mut self, pfn: u64, order: u8) -> &mut [u32] {
        let end = pfn.checked_add(1 << order).filter(|end| *end <= self.since.len() as u64);
        match end {
            Some(end) => &mut self.since[pfn as usize..end as usize],
            None => &mut [],
        }
    }

    /// Returns the blocks that reclaim freed, in order of time.
    pub fn found(self) -> Vec<Reclaimed> {
        self.found
    }
}
