//! Experiments: a document's own table, beside what this machine measures.
//!
//! * `row`: what is measured; `published`: what the documents print;
//! * `claim`, `figure`: what a document or a target says, beside what was measured; `made`: how a report was made;
//! * `lines`, `report`, `document`, `page`, `plot`: output as text, JSON, a page and pictures;
//! * `machines`: what is simulated; `recordings`: where recordings are; `settings`: knobs that a user sets; `unsafely`:
//!   `unsafe` code;
//! * one module for each experiment: a line in [`EXPERIMENTS`] makes it known.
//!
//! An experiment measures first and sees the published figures afterwards: [`Experiment::measure`] is not given them, so
//! no measured value can depend on one.

mod batched_clear;
pub mod claim;
mod direct_compaction;
mod document;
pub mod figure;
mod irq_safe;
mod lines;
mod machines;
mod made;
mod page;
mod page_frag;
pub mod plot;
mod published;
mod recordings;
mod report;
mod row;
mod settings;
mod unsafely;
pub mod what_if;
pub mod zonelist;

pub use crate::harness::samples::{Samples, gain};
pub use claim::{Claim, Outcome};
pub use document::{ClaimDocument, ExperimentDocument, ExperimentListed, ExperimentsDocument, RowDocument};
pub use made::Made;
pub use plot::{Plot, Series};
pub use published::{Line, Published};
pub use row::{Row, Rows};
pub use settings::Settings;

use crate::error::BenchError;
use crate::harness::costs::Costs;
use crate::harness::machine::{CHECKED_BUILD, Machine};
use crate::harness::sampler::{SAMPLES, Sampler};
use pageyard_replay::text::shown;

/// One experiment.
pub trait Experiment: Sync {
    /// Returns the name that a user types.
    fn name(&self) -> &'static str;

    /// Returns one line on what it is about.
    fn about(&self) -> &'static str;

    /// Says in what `--quick` differs from the document's setting, and so what it cannot show.
    fn quick_cannot_show(&self) -> &'static str;

    /// Explains the names of columns: a part of a name, and its meaning.
    fn columns(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Returns the engines that it measures, by the names under which knobs are set on them: the reference first.
    fn engines(&self) -> &'static [&'static str];

    /// Says whether it sets a knob of the reference itself, in each column another way.
    fn varies(&self, knob: &str) -> bool;

    /// Returns how many samples of each row it takes where no other number is asked for; `None` where it counts instead.
    fn samples(&self) -> Option<usize> {
        Some(SAMPLES)
    }

    /// Measures.
    ///
    /// # Errors
    /// [`BenchError`] where this machine cannot run it at all.
    fn measure(&self, run: &mut Run<'_>) -> Result<Rows, BenchError>;

    /// Returns what the document prints, in the same tables.
    fn published(&self, tables: &Published) -> Rows;

    /// Judges what the document and the targets say by a full run. `rows` holds measured and published rows.
    fn claims(&self, rows: &Rows) -> Vec<Claim>;

    /// Returns the pictures of the rows.
    fn plots(&self, rows: &Rows) -> Vec<Plot>;
}

/// Every experiment.
pub const EXPERIMENTS: &[&dyn Experiment] = &[
    &irq_safe::IrqSafe,
    &batched_clear::BatchedClear,
    &direct_compaction::DirectCompaction,
    &page_frag::PageFrag,
    &zonelist::Zonelist,
    &what_if::WhatIf,
];

/// What an experiment is told, and what it says while it runs.
pub struct Run<'a> {
    /// Whether to end within a minute: fewer settings, as many samples.
    pub quick: bool,
    /// The program that runs, where it can count itself: see [`zonelist::count`].
    pub program: Option<std::path::PathBuf>,
    /// The recording that experiments use where they need one of a build; if none, one beside the program.
    pub trace: Option<pageyard_trace::Trace>,
    /// Knobs that are set on the engines beside those of the document.
    pub settings: Settings,
    /// Samples of each row; without it as many as the experiment takes by itself.
    pub samples: Option<usize>,
    /// Where `what-if` tries settings.
    pub what_if: what_if::Options,
    notes: Vec<String>,
    progress: &'a mut dyn FnMut(&'static str, u64, u64),
}

