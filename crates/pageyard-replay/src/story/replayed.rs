//! An engine as a line of a story: what a replay does with its frames.

use super::chunk::Chunks;
use super::class::{Class, NONE};
use super::frames::FrameMap;
use super::host::Host;
use super::keyframes::Keyframes;
use super::layout::Layout;
use super::line::{Counters, Line};
use super::marker::{Marker, MarkerKind, failure_reason};
use super::moments::Moments;
use super::owners::{Owner, Owners, RecordingIndex};
use super::telling::Telling;
use crate::engine::ReplayEngine;
use crate::replay::{Asked, ReplayObserver};
use crate::rows::Row;
use pageyard::{AllocError, Counter, Nanos, Order, PAGEBLOCK_ORDER, Pfn, Stats};
use pageyard_trace::FailureReason;
use std::cell::RefCell;

/// Counters that say that a pageblock may have changed its type.
const RETYPED: [Counter; 4] =
    [Counter::Extfrag, Counter::ExtfragClaim, Counter::HighatomicReserve, Counter::HighatomicUnreserve];

/// The opening of a line.
pub struct Begin<'a> {
    /// The numbered pageblocks.
    pub layout: &'a Layout,
    /// The opening state.
    pub frames: FrameMap<'a>,
    /// How time is cut.
    pub moments: Moments,
    /// Where the line is packed.
    pub chunks: &'a RefCell<Chunks>,
    /// The host's, which say when to take these.
    pub keyframes: Keyframes<'a>,
}

/// Follows a replay.
pub struct Replayed<'a, 'o> {
    /// The line; none until the engine has opened.
    pub telling: Option<Telling<'a>>,
    begin: Option<Begin<'a>>,
    /// The host's own line, where the same rows tell that too.
    pub host: Option<Host<'a>>,
    owners: &'o mut Owners,
    refused: u64,
    retyped: [u64; 4],
}

impl<'a, 'o> Replayed<'a, 'o> {
    /// Follows a replay, and the recording itself on `host`.
    pub fn new(begin: Begin<'a>, host: Option<Host<'a>>, owners: &'o mut Owners) -> Replayed<'a, 'o> {
        Replayed { telling: None, begin: Some(begin), host, owners, refused: 0, retyped: [0; 4] }
    }

    /// Begins the line with what the engine makes of the opening state.
    fn begin<E: ReplayEngine + ?Sized>(&mut self, engine: &E, begin: Begin<'a>) {
        let Begin { layout, mut frames, moments, chunks, keyframes } = begin;
        for n in 0..layout.len() {
            if let Some(kind) = engine.pageblock_migratetype(layout.id(n)) {
                frames.set_kind(n, kind as u8);
            }
        }
        let stats = engine.stats();
        self.retyped = RETYPED.map(|counter| stats[counter]);
        let (free, cached) = free_and_cached(engine, &frames);
        let line = Line::begin(layout, frames, moments, self.counters(&stats, free, cached));
        self.telling = Some(Telling::begin(line, chunks, Some(&keyframes)));
    }

    fn counters(&self, stats: &Stats, free: u64, cached: u64) -> Counters {
        Counters {
            free: free + cached,
            cached,
            failures: self.refused,
            fallbacks: stats[Counter::Extfrag],
            steals: stats[Counter::ExtfragClaim],
            compactions: stats[Counter::CompactStall] + stats[Counter::CompactDaemonWake],
        }
    }

    /// Ends a moment of a line that has begun.
    fn end<E: ReplayEngine + ?Sized>(&mut self, engine: &E) {
        let stats = engine.stats();
        let Some(Telling { line, .. }) = &mut self.telling else { return };
        let retyped = RETYPED.map(|counter| stats[counter]);
        if retyped != self.retyped {
            self.retyped = retyped;
            (0..line.layout().len()).for_each(|n| retype(engine, line, n, line.due()));
        }
        let (free, cached) = free_and_cached(engine, &line.frames);
        let counters = self.counters(&stats, free, cached);
        let halves = self.host.as_mut().is_some_and(Host::end);
        if let Some(telling) = &mut self.telling {
            telling.end(counters);
            if halves {
                telling.halve();
            }
        }
    }

