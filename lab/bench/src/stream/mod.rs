//! `bench stream`: the memory bandwidth of this machine, by the four operations of J. D. McCalpin's STREAM.
//!
//! Three arrays of `f64`; Copy, Scale, Add and Triad in turn; the best time of each, without the first repetition. At
//! the end the arrays must hold what the operations come to.
//!
//! **Threads:** one, then one on each CPU that this process may use, pinned. Each works on the part of the arrays
//! that it wrote first, so that the part lies on the thread's node.
//!
//! **Stores** are ordinary ones: each fetches the line that it writes to. As in STREAM, that traffic is not counted:
//! Copy and Scale move half as many bytes again as they count, Add and Triad a third.

mod arrays;
mod kernel;

pub use kernel::Kernel;

use super::{FEWEST, Noise, Skipped};
use crate::harness::machine::{InterferenceWatch, Machine, last_level_caches};
use crate::harness::samples::Samples;
use crate::harness::team::{Team, cpus};
use arrays::Arrays;
use pageyard_replay::text::bytes;
use pageyard_trace::limits::{self, Room};
use serde::Serialize;
use std::num::NonZeroUsize;

/// Samples of each operation by default; the first repetition is left out.
pub const SAMPLES: usize = 9;

/// The most samples. Each repetition makes the arrays' values 15 times as large, and an `f64` holds 261 of them.
pub const MOST_SAMPLES: usize = 249;

/// Bytes of an element in each of the three arrays.
const ELEMENT_BYTES: u64 = size_of::<[f64; 3]>() as u64;

/// The settings to measure.
#[derive(Clone, Copy, Debug)]
pub struct StreamOptions {
    /// Elements of each array.
    pub elements: NonZeroUsize,
    /// Samples of each operation, 3 to [`MOST_SAMPLES`]: repetitions without the first.
    pub samples: usize,
}

impl StreamOptions {
    /// Returns STREAM's own: ten million elements, ten repetitions.
    #[must_use]
    pub fn full() -> StreamOptions {
        StreamOptions { elements: const { NonZeroUsize::new(10_000_000).unwrap() }, samples: SAMPLES }
    }

    /// Returns the same arrays with as few repetitions as possible.
    #[must_use]
    pub fn quick() -> StreamOptions {
        StreamOptions { samples: FEWEST, ..StreamOptions::full() }
    }
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StreamError {
    /// The arrays need more memory than this process may use.
    #[error(
        "three arrays of {elements} elements need more than the {} that {} leaves; ask for fewer --elements",
        bytes(room.bytes), room.bound_by
    )]
    NoRoom {
        /// Elements of one array.
        elements: NonZeroUsize,
        /// The memory that is left.
        room: Room,
    },
    /// The allocation failed.
    #[error(
        "memory for the arrays was refused, by the host or by a limit of this process; ask for fewer --elements"
    )]
    Refused,
    /// Too few or too many samples.
    #[error(
        "{0} samples are not possible: the best of fewer than {FEWEST} says little, and after {MOST_SAMPLES} the arrays' \
         values no longer fit their type; ask for --samples in between"
    )]
    Samples(usize),
    /// A thread panicked.
    #[error("a thread of the benchmark ended before its work was done, so there is no result; run it again")]
    Thread,
    /// The arrays do not hold what the operations come to.
    #[error(
        "the result is not valid: with {threads} threads, {wrong} elements are not what the operations come to; check this \
         machine's memory and processor"
    )]
    Invalid {
        /// Threads of the run.
        threads: usize,
        /// Wrong elements of all three arrays.
        wrong: usize,
    },
}

/// One operation with one number of threads.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamRow {
    /// The operation.
    pub kernel: Kernel,
    /// Threads, each on its own CPU.
    pub threads: usize,
    /// Bytes counted for an element: those that the operation reads and writes.
    pub bytes_per_element: u64,
    /// Megabytes (10^6 bytes) a second in the fastest sample: STREAM's figure.
    pub mbps_best: f64,
    /// Nanoseconds for a pass over the arrays, the mean of the samples.
    pub avg_ns: f64,
    /// The shortest.
    pub min_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl StreamRow {
    fn of(kernel: Kernel, threads: usize, elements: NonZeroUsize, times: &[u64]) -> StreamRow {
        let (min_ns, max_ns) =
            times.iter().fold((u64::MAX, 0), |(min, max), ns| (min.min(*ns), max.max(*ns)));
        let bytes_per_element = kernel.bytes_per_element();
        StreamRow {
            kernel,
            threads,
            bytes_per_element,
            mbps_best: (bytes_per_element * elements.get() as u64) as f64 * 1000.0 / min_ns as f64,
            avg_ns: times.iter().sum::<u64>() as f64 / times.len() as f64,
            min_ns,
            max_ns,
        }
    }
}

/// The result of a run whose arrays were right at the end.
#[derive(Clone, Debug)]
pub struct Streamed {
    /// Where it was measured.
    pub machine: Machine,
    /// The settings measured.
    pub options: StreamOptions,
    /// Bytes of the last-level caches of all CPUs that were used; `None` where the kernel does not say.
    pub last_level_caches: Option<u64>,
    /// The rows.
    pub rows: Vec<StreamRow>,
    /// The measurements that were skipped, each with the reason.
    pub skipped: Vec<Skipped>,
    /// The disturbance at each number of threads. Triad in even repetitions and in odd ones is the pair that must
    /// agree.
    pub noise: Vec<Noise>,
}

