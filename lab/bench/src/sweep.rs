//! `bench sweep`: blocks allocated and freed in batches of 1 to 16,384, on one thread, two, or as many as there are
//! CPUs.

use super::peers::uml::{self, Uml};
use super::{Noise, SAMPLES, Skipped};
use crate::contestants::{ALONE, Subjects};
use crate::external::{External, ExternalNote};
use crate::figures::SweepFigures;
use crate::harness::cell::{Cell, Measured};
use crate::harness::engines::MEMORY;
use crate::harness::locked::LockedPairs;
use crate::harness::machine::{Machine, Taken, Watch};
pub use crate::harness::pattern::Pattern;
use crate::harness::subject::Subject;
use crate::harness::team::{Team, cpus};
use pageyard::Order;
use serde::Serialize;
use std::path::PathBuf;

/// A batch larger than all lists, of single frames on one thread, freed at random: the coldest case.
pub const LARGEST_BATCH: usize = 200_000;

/// What to sweep.
#[derive(Clone, Debug)]
pub struct SweepOptions {
    /// Orders.
    pub orders: Vec<Order>,
    /// Blocks in a batch; [`LARGEST_BATCH`] is measured with single frames, shuffled, on one thread only.
    pub batches: Vec<usize>,
    /// Numbers of threads, each at most the CPUs that this process may use.
    pub threads: Vec<usize>,
    /// Patterns.
    pub patterns: Vec<Pattern>,
    /// Samples of each row.
    pub samples: usize,
    /// The `pageyard` command, which starts peers in processes of their own; without it they are skipped.
    pub command: Option<PathBuf>,
    /// Rows that `bench/linux/run` left; without it they are looked for where it leaves them.
    pub linux_uml: Option<PathBuf>,
    /// Rows that were measured elsewhere.
    pub external: Option<External<SweepFigures>>,
}

impl SweepOptions {
    /// Everything: within ten minutes.
    #[must_use]
    pub fn full() -> SweepOptions {
        SweepOptions {
            orders: vec![Order::ZERO, Order::of(3), Order::of(9)],
            batches: (0..15).map(|i| 1 << i).chain([LARGEST_BATCH]).collect(),
            threads: vec![1, 2],
            patterns: Pattern::ALL.to_vec(),
            samples: SAMPLES,
            command: None,
            linux_uml: None,
            external: None,
        }
    }

    /// What says most: within a minute.
    #[must_use]
    pub fn quick() -> SweepOptions {
        SweepOptions {
            orders: vec![Order::ZERO, Order::of(9)],
            batches: vec![1, 64, 1024, 16_384],
            patterns: vec![Pattern::Fifo],
            ..SweepOptions::full()
        }
    }
}

/// One row: nanoseconds for each block, each thread.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SweepRow {
    /// The allocator.
    pub allocator: &'static str,
    /// Threads at the same time.
    pub threads: usize,
    /// Order of the blocks.
    pub order: u8,
    /// Blocks in a batch.
    pub batch: usize,
    /// Order of the frees.
    pub pattern: Pattern,
    /// Taking, by its share in passes with the clock read in between.
    pub alloc_ns: f64,
    /// Giving back, likewise.
    pub free_ns: f64,
    /// Both, the fastest sample.
    pub total_ns_min: f64,
    /// Both, the median.
    pub total_ns_median: f64,
    /// Times a per-CPU list was filled from its zone, in all samples of the row.
    pub refills: u64,
    /// Times one was spilled to it.
    pub spills: u64,
    /// Whether refills and spills can be seen; where not, both are 0.
    pub moves_seen: bool,
    /// The share of the frees that are checked without a locked instruction, counted in a pass more; left out for
    /// allocators that bias nothing to a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub biased_share: Option<f64>,
    /// How often a pageblock's bias was taken back in all samples of the row, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revocations: Option<u64>,
    /// Locked instructions of one block, taken and given back, counted by stepping through one pass in another process;
    /// left out where that was not counted: only the lock-free engine's, one thread, first in first out, batches up to
    /// 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked_per_pair: Option<f64>,
    /// Blocks handled in all samples of the row.
    #[serde(skip)]
    pub blocks: u64,
    /// The median as a multiple of the floor's of the same setting; 0 where that has none.
    #[serde(skip)]
    pub x_floor: f64,
    /// The floor's name.
    #[serde(skip)]
    pub floor: &'static str,
    /// With more threads, how many times as many blocks they handle as one thread does; 0 where that is not known.
    #[serde(skip)]
    pub x_one_thread: f64,
    /// The share of the time in which all threads ran: time outside that does not count.
    #[serde(skip)]
    pub overlap: f64,
    /// Samples that count.
    pub samples: usize,
    /// Whether the row is doubtful: a pair of the same code disagreed, or other processes took time.
    pub disturbed: bool,
    /// Whether it was measured in another run.
    #[serde(rename = "measured_apart")]
    pub apart: bool,
    /// Whether it comes from a file of rows that was measured elsewhere; left out otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
    /// Whether ratios to rows of this machine mean anything.
    #[serde(skip)]
    pub compares: bool,
}

