//! Runs a setting, and says what that took.

use super::count::Count;
use super::frames::{self, Packets};
use super::host::{Host, HostTotals};
use super::report::RouterFigures;
use super::settings::{Column, RouterSettings};
use crate::error::BenchError;
use crate::harness::clock::{now_ns, thread_ns};
use serde::Serialize;

/// A setting and what came of it.
#[derive(Clone, Debug)]
pub struct Routed {
    /// The setting.
    pub settings: RouterSettings,
    /// The results: the same for one setting and one seed.
    pub figures: RouterFigures,
    /// The effort of the simulation: different each time.
    pub effort: Effort,
}

/// The effort of simulations.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Effort {
    /// Packets simulated, the warm-up included.
    pub packets: u64,
    /// Nanoseconds that passed while they were.
    pub wall_ns: u64,
    /// Nanoseconds of processor time that they took.
    pub cpu_ns: u64,
    /// Nanoseconds that making hosts, filling their rings, and checking every frame at the end took.
    pub around_ns: u64,
}

impl Effort {
    /// Adds another's.
    pub fn add(&mut self, other: Effort) {
        self.packets += other.packets;
        self.wall_ns += other.wall_ns;
        self.cpu_ns += other.cpu_ns;
        self.around_ns += other.around_ns;
    }

    /// Returns packets simulated in a second that passed.
    #[must_use]
    pub fn packets_per_wall_s(self) -> f64 {
        self.packets as f64 * 1e9 / self.wall_ns.max(1) as f64
    }

    /// Returns packets simulated in a second of processor time.
    #[must_use]
    pub fn packets_per_cpu_s(self) -> f64 {
        self.packets as f64 * 1e9 / self.cpu_ns.max(1) as f64
    }
}

/// Simulates a setting.
///
/// # Errors
/// [`BenchError::Settings`] where settings exclude one another; [`BenchError::Experiment`] where packets or frames were
/// lost.
pub fn route(settings: &RouterSettings) -> Result<Routed, BenchError> {
    settings.check()?;
    let (outcome, effort) = simulate(settings)?;
    Ok(Routed { figures: RouterFigures::of(&outcome, settings), settings: settings.clone(), effort })
}

/// Simulates a setting on the allocator that it names.
pub(crate) fn simulate(settings: &RouterSettings) -> Result<(HostTotals, Effort), BenchError> {
    let begin = now_ns();
    match settings.column {
        Column::Buddy | Column::Pcp => on(settings, frames::reference(settings)?, begin),
        Column::Pageyard => on(settings, frames::pageyard(settings)?, begin),
    }
}

fn on<P: Packets>(
    settings: &RouterSettings,
    packets: P,
    begin: u64,
) -> Result<(HostTotals, Effort), BenchError> {
    let mut host = Host::new(settings, packets);
    let (wall, cpu) = (now_ns(), thread_ns());
    host.run();
    let (wall_ns, cpu_ns) = (now_ns() - wall, thread_ns() - cpu);
    let outcome = host.close()?;
    let packets = outcome.all[Count::Offered];
    Ok((outcome, Effort { packets, wall_ns, cpu_ns, around_ns: now_ns() - begin - wall_ns }))
}
