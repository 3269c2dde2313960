//! An engine as a line of a story: what a replay does with its frames.

use super::chunk::Chunks;
use super::class::{Class, NOBODY};
use super::frames::FrameMap;
use super::keyframes::Keyframes;
use super::layout::Layout;
use super::line::{Counters, Line, Marker, MarkerKind, Moments, failure_reason};
use super::mark::{Held, Part};
use super::owners::{Owner, Owners};
use super::segments::Segments;
use crate::engine::ReplayEngine;
use crate::replay::{Asked, Watch};
use pageyard::{AllocError, Counter, Order, PAGEBLOCK_ORDER, Pfn, Stats};
use pageyard_trace::FailureReason;
use std::cell::RefCell;

/// Counters that say that a pageblock may have changed its type.
const RETYPED: [Counter; 4] =
    [Counter::Extfrag, Counter::ExtfragClaim, Counter::HighatomicReserve, Counter::HighatomicUnreserve];

/// What a line begins with.
pub struct Begin<'a> {
    /// The numbered pageblocks.
    pub layout: &'a Layout,
    /// The opening state.
    pub frames: FrameMap<'a>,
    /// How time is cut.
    pub moments: Moments,
}

/// Follows a replay.
pub struct Replayed<'a, 'o> {
    /// The line; none until the engine has opened.
    pub line: Option<Line<'a>>,
    begin: Option<Begin<'a>>,
    owners: &'o mut Owners,
    keyframes: &'o mut Keyframes<'a>,
    chunks: &'a RefCell<Chunks>,
    /// Where changes go, once the engine has opened.
    pub segments: Option<Segments<'a>>,
    refused: u64,
    retyped: [u64; 4],
}

impl<'a, 'o> Replayed<'a, 'o> {
    /// Follows a replay.
    pub fn new(
        begin: Begin<'a>,
        owners: &'o mut Owners,
        keyframes: &'o mut Keyframes<'a>,
        chunks: &'a RefCell<Chunks>,
    ) -> Replayed<'a, 'o> {
        Replayed {
            line: None,
            begin: Some(begin),
            owners,
            keyframes,
            chunks,
            segments: None,
            refused: 0,
            retyped: [0; 4],
        }
    }

    /// Begins the line with what the engine makes of the opening state.
    fn begin<E: ReplayEngine + ?Sized>(&mut self, engine: &E, begin: Begin<'a>) {
        let Begin { layout, mut frames, moments } = begin;
        for n in 0..layout.len() {
            if let Some(kind) = engine.pageblock_migratetype(layout.id(n)) {
                frames.set_kind(n, kind as u8);
            }
        }
        let stats = engine.stats();
        self.retyped = RETYPED.map(|counter| stats[counter]);
        let (free, cached) = free_and_cached(engine, &frames);
        let line = Line::begin(layout, frames, moments, self.counters(&stats, free, cached));
        self.segments = Some(Segments::begin(self.chunks, &line.states));
        self.line = Some(line);
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
        let Some(line) = &mut self.line else { return };
        let retyped = RETYPED.map(|counter| stats[counter]);
        if retyped != self.retyped {
            self.retyped = retyped;
            (0..line.layout().len()).for_each(|n| retype(engine, line, n, line.due()));
        }
        let (free, cached) = free_and_cached(engine, &line.frames);
        let counters = self.counters(&stats, free, cached);
        if let (Some(line), Some(segments)) = (&mut self.line, &mut self.segments) {
            line.end(counters, segments);
            self.keyframes.see(line);
        }
    }
}

/// Returns the engine's free frames and those in lists; an engine that does not say has what nobody holds.
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
        line.mark(Marker { time_ns, kind, order: u8::MAX, pageblock, thread: NOBODY, reason: NOBODY });
    }
}

impl Watch for Replayed<'_, '_> {
    fn until<E: ReplayEngine + ?Sized>(&mut self, engine: &E, now: u64) {
        if let Some(begin) = self.begin.take() {
            self.begin(engine, begin);
        }
        while self.line.as_ref().is_some_and(|line| line.is_due(now)) {
            self.end(engine);
        }
    }

    fn held<E: ReplayEngine + ?Sized>(&mut self, engine: &E, at: Pfn, asked: &Asked<'_>) {
        let Some(line) = &mut self.line else { return };
        let (order, class) = (asked.request.order, Class::of(asked.request.migratetype));
        let time_ns = asked.cx.now.0;
        let now = line.ticks(time_ns);
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
                line.mark(Marker { time_ns, kind, order, pageblock, thread, reason: NOBODY });
            }
        }
        let context = asked.cx.context as u8;
        let owner = || Owner::Asked { gfp: asked.gfp, context, tid: asked.tid, class };
        let owner = if class.spoils() { self.owners.number(owner()) } else { NOBODY };
        let held = Held { owner, since: now };
        line.frames.hold(Part { pfn: at.0, frames: order.frames().0, class, order: order.get(), held }, now);
    }

    fn freed(&mut self, at: Pfn, order: Order) {
        if let Some(line) = &mut self.line {
            line.frames.release(at.0, order.frames().0);
        }
    }

    fn refused(&mut self, asked: &Asked<'_>, why: &AllocError) {
        self.refused += 1;
        if let Some(line) = &mut self.line {
            let (time_ns, order, thread) = (asked.cx.now.0, asked.request.order.get(), asked.tid);
            let (kind, reason) = (MarkerKind::Failure, failure_reason(FailureReason::from(why)));
            line.mark(Marker { time_ns, kind, order, pageblock: NOBODY, thread, reason });
        }
    }

    fn finish<E: ReplayEngine + ?Sized>(&mut self, engine: &E) {
        self.until(engine, 0);
        while self.line.as_ref().is_some_and(|line| line.moment() < line.moments.count) {
            self.end(engine);
        }
    }
}
