//! How far a replay can be trusted: what the recording lacks, and how near the host the replay came.

use super::report::EngineReport;
use crate::engine::EngineSpec;
use crate::machine::Machine;
use pageyard_trace::{ReplayTrust, Trace, TraceError, Trust};

/// Judges what a replay of a recording can say at best.
///
/// # Errors
/// When the number of its events cannot be read.
pub(crate) fn of_recording(trace: &Trace, machine: &Machine) -> Result<Trust, TraceError> {
    Ok(Trust::of(trace.meta(), trace.rows()?).opened(machine.has_snapshot))
}

/// Judges a replay on an engine beside the host, which refused so many requests.
pub(crate) fn of_replay(
    engine: &EngineReport,
    spec: &EngineSpec,
    trace: &Trace,
    machine: &Machine,
    failed_on_host: u64,
) -> ReplayTrust {
    let same_memory = !machine.made_smaller;
    let end = engine.distance.as_ref().and_then(|distance| distance.engine.end);
    let unchanged = engine.distance.as_ref().and_then(|distance| distance.baselines.no_change.as_ref()?.end);
    let of_this_kernel = spec.label() == EngineSpec::of_kernel(&trace.meta().kernel);
    let served = engine.rows.saturating_sub(engine.failures.allocs).max(1);
    ReplayTrust {
        engine: engine.name.clone(),
        refused: engine.failures.allocs,
        refused_on_host: same_memory.then_some(failed_on_host),
        distance_pct: end.map(|distance| distance.blocks_pct),
        unchanged_distance_pct: unchanged.map(|distance| distance.blocks_pct),
        served_elsewhere_pct: engine.served_elsewhere.map(|n| 100.0 * n as f64 / served as f64),
        judged: spec.is_judged(),
        stands_for_host: same_memory && of_this_kernel && spec.settings().is_empty(),
    }
}
