//! Measurements that were skipped, and disturbances of those that were made.

use super::machine::{InterferenceWatch, Taken};
use serde::Serialize;

/// Something that could not be measured, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Skipped {
    /// The allocator.
    pub allocator: &'static str,
    /// The reason.
    pub why: String,
}

/// The two halves of a pair may differ by this share.
const AGREE: f64 = 0.05;

/// The disturbances of a setting.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// The share by which the two halves of a pair, which are the same code, differ.
    pub apart: f64,
    /// The time that other processes took meanwhile.
    pub taken: Taken,
}

impl Noise {
    /// Compares the medians of a pair of the same code, and asks what others took meanwhile.
    pub(crate) fn of(pair: [f64; 2], watch: &InterferenceWatch) -> Noise {
        let apart = (pair[0] - pair[1]).abs() / pair[0].min(pair[1]).max(0.01);
        Noise { apart, taken: watch.seen() }
    }

    /// Returns whether rows of this setting are doubtful.
    #[must_use]
    pub fn disturbs(&self) -> bool {
        self.apart > AGREE || self.taken.is_much()
    }
}

/// The disturbance seen across a run of many settings.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Disturbance {
    /// Settings measured.
    pub settings: usize,
    /// Of those, the ones whose rows are to be doubted.
    pub disturbed: usize,
    /// The largest disagreement of a pair of the same code.
    pub pair_apart_pct_max: f64,
    /// The processor time that other processes took during the run.
    #[serde(flatten)]
    pub taken: Taken,
}

impl Disturbance {
    /// Sums up what disturbed each setting.
    #[must_use]
    pub fn of_all(noise: &[Noise]) -> Disturbance {
        let mut all = Disturbance::default();
        noise.iter().for_each(|one| all.add(one));
        all
    }

    /// Adds a setting.
    pub(crate) fn add(&mut self, noise: &Noise) {
        self.settings += 1;
        self.disturbed += usize::from(noise.disturbs());
        self.pair_apart_pct_max = self.pair_apart_pct_max.max(100.0 * noise.apart);
        self.taken.steal_ms += noise.taken.steal_ms;
        self.taken.waited_ms += noise.taken.waited_ms;
        self.taken.elapsed_ms += noise.taken.elapsed_ms;
    }
}