/// Measures with one thread and with one on each CPU. `progress` is told how many of how many repetitions are done.
///
/// # Errors
/// [`StreamError`].
pub fn stream(options: &StreamOptions, progress: &mut dyn FnMut(u64, u64)) -> Result<Streamed, StreamError> {
    let StreamOptions { elements, samples } = *options;
    if !(FEWEST..=MOST_SAMPLES).contains(&samples) {
        return Err(StreamError::Samples(samples));
    }
    let room = limits::memory();
    if (elements.get() as u64).saturating_mul(ELEMENT_BYTES) > room.bytes {
        return Err(StreamError::NoRoom { elements, room });
    }
    // One thread runs on the last CPU, because the first serves more interrupts.
    let cpus: Vec<usize> = cpus().into_iter().rev().collect();
    let mut result = Streamed {
        machine: Machine::measured(),
        options: *options,
        last_level_caches: last_level_caches(&cpus),
        rows: Vec::new(),
        skipped: Vec::new(),
        noise: Vec::new(),
    };
    let mut counts = vec![1, cpus.len()];
    counts.dedup();
    if counts.len() == 1 {
        let why = "this process may use one CPU, and has it in the rows of one thread".to_owned();
        result.skipped.push(Skipped { allocator: "all CPUs", why });
    }
    let team = Team::new(&cpus);
    let (each, all) = (samples as u64 + 1, counts.len() as u64 * (samples as u64 + 1));
    for (nth, threads) in (0..).zip(counts) {
        let arrays = Arrays::new(&team, threads, elements.get())?;
        measure(&arrays, &mut result, &mut |done| progress(nth * each + done, all))?;
    }
    Ok(result)
}

/// Measures all operations on these arrays, and adds the rows to the result unless the arrays are wrong at the end.
fn measure(arrays: &Arrays<'_>, result: &mut Streamed, tell: &mut dyn FnMut(u64)) -> Result<(), StreamError> {
    let StreamOptions { elements, samples } = result.options;
    let watch = InterferenceWatch::start();
    let mut times: [Vec<u64>; 4] = Default::default();
    for repetition in 0..=samples {
        for (kernel, times) in Kernel::ALL.into_iter().zip(&mut times) {
            let ns = arrays.run(kernel)?;
            if repetition > 0 {
                times.push(ns);
            }
        }
        tell(repetition as u64 + 1);
    }
    arrays.check(samples + 1)?;
    result.noise.push(Noise::of(halves(&times[3]), &watch));
    let rows = Kernel::ALL.into_iter().zip(&times);
    result.rows.extend(rows.map(|(kernel, times)| StreamRow::of(kernel, arrays.threads(), elements, times)));
    Ok(())
}

/// Returns the medians of the times at even places and at odd ones.
fn halves(times: &[u64]) -> [f64; 2] {
    [0, 1].map(|from| {
        let half = times.iter().skip(from).step_by(2);
        Samples::new(half.map(|ns| *ns as f64).collect()).median()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(elements: usize, samples: usize) -> StreamOptions {
        StreamOptions { elements: elements.try_into().unwrap(), samples }
    }

    #[test]
    fn every_operation_is_measured_with_one_thread_and_with_all() {
        let mut told = Vec::new();
        let result = stream(&options(50_000, 3), &mut |done, all| told.push((done, all))).unwrap();
        let counts = if cpus().len() == 1 { vec![1] } else { vec![1, cpus().len()] };
        let measured: Vec<_> = result.rows.iter().map(|r| (r.threads, r.kernel)).collect();
        let all: Vec<_> = counts.iter().flat_map(|n| Kernel::ALL.map(|kernel| (*n, kernel))).collect();
        assert_eq!((measured, result.skipped.len()), (all, 2 - counts.len()));
        let all = 4 * counts.len() as u64;
        assert_eq!(told, (1..=all).map(|done| (done, all)).collect::<Vec<_>>());
        for row in result.rows {
            assert!(0 < row.min_ns && row.min_ns as f64 <= row.avg_ns && row.avg_ns <= row.max_ns as f64);
        }
    }

    #[test]
    fn bandwidth_is_that_of_the_shortest_pass() {
        let row = StreamRow::of(Kernel::Triad, 1, 1000.try_into().unwrap(), &[3000, 2000, 4000]);
        assert_eq!((row.mbps_best, row.avg_ns, row.min_ns, row.max_ns), (12_000.0, 3000.0, 2000, 4000));
        assert_eq!(halves(&[1, 20, 2, 30, 3]), [2.0, 30.0]);
    }

    #[test]
    fn one_element_and_the_most_samples_are_valid_and_more_samples_are_refused() {
        let result = stream(&options(1, MOST_SAMPLES), &mut |_, _| ()).unwrap();
        assert!(result.rows.iter().all(|r| r.mbps_best.is_finite()));
        for samples in [0, FEWEST - 1, MOST_SAMPLES + 1] {
            let refused = stream(&options(1, samples), &mut |_, _| ()).err();
            assert_eq!(refused, Some(StreamError::Samples(samples)));
        }
    }

    #[test]
    fn a_run_whose_arrays_are_wrong_has_no_row() {
        let mut result = stream(&options(64, 3), &mut |_, _| ()).unwrap();
        (result.rows, result.noise) = Default::default();
        let team = Team::new(&cpus()[..1]);
        let arrays = Arrays::new(&team, 1, 64).unwrap();
        // A repetition that the result does not know of.
        for kernel in Kernel::ALL {
            arrays.run(kernel).unwrap();
        }
        let refused = measure(&arrays, &mut result, &mut |_| ());
        assert_eq!(refused, Err(StreamError::Invalid { threads: 1, wrong: 3 * 64 }));
        assert!(result.rows.is_empty() && result.noise.is_empty());
    }
}
