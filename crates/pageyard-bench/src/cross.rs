//! `bench cross`: blocks taken on one CPU, handed over 64 at a time, and given back on the other.
//!
//! Each side times what it does with the allocator, group by group, and nothing else, so that neither the queue nor
//! waiting for the other side counts; the clock's cost is taken off. The same queue is also run with nothing but
//! numbers: the elapsed time minus the queue's is reported beside it.

use super::allocator::Allocator;
use super::environment::{Machine, Watch};
pub use super::handover::GROUP;
use super::handover::{Crossed, Padded};
use super::subject::{Shared, Subject};
use super::subjects::{ALONE, Subjects};
use super::team::{Team, cpus};
use super::{Noise, SAMPLES, Skipped, median};
use pageyard::{Order, Pfn};
use serde::Serialize;
use std::path::Path;
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
    /// Refills and spills in all samples, where they can be seen.
    #[serde(skip)]
    pub moves: Option<(u64, u64)>,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Cross {
    /// Where it was measured.
    pub machine: Machine,
    /// The rows.
    pub rows: Vec<CrossRow>,
    /// What was not measured.
    pub skipped: Vec<Skipped>,
    /// What the queue takes by itself, nanoseconds a block.
    pub queue_ns: f64,
    /// What disturbed it: the queue by itself, measured first and last in each turn, is the pair that must agree.
    pub noise: Noise,
}

/// Groups in a sample.
const GROUPS: usize = 1 << 11;

/// Measures. `command` is the `pageyard` command, which starts peers in processes of their own; without it they are
/// skipped. `progress` is told how many of how many samples are done.
#[must_use]
pub fn cross(quick: bool, command: Option<&Path>, progress: &mut dyn FnMut(u64, u64)) -> Cross {
    let mut result = Cross { machine: Machine::this(), ..Cross::default() };
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
    let others = Subjects::inside(Order::ZERO).with_outside(Order::ZERO, command, &cpus);
    subjects.extend(others.all.into_iter().filter(|s| !s.name().starts_with("floor")));
    result.skipped = others.skipped;
    subjects.push(queue());
    let groups = if quick { GROUPS / 4 } else { GROUPS };
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
    let before: Vec<_> = subjects.iter().map(|s| s.moves()).collect();
    let mut samples: Vec<Vec<Crossed>> = vec![Vec::new(); subjects.len()];
    for i in 0..SAMPLES {
        for (subject, samples) in subjects.iter().zip(&mut samples) {
            samples.extend(subject.cross(&team, groups));
        }
        progress(i as u64 + 1, SAMPLES as u64);
    }
    let queue = [elapsed(&samples[0]), samples.last().map_or(0.0, |s| elapsed(s))];
    result.queue_ns = queue[0].min(queue[1]);
    result.noise =
        Noise { apart: (queue[0] - queue[1]).abs() / result.queue_ns.max(0.01), taken: watch.seen() };
    for i in 1..subjects.len() - 1 {
        let moves = subjects[i].moves().zip(before[i]).map(|(b, a)| (b.0 - a.0, b.1 - a.1));
        if samples[i].iter().any(|s| s.missing > 0) {
            let why = "it ran out of blocks".to_owned();
            result.skipped.push(Skipped { allocator: subjects[i].name(), why });
        } else {
            result.rows.push(row(subjects[i].name(), &samples[i], result.queue_ns, moves));
        }
    }
    for allocator in ALONE {
        result.skipped.push(Skipped { allocator, why: "it is for one thread".into() });
    }
    result
}

fn elapsed(samples: &[Crossed]) -> f64 {
    median(&mut samples.iter().map(|s| s.elapsed).collect::<Vec<_>>())
}

fn row(allocator: &'static str, samples: &[Crossed], queue: f64, moves: Option<(u64, u64)>) -> CrossRow {
    let of = |part: fn(&Crossed) -> f64| median(&mut samples.iter().map(part).collect::<Vec<_>>());
    let mut totals: Vec<f64> = samples.iter().map(|s| s.alloc + s.free).collect();
    let total_ns_median = median(&mut totals);
    CrossRow {
        allocator,
        alloc_ns: of(|s| s.alloc),
        free_ns: of(|s| s.free),
        total_ns_min: totals.first().copied().unwrap_or(0.0),
        total_ns_median,
        elapsed_ns_median: elapsed(samples),
        elapsed_less_queue_ns: (elapsed(samples) - queue).max(0.0),
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
