//! What a figure is made of, and what disturbed it.

use crate::{cell, environment};
use serde::Serialize;

/// Samples of each row and subject.
pub(crate) const SAMPLES: usize = 15;

/// Returns the median; the slice is sorted by it. Zero for an empty one.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Something that could not be measured, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Skipped {
    /// What.
    pub allocator: &'static str,
    /// Why.
    pub why: String,
}

/// What disturbed a setting.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// The share by which the two halves of a pair, which are the same code, differ.
    pub apart: f64,
    /// What other processes took meanwhile.
    pub taken: environment::Taken,
}

impl Noise {
    /// Says whether rows of this setting are doubtful.
    #[must_use]
    pub fn disturbs(&self) -> bool {
        self.apart > cell::AGREE || self.taken.is_much()
    }
}
