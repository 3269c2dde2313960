//! From a trace's snapshot and `zoneinfo` to zones and the state of each frame.

use super::{DEFAULT_ZONES, Machine, Start, ZoneRecord};
use crate::error::ReplayError;
use pageyard::watermark::{Watermarks, default_min_free_kbytes, watermarks};
use pageyard::{Frames, MemoryMap, NodeId, Pfn, ZoneKind, ZoneSpan};
use pageyard_linux::config::ZoneMarks;
use pageyard_trace::proctext::{Zoneinfo, ZoneinfoZone};
use pageyard_trace::{Columns, Event, FAILED, FrameKind, Run, Snapshot, Trace};

/// Frames of a pageblock, and of a memory section, in which Linux adds memory.
const PAGEBLOCK: u64 = 512;
const SECTION: u64 = 1 << 15;

/// Returns the recorded zones that span frames, lowest first, or Linux's usual ones up to `end`.
pub(super) fn zones(zoneinfo: Option<&Zoneinfo>, end: Pfn) -> Vec<ZoneRecord> {
    let recorded = zoneinfo.into_iter().flat_map(|z| &z.zones).filter_map(|z| {
        let kind = ZoneKind::from_name(&z.name)?;
        let start = z.start_pfn?;
        let last = start.checked_add(z.spanned)?.min(end.0);
        (z.spanned > 0 && start < last).then_some(ZoneRecord {
            node: NodeId(z.node),
            kind,
            start: Pfn(start),
            end: Pfn(last),
        })
    });
    let mut zones: Vec<_> = recorded.collect();
    zones.sort_by_key(|z| z.start);
    // Overlapping zones cannot be told apart by frame number; a text with such zones is useless.
    if zones.windows(2).any(|w| w[0].end > w[1].start) {
        zones.clear();
    }
    if zones.is_empty() {
        let mut start = 0;
        for (kind, limit) in DEFAULT_ZONES {
            let last = limit.min(end.0);
            if start < last {
                zones.push(ZoneRecord { node: NodeId(0), kind, start: Pfn(start), end: Pfn(last) });
            }
            start = start.max(last);
        }
    }
    zones
}

/// Finds the end of memory in a trace without a snapshot: after the highest block that an event names.
pub(super) fn highest_frame(trace: &Trace, progress: &mut dyn FnMut(u64, u64)) -> Result<u64, ReplayError> {
    let rows = trace.rows()?;
    let mut reader = trace.events(Columns::Replay)?;
    let mut batch: Vec<Event> = Vec::new();
    let (mut end, mut done) = (0, 0);
    while reader.next_batch(&mut batch)? {
        let ends = batch.iter().filter(|e| e.pfn != FAILED).map(|e| e.pfn.saturating_add(1 << e.order));
        end = ends.fold(end, u64::max);
        done += batch.len() as u64;
        progress(done, rows);
    }
    // A pageblock is there as a whole.
    Ok(end.next_multiple_of(512))
}

/// Records each frame's state from the snapshot, zone by zone.
pub(super) fn lay_out(machine: &mut Machine, snapshot: &Snapshot) {
    for run in &snapshot.runs {
        if run.kind == FrameKind::Other {
            machine.unknown.insert(Pfn(run.pfn), Frames(run.frames));
        }
        for block in run.pfn / 512..(run.pfn + run.frames).div_ceil(512) {
            let within = (run.pfn + run.frames).min((block + 1) * 512) - run.pfn.max(block * 512);
            machine.kernel_frames[block as usize].add(run.kind, within as u16);
        }
    }
    for zone in machine.zones.clone() {
        let runs: Vec<Run> = snapshot.runs.iter().filter_map(|r| clip(r, &zone)).collect();
        let away = taken_away(machine, &zone, &runs);
        for run in &runs {
            let state = match run.kind {
                FrameKind::None => Start::Hole,
                FrameKind::Reserved | FrameKind::Offline => Start::Unmanaged,
                FrameKind::Free => Start::Free,
                FrameKind::File if !run.unevictable => Start::HeldCache,
                FrameKind::Anon | FrameKind::File => Start::HeldMovable,
                _ => Start::Held,
            };
            machine.start[run.pfn as usize..(run.pfn + run.frames) as usize].fill(state);
        }
        for gone in &away {
            machine.start[gone.pfn as usize..(gone.pfn + gone.frames) as usize].fill(gone.state);
        }
    }
}

/// Cuts a run to a zone.
fn clip(run: &Run, zone: &ZoneRecord) -> Option<Run> {
    let start = run.pfn.max(zone.start.0);
    let end = (run.pfn + run.frames).min(zone.end.0);
    (start < end).then(|| Run { pfn: start, frames: end - start, ..*run })
}

/// Frames without a flag that the zone does not manage.
struct Gone {
    pfn: u64,
    frames: u64,
    state: Start,
}

