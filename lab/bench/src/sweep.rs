//! `bench sweep`: blocks allocated and freed in batches of 1 to 16,384, on one thread, two, or as many as there are
//! CPUs.

use super::{Noise, SAMPLES, Skipped};
use crate::contestants::{ALONE, Outside, Subjects};
use crate::external::uml::{self, Uml};
use crate::external::{External, ExternalNote, ExternalRow, Key, Kind};
use crate::harness::cell::{Cell, Measured};
use crate::harness::engines::MEMORY;
use crate::harness::locked::LockedPairs;
use crate::harness::machine::{InterferenceWatch, Machine};
use crate::harness::moves::Moves;
use crate::harness::noise::Disturbance;
pub use crate::harness::pattern::Pattern;
use crate::harness::subject::Subject;
use crate::harness::team::{Team, cpus};
use crate::peers::{self, LINUX_UML};
use pageyard::Order;
use pageyard_trace::Document;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A batch larger than all lists, of single frames on one thread, freed at random: the coldest case.
pub const LARGEST_BATCH: usize = 200_000;

/// The settings to sweep.
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
    /// Peers beside those of this process.
    pub outside: Outside,
    /// Rows that `bench/linux/run` left; without it they are looked for where it leaves them.
    pub linux_uml: Option<PathBuf>,
    /// Rows that were measured elsewhere.
    pub external: Option<External<SweepRow>>,
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
            outside: Outside::default(),
            linux_uml: None,
            external: None,
        }
    }

    /// Returns the settings that show most of the picture within a minute.
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SweepRow {
    /// The allocator.
    pub allocator: Cow<'static, str>,
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
    /// Giving back, by the same measure.
    pub free_ns: f64,
    /// Both, the fastest sample.
    pub total_ns_min: f64,
    /// Both, the median.
    pub total_ns_median: f64,
    /// Refills and spills; left out where they cannot be seen.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub moves: Option<Moves>,
    /// The share of the frees that are checked without a locked instruction, counted in a pass more; left out for
    /// allocators that bias nothing to a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub biased_share: Option<f64>,
    /// How often a pageblock's bias was taken back in all samples of the row; left out where nothing is biased.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revocations: Option<u64>,
    /// Locked instructions of one block, taken and given back, counted by stepping through one pass in another process;
    /// left out where that was not counted: only the lock-free engine's, one thread, first in first out, batches up to
    /// 64.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub locked_per_pair: Option<f64>,
    /// Samples that count.
    pub samples: usize,
    /// Whether the row is doubtful: a pair of the same code disagreed, or other processes took time.
    #[serde(default)]
    pub disturbed: bool,
    /// Whether it was measured in another run.
    #[serde(skip_deserializing)]
    pub measured_apart: bool,
    /// Whether it comes from a file of rows that was measured elsewhere; left out otherwise.
    #[serde(skip_deserializing, skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
    /// Blocks handled in all samples; left out for a row that was measured apart.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u64>,
    /// Refills in 1000 of those blocks; left out where they cannot be seen.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub refills_per_1000_blocks: Option<f64>,
    /// Spills in 1000 of those blocks; left out where they cannot be seen.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub spills_per_1000_blocks: Option<f64>,
    /// The share of the time in which all threads ran; left out for one thread, and for a row that was measured apart.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub overlap_pct: Option<f64>,
    /// The floor's name; left out where the setting has none.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Cow<'static, str>>,
    /// The median as a multiple of the floor's.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub x_floor: Option<f64>,
    /// With more threads, how many times as many blocks they handle as one thread does; left out where that is not
    /// known.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub x_one_thread: Option<f64>,
    /// The median as a multiple of each engine's in the setting; left out for the engines and for floors.
    #[serde(skip_deserializing, skip_serializing_if = "BTreeMap::is_empty")]
    pub x_engines: BTreeMap<Cow<'static, str>, f64>,
}

/// The engine's variants, which others are compared with.
const OURS: [&str; 3] = ["pageyard", "pageyard-exclusive", "pageyard-trylock"];

impl SweepRow {
    /// Returns whether it is one of the engine's variants.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        OURS.contains(&&*self.allocator)
    }

    fn setting(&self) -> (usize, u8, usize, Pattern) {
        (self.threads, self.order, self.batch, self.pattern)
    }
}

