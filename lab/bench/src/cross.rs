//! `bench cross`: blocks taken on one CPU, handed over 64 at a time, and given back on the other.
//!
//! Each side times what it does with the allocator, group by group, and nothing else, so that neither the queue nor
//! waiting for the other side counts; the clock's cost is taken off. The same queue is also run with nothing but
//! numbers: the elapsed time minus the queue's is reported beside it.

use super::{Noise, SAMPLES, Skipped};
use crate::contestants::{ALONE, CPUS, Outside, Subjects};
use crate::external::{External, ExternalNote, ExternalRow, Key, Kind};
use crate::harness::allocator::Allocator;
pub use crate::harness::handover::GROUP;
use crate::harness::handover::Padded;
use crate::harness::machine::{InterferenceWatch, Machine};
use crate::harness::moves::Moves;
use crate::harness::noise::Disturbance;
use crate::harness::sampler::{Sample, Sampler};
use crate::harness::samples::Samples;
use crate::harness::subject::{Shared, Subject};
use crate::harness::team::{Team, cpus};
use pageyard::{Order, Pfn};
use pageyard_trace::Document;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// One row, in nanoseconds a frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CrossRow {
    /// The allocator.
    pub allocator: Cow<'static, str>,
    /// Threads.
    #[serde(skip_deserializing, default = "threads")]
    pub threads: u8,
    /// The order of the blocks.
    #[serde(skip_deserializing)]
    pub order: u8,
    /// Frames handed over at a time.
    #[serde(skip_deserializing, default = "group")]
    pub group: usize,
    /// Taking on one CPU, the median.
    pub alloc_ns: f64,
    /// Giving back on the other.
    pub free_ns: f64,
    /// Both, the fastest sample.
    pub total_ns_min: f64,
    /// Both, the median.
    pub total_ns_median: f64,
    /// Elapsed time for each block, with both sides at work and the queue between them.
    pub elapsed_ns_median: f64,
    /// The same less what the queue takes by itself.
    pub elapsed_less_queue_ns: f64,
    /// The share of the frees that are checked without a locked instruction, counted in a pass more; left out for
    /// allocators that bias nothing to a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub biased_share: Option<f64>,
    /// How often a pageblock's bias was taken back in all samples; left out where nothing is biased.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revocations: Option<u64>,
    /// The same in 100,000 frees; left out for rows that were measured elsewhere, too.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub revocations_per_100_000: Option<f64>,
    /// Whether it comes from a file of rows that was measured elsewhere; left out otherwise.
    #[serde(skip_deserializing, skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
    /// Refills and spills in all samples; left out where they cannot be seen, and for rows that were measured
    /// elsewhere.
    #[serde(flatten, skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub moves: Option<Moves>,
    /// The floor's name; left out where no floor was measured.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Cow<'static, str>>,
    /// The median as a multiple of the floor's.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub x_floor: Option<f64>,
}

/// Threads: one takes, one gives back.
const fn threads() -> u8 {
    2
}

const fn group() -> usize {
    GROUP
}

impl ExternalRow for CrossRow {
    type Report = Cross;

    const KEYS: &'static [Key] = &[
        Key::of("alloc_ns", Kind::Ns),
        Key::of("free_ns", Kind::Ns),
        Key::of("total_ns_min", Kind::NsAbove0),
        Key::of("total_ns_median", Kind::NsAbove0),
        Key::of("elapsed_ns_median", Kind::NsAbove0),
        Key::of("elapsed_less_queue_ns", Kind::Ns),
        Key::maybe("biased_share", Kind::Share),
        Key::maybe("revocations", Kind::Count),
    ];

    fn allocator(&self) -> &str {
        &self.allocator
    }

    /// Returns true: there is one setting.
    fn is_of_the_setting_of(&self, _: &CrossRow) -> bool {
        true
    }

    fn marked(self) -> CrossRow {
        CrossRow { external: true, ..self }
    }
}