    fn until<E: ReplayEngine + ?Sized>(&mut self, engine: &E, now: u64) {
        if let Some(begin) = self.begin.take() {
            self.begin(engine, begin);
        }
        while self.telling.as_ref().is_some_and(|telling| telling.line.is_due(now)) {
            self.end(engine);
        }
    }
}

/// Returns the engine's free frames and those in lists; an engine that does not say has what is not held.
fn free_and_cached<E: ReplayEngine + ?Sized>(engine: &E, frames: &FrameMap<'_>) -> (u64, u64) {
    let unheld = frames.managed - frames.held_frames;
    engine.free_and_cached().map_or((unheld, 0), |(free, cached)| (free.0, cached.0))
}

/// Asks the engine for a pageblock's type.
fn retype<E: ReplayEngine + ?Sized>(engine: &E, line: &mut Line<'_>, n: usize, time_ns: u64) {
    let kind = engine.pageblock_migratetype(line.layout().id(n));
    if let Some(kind) = kind
        && line.frames.set_kind(n, kind as u8)
    {
        let (kind, pageblock) = (MarkerKind::Steal, n as u32);
        line.mark(Marker { time_ns, kind, order: u8::MAX, pageblock, thread: NONE, reason: NONE });
    }
}

impl ReplayObserver for Replayed<'_, '_> {
    fn before<E: ReplayEngine + ?Sized>(&mut self, engine: &E, row: &Row<'_>) {
        self.until(engine, row.time_ns());
        if let Some(host) = &mut self.host {
            host.row(self.owners, row);
        }
    }

    fn held<E: ReplayEngine + ?Sized>(&mut self, engine: &E, at: Pfn, asked: &Asked<'_>) {
        let Some(Telling { line, .. }) = &mut self.telling else { return };
        let (order, class) = (asked.request.order, Class::of(asked.request.migratetype));
        let time_ns = asked.cx.now.0;
        if let Some(n) = line.layout().number(at.0) {
            retype(engine, line, n, time_ns);
            if order > PAGEBLOCK_ORDER
                && let Some(next) = line.layout().number(at.0 + super::class::BLOCK)
            {
                retype(engine, line, next, time_ns);
            }
            if !class.belongs(line.frames.kind(n)) {
                let (kind, pageblock, thread) = (MarkerKind::Fallback, n as u32, asked.tid);
                let order = order.get();
                line.mark(Marker { time_ns, kind, order, pageblock, thread, reason: NONE });
            }
        }
        let context = asked.cx.context as u8;
        let of = RecordingIndex::default();
        let owner = Owner::Asked { gfp: asked.gfp, context, tid: asked.tid, of, class };
        line.hold(at.0, order, owner, time_ns, self.owners);
    }

    fn freed(&mut self, at: Pfn, order: Order) {
        if let Some(Telling { line, .. }) = &mut self.telling {
            line.frames.release(at.0, order.frames().0);
        }
    }

    fn moved(&mut self, from: Pfn, to: Pfn, order: Order, now: Nanos) {
        if let Some(Telling { line, .. }) = &mut self.telling {
            let now = line.ticks(now.0);
            line.frames.relocate(from.0, to.0, order.frames().0, now);
        }
    }

    fn refused(&mut self, asked: &Asked<'_>, why: &AllocError) {
        self.refused += 1;
        if let Some(Telling { line, .. }) = &mut self.telling {
            let (time_ns, order, thread) = (asked.cx.now.0, asked.request.order.get(), asked.tid);
            let (kind, reason) = (MarkerKind::Failure, failure_reason(FailureReason::from(why)));
            line.mark(Marker { time_ns, kind, order, pageblock: NONE, thread, reason });
        }
    }

    fn finish<E: ReplayEngine + ?Sized>(&mut self, engine: &E) {
        self.until(engine, 0);
        while self.telling.as_ref().is_some_and(|Telling { line, .. }| line.moment() < line.moments.count) {
            self.end(engine);
        }
    }
}
