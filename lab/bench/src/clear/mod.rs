//! `bench clear`: how fast memory becomes zeros, by primitive, by how much is cleared with one call, and by size.
//!
//! Each setting is a size of extent, cold or hot, on one thread or several. Cold extents are those of a region that no
//! cache holds; a hot one is cleared again and again. Ways take turns, sample by sample; `memset` of a page at a time
//! is the first and the last of each turn, and the two have to agree.

mod pass;

pub use pass::{CHOICE, Mode, Way};
pub(crate) use pass::{PAGE, Pass, Region};

use super::{Noise, SAMPLES, Skipped};
use crate::harness::machine::{InterferenceWatch, Machine};
use crate::harness::noise::Disturbance;
use crate::harness::sampler::{Sample, Sampler};
use crate::harness::samples::Samples;
use crate::harness::team::{OVERLAP, Pinned, Span, cpus, overlap};
pub use pageyard_arena::clear::Preemption;
use pageyard_arena::clear::Primitive;
use pageyard_trace::Document;
use serde::Serialize;
use std::sync::Barrier;

/// A size of extent, and the circumstances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClearSetting {
    /// Bytes of an extent.
    pub extent: usize,
    /// Whether no cache holds it.
    pub cold: bool,
    /// Threads, each with memory of its own.
    pub threads: usize,
}

/// The settings to measure.
#[derive(Clone, Debug)]
pub struct ClearOptions {
    /// Samples of each row.
    pub samples: usize,
    /// The settings.
    pub settings: Vec<ClearSetting>,
    /// Bytes of memory for each thread; an extent that does not fit is left out.
    pub memory: usize,
    /// Only what a kernel with this model of preemption does, beside `memset` of a page at a time.
    pub preempt: Option<Preemption>,
}

/// The largest extent that is also measured hot: half of a last-level cache of 32 MiB.
const LARGEST_HOT: usize = 16 << 20;

impl ClearOptions {
    /// Extents from 4 KiB to 1 GiB in powers of two.
    #[must_use]
    pub fn full() -> ClearOptions {
        let sizes = || (12..=30).map(|log| 1_usize << log);
        ClearOptions::of(sizes().collect(), 1 << 30)
    }

    /// A frame, a huge page, and an extent of two batches.
    #[must_use]
    pub fn quick() -> ClearOptions {
        ClearOptions::of(vec![PAGE, 2 << 20, 64 << 20], 256 << 20)
    }

    fn of(extents: Vec<usize>, memory: usize) -> ClearOptions {
        let one = |cold| move |extent: &usize| ClearSetting { extent: *extent, cold, threads: 1 };
        let mut settings: Vec<ClearSetting> = extents.iter().map(one(true)).collect();
        settings.extend(extents.iter().filter(|e| **e <= LARGEST_HOT).map(one(false)));
        let largest = extents.last().copied().unwrap_or(PAGE);
        settings.extend([2 << 20, largest].map(|extent| ClearSetting { extent, cold: true, threads: 2 }));
        ClearOptions { samples: SAMPLES, settings, memory, preempt: None }
    }
}

/// One row.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClearRow {
    /// The code that writes zeros: `memset` is the C library's, `pageyard` the arena's choice.
    pub primitive: &'static str,
    /// How much with one call.
    pub mode: Mode,
    /// Bytes of an extent.
    pub extent_bytes: u64,
    /// Bytes that are cleared between two fences.
    pub batch_bytes: u64,
    /// Threads, each with memory of its own.
    pub threads: usize,
    /// Whether no cache holds the extent.
    pub cold: bool,
    /// Gigabytes (10^9 bytes) a second of all threads together, the median.
    pub gbps_median: f64,
    /// The standard deviation of the samples.
    pub gbps_stdev: f64,
    /// The median as a multiple of that of `memset`, a page at a time; left out where that has no row in the setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x_memset: Option<f64>,
    /// The median as a multiple of that of the best single primitive of the setting, in any mode; left out where none
    /// has a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x_best: Option<f64>,
}

