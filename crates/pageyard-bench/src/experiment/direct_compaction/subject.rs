//! What is compared: the reference with document 002's patches, one after the other, and the engine; and many runs at once.

use super::super::Run;
use crate::error::BenchError;
use crate::variants;
use pageyard::{MemoryMap, PressureAllocator, Region};
use pageyard_linux::{Config, LinuxAllocator};
use pageyard_replay::ReplayError;
use pageyard_replay::engine::ReplayEngine;
use pageyard_replay::workload::LoadTrace;
use pageyard_replay::workload::stress::{self, Phases, Report, Settings};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};

/// CPUs of the simulated machine: those of the recordings.
const CPUS: u32 = 2;

/// An engine under study.
#[derive(Clone, Debug)]
pub enum Engine {
    /// The reference.
    Linux(Box<Config>),
    /// The lock-free engine, which one thread calls.
    Yard(Box<pageyard::Config>),
}

/// An engine under study, by the name of its column.
#[derive(Clone, Debug)]
pub struct Subject {
    pub column: String,
    pub engine: Engine,
}

/// The document's patches, each with those before it.
const PATCHES: [(&str, &[(&str, &str)]); 3] = [
    ("reference:patch2", &[("last_migrated_drain", "true")]),
    ("reference:patch3", &[("last_migrated_drain", "true"), ("skip_on_failure", "direct_async")]),
    (
        "reference:patch4",
        &[
            ("last_migrated_drain", "true"),
            ("skip_on_failure", "direct_async"),
            ("direct_free", "direct_async"),
        ],
    ),
];

impl Subject {
    /// Returns the reference with the patches up to this one: 2, 3 or 4.
    pub fn patch(n: usize) -> Subject {
        let (column, knobs) = PATCHES[n - 2];
        Subject { column: column.to_owned(), engine: Engine::Linux(Box::new(Config::linux_4_6())) }
            .with(knobs)
    }

    /// Returns the engine with its own defaults.
    pub fn pageyard() -> Subject {
        let config = Box::new(pageyard::Config::new(CPUS));
        Subject { column: "pageyard".to_owned(), engine: Engine::Yard(config) }
    }

    /// Returns the four columns.
    pub fn all() -> [Subject; 4] {
        [Subject::patch(2), Subject::patch(3), Subject::patch(4), Subject::pageyard()]
    }

    /// Sets knobs of compaction; the column keeps its name.
    fn with(mut self, knobs: &[(&str, &str)]) -> Subject {
        for (knob, value) in knobs {
            let set = match &mut self.engine {
                Engine::Linux(config) => config.compaction.set(knob, value),
                Engine::Yard(config) => config.compaction.set(knob, value),
            };
            assert_eq!(set, Ok(()), "the study names knobs that exist: {knob}={value}");
        }
        self
    }

    /// Sets knobs of compaction; the column says so.
    pub fn variant(&self, knobs: &[(&str, &str)]) -> Subject {
        let mut subject = self.clone().with(knobs);
        for (knob, value) in knobs {
            subject.column = format!("{} {knob}={value}", subject.column);
        }
        subject
    }

    /// Builds the engine, all free, and hands it to `visit`.
    pub fn on<V: Visit>(&self, regions: &[Region], visit: V) -> Result<V::Output, BenchError> {
        let map = |why| ReplayError::Map { trace: self.column.clone(), why };
        let memory = MemoryMap::new(regions).map_err(map)?;
        match &self.engine {
            Engine::Linux(config) => {
                let config = Config { cpus: CPUS, ..(**config).clone() };
                visit.visit(&LinuxAllocator::new(&memory, &config).map_err(map)?)
            }
            Engine::Yard(config) => {
                let config = pageyard::Config { cpus: CPUS, ..**config };
                visit.visit(&variants::exclusive_on_one_thread(&memory, config).map_err(map)?)
            }
        }
    }
}

/// What is done with an engine, whichever it is.
pub trait Visit {
    /// What comes of it.
    type Output;

    /// Does it.
    fn visit<E: PressureAllocator + ReplayEngine>(self, engine: &E) -> Result<Self::Output, BenchError>;
}

struct Stress<'a> {
    trace: &'a LoadTrace,
    settings: &'a Settings,
    phases: Phases,
    seed: u64,
}

impl Visit for Stress<'_> {
    type Output = Report;

    fn visit<E: PressureAllocator + ReplayEngine>(self, engine: &E) -> Result<Report, BenchError> {
        Ok(stress::run(engine, self.trace, self.settings, self.phases, self.seed)?)
    }
}

/// One run of the stress test.
pub struct Job<'a> {
    pub subject: &'a Subject,
    pub trace: &'a LoadTrace,
    pub settings: Settings,
    pub phases: Phases,
    pub seed: u64,
}

impl Job<'_> {
    fn run(&self) -> Result<Report, BenchError> {
        let Job { trace, settings, phases, seed, .. } = self;
        let stress = Stress { trace, settings, phases: *phases, seed: *seed };
        self.subject.on(&settings.regions(), stress)
    }
}

/// Runs jobs, one on each CPU at a time, and returns their reports in the jobs' order.
pub fn run_all(part: &'static str, jobs: &[Job<'_>], run: &mut Run<'_>) -> Result<Vec<Report>, BenchError> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(jobs.len().max(1));
    let next = AtomicUsize::new(0);
    let reports: Mutex<Vec<Option<Result<Report, BenchError>>>> =
        Mutex::new(jobs.iter().map(|_| None).collect());
    let (done, finished) = mpsc::channel();
    run.at(part, 0, jobs.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (next, reports, done) = (&next, &reports, done.clone());
            scope.spawn(move || {
                // ORDER: Relaxed: each number is handed out once; the scope's end publishes the reports.
                while let i = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(job) = jobs.get(i)
                {
                    let report = job.run();
                    reports.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[i] = Some(report);
                    // The receiver outlives the threads.
                    let _ = done.send(());
                }
            });
        }
        drop(done);
        for (n, ()) in finished.iter().enumerate() {
            run.at(part, n + 1, jobs.len());
        }
    });
    let reports = reports.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    reports.into_iter().flatten().collect()
}
