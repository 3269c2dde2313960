//! `bench stream`: how many bytes a second go between processor and memory, by the four operations of J. D. McCalpin's
//! STREAM.
//!
//! Written anew from its public description: three arrays of `f64`, ten million elements each; Copy, Scale, Add and
//! Triad, one after the other, ten times; the best time of each, the first repetition left out. At the end the arrays
//! must hold what the same operations come to on one element; a result that does not is refused.
//!
//! * `kernel`: the operations; `elements`: how long the arrays are, and whether they fit; `agreement`: what they must
//!   hold; `arrays`: the arrays over a team of threads; `error`: why there is no result.
//!
//! **Threads:** one, then one on each CPU that this process may use, pinned. Each has its part of the arrays, the same
//! part from first to last, and writes it first, so that it lies on the thread's own node. An operation takes from the
//! first thread's start to the last one's end.
//!
//! **Stores** are ordinary ones, as the compiler makes them from a loop: each fetches the line that it writes to before
//! it writes. That traffic is real and not counted, as in the original: Copy and Scale move half as many bytes again as
//! they count, Add and Triad a third. Stores past the caches would count for more.
//!
//! **Memory** comes from the program's allocator, in whatever pages the kernel gives it.

mod agreement;
mod arrays;
mod elements;
mod error;
mod kernel;

pub use agreement::{Agreement, TOLERANCE};
pub use elements::Elements;
pub use error::{MOST_SAMPLES, StreamError};
pub use kernel::{ELEMENT_BYTES, Kernel};

use super::{FEWEST, Noise, Skipped};
use crate::harness::clock::clock_step;
use crate::harness::machine::{Machine, Watch, last_level_caches};
use crate::harness::samples::Samples;
use crate::harness::team::{Team, cpus};
use arrays::Arrays;

/// Samples of each operation where no other number is asked for. With the first repetition, which is none, they are the
/// original's ten.
pub const SAMPLES: usize = 9;

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct StreamOptions {
    /// Elements of each array.
    pub elements: Elements,
    /// Samples of each operation, 3 to [`MOST_SAMPLES`]: repetitions, without the first.
    pub samples: usize,
}

impl StreamOptions {
    /// The original's: ten million elements, ten repetitions.
    #[must_use]
    pub fn full() -> StreamOptions {
        StreamOptions { elements: Elements::PUBLISHED, samples: SAMPLES }
    }

    /// The same arrays, and as few repetitions as possible: the best of them may lie below what the machine can do.
    #[must_use]
    pub fn quick() -> StreamOptions {
        StreamOptions { samples: FEWEST, ..StreamOptions::full() }
    }
}

/// Bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Bandwidth(f64);

impl Bandwidth {
    /// Divides bytes by the nanoseconds that they took.
    #[must_use]
    pub fn of(bytes: u64, ns: u64) -> Bandwidth {
        Bandwidth(bytes as f64 * 1e9 / ns as f64)
    }

    /// Returns bytes a second.
    #[must_use]
    pub fn bytes_per_second(self) -> f64 {
        self.0
    }

    /// Returns megabytes a second, of 10^6 bytes, as the original prints them.
    #[must_use]
    pub fn megabytes_per_second(self) -> f64 {
        self.0 / 1e6
    }
}

