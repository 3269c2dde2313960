//! A mean and how far it can be trusted.

/// A mean with the interval in which the mean of very many seeds lies, 95 times of 100. With one value all three are
/// that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The interval's upper end.
    pub high: f64,
}

/// Student's t for 95 % on both sides, by degrees of freedom from 1.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

impl Interval {
    /// Takes the mean of some values; `None` where there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Interval> {
        let freedom = values.len().checked_sub(1)?;
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        if freedom == 0 {
            return Some(Interval { mean, low: mean, high: mean });
        }
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / freedom as f64;
        // Beyond the table the last entry is a little too wide, never too narrow.
        let half = T[freedom.min(T.len()) - 1] * (variance / n).sqrt();
        Some(Interval { mean, low: mean - half, high: mean + half })
    }

    /// Returns whether 0 lies outside.
    #[must_use]
    pub fn leaves_out_zero(self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        // Mean 5, standard deviation 1.5811, five values: 2.776 * 1.5811 / sqrt 5 = 1.9629.
        let five = Interval::of(&[3.0, 4.0, 5.0, 6.0, 7.0]).unwrap();
        assert!((five.mean - 5.0).abs() < 1e-12 && (five.high - 6.9629).abs() < 1e-3, "{five:?}");
        assert!((five.low + five.high - 10.0).abs() < 1e-12);
        assert_eq!(Interval::of(&[4.0]), Some(Interval { mean: 4.0, low: 4.0, high: 4.0 }));
        assert_eq!(Interval::of(&[2.0; 40]), Some(Interval { mean: 2.0, low: 2.0, high: 2.0 }));
        assert_eq!(Interval::of(&[]), None);
    }
}
