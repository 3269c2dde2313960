//! The order-0 calls of a recorded trace, in the context they were made in.

use crate::error::BenchError;
use crate::harness::divided::{Divided, Raw};
use crate::harness::load::{Call, Mix};
use pageyard::Context;
use pageyard_trace::{Columns, EventKind, Trace};
use std::collections::HashMap;
use std::sync::Arc;

/// The requests of order 0 in a trace.
pub(super) struct Recorded {
    /// All calls in their order, for one CPU.
    pub mix: Mix,
    /// The same on the CPUs that made them.
    pub divided: Arc<Divided>,
    /// Calls by context: task, softirq, hard interrupt and the like.
    pub by_context: [u64; 3],
    /// Frees by context.
    pub frees: [u64; 3],
}

impl Recorded {
    /// Returns the share of calls in interrupts, in percent.
    pub fn in_interrupts(&self) -> f64 {
        share(&self.by_context)
    }

    /// Returns the share of frees in interrupts, in percent.
    pub fn frees_in_interrupts(&self) -> f64 {
        share(&self.frees)
    }
}

fn share(by: &[u64; 3]) -> f64 {
    (by[1] + by[2]) as f64 / (by.iter().sum::<u64>() as f64).max(1.0) * 100.0
}

/// Reads up to `most` order-0 calls. Frees of frames allocated before the recording are left out: they have no partner
/// here. A frame allocated twice was freed in between, unrecorded; that free is made on the CPU and in the context of
/// the second allocation.
pub(super) fn load(path: &std::path::Path, most: usize) -> Result<Recorded, BenchError> {
    let mut events = Trace::open(path)?.events(Columns::Replay)?;
    let (mut raw, mut blocks) = (Vec::new(), 0);
    let (mut by_context, mut frees) = ([0; 3], [0; 3]);
    let mut held: HashMap<u64, u32> = HashMap::new();
    // From a third of a long trace on: the start of a recording is not like the rest.
    let mut skip = if events.rows() > 4 * most as u64 { events.rows() / 3 } else { 0 };
    let mut batch = Vec::new();
    while raw.len() < most && events.next_batch(&mut batch)? {
        if skip > 0 {
            skip = skip.saturating_sub(batch.len() as u64);
            continue;
        }
        for e in batch.iter().filter(|e| e.order == 0 && !e.failed()) {
            if !matches!(e.kind, EventKind::Alloc | EventKind::Free) {
                continue;
            }
            let kind = match e.context {
                Context::Task => 0,
                Context::Softirq => 1,
                Context::Hardirq | Context::Nmi => 2,
            };
            let mut call = |block, free| {
                raw.push(Raw { cpu: e.cpu as usize, context: e.context, free, block });
                by_context[kind] += 1;
                frees[kind] += u64::from(free);
            };
            if let Some(block) = held.remove(&e.pfn) {
                call(block, true);
            }
            if e.kind == EventKind::Alloc {
                call(blocks, false);
                held.insert(e.pfn, blocks);
                blocks += 1;
            }
        }
    }
    let repeat = (CALLS_A_SAMPLE / raw.len().max(1)).max(1);
    let (calls, places) = on_one_cpu(&raw);
    Ok(Recorded {
        mix: Mix { calls: calls.into(), places, repeat },
        divided: Arc::new(Divided::new(&raw, repeat)),
        by_context,
        frees,
    })
}

/// Gives each held block a place, which is used again when it has been freed; returns the calls, and how many places
/// there are.
fn on_one_cpu(raw: &[Raw]) -> (Vec<Call>, usize) {
    let (mut spare, mut places): (Vec<u32>, usize) = Default::default();
    let mut held = HashMap::new();
    let place = |call: &Raw| {
        let place = match call.free {
            true => held.remove(&call.block)?,
            false => spare.pop().unwrap_or(places as u32),
        };
        match call.free {
            true => spare.push(place),
            false => _ = held.insert(call.block, place),
        }
        places = places.max(place as usize + 1);
        Some(Call { place, context: call.context, free: call.free })
    };
    let calls = raw.iter().filter_map(place).collect();
    (calls, places)
}

/// Calls that a sample makes at least: a short trace is repeated.
const CALLS_A_SAMPLE: usize = 100_000;
