//! `bench cross`: blocks taken on one CPU, handed over 64 at a time, and given back on the other.
//!
//! Each side times what it does with the allocator, group by group, and nothing else, so that neither the queue nor
//! waiting for the other side counts; the clock's cost is taken off. The same queue is also run with nothing but
//! numbers: the elapsed time minus the queue's is reported beside it.

use super::{Noise, SAMPLES, Skipped};
use crate::contestants::{ALONE, CPUS, Subjects};
use crate::external::{External, ExternalNote};
use crate::figures::CrossFigures;
use crate::harness::allocator::Allocator;
pub use crate::harness::handover::GROUP;
use crate::harness::handover::Padded;
use crate::harness::machine::{Machine, Watch};
use crate::harness::sampler::{Sample, Sampler};
use crate::harness::samples::Samples;
use crate::harness::subject::{Shared, Subject};
use crate::harness::team::{Team, cpus};
use pageyard::{Order, Pfn};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// One row, in nanoseconds a block.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CrossRow {
    /// The allocator.
    pub allocator: &'static str,
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
    /// How often a pageblock's bias was taken back in 100,000 frees of all samples, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revocations_per_100_000: Option<f64>,
    /// How often in all samples, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revocations: Option<u64>,
    /// Whether it comes from a file of rows that was measured elsewhere; left out otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
    /// Whether ratios to rows of this machine mean anything.
    #[serde(skip)]
    pub compares: bool,
    /// Refills and spills in all samples, where they can be seen.
    #[serde(skip)]
    pub moves: Option<(u64, u64)>,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Cross {
    /// Where it was measured.
    pub machine: Machine,
    /// Samples of each row.
    pub samples: usize,
    /// The rows.
    pub rows: Vec<CrossRow>,
    /// What was not measured.
    pub skipped: Vec<Skipped>,
    /// What the queue takes by itself, nanoseconds a block.
    pub queue_ns: f64,
    /// What disturbed it: the queue by itself, measured first and last in each turn, is the pair that must agree.
    pub noise: Noise,
    /// The source of rows that were measured elsewhere.
    pub external: Option<ExternalNote>,
}

/// Groups in a sample.
const GROUPS: usize = 1 << 11;

/// What to measure.
#[derive(Clone, Debug)]
pub struct CrossOptions {
    /// Samples of each row.
    pub samples: usize,
    /// Groups that a sample hands over.
    groups: usize,
    /// The `pageyard` command, which starts peers in processes of their own; without it they are skipped.
    pub command: Option<PathBuf>,
    /// Rows that were measured elsewhere.
    pub external: Option<External<CrossFigures>>,
}

impl CrossOptions {
    /// All of it.
    #[must_use]
    pub fn full() -> CrossOptions {
        CrossOptions { samples: SAMPLES, groups: GROUPS, command: None, external: None }
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
    let others =
        Subjects::inside(Order::ZERO, CPUS).with_outside(Order::ZERO, options.command.as_deref(), &cpus);
    subjects.extend(others.all.into_iter().filter(|s| !s.name().starts_with("floor")));
    result.skipped = others.skipped;
    subjects.push(queue());
    let groups = options.groups;
    let watch = Watch::start();
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
    result.queue_ns = queue[0].min(queue[1]);
    result.noise = Noise::of(queue, &watch);
    for i in 1..subjects.len() - 1 {
        let moves = subjects[i].moves().zip(before[i].0).map(|(b, a)| (b.0 - a.0, b.1 - a.1));
        let revoked = subjects[i].revocations().zip(before[i].1).map(|(b, a)| b - a);
        if missing[i] > 0 {
            let why = "it ran out of blocks".to_owned();
            result.skipped.push(Skipped { allocator: subjects[i].name(), why });
        } else if series[i][0].is_empty() {
            let why = "its process ended".to_owned();
            result.skipped.push(Skipped { allocator: subjects[i].name(), why });
        } else {
            let row = row(subjects[i].name(), &series[i], result.queue_ns, moves);
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
        result.add_external(external);
    }
    for allocator in ALONE {
        result.skipped.push(Skipped { allocator, why: "it is for one thread".into() });
    }
    result
}

impl Cross {
    fn add_external(&mut self, external: &External<CrossFigures>) {
        let mut note = ExternalNote::of(external, &self.machine);
        for (allocator, f) in &external.rows {
            self.rows.push(CrossRow {
                allocator,
                alloc_ns: f.alloc_ns,
                free_ns: f.free_ns,
                total_ns_min: f.total_ns_min,
                total_ns_median: f.total_ns_median,
                elapsed_ns_median: f.elapsed_ns_median,
                elapsed_less_queue_ns: f.elapsed_less_queue_ns,
                biased_share: f.biased_share,
                revocations_per_100_000: None,
                revocations: f.revocations,
                external: true,
                compares: note.show(),
                moves: None,
            });
        }
        self.external = Some(note);
    }
}

fn row(
    allocator: &'static str,
    [alloc, free, total, elapsed]: &[Samples; 4],
    queue: f64,
    moves: Option<(u64, u64)>,
) -> CrossRow {
    CrossRow {
        allocator,
        alloc_ns: alloc.median(),
        free_ns: free.median(),
        total_ns_min: total.min(),
        total_ns_median: total.median(),
        elapsed_ns_median: elapsed.median(),
        elapsed_less_queue_ns: (elapsed.median() - queue).max(0.0),
        biased_share: None,
        revocations_per_100_000: None,
        revocations: None,
        external: false,
        compares: true,
        moves,
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
