//! Signs of changes, predicted and measured, and how well the one says the other.

use pageyard_replay::what_if::Sign;
use serde::Serialize;

/// How often samples are drawn again for an interval.
const DRAWS: usize = 4000;

/// A measured change.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// The mean of the baseline.
    pub baseline: f64,
    /// The mean under the setting, less that.
    pub change: f64,
    /// The interval of the change that holds 95 % of redrawn samples.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// The standard deviation of the repeated baseline.
    pub spread: f64,
}

impl Measured {
    /// Compares samples under a setting with samples of the baseline.
    #[must_use]
    pub fn of(baseline: &[f64], under: &[f64], seed: u64) -> Measured {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut changes: Vec<f64> =
            (0..DRAWS).map(|_| redrawn_mean(under, &mut rng) - redrawn_mean(baseline, &mut rng)).collect();
        let (low, high) = interval(&mut changes);
        let centre = mean(baseline);
        let squares: f64 = baseline.iter().map(|x| (x - centre).powi(2)).sum();
        let spread = (squares / (baseline.len().max(2) - 1) as f64).sqrt();
        Measured { baseline: centre, change: mean(under) - centre, low, high, spread }
    }

    /// Compares pairs of samples, which are redrawn together.
    #[must_use]
    pub fn of_pairs(pairs: &[(f64, f64)], seed: u64) -> Measured {
        let changes: Vec<f64> = pairs.iter().map(|(before, after)| after - before).collect();
        let before: Vec<f64> = pairs.iter().map(|(before, _)| *before).collect();
        Measured { baseline: mean(&before), ..Measured::of(&[0.0], &changes, seed) }
    }

    /// Returns the sign: none where the interval holds nothing, or the change is too small to count.
    #[must_use]
    pub fn sign(&self, floor: f64) -> Sign {
        match self.low <= 0.0 && self.high >= 0.0 {
            true => Sign::None,
            false => Sign::of(self.change, self.baseline, floor),
        }
    }
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len().max(1) as f64
}

fn redrawn_mean(of: &[f64], rng: &mut fastrand::Rng) -> f64 {
    (0..of.len()).map(|_| of[rng.usize(0..of.len())]).sum::<f64>() / of.len().max(1) as f64
}

/// Returns what 95 % of the values lie between.
fn interval(values: &mut [f64]) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values.get(((values.len() as f64 - 1.0) * share).round() as usize).copied();
    (at(0.025).unwrap_or(f64::NAN), at(0.975).unwrap_or(f64::NAN))
}

/// Signs said and measured, of one cell.
pub type Pairs = Vec<(Sign, Sign)>;

/// How often what was said met what was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Confusion([[u32; 3]; 3]);

impl Confusion {
    /// Counts pairs of what was said and what was measured.
    #[must_use]
    pub fn of<'a>(pairs: impl IntoIterator<Item = &'a (Sign, Sign)>) -> Confusion {
        let mut counts = [[0; 3]; 3];
        for (said, measured) in pairs {
            counts[*said as usize][*measured as usize] += 1;
        }
        Confusion(counts)
    }

    /// Returns how often this was said and that measured.
    #[must_use]
    pub fn count(&self, said: Sign, measured: Sign) -> u32 {
        self.0[said as usize][measured as usize]
    }

    /// Returns the mean, over the signs that were measured at all, of the share that was said rightly. A guess that
    /// always says the same gets one part in as many signs as were measured.
    #[must_use]
    pub fn balanced_accuracy(&self) -> f64 {
        let recalls = Sign::ALL.iter().filter_map(|measured| {
            let of: u32 = Sign::ALL.iter().map(|said| self.count(*said, *measured)).sum();
            (of > 0).then(|| f64::from(self.count(*measured, *measured)) / f64::from(of))
        });
        mean(&recalls.collect::<Vec<_>>())
    }
}

/// A balanced accuracy, and what 95 % of redrawn cells give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// Of all cells.
    pub value: f64,
    /// The interval.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// Returns the balanced accuracy over cells. Cells are redrawn whole, since figures of one cell depend on each other.
#[must_use]
pub fn accuracy(cells: &[Pairs], seed: u64) -> Accuracy {
    let value = Confusion::of(cells.iter().flatten()).balanced_accuracy();
    let mut drawn = redrawn(cells.len(), seed, |chosen| {
        Confusion::of(chosen.iter().flat_map(|&i| &cells[i])).balanced_accuracy()
    });
    let (low, high) = interval(&mut drawn);
    Accuracy { value, low, high }
}