impl ExternalRow for SweepRow {
    type Report = Sweep;

    const KEYS: &'static [Key] = &[
        Key::of("threads", Kind::Count),
        Key::of("order", Kind::Order),
        Key::of("batch", Kind::Count),
        Key::of("pattern", Kind::OneOf(&Pattern::NAMES)),
        Key::of("alloc_ns", Kind::Ns),
        Key::of("free_ns", Kind::Ns),
        Key::of("total_ns_min", Kind::NsAbove0),
        Key::of("total_ns_median", Kind::NsAbove0),
        Key::maybe("refills", Kind::Count),
        Key::maybe("spills", Kind::Count),
        Key::maybe("biased_share", Kind::Share),
        Key::maybe("revocations", Kind::Count),
        Key::of("samples", Kind::Count),
        Key::maybe("disturbed", Kind::Flag),
    ];

    fn allocator(&self) -> &str {
        &self.allocator
    }

    fn is_of_the_setting_of(&self, other: &SweepRow) -> bool {
        self.setting() == other.setting()
    }

    fn marked(self) -> SweepRow {
        SweepRow { external: true, measured_apart: true, ..self }
    }
}

/// Batches of all sizes, allocated and freed.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sweep {
    /// Where it was measured.
    pub machine: Machine,
    /// Whether fewer settings were measured than the benchmark has.
    pub quick: bool,
    /// The disturbance seen during the run.
    pub disturbance: Disturbance,
    /// Samples of each row.
    pub samples: usize,
    /// The rows: nanoseconds for each block, each thread.
    pub rows: Vec<SweepRow>,
    /// The measurements that were skipped, each with the reason.
    pub skipped: Vec<Skipped>,
    /// A remark on rows that were measured in another run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The source of rows that were measured elsewhere; left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalNote>,
}

impl Document for Sweep {
    const SCHEMA: &'static str = "pageyard.bench-sweep/2";
}

/// Fails unless a file holds rows of Linux itself.
///
/// # Errors
/// Why not, in one sentence.
pub fn check_uml(file: &Path) -> Result<(), String> {
    uml::read::<SweepRow>(Some(file)).map(drop)
}

