//! The requests that the engine refused, and those that the host refused and the engine served: how many of each kind,
//! and the first refusals in full.

use super::failures::Failures;
use crate::engine::{ReplayEngine, zones};
use pageyard::proctext::{LINUX_ORDERS, linux_orders};
use pageyard::{AllocError, Cx, GfpMap, Request};
use pageyard_trace::failures::ByKind;
use pageyard_trace::{FAILURES_SHOWN, FailedRequest, FailureKind, FailureReason};
use serde::Serialize;
use std::ops::AddAssign;

/// Refusals that are kept in full for series.
const KEPT_FOR_SERIES: usize = 1000;

/// A request as a thread of the host made it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub cx: &'a Cx,
    pub request: &'a Request,
    /// The kernel's gfp bits.
    pub gfp: u32,
    /// The thread.
    pub tid: u32,
}

impl Asked<'_> {
    fn kind(&self) -> FailureKind {
        FailureKind {
            order: self.request.order.get(),
            gfp: self.gfp,
            migratetype: self.request.migratetype.index() as i8,
            context: self.cx.context as u8,
            tid: self.tid,
        }
    }
}

/// The outcome of a request on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnHost {
    /// It served it.
    Served,
    /// It refused it.
    Refused,
}

/// How often requests of a kind were refused, here and on the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RefusalCounts {
    /// Refused here.
    pub count: u64,
    /// Of those, the ones that the host served.
    pub refused_here_only: u64,
    /// The others: refused on the host too.
    pub refused_on_host_too: u64,
    /// Served here and refused on the host.
    pub refused_on_host_only: u64,
}

impl AddAssign for RefusalCounts {
    fn add_assign(&mut self, other: RefusalCounts) {
        self.count += other.count;
        self.refused_here_only += other.refused_here_only;
        self.refused_on_host_too += other.refused_on_host_too;
        self.refused_on_host_only += other.refused_on_host_only;
    }
}

/// A refused request in full.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The request. Its free blocks are those on the free lists of the zones that it may use.
    pub request: FailedRequest,
    /// Whether the host refused it too.
    pub on_host_too: bool,
}

/// The requests an engine refused, by kind.
#[derive(Clone, Debug)]
pub struct Refusals {
    /// How often requests of all kinds were refused.
    pub counts: RefusalCounts,
    /// The first refusals in order of time; more of them where series were asked for.
    pub first: Vec<Refusal>,
    /// How often requests of each kind were refused.
    pub kinds: ByKind<RefusalCounts>,
    /// Where the recorded kernel keeps its gfp flags.
    pub gfp: GfpMap,
    /// How many are kept in full.
    most: usize,
}

impl Refusals {
    /// Makes an empty record; `series` says whether it is for series.
    pub(super) fn new(gfp: &GfpMap, series: bool) -> Refusals {
        let most = if series { KEPT_FOR_SERIES } else { FAILURES_SHOWN };
        Refusals {
            counts: RefusalCounts::default(),
            first: Vec::new(),
            kinds: ByKind::default(),
            gfp: *gfp,
            most,
        }
    }

    /// Counts a request that `engine` refused, also among `failures`.
    #[cold]
    pub(super) fn refused<E: ReplayEngine + ?Sized>(
        &mut self,
        engine: &E,
        failures: &mut Failures,
        asked: &Asked<'_>,
        why: &AllocError,
        host: OnHost,
    ) {
        failures.count(asked.request.order, why);
        let on_host_too = host == OnHost::Refused;
        failures.refused_where_host_served += u64::from(!on_host_too);
        let refusal = RefusalCounts {
            count: 1,
            refused_here_only: u64::from(!on_host_too),
            refused_on_host_too: u64::from(on_host_too),
            refused_on_host_only: 0,
        };
        self.count(asked.kind(), refusal);
        if self.first.len() < self.most {
            let request = FailedRequest {
                time_ns: asked.cx.now.0,
                kind: asked.kind(),
                cpu: asked.cx.cpu.0,
                free_blocks: Some(free_blocks(engine, asked.request)),
                reason: Some(FailureReason::from(why)),
            };
            self.first.push(Refusal { request, on_host_too });
        }
    }

    /// Counts a request that the host refused and the engine served, also among `failures`.
    #[cold]
    pub(super) fn served(&mut self, failures: &mut Failures, asked: &Asked<'_>) {
        failures.served_where_host_failed += 1;
        self.count(asked.kind(), RefusalCounts { refused_on_host_only: 1, ..RefusalCounts::default() });
    }

    fn count(&mut self, kind: FailureKind, times: RefusalCounts) {
        self.counts += times;
        if let Some(counts) = self.kinds.of(kind) {
            *counts += times;
        }
    }

    /// Adds what another thread counted.
    pub(super) fn add(&mut self, other: Refusals) {
        self.counts += other.counts;
        for (kind, theirs) in other.kinds.iter() {
            if let Some(mine) = self.kinds.of(*kind) {
                *mine += *theirs;
            }
        }
        self.first.extend(other.first);
        self.first.sort_by_key(|refusal| refusal.request.time_ns);
        self.first.truncate(self.most);
    }
}

/// Returns the free blocks of the zones that a request may use.
fn free_blocks<E: ReplayEngine + ?Sized>(engine: &E, request: &Request) -> [u64; LINUX_ORDERS] {
    let mut sum = [0; LINUX_ORDERS];
    for zone in zones(engine).iter().filter(|z| z.span.kind <= request.highest_zone) {
        sum.iter_mut().zip(linux_orders(&zone.blocks_by_order())).for_each(|(a, b)| *a += b);
    }
    sum
}
