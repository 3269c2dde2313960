//! A figure in windows of a recording, and how far its mean can be trusted.

use super::figures::{FIGURES, Figure, Source, Unit};
use crate::drawn::change_interval;
use crate::error::ReplayError;
use crate::rows::{Row, each_row};
use pageyard_trace::{HostSample, Trace};

/// Windows that a recording is cut into.
pub(super) const WINDOWS: usize = 20;

/// Windows that are drawn together: those that follow each other are alike.
const TOGETHER: usize = 2;

/// Recordings that are drawn for an interval. It holds 999 of 1000: so many figures are compared that at 95 % one in
/// each pair would be called different by chance.
const DRAWN: usize = 8000;

/// A figure of one recording, window after window.
#[derive(Clone, Debug, PartialEq)]
pub struct Windows(pub Vec<f64>);

impl Windows {
    /// Returns the mean of the windows.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    /// Returns the interval that holds the change from `before` to this 999 times of 1000, if other windows of these
    /// recordings are like those that were seen.
    #[must_use]
    pub fn change_from(&self, before: &Windows) -> (f64, f64) {
        change_interval(&before.0, &self.0, TOGETHER, DRAWN)
    }
}

/// Reads a recording of so many frames, and returns its figures, in the order of [`FIGURES`]: `None` for one that the
/// recording does not tell.
///
/// # Errors
/// [`ReplayError::Trace`] where it cannot be read.
pub(super) fn read(
    trace: &Trace,
    frames: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<Option<Windows>>, ReplayError> {
    let duration = trace.meta().duration_ns.max(1);
    let window =
        |time_ns: u64| ((time_ns as u128 * WINDOWS as u128 / u128::from(duration)) as usize).min(WINDOWS - 1);
    let mut counted = vec![[0.0; WINDOWS]; FIGURES.len()];
    each_row(trace, progress, |row| {
        let Row::Event(event) = row else { return };
        for (figure, counted) in FIGURES.iter().zip(&mut counted) {
            if let Source::Rows(count) = figure.source {
                counted[window(event.time_ns)] += count(event) as f64;
            }
        }
    })?;
    let mut known = [false; FIGURES.len()];
    let mut seen = [0.0; WINDOWS];
    let mut last: Option<HostSample> = None;
    let mut samples = trace.samples()?;
    while let Some(sample) = samples.as_mut().map_or(Ok(None), |samples| samples.next_sample())? {
        let at = window(sample.time_ns);
        seen[at] += 1.0;
        for (n, figure) in FIGURES.iter().enumerate() {
            let value = match figure.source {
                Source::Rows(_) => None,
                Source::Counters(names) => last.as_ref().and_then(|last| rise(names, last, &sample)),
                Source::State(of) => of(&sample, frames.max(1)),
            };
            if let Some(value) = value {
                counted[n][at] += value;
                known[n] = true;
            }
        }
        last = Some(sample);
    }
    let seconds = duration as f64 / 1e9 / WINDOWS as f64;
    let of = |(n, figure): (usize, &Figure)| {
        let known = matches!(figure.source, Source::Rows(_)) || known[n];
        let values = counted[n].iter().zip(seen).filter_map(|(sum, seen)| match figure.unit {
            Unit::PerSecond => Some(sum / seconds),
            Unit::Percent => (seen > 0.0).then(|| sum / seen),
        });
        known.then(|| Windows(values.collect()))
    };
    Ok(FIGURES.iter().enumerate().map(of).collect())
}

/// Returns how much counters rose together from one sample to the next; `None` where the kernel has none of them.
fn rise(names: &[&str], last: &HostSample, now: &HostSample) -> Option<f64> {
    let rises = names.iter().filter_map(|name| Some(now.counter(name)?.saturating_sub(last.counter(name)?)));
    let mut any = false;
    let sum = rises.inspect(|_| any = true).sum::<u64>() as f64;
    any.then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_counts_beyond_what_windows_differ_by() {
        let around = |mean: f64| Windows((0..20).map(|n| mean + f64::from(n * 7 % 5)).collect());
        let (low, high) = around(30.0).change_from(&around(10.0));
        assert!(17.0 < low && low < 20.0 && 20.0 < high && high < 23.0, "{low} to {high}");
        let (low, high) = around(11.0).change_from(&around(10.0));
        assert!(low <= 0.0 && high > 1.0, "{low} to {high}");
        let flat = |value| Windows(vec![value; 20]);
        assert_eq!(flat(3.0).change_from(&flat(3.0)), (0.0, 0.0));
        assert_eq!(flat(4.0).change_from(&flat(3.0)), (1.0, 1.0));
    }

    #[test]
    fn what_happened_once_is_no_difference() {
        let mut once = Windows(vec![0.0; 20]);
        once.0[7] = 5000.0;
        assert_eq!(once.change_from(&Windows(vec![0.0; 20])).0, 0.0);
    }
}
