//! `bench mixed`: blocks of several orders, taken and given back in bursts, while about half of a zone is in use.
//!
//! Orders have the shares that they have in the recordings; the calls are the same for every allocator and sample.
//! Allocators are new in each setting, and what is held stays from sample to sample, so each works on memory that it
//! has aged itself. All calls are made once more before each sample, so that caches hold an allocator's own memory and
//! not that of the one before it. The loop's own cost is measured with an allocator that does nothing, first and last
//! in each turn, and is in every figure.

use super::{Noise, SAMPLES, Skipped};
use crate::contestants::{ALONE, Outside, Subjects};
use crate::external::{External, ExternalNote, ExternalRow, Key, Kind};
use crate::harness::machine::{InterferenceWatch, Machine};
use crate::harness::memory::Memory;
pub use crate::harness::mixed::sequence::{MixedPattern, RECORDED, ZONE, share};
use crate::harness::mixed::work::{MixedLoad, Nothing, Phase, Setting, Work};
use crate::harness::noise::Disturbance;
use crate::harness::sampler::{Sample, Sampler};
use crate::harness::samples::Samples;
use crate::harness::subject::{Shared, Subject};
use crate::harness::team::{OVERLAP, Pinned, Span, Team, cpus, overlap};
use pageyard::Order;
use pageyard_trace::Document;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

/// Blocks that a sample takes on each thread.
const BLOCKS: usize = 1 << 17;

/// The settings to measure.
#[derive(Clone, Debug)]
pub struct MixedOptions {
    /// Numbers of threads, each at most the CPUs that this process may use.
    pub threads: Vec<usize>,
    /// Patterns; with one thread there is only its own.
    pub patterns: Vec<MixedPattern>,
    /// Whether frames are touched.
    pub touched: Vec<bool>,
    /// Samples of each row.
    pub samples: usize,
    /// Blocks that a sample takes at least, each thread.
    blocks: usize,
    /// Peers beside those of this process.
    pub outside: Outside,
    /// Rows that were measured elsewhere.
    pub external: Option<External<MixedRow>>,
}

impl MixedOptions {
    /// Everything: within two minutes.
    #[must_use]
    pub fn full() -> MixedOptions {
        MixedOptions {
            threads: vec![1, 2],
            patterns: MixedPattern::ALL.to_vec(),
            touched: vec![false, true],
            samples: SAMPLES,
            blocks: BLOCKS,
            outside: Outside::default(),
            external: None,
        }
    }

    /// Samples of a quarter of the length, and nothing handed over.
    #[must_use]
    pub fn quick() -> MixedOptions {
        MixedOptions { patterns: vec![MixedPattern::Local], blocks: BLOCKS / 4, ..MixedOptions::full() }
    }

    fn settings(&self) -> Vec<Setting> {
        let mut settings = Vec::new();
        for threads in &self.threads {
            for pattern in self.patterns.iter().filter(|p| *threads > 1 || **p == MixedPattern::Local) {
                let of = |touched: &bool| Setting {
                    threads: *threads,
                    pattern: *pattern,
                    touched: *touched,
                    blocks: self.blocks,
                };
                settings.extend(self.touched.iter().map(of));
            }
        }
        settings
    }
}

/// One row: nanoseconds for each block, taken and given back, each thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MixedRow {
    /// The allocator.
    pub allocator: Cow<'static, str>,
    /// Threads at the same time.
    pub threads: usize,
    /// Whose blocks a thread gives back.
    pub pattern: MixedPattern,
    /// Whether a word of each frame is written when its block is taken.
    pub touched: bool,
    /// Taking and giving back, the median; the loop's own cost is in it.
    pub ns_median: f64,
    /// The loop by itself, over an allocator that does nothing.
    pub harness_ns: f64,
    /// The median less what the loop takes by itself.
    #[serde(skip_deserializing)]
    pub less_harness_ns: f64,
    /// Requests in all samples of the row, and in the untimed pass before each of them.
    pub requests: u64,
    /// Of those, the ones that failed. They are timed as the others are, and nothing is given back for them.
    pub failed: u64,
    /// Of 100,000 requests, the ones that failed.
    #[serde(skip_deserializing)]
    pub failed_per_100_000: f64,
    /// The share of the frees that are checked without a locked instruction, counted in a pass more; left out for
    /// allocators that bias nothing to a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub biased_share: Option<f64>,
    /// How often a pageblock's bias was taken back in all of these passes; left out where nothing is biased.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revocations: Option<u64>,
    /// Samples that count.
    pub samples: usize,
    /// Whether the row is doubtful: the two halves of the pair disagreed, or other processes took time.
    #[serde(default)]
    pub disturbed: bool,
    /// Whether it comes from a file of rows that was measured elsewhere; left out otherwise.
    #[serde(skip_deserializing, skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
}