/// How fast memory becomes zeros.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cleared {
    /// Where it was measured.
    pub machine: Machine,
    /// Whether fewer settings were measured than the benchmark has.
    pub quick: bool,
    /// The disturbance seen during the run.
    pub disturbance: Disturbance,
    /// Samples of each row.
    pub samples: usize,
    /// The model of preemption whose units were measured: `none`, `voluntary`, `full` or `lazy`; left out where all
    /// ways were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preempt: Option<&'static str>,
    /// The arena's choice here: for a hot frame, for cold memory, and the size from which an extent is taken for
    /// cold; left out where nothing was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
    /// The rows.
    pub rows: Vec<ClearRow>,
    /// The measurements that were skipped, each with the reason.
    pub skipped: Vec<Skipped>,
}

impl Document for Cleared {
    const SCHEMA: &'static str = "pageyard.bench-clear/2";
}

/// The arena's choice on this machine, which it measures once.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Choice {
    /// For a frame that is hot.
    pub cached: &'static str,
    /// For memory that is cold.
    pub streaming: &'static str,
    /// From how many bytes an extent is taken for cold.
    pub threshold_bytes: u64,
}

impl Choice {
    /// Asks the arena.
    #[must_use]
    pub fn of_this_machine() -> Choice {
        let clearer = pageyard_arena::clear::Clearer::of_this_machine();
        Choice {
            cached: clearer.cached().name(),
            streaming: clearer.streaming().name(),
            threshold_bytes: clearer.threshold().0 * PAGE as u64,
        }
    }
}

/// Measures. `progress` is told how many of how many settings are done.
#[must_use]
pub fn clear(options: &ClearOptions, progress: &mut dyn FnMut(u64, u64)) -> Cleared {
    let choice = Some(Choice::of_this_machine());
    let preempt = options.preempt.map(Preemption::name);
    let (machine, samples) = (Machine::measured(), options.samples);
    let mut result = Cleared { machine, samples, preempt, choice, ..Cleared::default() };
    let cpus = cpus();
    let threads = options.settings.iter().map(|s| s.threads).filter(|n| *n <= cpus.len()).max().unwrap_or(1);
    let mut memory = match (0..threads).map(|_| Region::new(options.memory)).collect::<Result<Vec<_>, _>>() {
        Ok(memory) => memory,
        Err(why) => {
            result.skipped.push(Skipped { allocator: "all", why: why.to_string() });
            return result;
        }
    };
    for (done, setting) in options.settings.iter().enumerate() {
        if setting.threads > cpus.len() {
            let why = "it needs two CPUs, and this process may use one".to_owned();
            result.skipped.push(Skipped { allocator: "two threads", why });
        } else if setting.extent <= options.memory {
            let ways = ways_at(*setting, options.preempt);
            let (rows, noise) = measure(*setting, options.samples, &ways, &mut memory, &cpus);
            if rows.len() < ways.len() {
                let why = format!(
                    "{} of {} rows: threads did not run together, other work had their CPUs",
                    ways.len() - rows.len(),
                    ways.len()
                );
                result.skipped.push(Skipped { allocator: "two threads", why });
            }
            result.rows.extend(rows);
            result.disturbance.add(&noise);
        }
        progress(done as u64 + 1, options.settings.len() as u64);
    }
    result
}

/// Samples that a row needs, for a median and a deviation.
pub(crate) const FEWEST_COUNTED: usize = 2;

/// Returns the ways that are measured at a setting, `memset` of a page at a time first.
fn ways_at(setting: ClearSetting, preempt: Option<Preemption>) -> Vec<Way> {
    let ClearSetting { extent, cold, .. } = setting;
    let first = Way { primitive: Some(Primitive::Memset), mode: Mode::Page };
    let asked = |way: &Way| preempt.is_none_or(|preempt| way.is_of(preempt, extent, cold));
    let others = Way::available().filter(|w| w.differs_at(extent) && *w != first && asked(w));
    [first].into_iter().chain(others).collect()
}