/// Runs a sweep. `progress` is told how many of how many settings are done.
#[must_use]
pub fn sweep(options: &SweepOptions, progress: &mut dyn FnMut(u64, u64)) -> Sweep {
    let mut sweep = Sweep { machine: Machine::measured(), samples: options.samples, ..Sweep::default() };
    let uml = sweep.linux_uml(options);
    sweep.external = options.external.as_ref().map(|external| ExternalNote::of(external, &sweep.machine));
    let watch = InterferenceWatch::start();
    let cpus = cpus();
    let team = Team::new(&cpus);
    let most = options.threads.iter().copied().filter(|n| *n <= team.len()).max().unwrap_or(1);
    let all = options.orders.len() * options.batches.len() * options.patterns.len() * options.threads.len();
    let mut done = 0;
    for order in &options.orders {
        let subjects = Subjects::inside(*order, most).with_outside(*order, most, &options.outside, &cpus);
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
    sweep.disturbance.taken = watch.seen();
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
        self.disturbance.add(&outcome.noise);
        for (subject, measured) in subjects.iter().zip(outcome.measured) {
            match measured {
                Some(m) => self.rows.push(row(setting, subject.name(), &m, &outcome.noise)),
                None => self.skip(subject.name(), why_not(setting)),
            }
        }
    }

    /// Adds the rows of a setting that were measured apart to those that were just measured, and the ratios.
    fn add_apart(
        &mut self,
        setting: &Setting,
        uml: Option<&Uml<SweepRow>>,
        external: Option<&External<SweepRow>>,
    ) {
        let of_setting = |row: &&SweepRow| setting.is(row, setting.threads);
        let apart = uml.iter().flat_map(|uml| &uml.rows).filter(of_setting).cloned();
        self.rows.extend(apart.map(|row| SweepRow { measured_apart: true, ..row }));
        for row in external.iter().flat_map(|external| &external.rows).filter(of_setting) {
            self.external.as_mut().map(ExternalNote::show);
            self.rows.push(row.clone());
        }
        self.add_ratios(setting);
    }

    fn add_ratios(&mut self, setting: &Setting) {
        let first = self.rows.iter().position(|row| setting.is(row, setting.threads));
        let first = first.unwrap_or(self.rows.len());
        let (before, rows) = self.rows.split_at_mut(first);
        let compares = self.external.as_ref().is_none_or(ExternalNote::compares);
        let median = |row: &SweepRow| (row.allocator.clone(), row.total_ns_median);
        let times = |ns: f64, of: f64| ns / of.max(0.01);
        let floor = ["floor-rseq", if setting.threads == 1 { "floor-array" } else { "floor-trylock" }];
        let floor = floor.iter().find_map(|f| rows.iter().find(|r| r.allocator == *f)).map(median);
        let ours: Vec<_> = rows.iter().filter(|r| r.is_ours()).map(median).collect();
        for row in rows {
            let ns = row.total_ns_median;
            if let Some((name, floor)) = floor.as_ref().filter(|_| compares || !row.external) {
                (row.floor, row.x_floor) = (Some(name.clone()), Some(times(ns, *floor)));
            }
            if setting.threads > 1 {
                let one = before.iter().find(|r| setting.is(r, 1) && r.allocator == row.allocator);
                row.x_one_thread = one.map(|one| setting.threads as f64 * times(one.total_ns_median, ns));
            }
            if !row.is_ours() && !row.allocator.starts_with("floor") && (compares || !row.external) {
                row.x_engines = ours.iter().map(|(name, mine)| (name.clone(), times(ns, *mine))).collect();
            }
        }
    }

    /// Adds what a process of its own counts of locked instructions.
    fn add_locked(&mut self, options: &SweepOptions) {
        let of = |row: &SweepRow| (Order::of(row.order), row.batch);
        let counts = |row: &SweepRow| !row.measured_apart && (row.threads, row.pattern) == (1, Pattern::Fifo);
        let mut settings: Vec<_> = self.rows.iter().filter(|row| counts(row)).map(of).collect();
        settings.sort_unstable();
        settings.dedup();
        let locked = LockedPairs::ask(options.outside.command.as_deref(), settings.into_iter());
        for row in self.rows.iter_mut().filter(|row| counts(row)) {
            let (order, batch) = of(row);
            row.locked_per_pair = locked.of(&row.allocator, order, batch);
        }
    }

    /// Says once that an allocator has no row in a setting.
    fn skip(&mut self, allocator: &'static str, why: String) {
        let skipped = Skipped { allocator, why };
        if !self.skipped.contains(&skipped) {
            self.skipped.push(skipped);
        }
    }

    fn linux_uml(&mut self, options: &SweepOptions) -> Option<Uml<SweepRow>> {
        match uml::read(options.linux_uml.as_deref()) {
            Ok(uml) => {
                self.note = Some(format!(
                    "linux-uml: Linux {} under User Mode Linux, measured in another run on {}; it leaves out {}",
                    uml.kernel, uml.cpu, uml.left_out
                ));
                Some(uml)
            }
            Err(why) => {
                self.skip(LINUX_UML, why);
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
            for allocator in peers::names_outside() {
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
    let per_1000 = |moves: u64| 1000.0 * moves as f64 / m.blocks.max(1) as f64;
    SweepRow {
        allocator: allocator.into(),
        threads: setting.threads,
        order: setting.order.get(),
        batch: setting.batch,
        pattern: setting.pattern,
        alloc_ns: m.alloc_ns,
        free_ns: m.free_ns,
        total_ns_min: m.total_ns_min,
        total_ns_median: m.total_ns_median,
        moves: m.moves,
        biased_share: m.biased.map(|(share, _)| share),
        revocations: m.biased.map(|(_, revoked)| revoked),
        locked_per_pair: None,
        samples: m.samples,
        disturbed: noise.disturbs(),
        measured_apart: false,
        external: false,
        blocks: Some(m.blocks),
        refills_per_1000_blocks: m.moves.map(|moves| per_1000(moves.refills)),
        spills_per_1000_blocks: m.moves.map(|moves| per_1000(moves.spills)),
        overlap_pct: (setting.threads > 1).then_some(100.0 * m.overlap),
        floor: None,
        x_floor: None,
        x_one_thread: None,
        x_engines: BTreeMap::new(),
    }
}