/// A sweep's result.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// Where it was measured.
    pub machine: Machine,
    /// Samples of each row.
    pub samples: usize,
    /// The rows.
    pub rows: Vec<SweepRow>,
    /// What was not measured.
    pub skipped: Vec<Skipped>,
    /// Settings measured, and how many of them were disturbed.
    pub settings: (usize, usize),
    /// The largest disagreement of the pair.
    pub apart_most: f64,
    /// What others took in the whole run.
    pub taken: Taken,
    /// The source of rows that were measured separately.
    pub note: Option<String>,
    /// The source of rows that were measured elsewhere.
    pub external: Option<ExternalNote>,
}

/// Runs a sweep. `progress` is told how many of how many settings are done.
#[must_use]
pub fn sweep(options: &SweepOptions, progress: &mut dyn FnMut(u64, u64)) -> Sweep {
    let mut sweep = Sweep { machine: Machine::measured(), samples: options.samples, ..Sweep::default() };
    let uml = sweep.linux_uml(options);
    sweep.external = options.external.as_ref().map(|external| ExternalNote::of(external, &sweep.machine));
    let watch = Watch::start();
    let cpus = cpus();
    let team = Team::new(&cpus);
    let most = options.threads.iter().copied().filter(|n| *n <= team.len()).max().unwrap_or(1);
    let all = options.orders.len() * options.batches.len() * options.patterns.len() * options.threads.len();
    let mut done = 0;
    for order in &options.orders {
        let subjects = Subjects::inside(*order, most).with_outside(*order, options.command.as_deref(), &cpus);
        sweep.skipped.extend(subjects.skipped);
        for batch in &options.batches {
            for pattern in &options.patterns {
                for threads in &options.threads {
                    let setting =
                        Setting { order: *order, batch: *batch, pattern: *pattern, threads: *threads };
                    if setting.is_sensible() && *threads <= team.len() {
                        sweep.measure(&setting, &team, &subjects.all);
                        sweep.add_apart(&setting, uml.as_ref(), options.external.as_ref());
                    }
                    done += 1;
                    progress(done, all as u64);
                }
            }
        }
    }
    sweep.taken = watch.seen();
    sweep.left_out(options, team.len());
    sweep.add_locked(options);
    sweep
}

/// One setting of a sweep.
struct Setting {
    order: Order,
    batch: usize,
    pattern: Pattern,
    threads: usize,
}

impl Setting {
    /// Returns whether it leaves enough memory, and, for the largest batch, whether it is the setting meant for it.
    fn is_sensible(&self) -> bool {
        let frames = (self.batch as u64) << self.order.get();
        let fits = frames <= MEMORY / 4 && frames * self.threads as u64 <= MEMORY / 2;
        let small = self.batch < LARGEST_BATCH;
        fits && (small || (self.order, self.pattern, self.threads) == (Order::ZERO, Pattern::Shuffled, 1))
    }

