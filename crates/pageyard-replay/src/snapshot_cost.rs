//! What a snapshot of a recorded guest costs, and what the guest wrote to meanwhile.

use crate::error::ReplayError;
use crate::rows::{Row, each_row};
use pageyard::PAGE_SIZE;
use pageyard_trace::contents::{DirtiedDocument, SnapshotCost};
use pageyard_trace::proctext::Buddyinfo;
use pageyard_trace::{EventKind, FAILED, MoveKind, Trace};
use std::collections::HashSet;
use std::time::Duration;

/// Examines the end of a recording, and what each `interval` of it dirtied: a frame that is allocated is taken to be
/// written to, and so is one that another was moved to. `progress` is told how many of how many rows are counted.
///
/// # Errors
/// [`ReplayError::Trace`] where it cannot be read.
pub fn snapshot_cost(
    trace: &Trace,
    interval: Duration,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<SnapshotCost, ReplayError> {
    let meta = trace.meta();
    let (snapshot, when) = match (trace.after()?, trace.before()?) {
        (Some(after), _) => (after, ""),
        (None, Some(before)) => {
            (before, "memory at the end: the recording has a picture of its beginning alone")
        }
        (None, None) => Default::default(),
    };
    let texts = meta.after.as_ref().or(meta.before.as_ref());
    let buddyinfo = Buddyinfo::parse(texts.map_or("", |texts| &texts.buddyinfo))?;
    let mut cost = SnapshotCost::of(&snapshot, &buddyinfo, None);
    if snapshot.runs.is_empty() {
        cost.not_known.push("what memory holds: the recording has no picture of it".to_owned());
    } else if !when.is_empty() {
        cost.not_known.push(when.to_owned());
    }
    cost.not_known.push("which free frames are not zero: a recording has no contents".to_owned());
    if trace.moves()?.is_none() {
        cost.not_known.push("what moves wrote to: they were not recorded".to_owned());
    }
    let each = interval.as_nanos().max(1) as u64;
    let intervals = meta.duration_ns.max(1).div_ceil(each);
    let mut dirtied: Vec<Dirtied> = cost.chunks.iter().map(|c| Dirtied::of(c.bytes / PAGE_SIZE)).collect();
    let mut at = 0;
    each_row(trace, progress, |row| {
        let now = row.time_ns() / each;
        if now != at {
            at = now;
            dirtied.iter_mut().for_each(Dirtied::end_interval);
        }
        let (pfn, order, is_move) = match row {
            Row::Event(event) if event.kind == EventKind::Alloc && event.pfn != FAILED => {
                (event.pfn, event.order, false)
            }
            Row::Move(moved) if moved.kind == MoveKind::Move => (moved.to, moved.order, true),
            _ => return,
        };
        dirtied.iter_mut().for_each(|of| of.add(pfn, 1 << order.min(pageyard_trace::MAX_ORDER), is_move));
    })?;
    dirtied.iter_mut().for_each(Dirtied::end_interval);
    cost.interval_s = Some(interval.as_secs_f64());
    cost.dirtied = dirtied.iter().map(|of| of.document(intervals)).collect();
    Ok(cost)
}

/// The chunks of one size that were written to.
struct Dirtied {
    frames: u64,
    allocated: HashSet<u64>,
    moved_to: HashSet<u64>,
    all: HashSet<u64>,
    /// Added up over intervals.
    by_allocations: u64,
    by_moves: u64,
}

impl Dirtied {
    fn of(frames: u64) -> Dirtied {
        let none = HashSet::new;
        Dirtied { frames, allocated: none(), moved_to: none(), all: none(), by_allocations: 0, by_moves: 0 }
    }

    fn add(&mut self, pfn: u64, frames: u64, is_move: bool) {
        let chunks = pfn / self.frames..=pfn.saturating_add(frames - 1) / self.frames;
        if is_move { self.moved_to.extend(chunks) } else { self.allocated.extend(chunks) }
    }

    fn end_interval(&mut self) {
        self.by_allocations += self.allocated.len() as u64;
        self.by_moves += self.moved_to.difference(&self.allocated).count() as u64;
        self.all.extend(self.allocated.drain());
        self.all.extend(self.moved_to.drain());
    }

    fn document(&self, intervals: u64) -> DirtiedDocument {
        DirtiedDocument {
            bytes: self.frames * PAGE_SIZE,
            by_allocations: self.by_allocations as f64 / intervals as f64,
            by_moves: self.by_moves as f64 / intervals as f64,
            in_all: self.all.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_counts_once_an_interval_and_for_moves_only_where_nothing_was_allocated() {
        let mut huge = Dirtied::of(512);
        huge.add(3, 1, false);
        huge.add(500, 16, false);
        huge.add(513, 1, true);
        huge.add(2048, 1, true);
        huge.end_interval();
        assert_eq!((huge.by_allocations, huge.by_moves), (2, 1));
        huge.add(4, 1, true);
        huge.end_interval();
        let document = huge.document(2);
        assert_eq!((document.by_allocations, document.by_moves, document.in_all), (1.0, 1.0, 3));
    }
}