impl MixedRow {
    /// Computes the figures that follow from the others.
    fn derived(self) -> MixedRow {
        MixedRow {
            less_harness_ns: (self.ns_median - self.harness_ns).max(0.0),
            failed_per_100_000: 1e5 * self.failed as f64 / self.requests.max(1) as f64,
            ..self
        }
    }

    fn setting(&self) -> (usize, MixedPattern, bool) {
        (self.threads, self.pattern, self.touched)
    }
}

impl ExternalRow for MixedRow {
    type Report = Mixed;

    const KEYS: &'static [Key] = &[
        Key::of("threads", Kind::Count),
        Key::of("pattern", Kind::OneOf(&MixedPattern::NAMES)),
        Key::of("touched", Kind::Flag),
        Key::of("ns_median", Kind::NsAbove0),
        Key::of("harness_ns", Kind::Ns),
        Key::of("requests", Kind::Count),
        Key::of("failed", Kind::Count),
        Key::maybe("biased_share", Kind::Share),
        Key::maybe("revocations", Kind::Count),
        Key::of("samples", Kind::Count),
        Key::maybe("disturbed", Kind::Flag),
    ];

    fn allocator(&self) -> &str {
        &self.allocator
    }

    fn is_of_the_setting_of(&self, other: &MixedRow) -> bool {
        self.setting() == other.setting()
    }

    fn marked(self) -> MixedRow {
        MixedRow { external: true, ..self.derived() }
    }

    fn contradiction(&self) -> Option<String> {
        let MixedRow { requests, failed, .. } = self;
        let wrong = || format!("its `failed` is {failed}, of {requests} `requests`; correct it");
        (failed > requests).then(wrong)
    }
}

/// Blocks of several orders, taken and given back in bursts, while about half of a zone is in use.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mixed {
    /// Where it was measured.
    pub machine: Machine,
    /// Whether fewer settings were measured than the benchmark has.
    pub quick: bool,
    /// The disturbance seen during the run. The loop alone, measured first and last in each turn, is the pair that
    /// must agree.
    pub disturbance: Disturbance,
    /// Samples of each row.
    pub samples: usize,
    /// Frames of the zone.
    pub zone_frames: u64,
    /// The orders that are asked for.
    pub orders: Vec<OrderShare>,
    /// The rows: nanoseconds for each block, each thread.
    pub rows: Vec<MixedRow>,
    /// The measurements that were skipped, each with the reason.
    pub skipped: Vec<Skipped>,
    /// The source of rows that were measured elsewhere; left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalNote>,
}

impl Document for Mixed {
    const SCHEMA: &'static str = "pageyard.bench-mixed/1";
}

/// How often an order is asked for.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OrderShare {
    /// The order.
    pub order: u8,
    /// Allocations of this order in the recordings that ship.
    pub recorded: u64,
    /// The share of the requests that are for it.
    pub share: f64,
}

impl Mixed {
    /// Makes a result without rows.
    fn new(options: &MixedOptions) -> Mixed {
        let machine = Machine::measured();
        let order = |(i, (order, recorded)): (usize, &(Order, u64))| OrderShare {
            order: order.get(),
            recorded: *recorded,
            share: share(i),
        };
        Mixed {
            external: options.external.as_ref().map(|external| ExternalNote::of(external, &machine)),
            machine,
            quick: false,
            disturbance: Disturbance::default(),
            samples: options.samples,
            zone_frames: ZONE,
            orders: RECORDED.iter().enumerate().map(order).collect(),
            rows: Vec::new(),
            skipped: Vec::new(),
        }
    }
}

/// Measures. `progress` is told how many of how many samples are done.
#[must_use]
pub fn mixed(options: &MixedOptions, progress: &mut dyn FnMut(u64, u64)) -> Mixed {
    let mut result = Mixed::new(options);
    let cpus = cpus();
    let team = Team::new(&cpus);
    let memory = options.touched.contains(&true).then(|| Arc::new(Memory::new(ZONE)));
    let settings = options.settings();
    let all = (settings.len() * options.samples) as u64;
    for (done, setting) in settings.iter().enumerate() {
        if setting.threads > team.len() {
            let (threads, cpus) = (setting.threads, team.len());
            result
                .skip("all", format!("{threads} threads need as many CPUs, and this process may use {cpus}"));
            continue;
        }
        // None of them knows what another setting did to its memory.
        let others = Subjects::of_several_orders(ZONE, setting.threads, &options.outside, &cpus);
        others.skipped.into_iter().for_each(|skipped| result.skip(skipped.allocator, skipped.why));
        let nothing = || Box::new(Shared::new("harness", Nothing, false)) as Box<dyn Subject>;
        let subjects: Vec<_> = [nothing()].into_iter().chain(others.all).chain([nothing()]).collect();
        let memory = memory.clone().unwrap_or_else(|| Arc::new(Memory::none()));
        let before = done * options.samples;
        result.measure(setting, &team, &subjects, &memory, &mut |n| progress((before + n) as u64, all));
        if let Some(external) = &options.external {
            result.add_external(setting, external);
        }
    }
    if options.threads.iter().any(|n| *n > 1) {
        for allocator in ALONE.into_iter().filter(|name| !name.starts_with("floor")) {
            result
                .skip(allocator, "it is for one thread; its rows with more threads are left out".to_owned());
        }
    }
    result
}

