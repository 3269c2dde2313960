//! The candidates that are compared: the reference with document 002's patches, one after the other, and the engine;
//! and many runs at once.

use super::super::{Run, Settings as Knobs, machines};
use crate::error::BenchError;
use pageyard::Region;
use pageyard_linux::Config;
use pageyard_replay::engine::{AnyEngine, Engine, Variant, Visit};
use pageyard_replay::workload::LoadTrace;
use pageyard_replay::workload::stress::{self, Phases, Report, Settings, Turns};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};

/// CPUs of the simulated machine: those of the recordings.
const CPUS: u32 = 2;

/// The reference that the document patches.
pub const PRESET: &str = "linux-4.6";

/// The engine's column.
pub const ENGINE: &str = "pageyard";

/// The prefix of the names of compaction's knobs.
const COMPACTION: &str = "compaction.";

/// A knob of compaction, without that beginning, and its value.
pub type Knob = (&'static str, &'static str);

/// An engine under study, by the name of its column.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub column: String,
    /// The knobs set on the reference; `None` is the lock-free engine with its own defaults.
    patches: Option<Vec<Knob>>,
}

/// The document's patches, each with those before it.
const PATCHES: [(&str, &[Knob]); 3] = [
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

impl Candidate {
    /// Returns the reference with the patches up to this one: 2, 3 or 4.
    pub fn patch(n: usize) -> Candidate {
        let (column, knobs) = PATCHES[n - 2];
        Candidate { column: column.to_owned(), patches: Some(knobs.to_vec()) }
    }

    /// Returns the engine with its own defaults.
    pub fn pageyard() -> Candidate {
        Candidate { column: ENGINE.to_owned(), patches: None }
    }

    /// Returns the four columns.
    pub fn all() -> [Candidate; 4] {
        [Candidate::patch(2), Candidate::patch(3), Candidate::patch(4), Candidate::pageyard()]
    }

    /// Sets knobs of the reference's compaction; the column says so.
    pub fn variant(&self, knobs: &[Knob]) -> Candidate {
        let mut candidate = self.clone();
        for (knob, value) in knobs {
            candidate.column = format!("{} {knob}={value}", candidate.column);
        }
        candidate.patches.iter_mut().for_each(|patches| patches.extend(knobs));
        candidate
    }

    /// Returns whether one of the patches sets this knob.
    pub fn patched(knob: &str) -> bool {
        PATCHES.iter().any(|(_, knobs)| sets(knobs, knob))
    }

    /// Returns the engine for one thread, with a user's knobs set as well.
    pub fn engine(&self, knobs: &Knobs) -> Result<Engine, BenchError> {
        self.engine_for(Turns::One, knobs)
    }

    /// Returns the engine for as many threads as make a run.
    fn engine_for(&self, turns: Turns, knobs: &Knobs) -> Result<Engine, BenchError> {
        let Some(patches) = &self.patches else {
            let config = pageyard::Config { cpus: CPUS, ..knobs.yard() };
            let variant = match turns {
                Turns::One => Variant::Exclusive,
                // The threads name simulated CPUs and not those that they run on, so restartable sequences do not
                // serve.
                Turns::Beside(_) => Variant::TryLock,
            };
            return Ok(Engine::Yard(variant, Box::new(config)));
        };
        let names: Vec<String> = patches.iter().map(|(knob, _)| format!("{COMPACTION}{knob}")).collect();
        let patches: Vec<(&str, &str)> =
            names.iter().zip(patches).map(|(name, (_, value))| (name.as_str(), *value)).collect();
        let config = Config { cpus: CPUS, ..knobs.linux(PRESET, &patches)? };
        Ok(Engine::Linux(Box::new(config)))
    }

    /// Names the column of a second measurement of the same, which shows how far two runs of one variant lie apart.
    pub fn again(&self) -> Candidate {
        Candidate { column: format!("{}-again", self.column), patches: self.patches.clone() }
    }

    /// Builds the engine, all free, and hands it to `visit`.
    pub fn on<T, V: Visit<Output = Result<T, BenchError>>>(
        &self,
        regions: &[Region],
        knobs: &Knobs,
        visit: V,
    ) -> Result<T, BenchError> {
        machines::on(&self.engine(knobs)?, regions, visit)?
    }
}

/// Returns whether one of these sets a knob, which a user names with its beginning.
pub fn sets(knobs: &[Knob], name: &str) -> bool {
    name.strip_prefix(COMPACTION).is_some_and(|name| knobs.iter().any(|(knob, _)| *knob == name))
}

struct Stress<'a> {
    trace: &'a LoadTrace,
    settings: &'a Settings,
    phases: Phases,
    seed: u64,
}

impl Visit for Stress<'_> {
    type Output = Result<Report, BenchError>;

    fn visit<E: AnyEngine>(self, engine: E) -> Result<Report, BenchError> {
        Ok(stress::run(&engine, self.trace, self.settings, self.phases, self.seed)?)
    }
}

/// One run of the stress test.
pub struct Job<'a> {
    pub candidate: &'a Candidate,
    pub trace: &'a LoadTrace,
    pub settings: Settings,
    pub phases: Phases,
    pub seed: u64,
}

impl Job<'_> {
    fn run(&self, knobs: &Knobs) -> Result<Report, BenchError> {
        let Job { trace, settings, phases, seed, .. } = self;
        let stress = Stress { trace, settings, phases: *phases, seed: *seed };
        machines::on(&self.candidate.engine_for(settings.turns, knobs)?, &settings.regions(), stress)?
    }

    /// Returns how many CPUs it keeps busy.
    fn cpus(&self) -> usize {
        match self.settings.turns {
            Turns::One => 1,
            Turns::Beside(_) => 2,
        }
    }
}

/// Runs jobs, as many at a time as there are CPUs for their threads, and returns their reports in the jobs' order.
pub fn run_all(part: &'static str, jobs: &[Job<'_>], run: &mut Run<'_>) -> Result<Vec<Report>, BenchError> {
    let each = jobs.iter().map(Job::cpus).max().unwrap_or(1);
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
    let threads = (cpus / each).clamp(1, jobs.len().max(1));
    let next = AtomicUsize::new(0);
    let reports: Mutex<Vec<Option<Result<Report, BenchError>>>> =
        Mutex::new(jobs.iter().map(|_| None).collect());
    let (done, finished) = mpsc::channel();
    run.at(part, 0, jobs.len());
    let knobs = run.settings.clone();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (next, reports, done, knobs) = (&next, &reports, done.clone(), &knobs);
            scope.spawn(move || {
                // ORDER: Relaxed: each number is handed out once; the scope's end publishes the reports.
                while let i = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(job) = jobs.get(i)
                {
                    let report = job.run(knobs);
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