    fn is(&self, row: &SweepRow, threads: usize) -> bool {
        (row.order, row.batch, row.pattern, row.threads)
            == (self.order.get(), self.batch, self.pattern, threads)
    }

    fn is_of(&self, row: &SweepFigures) -> bool {
        (row.order, row.batch, row.pattern, row.threads)
            == (self.order.get(), self.batch, self.pattern, self.threads)
    }
}

impl Sweep {
    fn measure(&mut self, setting: &Setting, team: &Team, subjects: &[Box<dyn Subject>]) {
        let order = setting.pattern.order(setting.batch).into();
        let subjects: Vec<&dyn Subject> = subjects
            .iter()
            .map(|s| &**s)
            .filter(|s| s.can(setting.threads, 1) && s.holds(setting.batch))
            .collect();
        let outcome =
            Cell { order, call: 1, threads: setting.threads, samples: self.samples }.measure(team, &subjects);
        self.settings.0 += 1;
        self.settings.1 += usize::from(outcome.noise.disturbs());
        self.apart_most = self.apart_most.max(outcome.noise.apart);
        for (subject, measured) in subjects.iter().zip(outcome.measured) {
            match measured {
                Some(m) => self.rows.push(row(setting, subject.name(), &m, &outcome.noise)),
                None => self.skip(subject.name(), why_not(setting)),
            }
        }
    }

    /// Adds the rows of a setting that were measured apart to those that were just measured, and the ratios.
    fn add_apart(&mut self, setting: &Setting, uml: Option<&Uml>, external: Option<&External<SweepFigures>>) {
        let of_setting = |figures: &SweepFigures| setting.is_of(figures);
        for figures in uml.iter().flat_map(|uml| &uml.rows).filter(|figures| of_setting(figures)) {
            self.rows.push(apart(setting, uml::NAME, figures));
        }
        for (name, figures) in external.iter().flat_map(|e| &e.rows).filter(|(_, f)| of_setting(f)) {
            let compares = self.external.as_mut().is_none_or(ExternalNote::show);
            self.rows.push(SweepRow { external: true, compares, ..apart(setting, name, figures) });
        }
        self.add_ratios(setting);
    }

    fn add_ratios(&mut self, setting: &Setting) {
        let first = self.rows.iter().position(|row| setting.is(row, setting.threads));
        let first = first.unwrap_or(self.rows.len());
        let floor = ["floor-rseq", if setting.threads == 1 { "floor-array" } else { "floor-trylock" }];
        let base = floor.iter().find_map(|f| self.rows[first..].iter().find(|r| r.allocator == *f)).cloned();
        for i in first..self.rows.len() {
            let one = |r: &&SweepRow| setting.is(r, 1) && r.allocator == self.rows[i].allocator;
            let one = self.rows.iter().find(one).map_or(0.0, |r| r.total_ns_median);
            let row = &mut self.rows[i];
            if let Some(base) = base.as_ref().filter(|_| row.compares) {
                row.floor = base.allocator;
                row.x_floor = row.total_ns_median / base.total_ns_median.max(0.01);
            }
            if setting.threads > 1 {
                row.x_one_thread = setting.threads as f64 * one / row.total_ns_median.max(0.01);
            }
        }
    }

    /// Adds what a process of its own counts of locked instructions.
    fn add_locked(&mut self, options: &SweepOptions) {
        let of = |row: &SweepRow| (Order::of(row.order), row.batch);
        let counts = |row: &SweepRow| !row.apart && (row.threads, row.pattern) == (1, Pattern::Fifo);
        let mut settings: Vec<_> = self.rows.iter().filter(|row| counts(row)).map(of).collect();
        settings.sort_unstable();
        settings.dedup();
        let locked = LockedPairs::ask(options.command.as_deref(), settings.into_iter());
        for row in self.rows.iter_mut().filter(|row| counts(row)) {
            let (order, batch) = of(row);
            row.locked_per_pair = locked.of(row.allocator, order, batch);
        }
    }

