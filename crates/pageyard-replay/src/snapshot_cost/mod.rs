//! What a snapshot of a recorded guest costs, and what the guest wrote to meanwhile.

mod replayed;
mod written;

pub use replayed::snapshot_cost_on;

use crate::error::ReplayError;
use crate::rows::{Row, each_row};
use pageyard_trace::contents::SnapshotCost;
use pageyard_trace::proctext::Buddyinfo;
use pageyard_trace::{EventKind, FAILED, MoveKind, Trace, Trust};
use std::time::Duration;
use written::Written;

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
    cost.trust = Some(Trust::of(meta, trace.rows()?).opened(trace.before()?.is_some()));
    let mut written = Written::by(interval);
    each_row(trace, progress, |row| {
        written.until(row.time_ns());
        let (pfn, order, is_move) = match row {
            Row::Event(event) if event.kind == EventKind::Alloc && event.pfn != FAILED => {
                (event.pfn, event.order, false)
            }
            Row::Move(moved) if moved.kind == MoveKind::Move => (moved.to, moved.order, true),
            _ => return,
        };
        written.add(pfn, 1 << order.min(pageyard_trace::MAX_ORDER), is_move);
    })?;
    cost.interval_s = Some(interval.as_secs_f64());
    cost.dirtied = written.finish(meta.duration_ns);
    Ok(cost)
}