/// Measures ways at one setting; the first is measured once more at the end of each turn.
fn measure(
    setting: ClearSetting,
    samples: usize,
    ways: &[Way],
    memory: &mut [Region],
    cpus: &[usize],
) -> (Vec<ClearRow>, Noise) {
    let mut ways: Vec<Way> = ways.iter().chain(&ways[..1]).copied().collect();
    let watch = InterferenceWatch::start();
    let series = sample(setting, samples, &mut ways, memory, cpus);
    let medians = [&series[0], &series[series.len() - 1]].map(Samples::median);
    let noise = Noise::of(medians, &watch);
    let rows = ways.iter().zip(&series).take(ways.len() - 1).filter(|(_, s)| s.len() >= FEWEST_COUNTED);
    let row = |(way, samples): (&Way, &Samples)| ClearRow {
        primitive: way.name(),
        mode: way.mode,
        extent_bytes: setting.extent as u64,
        batch_bytes: way.between_fences(setting.extent) as u64,
        threads: setting.threads,
        cold: setting.cold,
        gbps_median: samples.median(),
        gbps_stdev: samples.deviation(),
        x_memset: None,
        x_best: None,
    };
    let mut rows: Vec<ClearRow> = rows.map(row).collect();
    add_ratios(&mut rows);
    (rows, noise)
}

/// Computes how the rows of a setting compare.
fn add_ratios(rows: &mut [ClearRow]) {
    let memset = rows.iter().find(|r| (r.primitive, r.mode) == ("memset", Mode::Page)).map(|r| r.gbps_median);
    let best = rows.iter().filter(|r| r.primitive != CHOICE).map(|r| r.gbps_median).max_by(f64::total_cmp);
    for row in rows {
        [row.x_memset, row.x_best] = [memset, best].map(|of| of.map(|of| row.gbps_median / of.max(0.01)));
    }
}

/// Takes samples of several ways in turn: gigabytes a second of all threads together.
pub(crate) fn sample(
    setting: ClearSetting,
    samples: usize,
    ways: &mut [Way],
    memory: &mut [Region],
    cpus: &[usize],
) -> Vec<Samples> {
    let ClearSetting { extent, cold, threads } = setting;
    let bytes = memory[0].bytes().len();
    let pass = Pass::new(bytes, extent, cold);
    let memory = &mut memory[..threads];
    let series = Sampler::new(samples).run(ways, |way| match &mut *memory {
        [one] => Sample::Counts([pass.run(*way, cold, one.bytes())]),
        all => Sample::from(together(&pass, *way, cold, all, cpus)),
    });
    series.into_iter().map(|[gbps]| gbps).collect()
}

/// Clears on several threads, each on a CPU of its own; `None` where they did not run at the same time.
fn together(pass: &Pass, way: Way, cold: bool, memory: &mut [Region], cpus: &[usize]) -> Option<[f64; 1]> {
    let start = Barrier::new(memory.len());
    let threads: Vec<(f64, Span)> = std::thread::scope(|scope| {
        let ran = memory.iter_mut().zip(cpus).map(|(region, cpu)| {
            let (cpu, start) = (*cpu, &start);
            scope.spawn(move || {
                let _pinned = Pinned::to(cpu);
                start.wait();
                let begin = crate::harness::clock::now_ns();
                let gbps = pass.run(way, cold, region.bytes());
                (gbps, Span { start: begin, end: crate::harness::clock::now_ns() })
            })
        });
        let ran: Vec<_> = ran.collect();
        ran.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let spans: Vec<Span> = threads.iter().map(|(_, span)| *span).collect();
    (overlap(&spans) >= OVERLAP).then(|| [threads.iter().map(|(gbps, _)| gbps).sum()])
}