    /// Says once that an allocator has no row in a setting.
    fn skip(&mut self, allocator: &'static str, why: String) {
        let skipped = Skipped { allocator, why };
        if !self.skipped.contains(&skipped) {
            self.skipped.push(skipped);
        }
    }

    fn linux_uml(&mut self, options: &SweepOptions) -> Option<Uml> {
        match uml::read(options.linux_uml.as_deref()) {
            Ok(uml) => {
                self.note = Some(format!(
                    "linux-uml: Linux {} under User Mode Linux, measured in another run on {}; it leaves out {}",
                    uml.kernel, uml.cpu, uml.left_out
                ));
                Some(uml)
            }
            Err(why) => {
                self.skip("linux-uml", why);
                None
            }
        }
    }

    /// Says what the settings as such left out.
    fn left_out(&mut self, options: &SweepOptions, cpus: usize) {
        if let Some(most) = options.threads.iter().max().filter(|n| **n > cpus) {
            self.skip(
                "several threads",
                format!("{most} need as many CPUs, and this process may use {cpus}"),
            );
        } else if options.threads.iter().any(|n| *n > 1) {
            for allocator in ALONE {
                self.skip(allocator, "it is for one thread; its rows with more are left out".into());
            }
            if self.note.is_some() {
                self.skip(
                    "linux-uml",
                    "User Mode Linux has one CPU; its rows with more threads are left out".into(),
                );
            }
        }
        if options.orders.iter().any(|o| *o > Order::ZERO) {
            for allocator in ["mimalloc", "jemalloc", "tcmalloc", "rte_mempool-512"] {
                self.skip(
                    allocator,
                    "it is measured with 4 KiB blocks; its rows of larger orders are left out".into(),
                );
            }
        }
    }
}

fn why_not(setting: &Setting) -> String {
    match setting.threads {
        1 => format!("it ran out of blocks of order {} in batches of {}", setting.order.get(), setting.batch),
        n => format!(
            "{n} threads did not overlap enough in batches of {}, or ran out of blocks",
            setting.batch
        ),
    }
}

fn row(setting: &Setting, allocator: &'static str, m: &Measured, noise: &Noise) -> SweepRow {
    let (refills, spills) = m.moves.unwrap_or_default();
    SweepRow {
        allocator,
        threads: setting.threads,
        order: setting.order.get(),
        batch: setting.batch,
        pattern: setting.pattern,
        alloc_ns: m.alloc_ns,
        free_ns: m.free_ns,
        total_ns_min: m.total_ns_min,
        total_ns_median: m.total_ns_median,
        refills,
        spills,
        moves_seen: m.moves.is_some(),
        biased_share: m.biased.map(|(share, _)| share),
        revocations: m.biased.map(|(_, revoked)| revoked),
        locked_per_pair: None,
        blocks: m.blocks,
        x_floor: 0.0,
        floor: "",
        x_one_thread: 0.0,
        overlap: m.overlap,
        samples: m.samples,
        disturbed: noise.disturbs(),
        apart: false,
        external: false,
        compares: true,
    }
}

/// The row of figures that were measured apart.
fn apart(setting: &Setting, allocator: &'static str, figures: &SweepFigures) -> SweepRow {
    let f = figures;
    let measured = Measured {
        alloc_ns: f.alloc_ns,
        free_ns: f.free_ns,
        total_ns_min: f.total_ns_min,
        total_ns_median: f.total_ns_median,
        moves: f.moves,
        blocks: 0,
        overlap: 1.0,
        biased: None,
        samples: f.samples as usize,
    };
    SweepRow {
        apart: true,
        disturbed: f.disturbed,
        biased_share: f.biased_share,
        revocations: f.revocations,
        ..row(setting, allocator, &measured, &Noise::default())
    }
}
