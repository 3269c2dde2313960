//! Calls that may reclaim and compact: the frames of a replay have owners who move them and give them up.
//!
//! Stands are numbers of the owners' objects, not frames: an object keeps its number when compaction moves it, and an
//! object that was reclaimed is known when its recorded free comes. A block that the host refused and the engine grants
//! replaces the smaller blocks that the host's thread took instead, which are not taken, and is kept as long as they
//! were.

use super::failures::Failures;
use super::refusals::{Asked, OnHost, Refusals};
use super::slow_path::{SlowPath, SlowPathTotals};
use super::walk::Calls;
use crate::engine::ReplayEngine;
use crate::latency::Latencies;
use crate::ledger::{Ledger, Stand};
use crate::machine::{Machine, Start};
use crate::workload::{Owners, Role, Shares, role};
use pageyard::{
    AllocError, CpuId, Cx, FreeError, Gfp, GfpMap, Migratetype, Nanos, Order, PAGEBLOCK_ORDER, Pfn,
    PressureAllocator, Request,
};
use pageyard_trace::Event;
use std::collections::HashMap;

/// Decides which frames are pinned.
const SEED: u64 = 1;

/// How often the background reclaimer runs, in recorded time, and how often the background compactor: Linux wakes the
/// compactor when the reclaimer has had nothing to do for a tenth of a second.
const KSWAPD_NS: u64 = 1_000_000;
const KCOMPACTD_NS: u64 = 100_000_000;

/// A stand with this bit is a part of a kept block: the rest is the block's index.
const IN_STEAD: u32 = 1 << 31;

/// A request that the host refused, which the thread replaces with smaller blocks.
struct Refused {
    order: Order,
    role: Role,
    /// The block that the engine granted.
    granted: Option<u32>,
    /// Its index among the kept blocks, once something was taken instead of it.
    kept: Option<u32>,
    /// Replacement frames that are still to be taken.
    left: u64,
}

/// A block that is kept.
struct Kept {
    object: u32,
    /// Frames that it replaces and that the host has not freed.
    frames: u64,
    /// Whether more may come.
    open: bool,
}

/// Makes the calls at once, with helpers.
pub struct WithSlowPath<'a, E: ?Sized> {
    owners: &'a Owners<'a, E>,
    gfp: &'a GfpMap,
    pub alloc: Latencies,
    pub free: Latencies,
    pub failures: Failures,
    pub refusals: Refusals,
    pub found: SlowPathTotals,
    /// By thread.
    refused: HashMap<u32, Refused>,
    kept: Vec<Kept>,
    next_kswapd: u64,
    next_kcompactd: u64,
}

/// Makes the owners of a replay's frames.
pub fn owners<'e, E: PressureAllocator + ReplayEngine>(engine: &'e E, slow_path: &SlowPath) -> Owners<'e, E> {
    let owners = Owners::new(engine, Shares { pins: slow_path.pinned, ..Shares::NONE }, SEED).checking();
    if slow_path.reclaim { owners } else { owners.keeping_all() }
}

impl<'a, E: PressureAllocator + ReplayEngine> WithSlowPath<'a, E> {
    /// Makes calls on the engine of `owners`, and counts in `refusals` those that it refuses.
    pub fn new(
        owners: &'a Owners<'a, E>,
        gfp: &'a GfpMap,
        slow_path: &SlowPath,
        clock_ns: u64,
        refusals: Refusals,
    ) -> Self {
        WithSlowPath {
            owners,
            gfp,
            alloc: Latencies::new(clock_ns),
            free: Latencies::new(clock_ns),
            failures: Failures::default(),
            refusals,
            found: SlowPathTotals::new(slow_path),
            refused: HashMap::new(),
            kept: Vec::new(),
            next_kswapd: KSWAPD_NS,
            next_kcompactd: KCOMPACTD_NS,
        }
    }

    /// Returns the largest order in which held frames of a type are claimed for the opening state: movable ones are
    /// moved frame by frame.
    pub fn claimed_in(m: Migratetype, otherwise: Order) -> Order {
        if m == Migratetype::Movable { Order::ZERO } else { otherwise }
    }

    /// Takes over a block of the opening state.
    pub fn hold(&mut self, machine: &Machine, at: Pfn, order: Order) -> Stand {
        let role = match machine.at(at.0) {
            Start::HeldCache => Role::Cache,
            Start::HeldMovable => Role::Anon,
            _ => Role::Slab,
        };
        Stand(self.owners.take_over(at, order, role))
    }

    /// Gives the background the turn that is due.
    pub fn background(&mut self, now: u64) {
        let cx = Cx { now: Nanos(now), ..Cx::on(CpuId(0)) };
        if now >= self.next_kswapd {
            self.owners.engine().kswapd_with(&cx, self.owners).expect("the replay names CPUs that there are");
            self.next_kswapd = now + KSWAPD_NS;
        }
        if now >= self.next_kcompactd {
            self.owners
                .engine()
                .kcompactd_with(&cx, self.owners)
                .expect("the replay names CPUs that there are");
            self.next_kcompactd = now + KCOMPACTD_NS;
        }
    }

