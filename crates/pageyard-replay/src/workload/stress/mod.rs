//! `stress-highalloc`: large unmovable blocks, asked for at a steady rate while a load keeps memory short.
//!
//! Phases 1 and 2 run during the load; phase 3 when it has ended and its page cache was dropped. Each attempts the same
//! share of memory, holds what it gets to its end, and then frees it. Success is blocks held divided by attempts.
//!
//! Requests and load either take turns on one thread, so that every count repeats, or each has a thread ([`Turns`]).
//!
//! * `settings`: the parameters; `fill`: what happens before phase 1; `phase`: one phase.

mod fill;
mod phase;
mod settings;

pub use super::fragmentation::{Fragmentation, HUGE, fragmentation};
pub use phase::{Phase, Tenth};
pub use settings::{Settings, Turns};

use super::ends::Ends;
use super::fragment::bring;
use super::load::{Done, Load, LoadTrace};
use super::object::Role;
use super::owners::Owners;
use crate::engine::ReplayEngine;
use crate::error::ReplayError;
use fill::fill;
use hdrhistogram::Histogram;
use pageyard::{AuditError, Census, Counter, CpuId, Cx, Frames, Nanos, PressureAllocator, Stats};
use phase::Test;
use std::time::Instant;

/// Which phases to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phases {
    /// Two under load and one after it.
    Three,
    /// This many, all of them under load.
    UnderLoad(usize),
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The phases.
    pub phases: Vec<Phase>,
    /// The engine's counters: those of the phases alone.
    pub counters: Stats,
    /// CPU seconds outside the engine, of the load's thread.
    pub user_s: f64,
    /// CPU seconds in the engine, reclaim included; calls of the load are sampled.
    pub system_s: f64,
    /// Wall time.
    pub elapsed_s: f64,
    /// Nanoseconds that a request spent in compaction and around it, without reclaim: requests that compacted.
    pub stalls_ns: Histogram<u64>,
    /// The requests by how their asynchronous compaction ended.
    pub ends: Ends,
    /// The load's totals meanwhile.
    pub load: Done,
    /// Frames held, by role, before phase 1.
    pub held_before: [Frames; Role::ALL.len()],
    /// Frames pinned before phase 1.
    pub pinned_before: Frames,
    /// The audit at the end.
    pub audit: Result<Census, AuditError>,
    /// Frames that the engine counts as allocated, less those that the owners hold.
    pub leaked: i64,
}

/// CPU time of this thread so far.
fn thread_seconds() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// Fills memory and runs the phases. The engine must be new.
///
/// # Errors
/// [`ReplayError::Fragment`] where memory cannot be brought to the state that the settings ask for.
pub fn run<E: PressureAllocator + ReplayEngine>(
    engine: &E,
    trace: &LoadTrace,
    settings: &Settings,
    phases: Phases,
    seed: u64,
) -> Result<Report, ReplayError> {
    let owners = Owners::new(engine, settings.shares, seed).sharing_cpus(settings.cpu_wanted_after);
    if let Some(state) = &settings.start {
        bring(&owners, state, seed)?;
    }
    let shift = fastrand::Rng::with_seed(seed).f64();
    let mut load = Load::new(trace, &owners, &settings.shape, shift);
    fill(&mut load, &owners, settings);
    let held_before = Role::ALL.map(|role| owners.held(role));
    let pinned_before = owners.pinned();

    let mut test = Test::new(&owners, settings, trace.duration_ns());
    let (counters, wall, cpu) = (engine.stats(), Instant::now(), thread_seconds());
    let before = load.done;
    let mut made = Vec::new();
    let under_load = match phases {
        Phases::Three => 2,
        Phases::UnderLoad(n) => n,
    };
    for _ in 0..under_load {
        made.push(test.phase(&mut load));
    }
    if phases == Phases::Three {
        load.end();
        owners.drop_caches(&Cx { now: Nanos(load.now()), ..Cx::on(CpuId(0)) });
        made.push(test.phase(&mut load));
    }
    let cpu_s = thread_seconds() - cpu + test.apart_ns as f64 / 1e9;
    let elapsed_s = wall.elapsed().as_secs_f64();
    let system_s = (test.engine_ns + load.done.engine_ns - before.engine_ns) as f64 / 1e9;
    let mut since = engine.stats();
    for counter in Counter::ALL {
        since[*counter] -= counters[*counter];
    }
    let audit = engine.audit();
    Ok(Report {
        phases: made,
        counters: since,
        user_s: (cpu_s - system_s).max(0.0),
        system_s: system_s.min(cpu_s),
        elapsed_s,
        stalls_ns: test.stalls_ns,
        ends: test.ends,
        load: load.done.since(&before),
        held_before,
        pinned_before,
        leaked: audit.as_ref().map_or(0, |c| c.allocated.0 as i64 - owners.held_frames().0 as i64),
        audit,
    })
}
