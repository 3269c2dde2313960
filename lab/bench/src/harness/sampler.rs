//! The sampler: subjects take turns, A B A B, in one process, so that a noisy moment hits all of them alike.

use super::samples::Samples;
use super::team::{Pinned, cpus};

/// Samples of each row where no other number is asked for.
pub const SAMPLES: usize = 15;

/// The fewest samples whose median ignores a disturbed one.
pub const FEWEST: usize = 3;

/// The outcome of a sample: a few figures, each its own series.
pub(crate) enum Sample<const N: usize> {
    /// Figures that count.
    Counts([f64; N]),
    /// A sample that was disturbed: it is taken again, within reason.
    Disturbed,
    /// The subject cannot be sampled: it is left alone from here on.
    Impossible,
}

impl<const N: usize> From<Option<[f64; N]>> for Sample<N> {
    fn from(figures: Option<[f64; N]>) -> Sample<N> {
        figures.map_or(Sample::Disturbed, Sample::Counts)
    }
}

/// How often subjects are sampled.
pub(crate) struct Sampler<'a> {
    samples: usize,
    warm: bool,
    progress: Option<&'a mut dyn FnMut(usize)>,
}

impl<'a> Sampler<'a> {
    /// Takes this many samples of each subject, after one pass that is not kept.
    pub fn new(samples: usize) -> Sampler<'a> {
        Sampler { samples, warm: false, progress: None }
    }

    /// Leaves that pass out: the caller has made it.
    pub fn warmed(self) -> Sampler<'a> {
        Sampler { warm: true, ..self }
    }

    /// Tells `progress` after each turn how many samples are done.
    pub fn telling(self, progress: &'a mut dyn FnMut(usize)) -> Sampler<'a> {
        Sampler { progress: Some(progress), ..self }
    }

    /// Samples `subjects` in turn, on the last CPU that this thread may use. Returns the series of each subject.
    pub fn run<S, const N: usize>(
        mut self,
        subjects: &mut [S],
        mut sample: impl FnMut(&mut S) -> Sample<N>,
    ) -> Vec<[Samples; N]> {
        let _pinned = cpus().last().map(|cpu| Pinned::to(*cpu));
        let mut series: Vec<Series<N>> = subjects.iter().map(|_| Series::default()).collect();
        if !self.warm {
            for (subject, series) in subjects.iter_mut().zip(&mut series) {
                series.impossible = matches!(sample(subject), Sample::Impossible);
            }
        }
        for turn in 1..=3 * self.samples {
            // Turns past the last are for those that lack samples.
            for (subject, series) in subjects.iter_mut().zip(&mut series) {
                match series.lacks(self.samples) {
                    true => series.add(sample(subject)),
                    false => series.add(Sample::Disturbed),
                }
            }
            if let Some(progress) = &mut self.progress {
                progress(turn.min(self.samples));
            }
            if turn >= self.samples && !series.iter().any(|s| s.lacks(self.samples)) {
                break;
            }
        }
        series.into_iter().map(|s| s.turns.map(Samples::new)).collect()
    }
}

/// The series of one subject: a figure for each turn, not a number where the turn has none.
struct Series<const N: usize> {
    turns: [Vec<f64>; N],
    counted: usize,
    impossible: bool,
}

impl<const N: usize> Default for Series<N> {
    fn default() -> Series<N> {
        Series { turns: std::array::from_fn(|_| Vec::new()), counted: 0, impossible: false }
    }
}

impl<const N: usize> Series<N> {
    fn lacks(&self, samples: usize) -> bool {
        !self.impossible && self.counted < samples
    }

    fn add(&mut self, sample: Sample<N>) {
        let figures = match sample {
            Sample::Counts(figures) => {
                self.counted += 1;
                figures
            }
            Sample::Disturbed => [f64::NAN; N],
            Sample::Impossible => {
                self.impossible = true;
                [f64::NAN; N]
            }
        };
        self.turns.iter_mut().zip(figures).for_each(|(turns, figure)| turns.push(figure));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_take_turns_and_the_first_pass_is_not_kept() {
        let (mut order, mut n, mut told) = (Vec::new(), 0.0, Vec::new());
        let mut progress = |done| told.push(done);
        let kept = Sampler::new(5).telling(&mut progress).run(&mut ['a', 'b'], |v| {
            order.push(*v);
            n += 1.0;
            Sample::Counts([n])
        });
        assert!(order.chunks(2).all(|pair| pair == ['a', 'b']));
        assert_eq!((order.len(), kept[0][0].len()), (12, 5));
        assert_eq!((kept[0][0].min(), kept[1][0].min()), (3.0, 4.0));
        assert_eq!(told, [1, 2, 3, 4, 5]);
        let kept = Sampler::new(3).warmed().run(&mut [()], |()| Sample::Counts([1.0]));
        assert_eq!(kept[0][0].len(), 3);
    }

    #[test]
    fn a_sample_that_does_not_count_is_taken_again_and_pairs_stay_pairs() {
        // The first subject is disturbed in each other turn. Turn n takes n, and a tenth less on the second subject.
        let mut calls = [0.0; 2];
        let kept = Sampler::new(4).warmed().run(&mut [0, 1], |i| {
            calls[*i] += 1.0;
            let disturbed = *i == 0 && calls[0] % 2.0 == 0.0;
            Sample::from((!disturbed).then_some([calls[*i] * if *i == 0 { 1.0 } else { 0.9 }]))
        });
        assert_eq!((kept[0][0].len(), kept[1][0].len()), (4, 4));
        assert_eq!(calls, [7.0, 4.0], "turns past the last are for those that lack samples");
        assert!((kept[0][0].paired_gain(&kept[1][0]) - 10.0).abs() < 1e-9);
    }

    #[test]
    fn a_subject_that_cannot_be_sampled_is_left_alone_and_one_that_is_always_disturbed_is_given_up() {
        let mut calls = [0; 2];
        let kept = Sampler::new(5).run(&mut [0, 1], |i| {
            calls[*i] += 1;
            if *i == 0 { Sample::<1>::Impossible } else { Sample::Disturbed }
        });
        assert_eq!(calls, [1, 16]);
        assert!(kept.iter().all(|k| k[0].is_empty()));
    }
}
