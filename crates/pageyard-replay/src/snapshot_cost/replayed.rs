//! What a snapshot of a recorded guest would cost if an engine had served it.

use super::written::Written;
use crate::bitmap::FrameSet;
use crate::engine::{EngineSpec, ReplayEngine};
use crate::error::ReplayError;
use crate::kept::Readings;
use crate::replay::{Asked, Progress, ReplayObserver, Stage, WORDS, merged, trust};
use crate::rows::Row;
use pageyard::{AllocError, Frames, MemoryMap, Nanos, Order, PAGEBLOCK_ORDER, Pfn};
use pageyard_trace::contents::SnapshotCost;
use pageyard_trace::proctext::{Buddyinfo, BuddyinfoZone};
use pageyard_trace::{FrameKind, Run, Snapshot, Trace};
use std::time::Duration;

/// Replays a recording on an engine, and examines what it holds at the end and what each `interval` dirtied. The
/// engine's lists are taken to be empty: what lies in them is free. `progress` is told what is being done, and how many
/// of how many rows are done.
///
/// # Errors
/// [`ReplayError`]; an engine in a guest cannot be followed.
pub fn snapshot_cost_on(
    trace: &Trace,
    spec: &EngineSpec,
    interval: Duration,
    progress: &mut dyn FnMut(Progress<'_>, u64, u64),
) -> Result<SnapshotCost, ReplayError> {
    if spec.kernel().is_some() {
        return Err(spec.only_replays());
    }
    let stage = Stage::set(trace, None, Readings::One, progress)?;
    let regions = stage.machine.regions();
    let fail = |why| ReplayError::Map { trace: stage.machine.name().to_owned(), why };
    let map = MemoryMap::new(&regions).map_err(fail)?;
    let end = stage.machine.end();
    // Whatever the allocator never has is in use; what it has is, where it is held.
    let mut held = FrameSet::new(end);
    held.insert(Pfn(0), Frames(end.0));
    for region in regions.iter().filter(|region| region.managed) {
        held.remove(region.start, region.frames);
    }
    for (start, frames, is_held) in stage.machine.runs(Pfn(0), end, |start| start.held_as().is_some()) {
        if is_held {
            held.insert(start, frames);
        }
    }
    let mut watch = Watch { held, written: Written::by(interval) };
    let (counts, report) = stage.replay(trace, &map, spec, &mut watch, progress)?;
    let Watch { held, written } = watch;
    let buddyinfo = Buddyinfo { zones: vec![free_blocks(&held, end)] };
    let mut cost = SnapshotCost::of(&at_end(trace, &held, end)?, &buddyinfo, None);
    cost.not_known.push("which free frames are not zero: a replay has no contents".to_owned());
    cost.not_known.push("blocks of order 10: each counts as two of order 9".to_owned());
    if !report.is_sound() {
        cost.not_known.push(format!("whether these figures hold: {} broke its promises", spec.label()));
    }
    let replayed = trust::of_replay(&report, spec, trace, &stage.machine, counts.failed);
    cost.trust = Some(trust::of_recording(trace, &stage.machine)?.replayed(replayed));
    cost.interval_s = Some(interval.as_secs_f64());
    cost.dirtied = written.finish(stage.opening.duration_ns);
    Ok(cost)
}

/// Follows a replay.
struct Watch {
    /// Frames that are in use.
    held: FrameSet,
    written: Written,
}

impl ReplayObserver for Watch {
    fn before<E: ReplayEngine + ?Sized>(&mut self, _: &E, row: &Row<'_>) {
        self.written.until(row.time_ns());
    }

    fn held<E: ReplayEngine + ?Sized>(&mut self, _: &E, at: Pfn, asked: &Asked<'_>) {
        let frames = asked.request.order.frames();
        self.held.insert(at, frames);
        self.written.add(at.0, frames.0, false);
    }

    fn freed(&mut self, at: Pfn, order: Order) {
        self.held.remove(at, order.frames());
    }

    fn moved(&mut self, from: Pfn, to: Pfn, order: Order, _: Nanos) {
        self.held.remove(from, order.frames());
        self.held.insert(to, order.frames());
        self.written.add(to.0, order.frames().0, true);
    }

    fn refused(&mut self, _: &Asked<'_>, _: &AllocError) {}

    fn finish<E: ReplayEngine + ?Sized>(&mut self, _: &E) {}
}

/// Returns the blocks that free frames make, up to those of a pageblock.
fn free_blocks(held: &FrameSet, end: Pfn) -> BuddyinfoZone {
    let mut counts = vec![0; usize::from(PAGEBLOCK_ORDER.get()) + 1];
    let in_all = end.0 as usize / 64;
    // A part of a pageblock at the end of memory is passed over.
    for first in (0..=in_all.saturating_sub(WORDS)).step_by(WORDS) {
        let words: [u64; WORDS] = std::array::from_fn(|i| !held.word(first + i));
        for (sum, n) in counts.iter_mut().zip(merged(&words)) {
            *sum += u64::from(n);
        }
    }
    BuddyinfoZone { node: 0, name: "all zones".to_owned(), counts }
}

/// Returns memory at the end: what is not the allocator's as the recording began, the rest as it is held.
fn at_end(trace: &Trace, held: &FrameSet, end: Pfn) -> Result<Snapshot, ReplayError> {
    let before = trace.before()?.unwrap_or_else(|| Snapshot { runs: vec![run(0, end.0, FrameKind::Free)] });
    let mut runs: Vec<Run> = Vec::new();
    for given in &before.runs {
        if matches!(given.kind, FrameKind::None | FrameKind::Offline | FrameKind::Reserved) {
            runs.push(run(given.pfn, given.frames, given.kind));
            continue;
        }
        for pfn in given.pfn..given.end().min(end.0) {
            let kind = if held.contains(Pfn(pfn)) { FrameKind::Other } else { FrameKind::Free };
            match runs.last_mut() {
                Some(last) if last.kind == kind && last.end() == pfn => last.frames += 1,
                _ => runs.push(run(pfn, 1, kind)),
            }
        }
    }
    Ok(Snapshot { runs })
}

fn run(pfn: u64, frames: u64, kind: FrameKind) -> Run {
    Run { pfn, frames, kind, thp: false, unevictable: false }
}
