//! Calls made at once, on the thread that reads the rows: a deterministic replay.

use super::ledger::{Ledger, Stand};
use super::refusals::{Asked, OnHost, Refusals};
use super::report::Failures;
use super::walk::Calls;
use crate::bitmap::FrameSet;
use crate::engine::ReplayEngine;
use crate::latency::Latencies;
use pageyard::CpuId;
use pageyard::{Cx, FreeError, Order, Pfn, Request};
use pageyard_trace::Event;

/// Makes the calls at once.
pub struct Direct<'a, E: ?Sized> {
    engine: &'a E,
    pub alloc: Latencies,
    pub free: Latencies,
    pub failures: Failures,
    pub refusals: Refusals,
    /// The engine's frames that stand for something.
    taken: FrameSet,
    /// How many those are.
    pub held_frames: u64,
}

impl<'a, E: ReplayEngine + ?Sized> Direct<'a, E> {
    /// Makes calls on `engine`, whose frames end at `end`, and counts in `refusals` those that it refuses.
    pub fn new(engine: &'a E, end: Pfn, clock_ns: u64, refusals: Refusals) -> Self {
        Direct {
            engine,
            alloc: Latencies::new(clock_ns),
            free: Latencies::new(clock_ns),
            failures: Failures::default(),
            refusals,
            taken: FrameSet::new(end),
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

    /// Returns the engine's frames that stand for something.
    pub fn held(&self) -> &FrameSet {
        &self.taken
    }

    fn free_at(&mut self, cx: &Cx, at: Pfn, order: Order) {
        let engine = self.engine;
        if self.free.time(|| engine.free(cx, at, order)).is_err() {
            self.failures.refused_frees += 1;
        }
    }
}

impl<E: ReplayEngine + ?Sized> Calls for Direct<'_, E> {
    fn alloc(&mut self, cx: &Cx, request: &Request, row: &Event, ledger: &mut Ledger) {
        let engine = self.engine;
        let stand = match self.alloc.time(|| engine.alloc(cx, request)) {
            Ok(at) => self.hold(at, request.order),
            Err(why) => {
                let asked = Asked { cx, request, gfp: row.gfp, tid: row.tid };
                self.refusals.refused(engine, &mut self.failures, &asked, &why, OnHost::Served);
                Stand::UNSERVED
            }
        };
        ledger.put(Pfn(row.pfn), request.order, stand);
    }

    fn alloc_refused(&mut self, cx: &Cx, request: &Request, row: &Event) {
        let engine = self.engine;
        let asked = Asked { cx, request, gfp: row.gfp, tid: row.tid };
        match self.alloc.time(|| engine.alloc(cx, request)) {
            Ok(at) => {
                // The host's caller got nothing, so no row frees this.
                self.refusals.served(&mut self.failures, &asked);
                self.free_at(cx, at, request.order);
            }
            Err(why) => {
                self.refusals.refused(engine, &mut self.failures, &asked, &why, OnHost::Refused);
            }
        }
    }

    fn free(&mut self, cx: &Cx, stand: Stand, order: Order) {
        let at = Pfn(u64::from(stand.0));
        self.taken.remove(at, order.frames());
        self.held_frames -= order.frames().0;
        self.free_at(cx, at, order);
    }

    fn halve(&mut self, _: &Cx, stand: Stand, order: Order) -> Result<(Stand, Stand), FreeError> {
        let half = order.smaller().ok_or(FreeError::Misaligned)?;
        self.engine.split(&Cx::on(CpuId(0)), Pfn(u64::from(stand.0)), order, half)?;
        Ok((stand, Stand(stand.0 + half.frames().0 as u32)))
    }
}
