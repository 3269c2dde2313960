//! Calls made at once, on the thread that reads the rows: a deterministic replay.

use super::failures::Failures;
use super::refusals::{Asked, OnHost, Refusals};
use super::walk::Calls;
use crate::bitmap::FrameSet;
use crate::engine::ReplayEngine;
use crate::latency::Latencies;
use crate::ledger::{Ledger, Stand};
use crate::machine::Machine;
use crate::rows::Row;
use pageyard::{AllocError, CpuId, CpuSet, Cx, FreeError, Migratetype, Nanos, Order, Pfn, Request};
use pageyard_trace::Event;

/// Is told what a replay on one thread does with an engine's frames. `()` ignores everything and costs nothing.
pub trait ReplayObserver {
    /// A row is about to be replayed, and all before it were.
    fn before<E: ReplayEngine + ?Sized>(&mut self, engine: &E, row: &Row<'_>);

    /// The block at `at` stands for what was asked for.
    fn held<E: ReplayEngine + ?Sized>(&mut self, engine: &E, at: Pfn, asked: &Asked<'_>);

    /// A block stands for nothing any more.
    fn freed(&mut self, at: Pfn, order: Order);

    /// The contents of a block are in another block now.
    fn moved(&mut self, from: Pfn, to: Pfn, order: Order, now: Nanos);

    /// A request was refused.
    fn refused(&mut self, asked: &Asked<'_>, why: &AllocError);

    /// All rows were replayed.
    fn finish<E: ReplayEngine + ?Sized>(&mut self, engine: &E);
}

impl ReplayObserver for () {
    #[inline(always)]
    fn before<E: ReplayEngine + ?Sized>(&mut self, _: &E, _: &Row<'_>) {}

    #[inline(always)]
    fn held<E: ReplayEngine + ?Sized>(&mut self, _: &E, _: Pfn, _: &Asked<'_>) {}

    #[inline(always)]
    fn freed(&mut self, _: Pfn, _: Order) {}

    #[inline(always)]
    fn moved(&mut self, _: Pfn, _: Pfn, _: Order, _: Nanos) {}

    #[inline(always)]
    fn refused(&mut self, _: &Asked<'_>, _: &AllocError) {}

    fn finish<E: ReplayEngine + ?Sized>(&mut self, _: &E) {}
}

impl<W: ReplayObserver> ReplayObserver for &mut W {
    fn before<E: ReplayEngine + ?Sized>(&mut self, engine: &E, row: &Row<'_>) {
        (**self).before(engine, row);
    }

    fn held<E: ReplayEngine + ?Sized>(&mut self, engine: &E, at: Pfn, asked: &Asked<'_>) {
        (**self).held(engine, at, asked);
    }

    fn freed(&mut self, at: Pfn, order: Order) {
        (**self).freed(at, order);
    }

    fn moved(&mut self, from: Pfn, to: Pfn, order: Order, now: Nanos) {
        (**self).moved(from, to, order, now);
    }

    fn refused(&mut self, asked: &Asked<'_>, why: &AllocError) {
        (**self).refused(asked, why);
    }

    fn finish<E: ReplayEngine + ?Sized>(&mut self, engine: &E) {
        (**self).finish(engine);
    }
}

/// Makes the calls at once.
pub struct Direct<'a, E: ?Sized, W = ()> {
    engine: &'a E,
    watch: W,
    pub alloc: Latencies,
    pub free: Latencies,
    pub failures: Failures,
    pub refusals: Refusals,
    /// Requests served in another zone than on the host.
    pub served_elsewhere: u64,
    /// Where zones begin.
    zone_starts: Vec<Pfn>,
    /// The engine's frames that stand for something.
    taken: FrameSet,
    /// How many those are.
    pub held_frames: u64,
}

impl<'a, E: ReplayEngine + ?Sized, W: ReplayObserver> Direct<'a, E, W> {
    /// Makes calls on `engine`, which has the frames of `machine`, and counts in `refusals` those that it refuses.
    /// `watch` is told of all that comes after the opening.
    pub fn new(engine: &'a E, machine: &Machine, clock_ns: u64, refusals: Refusals, watch: W) -> Self {
        Direct {
            engine,
            watch,
            alloc: Latencies::new(clock_ns),
            free: Latencies::new(clock_ns),
            failures: Failures::default(),
            refusals,
            served_elsewhere: 0,
            // The first zone's begin tells no two frames apart.
            zone_starts: machine.zones().map(|(start, _)| start).skip(1).collect(),
            taken: FrameSet::new(machine.end()),
            held_frames: 0,
        }
    }

    /// Notes that a block stands for something; says whether a part of it did already.
    pub fn hold(&mut self, at: Pfn, order: Order) -> Stand {
        let already = self.taken.insert(at, order.frames());
        self.held_frames += order.frames().0 - already;
        self.failures.double_frames += already;
        self.failures.double_allocations += u64::from(already > 0);
        Stand(at.0 as u32)
    }

    /// Notes that a request got `given` where the host gave `recorded`.
    #[inline]
    fn served(&mut self, recorded: Pfn, given: Pfn) {
        let between = |start: &&Pfn| (recorded < **start) != (given < **start);
        self.served_elsewhere += u64::from(self.zone_starts.iter().any(|start| between(&start)));
    }

    /// Returns the engine's frames that stand for something.
    pub fn held(&self) -> &FrameSet {
        &self.taken
    }

    /// Tells the watch of a row that is about to be replayed.
    #[inline]
    pub fn before(&mut self, row: &Row<'_>) {
        self.watch.before(self.engine, row);
    }

    /// Tells the watch that the replay is over.
    pub fn finish(&mut self) {
        self.watch.finish(self.engine);
    }

    /// Frees a block that stands for nothing any more.
    fn release(&mut self, cx: &Cx, at: Pfn, order: Order) {
        self.taken.remove(at, order.frames());
        self.held_frames -= order.frames().0;
        self.free_at(cx, at, order);
    }

    fn free_at(&mut self, cx: &Cx, at: Pfn, order: Order) {
        let engine = self.engine;
        if self.free.time(|| engine.free(cx, at, order)).is_err() {
            self.failures.refused_frees += 1;
        }
    }
}

impl<E: ReplayEngine + ?Sized, W: ReplayObserver> Calls for Direct<'_, E, W> {
    fn alloc(
        &mut self,
        cx: &Cx,
        request: &Request,
        row: &Event,
        ledger: &mut Ledger,
    ) -> Result<(), AllocError> {
        let engine = self.engine;
        let at = self.alloc.time(|| engine.alloc(cx, request))?;
        self.watch.held(engine, at, &Asked { cx, request, gfp: row.gfp, tid: row.tid });
        self.served(Pfn(row.pfn), at);
        let stand = self.hold(at, request.order);
        ledger.put(Pfn(row.pfn), request.order, stand);
        Ok(())
    }

    fn alloc_refused(&mut self, cx: &Cx, request: &Request, row: &Event) -> Result<(), AllocError> {
        let engine = self.engine;
        let at = self.alloc.time(|| engine.alloc(cx, request))?;
        // The host's caller got nothing, so no row frees this.
        self.refusals.served(&mut self.failures, &Asked { cx, request, gfp: row.gfp, tid: row.tid });
        self.free_at(cx, at, request.order);
        Ok(())
    }

    fn refused(&mut self, cx: &Cx, request: &Request, row: &Event, why: &AllocError, host: OnHost) {
        let asked = Asked { cx, request, gfp: row.gfp, tid: row.tid };
        self.watch.refused(&asked, why);
        self.refusals.refused(self.engine, &mut self.failures, &asked, why, host);
    }

    fn relocate(&mut self, cx: &Cx, stand: Stand, order: Order, (from, to): (Pfn, Pfn)) -> Stand {
        let at = Pfn(u64::from(stand.0));
        if at != from || self.engine.claim_exact(cx, to, order, Migratetype::Movable).is_err() {
            return stand;
        }
        let new = self.hold(to, order);
        self.watch.moved(at, to, order, cx.now);
        self.release(cx, at, order);
        new
    }

    fn empty_lists(&mut self) {
        self.engine.empty_lists();
    }

    fn leave_pageblock(&mut self, cpu: CpuId) {
        self.engine.drain(CpuSet::One(cpu));
    }

    fn free(&mut self, cx: &Cx, stand: Stand, order: Order) {
        let at = Pfn(u64::from(stand.0));
        self.watch.freed(at, order);
        self.release(cx, at, order);
    }

    fn halve(&mut self, _: &Cx, stand: Stand, order: Order) -> Result<(Stand, Stand), FreeError> {
        let half = order.smaller().ok_or(FreeError::Misaligned)?;
        self.engine.split(&Cx::on(CpuId(0)), Pfn(u64::from(stand.0)), order, half)?;
        Ok((stand, Stand(stand.0 + half.frames().0 as u32)))
    }
}
