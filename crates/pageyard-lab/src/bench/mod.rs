//! Benchmarks: what a frame costs, here and in what one would use instead.
//!
//! * [`sweep`]: batches of all sizes, allocated and freed; [`bulk`]: many frames with one call; [`cross`]: taken on one
//!   CPU and given back on another; [`scale`]: from 1 GiB to 1 TiB, lists bypassed; [`primitives`]: what paths are made of.
//! * `subjects`: who takes part, from a private array (the floor) to the reference and to [`peers`]; `floors`, `paged`:
//!   their code, each an `allocator`; `subject`: what a benchmark sees of them; `handover`: one sample of [`cross`].
//! * `cell`: one setting measured; `team`: threads that stay; [`environment`]: the machine, and who else used it; `clock`.
//!
//! Subjects take turns within each setting, sample by sample, so that a noisy moment hits all of them alike. Medians
//! count; ratios to the floor of the same setting count more.

mod allocator;
pub mod bulk;
mod cell;
mod clock;
pub mod cross;
pub mod environment;
mod floors;
mod handover;
mod paged;
pub mod peers;
pub mod primitives;
pub mod refused;
pub mod scale;
mod subject;
mod subjects;
pub mod sweep;
mod team;

pub use subjects::ORDERS;

/// Samples of each row and subject.
pub(crate) const SAMPLES: usize = 15;

/// Returns the median; the slice is sorted by it. Zero for an empty one.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Something that could not be measured, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// What.
    pub allocator: &'static str,
    /// Why.
    pub why: String,
}

/// What disturbed a setting.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// By which share the two halves of a pair differ that are the same code.
    pub apart: f64,
    /// What others took meanwhile.
    pub taken: environment::Taken,
}

impl Noise {
    /// Says whether rows of this setting are to be doubted.
    #[must_use]
    pub fn disturbs(&self) -> bool {
        self.apart > cell::AGREE || self.taken.is_much()
    }
}