/// One operation with one number of threads.
#[derive(Clone, Copy, Debug)]
pub struct StreamRow {
    /// The operation.
    pub kernel: Kernel,
    /// Threads, each on a CPU of its own.
    pub threads: usize,
    /// Bytes that count for one pass over the arrays.
    pub bytes: u64,
    /// Nanoseconds for a pass: the mean of the samples.
    pub avg_ns: f64,
    /// The shortest. A pass that took less than a step of the clock counts as one step.
    pub min_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl StreamRow {
    /// Returns the bandwidth of the shortest pass: STREAM's figure.
    #[must_use]
    pub fn best(&self) -> Bandwidth {
        Bandwidth::of(self.bytes, self.min_ns)
    }
}

/// What the arrays held at the end of the run with this many threads.
#[derive(Clone, Copy, Debug)]
pub struct Validated {
    /// Threads.
    pub threads: usize,
    /// Each array, beside what it must hold.
    pub arrays: [Agreement; 3],
}

/// The result, which is valid: a run whose arrays are wrong has none.
#[derive(Clone, Debug)]
pub struct Streamed {
    /// Where it was measured.
    pub machine: Machine,
    /// Elements of each array.
    pub elements: Elements,
    /// Samples of each operation; the first repetition is not among them.
    pub samples: usize,
    /// Nanoseconds by which the clock steps.
    pub clock_step_ns: u64,
    /// Bytes of the last-level caches of all CPUs that were used; `None` where the kernel does not say.
    pub last_level_caches: Option<u64>,
    /// The rows.
    pub rows: Vec<StreamRow>,
    /// What the arrays held, for each number of threads.
    pub validated: Vec<Validated>,
    /// What was not measured.
    pub skipped: Vec<Skipped>,
    /// What disturbed each number of threads: Triad in even repetitions and in odd ones has to agree.
    pub noise: Vec<Noise>,
}

impl Streamed {
    /// Returns an operation's row with so many threads.
    fn row(&self, kernel: Kernel, threads: usize) -> Option<&StreamRow> {
        self.rows.iter().find(|r| (r.kernel, r.threads) == (kernel, threads))
    }
}

/// Measures, with one thread and with one on each CPU. `progress` is told how many of how many repetitions are done.
///
/// # Errors
/// [`StreamError`]: arrays that do not fit, samples out of range, and a result that does not validate.
pub fn stream(options: &StreamOptions, progress: &mut dyn FnMut(u64, u64)) -> Result<Streamed, StreamError> {
    let StreamOptions { elements, samples } = *options;
    if !(FEWEST..=MOST_SAMPLES).contains(&samples) {
        return Err(StreamError::Samples { samples });
    }
    elements.check_room()?;
    // One thread runs on the last CPU, as the samples of other benchmarks do: the first serves more interrupts.
    let cpus: Vec<usize> = cpus().into_iter().rev().collect();
    let mut result = Streamed {
        machine: Machine::measured(),
        elements,
        samples,
        clock_step_ns: clock_step(),
        last_level_caches: last_level_caches(&cpus),
        rows: Vec::new(),
        validated: Vec::new(),
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
    let all = (counts.len() * (samples + 1)) as u64;
    for (nth, threads) in counts.into_iter().enumerate() {
        let mut tell = |done: u64| progress((nth * (samples + 1)) as u64 + done, all);
        let arrays = Arrays::new(&team, threads, elements)?;
        measure(&team, &arrays, &mut result, &mut tell)?;
    }
    Ok(result)
}

/// Measures all operations on these arrays, and adds what it finds to the result; nothing where the arrays are wrong at
/// the end.
fn measure(
    team: &Team,
    arrays: &Arrays,
    result: &mut Streamed,
    tell: &mut dyn FnMut(u64),
) -> Result<(), StreamError> {
    let watch = Watch::start();
    let threads = arrays.threads();
    let mut times: [Vec<u64>; 4] = Default::default();
    for repetition in 0..=result.samples {
        for (kernel, times) in Kernel::ALL.into_iter().zip(&mut times) {
            let ns = arrays.run(team, kernel)?;
            if repetition > 0 {
                times.push(ns.max(result.clock_step_ns));
            }
        }
        tell(repetition as u64 + 1);
    }
    let agreements = arrays.validate(team, result.samples + 1)?;
    result.noise.push(Noise::of(halves(&times[3]), &watch));
    result.validated.push(Validated { threads, arrays: agreements });
    let rows = Kernel::ALL.into_iter().zip(&times).map(|(kernel, times)| StreamRow {
        kernel,
        threads,
        bytes: kernel.bytes_per_element() * result.elements.get() as u64,
        avg_ns: times.iter().sum::<u64>() as f64 / times.len() as f64,
        min_ns: times.iter().copied().min().unwrap_or(result.clock_step_ns),
        max_ns: times.iter().copied().max().unwrap_or(result.clock_step_ns),
    });
    result.rows.extend(rows);
    Ok(())
}

/// Returns the medians of every other time, beginning with the first and with the second: the same code, in turn.
fn halves(times: &[u64]) -> [f64; 2] {
    [0, 1]
        .map(|from| Samples::new(times.iter().skip(from).step_by(2).map(|ns| *ns as f64).collect()).median())
}

/// Triad's bandwidth: what a model of a machine takes for the limit of its memory.
#[derive(Clone, Copy, Debug)]
pub struct TriadBandwidth {
    /// With one thread.
    pub one: Bandwidth,
    /// With a thread on each CPU that this process may use.
    pub all: Bandwidth,
    /// How many those are.
    pub threads: usize,
}

/// Measures Triad's bandwidth, in a whole and valid run of the benchmark.
///
/// # Errors
/// As [`stream`].
pub fn triad(options: &StreamOptions) -> Result<TriadBandwidth, StreamError> {
    let result = stream(options, &mut |_, _| ())?;
    let threads = result.rows.iter().map(|r| r.threads).max().unwrap_or(1);
    let of = |threads| result.row(Kernel::Triad, threads).map(StreamRow::best).ok_or(StreamError::Thread);
    Ok(TriadBandwidth { one: of(1)?, all: of(threads)?, threads })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> StreamOptions {
        StreamOptions { elements: Elements::new(50_000).unwrap(), samples: 3 }
    }

    #[test]
    fn every_operation_is_measured_with_one_thread_and_with_all() {
        let mut told = Vec::new();
        let result = stream(&small(), &mut |done, all| told.push((done, all))).unwrap();
        let counts = if cpus().len() == 1 { vec![1] } else { vec![1, cpus().len()] };
        assert_eq!(result.rows.len(), 4 * counts.len());
        assert_eq!(result.skipped.len(), 2 - counts.len());
        let all = 4 * counts.len() as u64;
        assert_eq!(told, (1..=all).map(|done| (done, all)).collect::<Vec<_>>());
        for threads in counts {
            for kernel in Kernel::ALL {
                let row = result.row(kernel, threads).unwrap();
                assert_eq!(row.bytes, 50_000 * kernel.bytes_per_element());
                assert!(0 < row.min_ns && row.min_ns as f64 <= row.avg_ns && row.avg_ns <= row.max_ns as f64);
                let expected = row.bytes as f64 / row.min_ns as f64 * 1000.0;
                assert!((row.best().megabytes_per_second() / expected - 1.0).abs() < 1e-12);
            }
        }
        assert!(result.validated.iter().all(|v| v.arrays.iter().all(Agreement::is_valid)));
    }

    #[test]
    fn a_run_whose_arrays_are_wrong_has_no_row() {
        let mut result = stream(&small(), &mut |_, _| ()).unwrap();
        (result.rows, result.validated, result.noise) = Default::default();
        let team = Team::new(&cpus()[..1]);
        let arrays = || Arrays::new(&team, 1, result.elements).unwrap();
        let (spoilt, good) = (arrays(), arrays());
        spoilt.spoil(0, 49_999, 2.5);
        let refused = measure(&team, &spoilt, &mut result, &mut |_| ());
        assert!(matches!(refused, Err(StreamError::Invalid { threads: 1, .. })), "{refused:?}");
        assert!(result.rows.is_empty() && result.validated.is_empty() && result.noise.is_empty());
        assert_eq!(measure(&team, &good, &mut result, &mut |_| ()), Ok(()));
        assert_eq!((result.rows.len(), result.validated.len(), result.noise.len()), (4, 1, 1));
    }

    #[test]
    fn one_element_is_enough_for_any_number_of_threads() {
        let options = StreamOptions { elements: Elements::new(1).unwrap(), samples: 3 };
        let result = stream(&options, &mut |_, _| ()).unwrap();
        assert!(result.rows.iter().all(|r| r.best().bytes_per_second().is_finite()));
    }

    #[test]
    fn the_most_samples_are_still_valid_and_more_are_refused() {
        let options = StreamOptions { samples: MOST_SAMPLES, elements: Elements::new(64).unwrap() };
        assert!(stream(&options, &mut |_, _| ()).is_ok());
        for samples in [0, FEWEST - 1, MOST_SAMPLES + 1] {
            let refused = stream(&StreamOptions { samples, ..options }, &mut |_, _| ()).err();
            assert_eq!(refused, Some(StreamError::Samples { samples }));
        }
    }

    #[test]
    fn arrays_beyond_all_memory_are_refused_before_anything_is_measured() {
        let options = StreamOptions { elements: Elements::new(1 << 50).unwrap(), ..small() };
        let mut told = 0;
        let refused = stream(&options, &mut |_, _| told += 1);
        assert!(matches!(refused, Err(StreamError::NoRoom { .. })), "{refused:?}");
        assert_eq!(told, 0);
    }

    #[test]
    fn every_other_time_makes_a_pair() {
        assert_eq!(halves(&[1, 20, 2, 30, 3]), [2.0, 30.0]);
    }

    #[test]
    fn the_bandwidth_for_models_is_that_of_triad() {
        let bandwidth = triad(&small()).unwrap();
        assert_eq!(bandwidth.threads, cpus().len());
        assert!(bandwidth.one.bytes_per_second() > 0.0 && bandwidth.all.bytes_per_second() > 0.0);
        assert_eq!(Bandwidth::of(24, 2).bytes_per_second(), 12e9);
        assert_eq!(Bandwidth::of(24, 2).megabytes_per_second(), 12e3);
    }
}