    /// Sums up what only the end shows.
    pub fn finish(&mut self) {
        let doubles = self.owners.doubles();
        (self.failures.double_allocations, self.failures.double_frames) = (doubles.blocks, doubles.frames);
        self.failures.refused_frees = self.owners.refused_frees();
        self.found.pinned_frames = self.owners.pinned().0;
    }

    /// Stops counting a thread's next blocks as replacements. A block for which nothing was taken goes back: its caller
    /// has asked again, or for something else.
    fn end_refused(&mut self, cx: &Cx, tid: u32) {
        let Some(Refused { granted: Some(object), kept, .. }) = self.refused.remove(&tid) else { return };
        match kept {
            None => _ = self.owners.free(cx, object),
            Some(index) => {
                self.kept[index as usize].open = false;
                self.free_if_over(cx, index);
            }
        }
    }

    fn free_if_over(&mut self, cx: &Cx, index: u32) {
        let Kept { object, frames, open } = self.kept[index as usize];
        if frames == 0 && !open {
            self.owners.free(cx, object);
        }
    }

    /// Finds the kept block that this one replaced on the host, if there is one.
    fn in_stead(&mut self, cx: &Cx, request: &Request, role: Role, tid: u32) -> Option<u32> {
        let refused = self.refused.get_mut(&tid)?;
        if request.order >= refused.order {
            self.end_refused(cx, tid);
            return None;
        }
        if role != refused.role {
            return None;
        }
        let Some(object) = refused.granted else {
            self.found.replaced += 1;
            self.refused.remove(&tid);
            return None;
        };
        let frames = request.order.frames().0;
        let index = *refused.kept.get_or_insert_with(|| {
            self.found.replaced += 1;
            self.found.kept += 1;
            self.kept.push(Kept { object, frames: 0, open: true });
            self.kept.len() as u32 - 1
        });
        refused.left = refused.left.saturating_sub(frames);
        let all = refused.left == 0;
        self.kept[index as usize].frames += frames;
        self.found.not_taken += frames;
        if all {
            self.kept[index as usize].open = false;
            self.refused.remove(&tid);
        }
        Some(index)
    }

    fn role(&self, request: &Request, row: &Event) -> Role {
        let gfp: Gfp = self.gfp.decode(row.gfp);
        role(gfp, request.migratetype)
    }
}

impl<E: PressureAllocator + ReplayEngine> Calls for WithSlowPath<'_, E> {
    fn alloc(
        &mut self,
        cx: &Cx,
        request: &Request,
        row: &Event,
        ledger: &mut Ledger,
    ) -> Result<(), AllocError> {
        let (at, order, role) = (Pfn(row.pfn), request.order, self.role(request, row));
        if let Some(index) = self.in_stead(cx, request, role, row.tid) {
            ledger.put(at, order, Stand(IN_STEAD | index));
            return Ok(());
        }
        let owners = self.owners;
        let apart = role.is_movable() && order > Order::ZERO && order < PAGEBLOCK_ORDER;
        let served = match apart {
            false => self
                .alloc
                .time(|| owners.alloc(cx, request, role))
                .map(|object| ledger.put(at, order, Stand(object))),
            true => self.alloc.time(|| {
                let mut part = at;
                owners.alloc_apart(cx, request, role, |object, order| {
                    ledger.put(part, order, Stand(object));
                    part = part + order.frames();
                })
            }),
        };
        served.map_err(|failure| failure.why)
    }

    fn alloc_refused(&mut self, cx: &Cx, request: &Request, row: &Event) -> Result<(), AllocError> {
        self.end_refused(cx, row.tid);
        let (order, role, owners) = (request.order, self.role(request, row), self.owners);
        let served = self.alloc.time(|| owners.alloc(cx, request, role));
        let granted = served.as_ref().ok().copied();
        let refused = Refused { order, role, granted, kept: None, left: order.frames().0 };
        self.refused.insert(row.tid, refused);
        served.map_err(|failure| failure.why)?;
        self.refusals.served(&mut self.failures, &Asked { cx, request, gfp: row.gfp, tid: row.tid });
        Ok(())
    }

    fn refused(&mut self, cx: &Cx, request: &Request, row: &Event, why: &AllocError, host: OnHost) {
        let asked = Asked { cx, request, gfp: row.gfp, tid: row.tid };
        self.refusals.refused(self.owners.engine(), &mut self.failures, &asked, why, host);
    }

    fn free(&mut self, cx: &Cx, stand: Stand, order: Order) {
        if stand.0 & IN_STEAD != 0 {
            let index = stand.0 & !IN_STEAD;
            self.kept[index as usize].frames -= order.frames().0;
            self.free_if_over(cx, index);
            return;
        }
        let owners = self.owners;
        if !self.free.time(|| owners.free(cx, stand.0)) {
            self.found.reclaimed_before += order.frames().0;
        }
    }

    fn halve(&mut self, _: &Cx, stand: Stand, _: Order) -> Result<(Stand, Stand), FreeError> {
        match stand.0 & IN_STEAD {
            0 => Ok((stand, self.owners.halve(stand.0)?.map_or(Stand::UNSERVED, Stand))),
            _ => Ok((stand, stand)),
        }
    }
}