/// A subject in its turns.
struct Turn<'a> {
    subject: &'a dyn Subject,
    pass: Work,
    revoked_before: Option<u64>,
    /// Passes made.
    made: u64,
    failed: u64,
}

impl<'a> Turn<'a> {
    /// Lets a subject take what is held at first, and make all calls once; `None` where it cannot.
    fn open(subject: &'a dyn Subject, team: &Team, load: MixedLoad) -> Option<Turn<'a>> {
        let pass = Work { load: Arc::new(load), phase: Phase::Pass };
        subject.mixed(team, &Work { phase: Phase::Open, ..pass.clone() })?;
        subject.mixed(team, &pass)?;
        Some(Turn { subject, pass, revoked_before: subject.revocations(), made: 0, failed: 0 })
    }

    /// Takes a sample: nanoseconds a block, the mean of the threads.
    fn sample(&mut self, team: &Team) -> Sample<1> {
        // The first of the two passes only fills the caches.
        let passes = [(); 2].map(|()| self.subject.mixed(team, &self.pass));
        let [Some(before), Some(busy)] = passes else { return Sample::Impossible };
        self.made += 2;
        self.failed += before.iter().chain(&busy).map(|thread| thread.missing).sum::<u64>();
        let spans: Vec<Span> = busy.iter().map(|b| Span { start: b.start, end: b.end }).collect();
        if overlap(&spans) < OVERLAP {
            return Sample::Disturbed;
        }
        let each = busy.iter().zip(self.pass.load.blocks()).map(|(b, blocks)| b.ns as f64 / blocks as f64);
        Sample::Counts([each.sum::<f64>() / busy.len() as f64])
    }

    fn row(&self, team: &Team, setting: &Setting, ns: &Samples, harness_ns: f64, noise: &Noise) -> MixedRow {
        let revoked = self.subject.revocations().zip(self.revoked_before).map(|(b, a)| b - a);
        let row = MixedRow {
            allocator: self.subject.name().into(),
            threads: setting.threads,
            pattern: setting.pattern,
            touched: setting.touched,
            ns_median: ns.median(),
            harness_ns,
            less_harness_ns: 0.0,
            requests: self.made * self.pass.load.blocks().sum::<usize>() as u64,
            failed: self.failed,
            failed_per_100_000: 0.0,
            biased_share: self.subject.biased_share_of_mixed(team, &self.pass),
            revocations: revoked,
            samples: ns.len(),
            disturbed: noise.disturbs(),
            external: false,
        };
        row.derived()
    }
}

impl Mixed {
    fn measure(
        &mut self,
        setting: &Setting,
        team: &Team,
        subjects: &[Box<dyn Subject>],
        memory: &Arc<Memory>,
        tell: &mut dyn FnMut(usize),
    ) {
        let sequences = MixedLoad::sequences(setting);
        let _pinned = cpus().last().map(|cpu| Pinned::to(*cpu));
        let mut turns = Vec::new();
        for subject in subjects.iter().filter(|s| s.can(setting.threads, 1)) {
            let load = MixedLoad::new(*setting, sequences.clone(), memory.clone());
            match Turn::open(&**subject, team, load) {
                Some(turn) => turns.push(turn),
                None => {
                    self.skip(subject.name(), "it cannot make these calls, or its process ended".to_owned())
                }
            }
        }
        let watch = InterferenceWatch::start();
        let series =
            Sampler::new(self.samples).warmed().telling(tell).run(&mut turns, |turn| turn.sample(team));
        let harness = [&series[0], &series[series.len() - 1]].map(|[ns]| ns.median());
        let noise = Noise::of(harness, &watch);
        let ours = 1..turns.len() - 1;
        for (turn, [ns]) in turns[ours.clone()].iter().zip(&series[ours]) {
            if ns.len() > self.samples / 2 {
                self.rows.push(turn.row(team, setting, ns, harness[0].min(harness[1]), &noise));
            } else {
                let why = format!("its process ended, or {} threads did not overlap enough", setting.threads);
                self.skip(turn.subject.name(), why);
            }
        }
        self.disturbance.add(&noise);
    }

    fn add_external(&mut self, setting: &Setting, external: &External<MixedRow>) {
        let setting = (setting.threads, setting.pattern, setting.touched);
        for row in external.rows.iter().filter(|row| row.setting() == setting) {
            self.external.as_mut().map(ExternalNote::show);
            self.rows.push(row.clone());
        }
    }

    /// Says once that an allocator has no row in a setting.
    fn skip(&mut self, allocator: &'static str, why: String) {
        let skipped = Skipped { allocator, why };
        if !self.skipped.contains(&skipped) {
            self.skipped.push(skipped);
        }
    }
}
