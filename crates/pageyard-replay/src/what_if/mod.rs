//! What-ifs: a recording replayed on the reference with the recorded kernel's settings, and with one of them changed.
//!
//! The [study](../../../../docs/studies/what-if.md) says how often such predictions are right; [`calibration`] has its
//! figures.

pub mod calibration;
mod figure;
mod fit;
mod sign;

pub use figure::{Figure, Figures, share};
pub use fit::{read_again, unfit};
pub use sign::{LEAST_SHARE, Sign};

use crate::engine::{EngineSpec, JUDGED};
use crate::error::ReplayError;
use crate::replay::{Progress, ReplayOptions, SlowPath, replay};
use pageyard_trace::Trace;

/// Names the preset of the reference that is a kernel's release, where there is one that was compared with its kernel.
#[must_use]
pub fn preset(kernel: &str) -> Option<&'static str> {
    let mut numbers = kernel.split(['.', '-']).map(|n| n.parse::<u32>().ok());
    let name = format!("linux-{}.{}", numbers.next()??, numbers.next()??);
    JUDGED.into_iter().find(|judged| *judged == name)
}

/// The source of free memory in a replay that runs short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reclaim {
    /// The recorded reclaimers alone, when they did. The replay shows what the engine's own choices make of what was
    /// asked for.
    Recorded,
    /// The engine's own reclaim and compaction, beside what the recording has of the host's.
    Imitated,
}

/// Returns the opening in which free blocks lie as a recording tells, and `otherwise` where it does not tell: the
/// ascending order, which has the same number, has all first blocks in one pageblock.
///
/// # Errors
/// [`ReplayError::Trace`] where the recording cannot be read.
pub fn recorded_opening(trace: &Trace, otherwise: u64) -> Result<u64, ReplayError> {
    Ok(if trace.free_lists()?.is_some() { 0 } else { otherwise })
}

/// A replay's counts.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The figures.
    pub figures: Figures,
    /// Requests that it refused as the host did.
    pub refused_on_host_too: u64,
    /// Requests for which it was short of memory where the host was not: before it would have refused them, it freed
    /// what the host's reclaim freed a moment later ([`EarlyFrees`](crate::replay::EarlyFrees)).
    pub short: u64,
}

/// Replays a recording on the reference from an opening ([`ReplayOptions::opening_seed`]), and counts. The
/// recorder's own requests are left out: the runs that are predicted have no recorder.
///
/// # Errors
/// Those of a replay; [`ReplayError::Machine`] where the replay is not sound.
pub fn replayed(
    trace: &Trace,
    preset: &str,
    knobs: &[(String, String)],
    reclaim: Reclaim,
    opening: u64,
    progress: &mut dyn FnMut(Progress<'_>, u64, u64),
) -> Result<Replayed, ReplayError> {
    let spec = EngineSpec::parse(preset, knobs)?;
    let slow_path = match reclaim {
        Reclaim::Recorded => None,
        Reclaim::Imitated => Some(SlowPath { reclaim: true, compaction: true, pinned: 0.0 }),
    };
    let options =
        ReplayOptions { slow_path, samples: Some(1), opening_seed: opening, ..ReplayOptions::default() };
    let report = replay(&trace.without_recorder(), &[spec], &options, progress)?;
    match report.engines.first() {
        Some(engine) if engine.is_sound() => Ok(Replayed {
            figures: Figures::of_replay(engine),
            refused_on_host_too: engine.refusals.counts.refused_on_host_too,
            short: engine.early.map_or(0, |early| early.requests),
        }),
        _ => Err(ReplayError::Machine {
            trace: trace.name().to_owned(),
            why: "its replay is not sound, so it predicts nothing".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::preset;

    #[test]
    fn only_kernels_that_the_reference_knows_have_a_preset() {
        assert_eq!(preset("6.18.44-fc-v669"), Some("linux-6.18"));
        assert_eq!(preset("6.12.117+deb12-cloud-amd64"), Some("linux-6.12"));
        assert_eq!(preset("6.1.0-56-cloud-amd64"), Some("linux-6.1"));
        assert_eq!(preset("7.3.4+deb13-cloud-amd64"), Some("linux-7.3"));
        assert_eq!(preset("5.10.0-32-cloud-amd64"), Some("linux-5.10"));
        for other in ["6.11.2", "7.1.4", "5.15.0", "", "6", "x.y"] {
            assert_eq!(preset(other), None, "{other}");
        }
    }
}
