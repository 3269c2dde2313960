//! Experiments: a document's own table, beside what this machine measures.
//!
//! * `row`, `samples`: what is measured, and how variants take turns; `published`: what the documents print;
//! * `plot`, `report`: output as pictures, text, JSON and HTML;
//! * `subject`: the timed loops; `unsafely`: their `unsafe` code;
//! * one module for each experiment: a line in [`EXPERIMENTS`] makes it known.
//!
//! An experiment measures first and sees the published figures afterwards: [`Experiment::measure`] is not given them, so
//! no measured value can depend on one.

mod direct_compaction;
mod document;
mod irq_safe;
mod page_frag;
pub mod plot;
mod published;
mod report;
mod row;
mod samples;
mod subject;
mod unsafely;
pub mod zonelist;

pub use document::{ExperimentDocument, ExperimentListed, ExperimentsDocument, RowDocument};
pub use plot::{Plot, Series};
pub use published::{Line, Published};
pub use row::{Row, Rows};
pub use samples::Samples;

use crate::error::BenchError;
use pageyard_replay::text::shown;

/// One experiment.
pub trait Experiment: Sync {
    /// Returns the name that a user types.
    fn name(&self) -> &'static str;

    /// Returns one line on what it is about.
    fn about(&self) -> &'static str;

    /// Says what `--quick` cannot show, where that is more than precision.
    fn quick_cannot_show(&self) -> &'static str {
        ""
    }

    /// Explains the names of columns: a part of a name, and its meaning.
    fn columns(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Measures.
    ///
    /// # Errors
    /// [`BenchError`] where this machine cannot run it at all.
    fn measure(&self, run: &mut Run<'_>) -> Result<Rows, BenchError>;

    /// Returns what the document prints, in the same tables.
    fn published(&self, tables: &Published) -> Rows;

    /// Says what was reproduced, in sign and in size, and what was not. `rows` holds measured and published rows.
    fn verdict(&self, rows: &Rows) -> String;

    /// Returns the pictures of the rows.
    fn plots(&self, rows: &Rows) -> Vec<Plot>;
}

/// Every experiment.
pub const EXPERIMENTS: &[&dyn Experiment] =
    &[&irq_safe::IrqSafe, &zonelist::Zonelist, &direct_compaction::DirectCompaction, &page_frag::PageFrag];

/// What an experiment is told, and what it says while it runs.
pub struct Run<'a> {
    /// Whether to end within a minute: fewer settings, as many samples.
    pub quick: bool,
    /// The program that runs, where it can count itself: see [`zonelist::count`].
    pub program: Option<std::path::PathBuf>,
    /// The recording that experiments use where they need one of a build; if none, one beside the program.
    pub trace: Option<pageyard_trace::Trace>,
    notes: Vec<String>,
    progress: &'a mut dyn FnMut(&'static str, u64, u64),
}

impl<'a> Run<'a> {
    /// Makes a run. `progress` is told what is being done, and how much of it is done.
    pub fn new(quick: bool, progress: &'a mut dyn FnMut(&'static str, u64, u64)) -> Run<'a> {
        Run { quick, program: None, trace: None, notes: Vec::new(), progress }
    }

    /// Says how far a part has come.
    pub fn at(&mut self, part: &'static str, done: usize, all: usize) {
        (self.progress)(part, done as u64, all as u64);
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

/// Returns by how many percent `after` is below `before`.
#[must_use]
pub fn gain(before: f64, after: f64) -> f64 {
    (before - after) / before * 100.0
}

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
    /// What was reproduced, and what was not.
    pub verdict: String,
    /// Pictures.
    pub plots: Vec<Plot>,
    /// Whether it was a quick run.
    pub quick: bool,
    /// What this run cannot show; empty where that is nothing.
    pub cannot_show: &'static str,
    /// What names of columns mean.
    pub columns: &'static [(&'static str, &'static str)],
}

/// Runs an experiment, and puts its document's figures beside it.
///
/// # Errors
/// As [`Experiment::measure`].
pub fn run(
    experiment: &dyn Experiment,
    mut run: Run<'_>,
    tables: &Published,
) -> Result<ExperimentReport, BenchError> {
    let quick = run.quick;
    let cannot_show = if quick { experiment.quick_cannot_show() } else { "" };
    let mut rows = experiment.measure(&mut run)?;
    rows.merge(experiment.published(tables));
    if tables.is_empty() {
        run.note("data/published was not there when this was built: nothing stands beside the measurements");
    }
    Ok(ExperimentReport {
        name: experiment.name(),
        about: experiment.about(),
        machine: machine(),
        verdict: experiment.verdict(&rows),
        plots: experiment.plots(&rows),
        rows,
        notes: run.notes,
        quick,
        cannot_show,
        columns: experiment.columns(),
    })
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

/// Names this machine: its processor and how many CPUs this process may use.
#[must_use]
pub fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|l| l.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("an unnamed processor", |(_, name)| name.trim());
    let cpus = core_affinity::get_core_ids().map_or(1, |c| c.len());
    format!("{model}, {cpus} CPU{}", if cpus == 1 { "" } else { "s" })
}
