//! The host itself as a line of a story: its frames by the recording's own rows.

use super::class::{Class, NOBODY};
use super::frames::FrameMap;
use super::line::{Counters, Line, Marker, MarkerKind};
use super::mark::{Held, Part};
use super::owners::{Owner, Owners};
use crate::replay::Row;
use pageyard::{GfpMap, Migratetype, Order, PageblockId, Pfn, Request};
use pageyard_trace::{Event, EventKind, Move, MoveKind};

/// Follows a recording's rows.
pub struct Recorded<'a, 'o> {
    /// The line.
    pub line: Line<'a>,
    owners: &'o mut Owners,
    gfp: &'a GfpMap,
    counters: Counters,
    /// The pageblock of the last fallback, until its block is named once more.
    fallback: Option<PageblockId>,
    /// Frees of frames that nobody held.
    pub unresolved_frees: u64,
    /// Rows that name frames outside the memory map.
    pub outside: u64,
    /// Frames of moves of which rows name both.
    pub moved: u64,
}

impl<'a, 'o> Recorded<'a, 'o> {
    /// Begins with the opening state.
    pub fn begin(line: Line<'a>, owners: &'o mut Owners, gfp: &'a GfpMap) -> Recorded<'a, 'o> {
        let counters = Counters::default();
        Recorded { line, owners, gfp, counters, fallback: None, unresolved_frees: 0, outside: 0, moved: 0 }
    }

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        Recorded::counted(&self.line.frames, self.counters)
    }

    /// Returns counters with the frames that nobody holds.
    pub fn counted(frames: &FrameMap<'_>, counters: Counters) -> Counters {
        Counters { free: frames.managed - frames.held_frames, ..counters }
    }

    /// Follows a row.
    pub fn row(&mut self, row: Row<'_>) {
        match row {
            Row::Event(event) => self.event(event),
            Row::Move(row) => self.moved(row),
        }
    }

    /// Follows an event.
    fn event(&mut self, event: &Event) {
        let frames = 1 << event.order.min(10);
        let fallback = self.fallback.take();
        if event.failed() {
            self.counters.failures += 1;
            self.mark(event, MarkerKind::Failure, NOBODY);
            return;
        }
        if !self.line.frames.covers(event.pfn, frames) {
            self.outside += 1;
            return;
        }
        let block = Pfn(event.pfn).pageblock();
        match event.kind {
            EventKind::Alloc => self.alloc(event, frames),
            EventKind::Free => {
                let held = self.line.frames.held_frames;
                self.line.frames.release(event.pfn, frames);
                self.unresolved_frees += u64::from(held == self.line.frames.held_frames);
            }
            EventKind::AllocExtfrag => {
                self.counters.fallbacks += 1;
                self.fallback = Some(block);
                self.mark(event, MarkerKind::Fallback, self.number(event.pfn));
            }
            // Until 6.9 a block that was taken from another type is named with the type that asked.
            EventKind::AllocZoneLocked if fallback == Some(block) => {}
            EventKind::PcpuDrain | EventKind::AllocZoneLocked => self.typed(event, frames),
        }
    }

    fn number(&self, pfn: u64) -> u32 {
        self.line.layout().number(pfn).map_or(NOBODY, |n| n as u32)
    }

    fn mark(&mut self, event: &Event, kind: MarkerKind, pageblock: u32) {
        let (time_ns, order, thread) = (event.time_ns, event.order, event.tid);
        self.line.mark(Marker { time_ns, kind, order, pageblock, thread, reason: NOBODY });
    }

    fn alloc(&mut self, event: &Event, frames: u64) {
        // The host allocated it, so it was free: its holder here gave it up unrecorded.
        if self.line.frames.taken(event.pfn, frames) > 0 {
            self.line.frames.release(event.pfn, frames);
        }
        let recorded = u8::try_from(event.migratetype).ok().and_then(Migratetype::from_index);
        let order = Order::new(event.order).unwrap_or_default();
        let class = Class::of(Request::from_gfp(event.gfp, self.gfp, order, recorded).migratetype);
        let now = self.line.ticks(event.time_ns);
        let owner = || Owner::Asked { gfp: event.gfp, context: event.context as u8, tid: event.tid, class };
        let owner = if class.spoils() { self.owners.number(owner()) } else { NOBODY };
        let held = Held { owner, since: now };
        self.line.frames.hold(Part { pfn: event.pfn, frames, class, order: event.order, held }, now);
    }

    /// Notes what type a row says that a pageblock has.
    fn typed(&mut self, event: &Event, frames: u64) {
        let Some(kind) = u8::try_from(event.migratetype).ok().and_then(Migratetype::from_index) else {
            return;
        };
        for pfn in (event.pfn..event.pfn + frames).step_by(super::class::BLOCK as usize) {
            if let Some(n) = self.line.layout().number(pfn)
                && self.line.frames.set_kind(n, kind as u8)
            {
                self.counters.steals += 1;
                self.mark(event, MarkerKind::Steal, n as u32);
            }
        }
    }

    /// Follows a row about compaction.
    fn moved(&mut self, row: &Move) {
        match row.kind {
            MoveKind::Move => {
                let frames = 1 << row.order.min(10);
                self.moved += frames;
                if !self.line.frames.covers(row.pfn, frames) || !self.line.frames.covers(row.to, frames) {
                    self.outside += 1;
                } else if row.pfn.abs_diff(row.to) >= frames {
                    let now = self.line.ticks(row.time_ns);
                    self.line.frames.relocate(row.pfn, row.to, frames, now);
                }
            }
            MoveKind::CompactBegin => {
                self.counters.compactions += 1;
                let (time_ns, pageblock) = (row.time_ns, self.number(row.pfn));
                let kind = MarkerKind::Compaction;
                let marker =
                    Marker { time_ns, kind, order: u8::MAX, pageblock, thread: row.tid, reason: NOBODY };
                self.line.mark(marker);
            }
            _ => {}
        }
    }
}
