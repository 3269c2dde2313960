//! Samples: variants take turns, A B A B, in one process, and two threads count only while both run.

use crate::SAMPLES;
use core_affinity::CoreId;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// One variant's samples: sorted, and turn by turn.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>, Vec<f64>);

impl Samples {
    /// Takes values in the order of their turns.
    #[must_use]
    pub fn new(values: Vec<f64>) -> Samples {
        let mut sorted = values.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        Samples(sorted, values)
    }

    /// Returns by how many percent `after` lies below these, turn by turn: the median over the turns. Both samples of a
    /// turn saw the same moment, so a machine that slows down for a while does not favour a variant. Not a number where
    /// a turn is missing from one of them.
    #[must_use]
    pub fn paired_gain(&self, after: &Samples) -> f64 {
        if self.1.len() != after.1.len() {
            return f64::NAN;
        }
        Samples::new(self.1.iter().zip(&after.1).map(|(a, b)| super::gain(*a, *b)).collect()).median()
    }

    /// Returns how many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Says whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the least; not a number where there is none.
    #[must_use]
    pub fn min(&self) -> f64 {
        self.0.first().copied().unwrap_or(f64::NAN)
    }

    /// Returns the greatest; not a number where there is none.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.0.last().copied().unwrap_or(f64::NAN)
    }

    /// Returns the arithmetic mean; not a number where there is none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    /// Returns the median; not a number where there is none.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.0.get(self.0.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// Returns the standard deviation of the sample; not a number below two samples.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        let mean = self.mean();
        let squares: f64 = self.0.iter().map(|v| (v - mean).powi(2)).sum();
        if self.0.len() < 2 { f64::NAN } else { (squares / (self.0.len() - 1) as f64).sqrt() }
    }

    /// Returns the harmonic mean, as fits rates; not a number where there is none.
    #[must_use]
    pub fn harmonic_mean(&self) -> f64 {
        self.0.len() as f64 / self.0.iter().map(|v| 1.0 / v).sum::<f64>()
    }
}

/// Samples `variants` in turn, after one pass that is not kept. A sample is a few numbers, each its own series;
/// `None` is a sample that does not count.
///
/// Returns the series of each variant.
pub(super) fn in_turn<V, const N: usize>(
    variants: &mut [V],
    sample: impl FnMut(&mut V) -> Option<[f64; N]>,
) -> Vec<[Samples; N]> {
    turns(SAMPLES, variants, sample)
}

/// The same with another number of samples.
pub(super) fn turns<V, const N: usize>(
    samples: usize,
    variants: &mut [V],
    mut sample: impl FnMut(&mut V) -> Option<[f64; N]>,
) -> Vec<[Samples; N]> {
    for variant in variants.iter_mut() {
        sample(variant);
    }
    let mut kept: Vec<[Vec<f64>; N]> = variants.iter().map(|_| std::array::from_fn(|_| Vec::new())).collect();
    // Samples that do not count are taken again, within reason.
    let mut turns = 0;
    while turns < 3 * samples && kept.iter().any(|k| k.first().is_some_and(|s| s.len() < samples)) {
        turns += 1;
        for (variant, series) in variants.iter_mut().zip(&mut kept) {
            if let Some(values) = sample(variant) {
                series.iter_mut().zip(values).for_each(|(s, v)| s.push(v));
            }
        }
    }
    kept.into_iter().map(|k| k.map(Samples::new)).collect()
}

/// The time of each of several threads, and the share of the longest during which all of them ran.
pub(super) struct Together<R> {
    /// What each returned, and how long it ran.
    pub threads: Vec<(R, Duration)>,
    /// The time in which all ran, divided by the time from the first start to the last end; 1 is all of it.
    pub overlap: f64,
}

/// The least overlap of a run on several threads that counts.
pub(super) const OVERLAP: f64 = 0.8;

/// Runs `work` on each of these CPUs at once; the threads start together.
pub(super) fn together<R: Send>(cores: &[CoreId], work: impl Fn(usize) -> R + Sync) -> Together<R> {
    let barrier = Barrier::new(cores.len());
    let run = |(cpu, core): (usize, &CoreId)| {
        core_affinity::set_for_current(*core);
        barrier.wait();
        let start = Instant::now();
        let result = work(cpu);
        (result, start, Instant::now())
    };
    let (run, mut all) = (&run, Vec::new());
    std::thread::scope(|scope| {
        let threads: Vec<_> = cores.iter().enumerate().map(|c| scope.spawn(move || run(c))).collect();
        all.extend(threads.into_iter().map(|t| t.join().expect("a sample does not panic")));
    });
    let first = all.iter().map(|(_, s, _)| *s).min();
    let last = all.iter().map(|(_, _, e)| *e).max();
    let both = all.iter().map(|(_, s, _)| *s).max().zip(all.iter().map(|(_, _, e)| *e).min());
    let overlap = match (first, last, both) {
        (Some(first), Some(last), Some((from, to))) => {
            let whole = last.duration_since(first).as_secs_f64().max(f64::MIN_POSITIVE);
            to.saturating_duration_since(from).as_secs_f64() / whole
        }
        _ => 0.0,
    };
    Together { threads: all.into_iter().map(|(r, s, e)| (r, e - s)).collect(), overlap }
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
        // The machine ran at half its speed in the second turn; `after` takes a tenth less in both.
        let (before, after) = (Samples::new(vec![10.0, 20.0]), Samples::new(vec![9.0, 18.0]));
        assert!((before.paired_gain(&after) - 10.0).abs() < 1e-9);
        assert!(before.paired_gain(&s).is_nan());
    }

    #[test]
    fn variants_take_turns_and_the_first_pass_is_not_kept() {
        let mut order = Vec::new();
        let mut n = 0.0;
        let kept = in_turn(&mut ['a', 'b'], |v| {
            order.push(*v);
            n += 1.0;
            Some([n])
        });
        assert!(order.chunks(2).all(|pair| pair == ['a', 'b']));
        assert_eq!(kept[0][0].len(), SAMPLES);
        assert_eq!((kept[0][0].min(), kept[1][0].min()), (3.0, 4.0));
    }

    #[test]
    fn samples_that_do_not_count_are_taken_again() {
        let mut n = 0;
        let kept = in_turn(&mut [()], |()| {
            n += 1;
            (n % 2 == 0).then_some([1.0])
        });
        assert_eq!(kept[0][0].len(), SAMPLES);
    }
}