/// Returns by how much one way of saying is better than another over the same cells, redrawn together.
#[must_use]
pub fn advantage(cells: &[Pairs], over: &[Pairs], seed: u64) -> Accuracy {
    let of = |cells: &[Pairs], chosen: &[usize]| {
        Confusion::of(chosen.iter().flat_map(|&i| &cells[i])).balanced_accuracy()
    };
    let all: Vec<usize> = (0..cells.len()).collect();
    let value = of(cells, &all) - of(over, &all);
    let mut drawn = redrawn(cells.len(), seed, |chosen| of(cells, chosen) - of(over, chosen));
    let (low, high) = interval(&mut drawn);
    Accuracy { value, low, high }
}

fn redrawn(n: usize, seed: u64, of: impl Fn(&[usize]) -> f64) -> Vec<f64> {
    let mut rng = fastrand::Rng::with_seed(seed);
    if n == 0 {
        return Vec::new();
    }
    let draw = |_| of(&(0..n).map(|_| rng.usize(0..n)).collect::<Vec<_>>());
    (0..DRAWS).map(draw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Sign::{Down, None as Same, Up};

    #[test]
    fn a_change_counts_from_a_share_and_a_floor_on() {
        assert_eq!(Sign::of(4.0, 100.0, 2.0), Same);
        assert_eq!(Sign::of(5.0, 100.0, 2.0), Up);
        assert_eq!(Sign::of(-5.0, 100.0, 6.0), Same);
        assert_eq!(Sign::of(-3.0, 0.0, 2.0), Down);
        assert_eq!(Sign::of(0.0, 0.0, 2.0), Same);
    }

    #[test]
    fn a_change_within_the_spread_has_no_sign() {
        let noisy = [100.0, 140.0, 60.0, 120.0, 80.0, 100.0];
        let within = Measured::of(&noisy, &[110.0, 70.0, 150.0, 90.0, 130.0, 108.0], 1);
        assert_eq!(within.sign(1.0), Same);
        let beyond = Measured::of(&noisy, &[210.0, 170.0, 250.0, 190.0, 230.0, 208.0], 1);
        assert_eq!(beyond.sign(1.0), Up);
        assert!(
            beyond.low > 50.0 && beyond.high < 160.0 && (beyond.spread - 28.28).abs() < 0.1,
            "{beyond:?}"
        );
        // Surely lower, and too little to count.
        let little = Measured::of(&[100.0; 6], &[99.0; 6], 1);
        assert_eq!((little.change, little.sign(0.5)), (-1.0, Same));
        assert_eq!(little, Measured::of(&[100.0; 6], &[99.0; 6], 1));
    }

    #[test]
    fn pairs_that_change_alike_have_a_sign_however_far_apart_they_are() {
        let pairs = [(10.0, 12.0), (500.0, 503.0), (90.0, 92.0), (7.0, 9.0), (1000.0, 1002.0)];
        let paired = Measured::of_pairs(&pairs, 1);
        assert!(paired.low >= 2.0 && paired.high <= 3.0, "{paired:?}");
        assert_eq!((paired.baseline, paired.sign(0.5)), (321.4, Same), "less than a twentieth");
        let fewer = pairs.map(|(before, after)| (before / 100.0, after / 100.0));
        assert_eq!(Measured::of_pairs(&fewer, 1).sign(0.5), Same, "less than the floor");
        let halved = pairs.map(|(before, _)| (before, before / 2.0));
        assert_eq!(Measured::of_pairs(&halved, 1).sign(0.5), Down);
    }

    #[test]
    fn always_saying_the_same_is_worth_a_third() {
        let pairs = [(Same, Same), (Same, Same), (Same, Up), (Same, Down)];
        assert_eq!(Confusion::of(&pairs).balanced_accuracy(), 1.0 / 3.0);
        let pairs = [(Same, Same), (Up, Same), (Up, Up), (Down, Down)];
        let confusion = Confusion::of(&pairs);
        assert!((confusion.balanced_accuracy() - (0.5 + 1.0 + 1.0) / 3.0).abs() < 1e-12);
        assert_eq!((confusion.count(Up, Same), confusion.count(Same, Up)), (1, 0));
        assert_eq!(Confusion::of(&[]).balanced_accuracy(), 0.0);
    }

    #[test]
    fn an_advantage_needs_cells_that_agree() {
        let good: Vec<Pairs> = [Up, Down, Same].iter().cycle().take(30).map(|&s| vec![(s, s)]).collect();
        let blind: Vec<Pairs> = good.iter().map(|c| vec![(Same, c[0].1)]).collect();
        let better = advantage(&good, &blind, 3);
        assert!(better.low > 0.3 && better.value > 0.6, "{better:?}");
        let none = advantage(&good, &good, 3);
        assert_eq!((none.low, none.value, none.high), (0.0, 0.0, 0.0));
        let all = accuracy(&good, 3);
        assert_eq!((all.low, all.value, all.high), (1.0, 1.0, 1.0));
    }
}
