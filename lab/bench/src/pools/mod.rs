//! `bench pools`: buffers for packets, taken and given back on one CPU, or taken on one and given back on another.
//!
//! * `pool`: what a pool of buffers is, and the timed loops; `ours`: the project's pools and fragments; `others`: a
//!   floor, and what programs do without them.
//!
//! Taking and giving back are timed by themselves, batch by batch; the clock's cost is taken off. On one CPU a batch of
//! 64 stays in a consumer's cache; one of 1,024 does not, and goes through the ring or the allocator.

mod others;
mod ours;
mod pool;

use crate::harness::machine::{InterferenceWatch, Machine};
use crate::harness::noise::{Disturbance, Noise, Skipped};
use crate::harness::sampler::{SAMPLES, Sample, Sampler};
use crate::harness::team::{Team, cpus};
use pageyard_trace::Document;
pub use pool::Where;
use pool::{Measured, Work};
use serde::Serialize;

/// One row, in nanoseconds a buffer.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PoolRow {
    /// The pool.
    pub pool: &'static str,
    /// Threads that take and give back.
    pub threads: usize,
    /// Where buffers are given back.
    #[serde(rename = "where")]
    pub at: Where,
    /// Buffers that are taken, then given back; across CPUs, those handed over at a time.
    pub batch: usize,
    /// Taking one, the median.
    pub get_ns: f64,
    /// Giving one back, the median.
    pub put_ns: f64,
    /// Both, the median.
    pub pair_ns: f64,
    /// Both, the fastest sample.
    pub pair_ns_min: f64,
    /// Both halves as a multiple of what the engine takes for single frames in the same setting; left out where it was
    /// not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x_pageyard: Option<f64>,
}

/// Buffers for packets, taken and given back. The first pool of a setting is measured again as the last, and the two
/// must agree.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pools {
    /// Where it was measured.
    pub machine: Machine,
    /// Whether samples are shorter than the benchmark's.
    pub quick: bool,
    /// The disturbance seen during the run.
    pub disturbance: Disturbance,
    /// Samples of each row.
    pub samples: usize,
    /// The rows: nanoseconds a buffer.
    pub rows: Vec<PoolRow>,
    /// The measurements that were skipped, each with the reason.
    pub skipped: Vec<Skipped>,
}

impl Document for Pools {
    const SCHEMA: &'static str = "pageyard.bench-pools/1";
}

/// The settings to measure.
#[derive(Clone, Copy, Debug)]
pub struct PoolsOptions {
    /// Samples of each row.
    pub samples: usize,
    /// Buffers that a sample takes on each thread.
    buffers: usize,
}

impl PoolsOptions {
    /// All of it.
    #[must_use]
    pub fn full() -> PoolsOptions {
        PoolsOptions { samples: SAMPLES, buffers: 1 << 17 }
    }

    /// Samples of a quarter of the length.
    #[must_use]
    pub fn quick() -> PoolsOptions {
        PoolsOptions { buffers: PoolsOptions::full().buffers / 4, ..PoolsOptions::full() }
    }
}

/// A setting: threads, where buffers are given back, and how many at a time.
const SETTINGS: [(usize, Where, usize); 5] = [
    (1, Where::Same, 64),
    (1, Where::Same, 1024),
    (2, Where::Same, 64),
    (2, Where::Same, 1024),
    (2, Where::Across, pool::GROUP),
];

/// Measures. `progress` is told how many of how many turns are done.
#[must_use]
pub fn pools(options: &PoolsOptions, progress: &mut dyn FnMut(u64, u64)) -> Pools {
    let mut result = Pools { machine: Machine::measured(), samples: options.samples, ..Pools::default() };
    let cpus = cpus();
    let team = Team::new(&cpus[..cpus.len().min(2)]);
    let mut subjects = subjects(&mut result.skipped, &cpus);
    let all = (SETTINGS.len() * options.samples) as u64;
    for (nth, (threads, at, batch)) in SETTINGS.into_iter().enumerate() {
        if threads > team.len() {
            let why = format!("{} with 2 threads needs two CPUs, and this process may use one", at.name());
            result.skipped.push(Skipped { allocator: "all", why });
            continue;
        }
        let work = Work { threads, at, batch, buffers: options.buffers };
        let mut tell = |done: usize| progress((nth * options.samples + done) as u64, all);
        let watch = InterferenceWatch::start();
        let series = Sampler::new(options.samples).telling(&mut tell).run(&mut subjects, |subject| {
            match subject.measure(&team, &work) {
                Ok(figures) => Sample::from(figures),
                Err(_) => Sample::Impossible,
            }
        });
        let pair = [&series[0][2], &series[series.len() - 1][2]].map(|pair| pair.median());
        result.disturbance.add(&Noise::of(pair, &watch));
        let first = result.rows.len();
        for (subject, [get, put, both]) in subjects.iter().zip(&series).take(series.len() - 1) {
            if both.is_empty() {
                let why = match at {
                    Where::Across => "its program takes and gives back on one CPU".to_owned(),
                    Where::Same => format!("it has no sample that counts with {threads} threads"),
                };
                result.skipped.push(Skipped { allocator: subject.name(), why });
                continue;
            }
            result.rows.push(PoolRow {
                pool: subject.name(),
                threads,
                at,
                batch,
                get_ns: get.median(),
                put_ns: put.median(),
                pair_ns: both.median(),
                pair_ns_min: both.min(),
                x_pageyard: None,
            });
        }
        let rows = &mut result.rows[first..];
        let engine = rows.iter().find(|row| row.pool == "pageyard").map(|row| row.pair_ns);
        rows.iter_mut().for_each(|row| row.x_pageyard = engine.map(|ns| row.pair_ns / ns.max(0.01)));
    }
    result
}

/// Returns all that is measured; the last is the first once more.
fn subjects(skipped: &mut Vec<Skipped>, cpus: &[usize]) -> Vec<Box<dyn Measured>> {
    let mut subjects = ours::all(skipped);
    subjects.extend(others::all(skipped, cpus));
    subjects.insert(0, others::floor());
    subjects.push(others::floor());
    subjects
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pool_has_its_rows_and_loses_nothing() {
        let options = PoolsOptions { samples: 3, buffers: 4096 };
        let result = pools(&options, &mut |_, _| ());
        let two = cpus().len() > 1;
        for name in [
            "floor-array",
            "page-pool",
            "page-pool-bulk",
            "page-pool-raw",
            "page-pool-raw-bulk",
            "page-frag",
            "page-pool-frag",
            "pageyard",
            "mutexed-list",
            "cached-lists",
        ] {
            let rows: Vec<_> = result.rows.iter().filter(|r| r.pool == name).collect();
            assert_eq!(rows.len(), if two { SETTINGS.len() } else { 2 }, "{name}: {:?}", result.skipped);
            assert!(rows.iter().all(|r| r.pair_ns > 0.0 && r.get_ns >= 0.0 && r.put_ns >= 0.0));
        }
    }
}
