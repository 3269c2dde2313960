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

pub use arrays::Kernel;

use super::{FEWEST, Noise, Skipped};
use crate::harness::machine::{InterferenceWatch, Machine, last_level_caches};
use crate::harness::noise::Disturbance;
use crate::harness::samples::Samples;
use crate::harness::team::{Team, cpus};
use arrays::Arrays;
use pageyard_replay::text::bytes;
use pageyard_trace::{Document, limits};
use serde::Serialize;

/// Samples of each operation by default: repetitions without the first.
pub const SAMPLES: usize = 9;
/// Elements of each array by default.
pub const ELEMENTS: usize = 10_000_000;
/// The most samples. Each repetition makes the arrays' values 15 times as large, and an `f64` holds 261 of them.
pub const MOST_SAMPLES: usize = 249;
/// The least length of an array as a multiple of the caches, by STREAM's rules.
const TIMES_THE_CACHES: u64 = 4;

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StreamError {
    /// Arrays of so many elements need more memory than this process may use, and what bounds it.
    #[error("three arrays of {0} elements need more than the {1} leaves; ask for fewer --elements")]
    NoRoom(usize, String),
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
    /// The arrays of so many threads do not hold what the operations come to, in so many elements of all three.
    #[error(
        "the result is not valid: with {0} threads, {1} elements are not what the operations come to; check this \
         machine's memory and processor"
    )]
    Invalid(usize, usize),
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
    fn of(kernel: Kernel, threads: usize, elements: usize, times: &[f64]) -> StreamRow {
        let (times, bytes_per_element) = (Samples::new(times.to_vec()), kernel.bytes_per_element());
        StreamRow {
            kernel,
            threads,
            bytes_per_element,
            mbps_best: (bytes_per_element * elements as u64) as f64 * 1000.0 / times.min(),
            avg_ns: times.mean(),
            min_ns: times.min() as u64,
            max_ns: times.max() as u64,
        }
    }
}

/// The memory bandwidth of a machine.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Streamed {
    /// Where it was measured.
    pub machine: Machine,
    /// Whether fewer repetitions were measured than the benchmark has.
    pub quick: bool,
    /// The disturbance seen during the run.
    pub disturbance: Disturbance,
    /// Samples of each row.
    pub samples: usize,
    /// Elements of each of the three arrays.
    pub elements: usize,
    /// Bytes of an array.
    pub array_bytes: u64,
    /// Bytes of the last-level caches of all CPUs that were used; left out where the kernel does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_level_caches_bytes: Option<u64>,
    /// The rows.
    pub rows: Vec<StreamRow>,
    /// Why the figures may not be those of the memory; left out where they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// The measurements that were skipped, each with the reason.
    pub skipped: Vec<Skipped>,
}

impl Streamed {
    /// Notes the size of the last-level caches, and warns where they hold much of an array.
    #[must_use]
    pub fn beside(mut self, caches: Option<u64>) -> Streamed {
        self.last_level_caches_bytes = caches;
        self.warning = caches.filter(|caches| self.array_bytes < TIMES_THE_CACHES * caches).map(|caches| {
            format!(
                "an array has {}, less than {TIMES_THE_CACHES} times the last-level caches ({}), so a part of the traffic is \
                 theirs; ask for --elements {} or more",
                bytes(self.array_bytes),
                bytes(caches),
                TIMES_THE_CACHES * caches / 8
            )
        });
        self
    }
}

impl Document for Streamed {
    const SCHEMA: &'static str = "pageyard.bench-stream/2";
}

/// Measures arrays of `elements` with one thread and with one on each CPU, [`FEWEST`] to [`MOST_SAMPLES`] samples of
/// each operation. `tell` is told how many of how many repetitions are done.
///
/// # Errors
/// [`StreamError`].
pub fn stream(
    elements: usize,
    samples: usize,
    tell: &mut dyn FnMut(u64, u64),
) -> Result<Streamed, StreamError> {
    if !(FEWEST..=MOST_SAMPLES).contains(&samples) {
        return Err(StreamError::Samples(samples));
    }
    let (room, array_bytes) = (limits::memory(), (elements as u64).saturating_mul(8));
    if array_bytes.saturating_mul(3) > room.bytes {
        return Err(StreamError::NoRoom(elements, format!("{} that {}", bytes(room.bytes), room.bound_by)));
    }
    // One thread runs on the last CPU, because the first serves more interrupts.
    let cpus: Vec<usize> = cpus().into_iter().rev().collect();
    let mut result = Streamed {
        machine: Machine::measured(),
        quick: false,
        disturbance: Disturbance::default(),
        samples,
        elements,
        array_bytes,
        last_level_caches_bytes: None,
        rows: Vec::new(),
        warning: None,
        skipped: Vec::new(),
    }
    .beside(last_level_caches(&cpus));
    let mut counts = vec![1, cpus.len()];
    counts.dedup();
    if counts.len() == 1 {
        let why = "this process may use one CPU, and has it in the rows of one thread".to_owned();
        result.skipped.push(Skipped { allocator: "all CPUs", why });
    }
    let team = Team::new(&cpus);
    let (mut done, all) = (0, counts.len() as u64 * (samples as u64 + 1));
    for threads in counts {
        measure(&Arrays::new(&team, threads, elements)?, &mut result, &mut || {
            done += 1;
            tell(done, all);
        })?;
    }
    Ok(result)
}