/// Frames taken on one CPU and given back on another.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cross {
    /// Where it was measured.
    pub machine: Machine,
    /// Whether samples are shorter than the benchmark's.
    pub quick: bool,
    /// The disturbance seen during the run. The queue alone, measured first and last in each turn, is the pair that
    /// must agree.
    pub disturbance: Disturbance,
    /// Samples of each row.
    pub samples: usize,
    /// The cost of the queue between the two sides alone, in nanoseconds a frame; left out where nothing was
    /// measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_ns_median: Option<f64>,
    /// The rows: nanoseconds a frame.
    pub rows: Vec<CrossRow>,
    /// The measurements that were skipped, each with the reason.
    pub skipped: Vec<Skipped>,
    /// The source of rows that were measured elsewhere; left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalNote>,
}

impl Document for Cross {
    const SCHEMA: &'static str = "pageyard.bench-cross/2";
}

/// Groups in a sample.
const GROUPS: usize = 1 << 11;

/// The settings to measure.
#[derive(Clone, Debug)]
pub struct CrossOptions {
    /// Samples of each row.
    pub samples: usize,
    /// Groups that a sample hands over.
    groups: usize,
    /// Peers beside those of this process.
    pub outside: Outside,
    /// Rows that were measured elsewhere.
    pub external: Option<External<CrossRow>>,
}

impl CrossOptions {
    /// All of it.
    #[must_use]
    pub fn full() -> CrossOptions {
        CrossOptions { samples: SAMPLES, groups: GROUPS, outside: Outside::default(), external: None }
    }

    /// Samples of a quarter of the length.
    #[must_use]
    pub fn quick() -> CrossOptions {
        CrossOptions { groups: GROUPS / 4, ..CrossOptions::full() }
    }
}

/// Measures. `progress` is told how many of how many samples are done.
#[must_use]
pub fn cross(options: &CrossOptions, progress: &mut dyn FnMut(u64, u64)) -> Cross {
    let mut result = Cross { machine: Machine::measured(), samples: options.samples, ..Cross::default() };
    let cpus = cpus();
    if cpus.len() < 2 {
        let why = "it needs two CPUs, and this process may use one".to_owned();
        result.skipped.push(Skipped { allocator: "all", why });
        return result;
    }
    let team = Team::new(&cpus[..2]);
    let queue = || Box::new(Shared::new("queue", Numbers, false)) as Box<dyn Subject>;
    let mut subjects = vec![queue()];
    subjects.push(Box::new(Shared::new("floor-ring", Ring::new(), false)));
    // A floor's array would run out: what one CPU gives back does not return to the other.
    let others = Subjects::inside(Order::ZERO, CPUS).with_outside(Order::ZERO, CPUS, &options.outside, &cpus);
    subjects.extend(others.all.into_iter().filter(|s| !s.name().starts_with("floor")));
    result.skipped = others.skipped;
    subjects.push(queue());
    let groups = options.groups;
    let watch = InterferenceWatch::start();
    // An untimed pass, which also says who can.
    subjects.retain(|s| {
        let can = s.cross(&team, groups).is_some();
        if !can && !ALONE.contains(&s.name()) {
            let why = "its program takes and gives back on one CPU".to_owned();
            result.skipped.push(Skipped { allocator: s.name(), why });
        }
        can
    });
    let before: Vec<_> = subjects.iter().map(|s| (s.moves(), s.revocations())).collect();
    let mut missing = vec![0; subjects.len()];
    let mut tell = |done: usize| progress(done as u64, options.samples as u64);
    let mut turns: Vec<_> = subjects.iter().zip(&mut missing).collect();
    let series = Sampler::new(options.samples).warmed().telling(&mut tell).run(&mut turns, |(s, missing)| {
        let Some(crossed) = s.cross(&team, groups) else { return Sample::Impossible };
        **missing += crossed.missing;
        Sample::Counts([crossed.alloc, crossed.free, crossed.alloc + crossed.free, crossed.elapsed])
    });
    let queue = [&series[0], &series[series.len() - 1]].map(|[.., elapsed]| elapsed.median());
    let queue_ns = queue[0].min(queue[1]);
    result.queue_ns_median = Some(queue_ns);
    result.disturbance.add(&Noise::of(queue, &watch));
    for i in 1..subjects.len() - 1 {
        let moves = Moves::between(before[i].0, subjects[i].moves());
        let revoked = subjects[i].revocations().zip(before[i].1).map(|(b, a)| b - a);
        if missing[i] > 0 {
            let why = "it ran out of blocks".to_owned();
            result.skipped.push(Skipped { allocator: subjects[i].name(), why });
        } else if series[i][0].is_empty() {
            let why = "its process ended".to_owned();
            result.skipped.push(Skipped { allocator: subjects[i].name(), why });
        } else {
            let row = row(subjects[i].name(), &series[i], queue_ns, moves);
            // Samples that did not count freed as many.
            let frees = (options.samples * groups * GROUP) as f64;
            result.rows.push(CrossRow {
                biased_share: subjects[i].biased_share_across(&team, groups),
                revocations_per_100_000: revoked.map(|n| n as f64 * 1e5 / frees),
                revocations: revoked,
                ..row
            });
        }
    }
    if let Some(external) = &options.external {
        let mut note = ExternalNote::of(external, &result.machine);
        external.rows.iter().for_each(|_| note.show());
        result.rows.extend(external.rows.iter().cloned());
        result.external = Some(note);
    }
    result.add_ratios();
    for allocator in ALONE {
        result.skipped.push(Skipped { allocator, why: "it is for one thread".into() });
    }
    result
}

