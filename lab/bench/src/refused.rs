//! `bench scale`, second part: what a refused request costs.
//!
//! Memory has a used frame in every pageblock, so there is enough of it and no block of order 9; CPUs hold frames in
//! their lists. A request that may not wait is refused after a bounded search. A request that may wait drains every
//! list and looks at every pageblock before it fails.

use crate::harness::clock::now_ns;
use crate::harness::engines::{map_of, one_zone};
use crate::harness::sampler::{Sample, Sampler};
use pageyard::{
    AllocError, Config, CpuId, Cx, Migratetype, Order, OwnedPageyard, Pageyard, Pfn, Request, RequestFlags,
    TryLock,
};
use serde::Serialize;

/// CPUs that hold frames in their lists.
const CPUS: u32 = 64;
/// Frames that each of them frees before.
const LISTED: usize = 256;
/// The order of the requests.
const ORDER: Order = Order::of(9);
/// Requests that are timed.
const REQUESTS: usize = 201;

/// The cost of a refused request.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RefusedRow {
    /// The allocator.
    pub allocator: &'static str,
    /// Frames of memory.
    pub frames: u64,
    /// CPUs with frames in their lists.
    pub cpus: u32,
    /// Whether the request may wait.
    pub may_wait: bool,
    /// The order of the request.
    pub order: u8,
    /// Why it was refused.
    pub why: String,
    /// Nanoseconds a request, the median.
    pub ns_median: f64,
    /// The most.
    pub ns_max: f64,
}

/// Measures, for each size of memory.
#[must_use]
pub fn refused(frames: &[u64]) -> Vec<RefusedRow> {
    frames.iter().flat_map(|frames| [false, true].map(|may_wait| row(*frames, may_wait))).collect()
}

fn row(frames: u64, may_wait: bool) -> RefusedRow {
    let yard = fragmented(frames);
    let huge = Request::new(ORDER, Migratetype::Movable);
    let request = if may_wait { huge } else { huge.with(RequestFlags::NON_BLOCKING) };
    let mut why = AllocError::OutOfMemory;
    let mut cpus = (0..CPUS).cycle().map(CpuId);
    let series = Sampler::new(REQUESTS).run(&mut [()], |()| {
        if may_wait {
            // The one before has drained them.
            fill_lists(&yard);
        }
        let cx = Cx::on(cpus.next().unwrap_or(CpuId(0)));
        let start = now_ns();
        let answer = yard.alloc(&cx, &request);
        let ns = now_ns() - start;
        why = answer.expect_err("there is no such block");
        Sample::Counts([ns as f64])
    });
    let (ns_median, ns_max) = (series[0][0].median(), series[0][0].max());
    RefusedRow {
        allocator: "pageyard-trylock",
        frames,
        cpus: CPUS,
        may_wait,
        order: ORDER.get(),
        why: why.to_string(),
        ns_median,
        ns_max,
    }
}

/// Makes memory with one used frame in each pageblock, and frames in every CPU's list.
fn fragmented(frames: u64) -> OwnedPageyard<TryLock> {
    let regions = one_zone(frames);
    let yard =
        Pageyard::owned(&map_of(&regions), Config::new(CPUS), TryLock).expect("the map is small enough");
    let cx = Cx::on(CpuId(0));
    for block in 0..frames / 512 {
        let pfn = Pfn(block * 512 + 17);
        yard.claim_exact(&cx, pfn, Order::ZERO, Migratetype::Movable).expect("all of it is free");
    }
    fill_lists(&yard);
    yard
}

fn fill_lists(yard: &OwnedPageyard<TryLock>) {
    let request = Request::new(Order::ZERO, Migratetype::Movable);
    for cx in (0..CPUS).map(|cpu| Cx::on(CpuId(cpu))) {
        let mut held = [Pfn(0); LISTED];
        let got = yard.alloc_bulk(&cx, &request, &mut held);
        yard.free_bulk(&cx, &held[..got], Order::ZERO, &mut |pfn, why| unreachable!("{pfn}: {why}"));
    }
}
