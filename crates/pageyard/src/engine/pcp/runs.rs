//! How often lists missed lately, and so how much moves when they miss again.

use super::tuning::{LISTS, ListIdx};
use pageyard_core::units::CpuId;
use pageyard_sync::{A32, Carver, Relaxed};

/// Times that a batch doubles while a list keeps missing in the same way.
///
/// # Linux
/// `CONFIG_PCP_BATCH_SCALE_MAX`.
pub(crate) const DOUBLINGS: i32 = 5;

/// Words of a CPU, whole cache lines.
const OF_CPU: usize = LISTS.next_multiple_of(16);

/// For each list, how often in a row it was refilled, or spilled, which counts below zero.
///
/// # Linux
/// `alloc_factor` and `free_count`, of 6.7 and later. Difference: a refill ends a run of spills at once, and a spill
/// one of refills.
pub(crate) struct Runs<'m>(&'m [A32]);

impl<'m> Runs<'m> {
    /// Carves those of `cpus` CPUs.
    pub(crate) fn carve(carver: &mut Carver<'m>, cpus: usize) -> Runs<'m> {
        Runs(carver.zeroed(cpus * OF_CPU))
    }

    /// Notes a refill or a spill; returns how often the batch is doubled.
    pub(crate) fn note(&self, cpu: CpuId, list: ListIdx, refill: bool) -> u32 {
        let word = &self.0[cpu.index() * OF_CPU + list.get()];
        let sign = if refill { 1 } else { -1 };
        // ORDER: Relaxed, here and below: a hint.
        let before = (word.load(Relaxed) as i32 * sign).clamp(0, DOUBLINGS);
        word.store(((before + 1) * sign) as u32, Relaxed);
        before as u32
    }
}