impl Cross {
    fn add_ratios(&mut self) {
        let floor = self.rows.iter().find(|row| row.allocator.starts_with("floor"));
        let Some((name, ns)) = floor.map(|row| (row.allocator.clone(), row.total_ns_median)) else { return };
        let compares = self.external.as_ref().is_none_or(ExternalNote::compares);
        for row in self.rows.iter_mut().filter(|row| compares || !row.external) {
            row.x_floor = Some(row.total_ns_median / ns.max(0.01));
            row.floor = Some(name.clone());
        }
    }
}

fn row(
    allocator: &'static str,
    [alloc, free, total, elapsed]: &[Samples; 4],
    queue_ns: f64,
    moves: Option<Moves>,
) -> CrossRow {
    CrossRow {
        allocator: allocator.into(),
        threads: threads(),
        order: 0,
        group: GROUP,
        alloc_ns: alloc.median(),
        free_ns: free.median(),
        total_ns_min: total.min(),
        total_ns_median: total.median(),
        elapsed_ns_median: elapsed.median(),
        elapsed_less_queue_ns: (elapsed.median() - queue_ns).max(0.0),
        biased_share: None,
        revocations_per_100_000: None,
        revocations: None,
        external: false,
        moves,
        floor: None,
        x_floor: None,
    }
}

/// Numbers instead of blocks: what is left is the queue.
struct Numbers;

impl Allocator for Numbers {
    #[inline(always)]
    fn take(&self, _: usize) -> Option<Pfn> {
        Some(std::hint::black_box(Pfn(1)))
    }

    #[inline(always)]
    fn give(&self, _: usize, block: Pfn) {
        std::hint::black_box(block);
    }
}

/// The floor: a ring of numbers, read on one CPU and written on the other, no checks.
struct Ring {
    slots: Vec<AtomicU64>,
    next: [Padded; 2],
}

impl Ring {
    /// As many as an engine holds in one CPU's list, roughly.
    const PLACES: usize = 1 << 12;

    fn new() -> Ring {
        let slots = (0..Self::PLACES as u64).map(AtomicU64::new).collect();
        Ring { slots, next: [Padded(AtomicUsize::new(0)), Padded(AtomicUsize::new(0))] }
    }

    #[inline(always)]
    fn slot(&self, side: usize) -> &AtomicU64 {
        // ORDER: Relaxed, and below: each side has its own word, and the queue keeps them apart.
        let nth = self.next[side].0.load(Ordering::Relaxed);
        self.next[side].0.store(nth + 1, Ordering::Relaxed);
        &self.slots[nth % Self::PLACES]
    }
}

impl Allocator for Ring {
    #[inline(always)]
    fn take(&self, _: usize) -> Option<Pfn> {
        Some(Pfn(self.slot(0).load(Ordering::Relaxed)))
    }

    #[inline(always)]
    fn give(&self, _: usize, block: Pfn) {
        self.slot(1).store(block.0, Ordering::Relaxed);
    }
}
