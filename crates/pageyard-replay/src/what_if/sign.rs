//! Signs of changes.

use serde::Serialize;

/// The direction in which a figure changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Sign {
    /// Less than before.
    Down,
    /// No change that counts as one.
    None,
    /// More.
    Up,
}

/// The least change, as a share of the baseline, that counts as one; figures have a floor beside it.
pub const LEAST_SHARE: f64 = 0.05;

impl Sign {
    /// Every sign.
    pub const ALL: [Sign; 3] = [Sign::Down, Sign::None, Sign::Up];

    /// Returns the sign of a change that is at least [`LEAST_SHARE`] of the baseline and at least `floor`.
    #[must_use]
    pub fn of(change: f64, baseline: f64, floor: f64) -> Sign {
        if change.abs() < (LEAST_SHARE * baseline.abs()).max(floor) {
            return Sign::None;
        }
        if change > 0.0 { Sign::Up } else { Sign::Down }
    }
}