impl<'a> Run<'a> {
    /// Makes a run. `progress` is told what is being done, and how much of it is done.
    pub fn new(quick: bool, progress: &'a mut dyn FnMut(&'static str, u64, u64)) -> Run<'a> {
        Run {
            quick,
            program: None,
            trace: None,
            settings: Settings::default(),
            samples: None,
            what_if: what_if::Options::default(),
            notes: Vec::new(),
            progress,
        }
    }

    /// Says how far a part has come.
    pub fn at(&mut self, part: &'static str, done: usize, all: usize) {
        (self.progress)(part, done as u64, all as u64);
    }

    /// Returns a sampler that takes as many samples as were asked for.
    fn sampler(&self) -> Sampler<'static> {
        Sampler::new(self.samples.unwrap_or(SAMPLES))
    }

    /// Adds a remark that belongs beside the figures.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Notes an A/A pair that does not agree: `percent` is the difference of its medians.
    pub fn check_pair(&mut self, what: &str, percent: f64) {
        if percent.abs() > DISTURBED {
            self.note(format!(
                "disturbed: the same variant measured twice in {what} differs by {percent:.1} %; smaller differences mean \
                 nothing here"
            ));
        }
    }
}

/// An A/A pair further apart than this, in percent, is reported.
const DISTURBED: f64 = 5.0;

/// The outcome of an experiment.
#[derive(Clone, Debug)]
pub struct ExperimentReport {
    /// Its name.
    pub name: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// The machine it ran on.
    pub machine: String,
    /// Measured and published values.
    pub rows: Rows,
    /// Remarks.
    pub notes: Vec<String>,
    /// What the document and the targets say, and what was reproduced of it.
    pub claims: Vec<Claim>,
    /// Pictures.
    pub plots: Vec<Plot>,
    /// Whether it was a quick run.
    pub quick: bool,
    /// What this run cannot show; empty where that is nothing.
    pub cannot_show: &'static str,
    /// Knobs that were set on the engines beside those of the document.
    pub settings: Settings,
    /// Samples of each row; `None` where the experiment counts instead.
    pub samples: Option<usize>,
    /// What names of columns mean.
    pub columns: &'static [(&'static str, &'static str)],
    /// How it was made.
    pub made: Made,
}

/// Runs an experiment, and puts its document's figures beside it.
///
/// # Errors
/// As [`Experiment::measure`]; [`BenchError::NoSamples`].
pub fn run(
    experiment: &dyn Experiment,
    mut run: Run<'_>,
    tables: &Published,
) -> Result<ExperimentReport, BenchError> {
    if run.samples.is_some() && experiment.samples().is_none() {
        return Err(BenchError::NoSamples { experiment: experiment.name() });
    }
    run.samples = run.samples.or(experiment.samples());
    if !run.settings.is_empty() {
        run.note(format!("not the document's settings: {}", run.settings.text()));
    }
    if let Some(samples) = run.samples {
        run.note(format!("each row has {samples} samples, taken in turn"));
    }
    run.note(format!("this machine: {}", Costs::of_this_machine()));
    let mut rows = experiment.measure(&mut run)?;
    rows.merge(experiment.published(tables));
    if tables.is_empty() {
        run.note("data/published was not there when this was built: nothing stands beside the measurements");
    }
    let (settings, samples) = (run.settings, run.samples);
    let mut report = ExperimentReport { settings, samples, ..judged(experiment, rows, run.notes, run.quick) };
    if CHECKED_BUILD {
        report.claims = report.claims.into_iter().map(Claim::of_a_checked_build).collect();
    }
    Ok(report)
}

/// Judges rows, measured and published, as a report of this machine, made now.
#[must_use]
pub fn judged(experiment: &dyn Experiment, rows: Rows, notes: Vec<String>, quick: bool) -> ExperimentReport {
    let mut claims = experiment.claims(&rows);
    if quick {
        claims = claims.into_iter().map(Claim::of_a_quick_run).collect();
    }
    ExperimentReport {
        name: experiment.name(),
        about: experiment.about(),
        machine: Machine::this().to_string(),
        claims,
        plots: experiment.plots(&rows),
        rows,
        notes,
        settings: Settings::default(),
        samples: None,
        quick,
        cannot_show: if quick { experiment.quick_cannot_show() } else { "" },
        columns: experiment.columns(),
        made: Made::now(),
    }
}

/// Finds an experiment by name.
///
/// # Errors
/// [`BenchError::NoSuchExperiment`].
pub fn find(name: &str) -> Result<&'static dyn Experiment, BenchError> {
    EXPERIMENTS.iter().find(|e| e.name() == name).copied().ok_or_else(|| {
        let known: Vec<_> = EXPERIMENTS.iter().map(|e| e.name()).collect();
        let meant = pageyard_replay::engine::did_you_mean(name, known.iter().copied());
        BenchError::NoSuchExperiment { name: shown(name), meant, known: known.join(", ") }
    })
}