/// Measures all operations on these arrays, and adds the rows to the result unless the arrays are wrong at the end.
/// Triad in even repetitions and in odd ones is the pair that must agree.
fn measure(arrays: &Arrays<'_>, result: &mut Streamed, tell: &mut dyn FnMut()) -> Result<(), StreamError> {
    let watch = InterferenceWatch::start();
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..=result.samples {
        for (kernel, times) in Kernel::ALL.into_iter().zip(&mut times) {
            times.push(arrays.run(kernel)? as f64);
        }
        tell();
    }
    arrays.check(result.samples + 1)?;
    result.disturbance.add(&Noise::of(halves(&times[3][1..]), &watch));
    for (kernel, times) in Kernel::ALL.into_iter().zip(times) {
        result.rows.push(StreamRow::of(kernel, arrays.parts.len(), result.elements, &times[1..]));
    }
    Ok(())
}

/// Returns the medians of the times at even places and at odd ones.
fn halves(times: &[f64]) -> [f64; 2] {
    [0, 1].map(|from| Samples::new(times.iter().skip(from).step_by(2).copied().collect()).median())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_measured_with_one_thread_and_with_all() {
        let mut told = Vec::new();
        let result = stream(50_000, 3, &mut |done, all| told.push((done, all))).unwrap();
        let counts = if cpus().len() == 1 { vec![1] } else { vec![1, cpus().len()] };
        let measured: Vec<_> = result.rows.iter().map(|r| (r.threads, r.kernel)).collect();
        let all: Vec<_> = counts.iter().flat_map(|n| Kernel::ALL.map(|kernel| (*n, kernel))).collect();
        assert_eq!((measured, result.skipped.len()), (all, 2 - counts.len()));
        let n = 4 * counts.len() as u64;
        assert_eq!(told, (1..=n).map(|done| (done, n)).collect::<Vec<_>>());
        for row in result.rows {
            assert!(0 < row.min_ns && row.min_ns as f64 <= row.avg_ns && row.avg_ns <= row.max_ns as f64);
        }
    }

    #[test]
    fn arrays_that_caches_hold_are_warned_of() {
        let result = stream(10_000, 3, &mut |_, _| ()).unwrap();
        assert_eq!(result.clone().beside(Some(20_000)).warning, None, "four times");
        assert_eq!(result.clone().beside(None).warning, None, "the kernel names no caches");
        let why = result.beside(Some(20_002)).warning.unwrap();
        assert!(why.contains("last-level") && why.contains("--elements 10001 "), "{why}");
    }

    #[test]
    fn bandwidth_is_that_of_the_shortest_pass() {
        let row = StreamRow::of(Kernel::Triad, 1, 1000, &[3000.0, 2000.0, 4000.0]);
        assert_eq!((row.mbps_best, row.avg_ns, row.min_ns, row.max_ns), (12_000.0, 3000.0, 2000, 4000));
        assert_eq!(halves(&[1.0, 20.0, 2.0, 30.0, 3.0]), [2.0, 30.0]);
    }

    #[test]
    fn one_element_and_the_most_samples_are_valid_and_more_samples_are_refused() {
        let rows = stream(1, MOST_SAMPLES, &mut |_, _| ()).unwrap().rows;
        assert!(rows.iter().all(|r| r.mbps_best.is_finite()));
        for samples in [0, FEWEST - 1, MOST_SAMPLES + 1] {
            assert_eq!(stream(1, samples, &mut |_, _| ()).err(), Some(StreamError::Samples(samples)));
        }
    }

    #[test]
    fn a_run_whose_arrays_are_wrong_has_no_row() {
        let mut result = stream(64, 3, &mut |_, _| ()).unwrap();
        (result.rows, result.disturbance) = Default::default();
        let team = Team::new(&cpus()[..1]);
        let arrays = Arrays::new(&team, 1, 64).unwrap();
        // A repetition that the result does not know of.
        assert!(Kernel::ALL.iter().all(|kernel| arrays.run(*kernel).is_ok()));
        let refused = measure(&arrays, &mut result, &mut || ());
        assert_eq!(refused, Err(StreamError::Invalid(1, 3 * 64)));
        assert!(result.rows.is_empty() && result.disturbance.settings == 0);
    }
}
