//! The host itself as a line of a story: its frames by the recording's own rows.

use super::class::{Class, NONE};
use super::frames::FrameMap;
use super::line::{Counters, Line};
use super::marker::{Marker, MarkerKind};
use super::owners::{Owner, Owners, RecordingIndex};
use crate::rows::Row;
use pageyard::{GfpMap, Migratetype, Order, PageblockId, Pfn, Request};
use pageyard_trace::{Event, EventKind, Move, MoveKind};

/// Follows a recording's rows.
pub struct Recorded<'a> {
    gfp: &'a GfpMap,
    of: RecordingIndex,
    counters: Counters,
    /// The request that came last, and what its frames are: most come in rows.
    last: Option<((u32, i8), Class)>,
    /// The pageblock of the last fallback, until its block is named once more.
    fallback: Option<PageblockId>,
    /// Frees of frames that were not held.
    pub unresolved_frees: u64,
    /// Rows that name frames outside the memory map.
    pub outside: u64,
    /// Frames of moves of which rows name both.
    pub moved: u64,
}

impl<'a> Recorded<'a> {
    /// Begins before the first row of a recording.
    pub fn new(gfp: &'a GfpMap, of: RecordingIndex) -> Recorded<'a> {
        Recorded {
            gfp,
            of,
            counters: Counters::default(),
            last: None,
            fallback: None,
            unresolved_frees: 0,
            outside: 0,
            moved: 0,
        }
    }

    /// Returns the counters, with the frames of the recording's line that are not held.
    pub fn counters(&self, frames: &FrameMap<'_>) -> Counters {
        Counters { free: frames.managed - frames.held_frames, ..self.counters }
    }

    /// Follows a row on the recording's line.
    pub fn row(&mut self, line: &mut Line<'_>, owners: &mut Owners, row: &Row<'_>) {
        match row {
            Row::Event(event) => self.event(line, owners, event),
            Row::Move(row) => self.moved(line, row),
        }
    }

    /// Follows an event.
    fn event(&mut self, line: &mut Line<'_>, owners: &mut Owners, event: &Event) {
        let frames = 1 << event.order.min(10);
        let fallback = self.fallback.take();
        if event.failed() {
            self.counters.failures += 1;
            mark(line, event, MarkerKind::Failure, NONE);
            return;
        }
        if !line.frames.covers(event.pfn, frames) {
            self.outside += 1;
            return;
        }
        let block = Pfn(event.pfn).pageblock();
        match event.kind {
            EventKind::Alloc => self.alloc(line, owners, event),
            EventKind::Free => {
                let held = line.frames.held_frames;
                line.frames.release(event.pfn, frames);
                self.unresolved_frees += u64::from(held == line.frames.held_frames);
            }
            EventKind::AllocExtfrag => {
                self.counters.fallbacks += 1;
                self.fallback = Some(block);
                mark(line, event, MarkerKind::Fallback, number(line, event.pfn));
            }
            // Until 6.9 a block that was taken from another type is named with the type that asked.
            EventKind::AllocZoneLocked if fallback == Some(block) => {}
            EventKind::PcpuDrain | EventKind::AllocZoneLocked => self.typed(line, event, frames),
        }
    }

    fn alloc(&mut self, line: &mut Line<'_>, owners: &mut Owners, event: &Event) {
        let order = Order::new(event.order).unwrap_or_default();
        let class = self.class(event.gfp, event.migratetype);
        let (gfp, context, tid) = (event.gfp, event.context as u8, event.tid);
        let owner = Owner::Asked { gfp, context, tid, of: self.of, class };
        // Where something is held there, its holder gave it up unrecorded: the host allocated it, so it was free.
        line.hold(event.pfn, order, owner, event.time_ns, owners);
    }

    /// Returns what the frames of a request are.
    fn class(&mut self, gfp: u32, migratetype: i8) -> Class {
        if let Some((last, class)) = self.last
            && last == (gfp, migratetype)
        {
            return class;
        }
        let recorded = u8::try_from(migratetype).ok().and_then(Migratetype::from_index);
        let class = Class::of(Request::from_gfp(gfp, self.gfp, Order::ZERO, recorded).migratetype);
        self.last = Some(((gfp, migratetype), class));
        class
    }

    /// Notes what type a row says that a pageblock has.
    fn typed(&mut self, line: &mut Line<'_>, event: &Event, frames: u64) {
        let Some(kind) = u8::try_from(event.migratetype).ok().and_then(Migratetype::from_index) else {
            return;
        };
        for pfn in (event.pfn..event.pfn + frames).step_by(super::class::BLOCK as usize) {
            if let Some(n) = line.layout().number(pfn)
                && line.frames.set_kind(n, kind as u8)
            {
                self.counters.steals += 1;
                mark(line, event, MarkerKind::Steal, n as u32);
            }
        }
    }

    /// Follows a row about compaction.
    fn moved(&mut self, line: &mut Line<'_>, row: &Move) {
        match row.kind {
            MoveKind::Move => {
                let frames = 1 << row.order.min(10);
                self.moved += frames;
                if !line.frames.covers(row.pfn, frames) || !line.frames.covers(row.to, frames) {
                    self.outside += 1;
                } else if row.pfn.abs_diff(row.to) >= frames {
                    let now = line.ticks(row.time_ns);
                    line.frames.relocate(row.pfn, row.to, frames, now);
                }
            }
            MoveKind::CompactBegin => {
                self.counters.compactions += 1;
                let (time_ns, pageblock) = (row.time_ns, number(line, row.pfn));
                let kind = MarkerKind::Compaction;
                let marker =
                    Marker { time_ns, kind, order: u8::MAX, pageblock, thread: row.tid, reason: NONE };
                line.mark(marker);
            }
            _ => {}
        }
    }
}

/// Returns a frame's pageblock as markers name it.
fn number(line: &Line<'_>, pfn: u64) -> u32 {
    line.layout().number(pfn).map_or(NONE, |n| n as u32)
}

fn mark(line: &mut Line<'_>, event: &Event, kind: MarkerKind, pageblock: u32) {
    let (time_ns, order, thread) = (event.time_ns, event.order, event.tid);
    line.mark(Marker { time_ns, kind, order, pageblock, thread, reason: NONE });
}