/// Finds the runs of unknown frames that are holes, or that the host has taken away.
///
/// `/proc/kpageflags` shows a hole, memory given back to a hypervisor and kernel memory alike: without a flag. The zone
/// says how many frames are present and how many it manages; the longest unknown runs that make up the difference are
/// taken to be missing. Where they do not match, kernel memory lies beside missing memory and forms one run with it;
/// then the part that starts at a unit of memory hotplug is taken to be missing.
fn taken_away(machine: &mut Machine, zone: &ZoneRecord, runs: &[Run]) -> Vec<Gone> {
    let record = machine
        .zoneinfo
        .as_ref()
        .and_then(|z| z.zones.iter().find(|r| r.node == zone.node.0 && r.name == zone.kind.name()));
    let Some((present, managed)) = record.map(|r| (r.present, r.managed)) else { return Vec::new() };
    let count = |of: &dyn Fn(FrameKind) -> bool| -> u64 {
        runs.iter().filter(|r| of(r.kind)).map(|r| r.frames).sum()
    };
    let exists = count(&|k| k != FrameKind::None);
    let usable = count(&|k| !matches!(k, FrameKind::None | FrameKind::Reserved | FrameKind::Offline));
    let mut unknown: Vec<&Run> = runs.iter().filter(|r| r.kind == FrameKind::Other).collect();
    unknown.sort_by_key(|r| (std::cmp::Reverse(r.frames), r.pfn));
    let mut absent = exists.saturating_sub(present);
    let unmanaged = usable.saturating_sub(managed).saturating_sub(absent);
    let mut missing = unmanaged;
    let mut away = Vec::new();
    for run in &unknown {
        if run.frames <= absent {
            absent -= run.frames;
            away.push(Gone { pfn: run.pfn, frames: run.frames, state: Start::Hole });
        } else if run.frames <= missing {
            missing -= run.frames;
            away.push(Gone { pfn: run.pfn, frames: run.frames, state: Start::Unmanaged });
        }
    }
    let is_hole = |run: &Run| away.iter().any(|g: &Gone| g.state == Start::Hole && g.pfn == run.pfn);
    let mut present_runs = unknown.iter().filter(|run| !is_hole(run));
    if missing > unmanaged / 2
        && let Some(pfn) = present_runs.find_map(|run| plugged_part(run, unmanaged))
    {
        away.retain(|gone| gone.state == Start::Hole);
        away.push(Gone { pfn, frames: unmanaged, state: Start::Unmanaged });
    }
    let found = usable - away.iter().map(|gone| gone.frames).sum::<u64>();
    machine.managed_mismatch += found.abs_diff(managed);
    away
}

/// Finds this many frames within a run, from the start of a memory section (128 MiB) or else of a pageblock: hosts
/// remove memory in such pieces.
fn plugged_part(run: &Run, frames: u64) -> Option<u64> {
    [SECTION, PAGEBLOCK]
        .into_iter()
        .map(|unit| run.pfn.next_multiple_of(unit))
        .find(|start| start + frames <= run.pfn + run.frames)
}

impl Machine {
    /// Returns the recorded paragraph of a zone.
    fn recorded(&self, node: NodeId, kind: ZoneKind) -> Option<&ZoneinfoZone> {
        let zones = &self.zoneinfo.as_ref()?.zones;
        zones.iter().find(|z| z.node == node.0 && z.name == kind.name())
    }

    /// Returns the recorded watermarks of the zones, without those that were not recorded or cannot be.
    pub(super) fn zone_marks(&self) -> Vec<ZoneMarks> {
        let marks = |zone: &ZoneRecord| {
            let frames = zone.end.0 - zone.start.0;
            let possible = |z: &&ZoneinfoZone| z.min <= z.low && z.low <= z.high && z.high <= frames;
            let recorded = self.recorded(zone.node, zone.kind).filter(|z| z.high > 0).filter(possible)?;
            let bare = |mark: u64| Frames(mark.saturating_sub(recorded.boost));
            let (low, high) = (bare(recorded.low), bare(recorded.high));
            let promo = high + (high - low);
            let marks = Watermarks { min: bare(recorded.min), low, high, promo };
            Some(ZoneMarks { node: zone.node, kind: zone.kind, marks })
        };
        self.zones.iter().filter_map(marks).collect()
    }

    /// Returns how many frames lie between the zones' low and high watermarks, all together; 0 where they were not
    /// recorded.
    pub(crate) fn frames_from_low_to_high(&self) -> u64 {
        self.zone_marks().iter().map(|zone| zone.marks.high.0 - zone.marks.low.0).sum()
    }

    /// Finds `vm.min_free_kbytes` from the recorded watermarks, where it differs from what Linux computes by default.
    pub(super) fn infer_min_free_kbytes(&self) -> Option<u64> {
        let regions = self.regions();
        let map = MemoryMap::new(&regions).ok()?;
        let spans: Vec<ZoneSpan> = map.zones().map(|(_, s)| s).collect();
        let lowmem: Frames = spans.iter().filter(|s| s.kind <= ZoneKind::Normal).map(|s| s.managed).sum();
        let default = default_min_free_kbytes(spans.iter().copied(), true);
        let largest = spans.iter().filter(|s| s.kind <= ZoneKind::Normal).max_by_key(|s| s.managed)?;
        let recorded = self.recorded(largest.node, largest.kind)?;
        let min = recorded.min.saturating_sub(recorded.boost);
        if watermarks(largest, lowmem, default, 10).min.0 == min || largest.managed.0 == 0 {
            return None;
        }
        let frames = (u128::from(min) * u128::from(lowmem.0)).div_ceil(u128::from(largest.managed.0));
        u64::try_from(frames).ok()?.checked_mul(4).filter(|kib| *kib <= 1 << 34)
    }
}
