//! Benchmarks: what a frame costs, here and in what one would use instead.
//!
//! * `subject`: what is measured, from a private array (the floor) to the reference; `floors`, `peers`: their code;
//! * [`sweep`]: batches of all sizes, allocated and freed; [`scale`]: the same from 1 GiB to 1 TiB, lists bypassed.
//!
//! Subjects take turns within each row, sample by sample, so that a noisy moment hits all of them alike. Medians count;
//! ratios to the floor of the same row count more.

mod floors;
mod peers;
pub mod scale;
mod subject;
pub mod sweep;

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
