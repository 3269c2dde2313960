//! Samples of a row: what they come to, by themselves and beside another row's.

/// Returns by how many percent `after` is below `before`.
#[must_use]
pub fn gain(before: f64, after: f64) -> f64 {
    (before - after) / before * 100.0
}

/// One row's samples.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    sorted: Vec<f64>,
    /// Turn by turn; not a number where a turn has no sample that counts.
    turns: Vec<f64>,
}

impl Samples {
    /// Takes values in the order of their turns; one that is not a number stands for a turn without a sample.
    #[must_use]
    pub fn new(turns: Vec<f64>) -> Samples {
        let mut sorted: Vec<f64> = turns.iter().copied().filter(|v| !v.is_nan()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        Samples { sorted, turns }
    }

    /// Returns by how many percent `after` lies below these, turn by turn: the median over the turns in which both have
    /// a sample. Both samples of a turn saw the same moment, so a machine that slows down for a while does not favour a
    /// row. Not a number where they were not sampled in the same turns.
    #[must_use]
    pub fn paired_gain(&self, after: &Samples) -> f64 {
        if self.turns.len() != after.turns.len() {
            return f64::NAN;
        }
        Samples::new(self.turns.iter().zip(&after.turns).map(|(a, b)| gain(*a, *b)).collect()).median()
    }

    /// Returns how many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Returns the least; not a number where there is none.
    #[must_use]
    pub fn min(&self) -> f64 {
        self.sorted.first().copied().unwrap_or(f64::NAN)
    }

    /// Returns the greatest; not a number where there is none.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.sorted.last().copied().unwrap_or(f64::NAN)
    }

    /// Returns the arithmetic mean; not a number where there is none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sorted.iter().sum::<f64>() / self.sorted.len() as f64
    }

    /// Returns the median; not a number where there is none.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.sorted.get(self.sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// Returns the standard deviation of the sample; not a number below two samples.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        let mean = self.mean();
        let squares: f64 = self.sorted.iter().map(|v| (v - mean).powi(2)).sum();
        if self.sorted.len() < 2 { f64::NAN } else { (squares / (self.sorted.len() - 1) as f64).sqrt() }
    }

    /// Returns the harmonic mean, as fits rates; not a number where there is none.
    #[must_use]
    pub fn harmonic_mean(&self) -> f64 {
        self.sorted.len() as f64 / self.sorted.iter().map(|v| 1.0 / v).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_a_known_series() {
        let s = Samples::new(vec![4.0, 1.0, 2.0, 5.0, 3.0]);
        assert_eq!((s.min(), s.max(), s.mean(), s.median()), (1.0, 5.0, 3.0, 3.0));
        assert!((s.deviation() - 2.5f64.sqrt()).abs() < 1e-12);
        assert!((s.harmonic_mean() - 5.0 / (1.0 + 0.5 + 1.0 / 3.0 + 0.25 + 0.2)).abs() < 1e-12);
        assert!(Samples::default().median().is_nan());
        // The machine ran at half its speed in the second turn; `after` takes a tenth less in both, and lacks the
        // third.
        let (before, after) = (Samples::new(vec![10.0, 20.0, 5.0]), Samples::new(vec![9.0, 18.0, f64::NAN]));
        assert_eq!((before.len(), after.len()), (3, 2));
        assert!((before.paired_gain(&after) - 10.0).abs() < 1e-9);
        assert!(before.paired_gain(&s).is_nan());
    }
}
