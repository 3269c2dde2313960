//! Experiments: a document's own table, beside what this machine measures.
//!
//! * `framework`: what an experiment is, what it is told, and what it reports;
//! * `row`: what is measured;
//! * `claim`, `figure`: what a document or a target says, beside what was measured; `made`: how a report was made;
//! * `kept`: runs that were kept, judged again;
//! * `lines`, `report`, `document`, `page`, `plot`: output as text, JSON and a page;
//! * `machines`: what is simulated; `recordings`: where recordings are; `settings`: knobs that a user sets; `unsafely`:
//!   `unsafe` code;
//! * one module for each experiment: a line in [`EXPERIMENTS`] makes it known.
//!
//! An experiment measures first and sees the published figures afterwards: [`Experiment::measure`] is not given them,
//! so no measured value can depend on one.

mod batched_clear;
pub mod claim;
mod direct_compaction;
mod document;
pub mod figure;
mod framework;
mod irq_safe;
pub mod kept;
mod lines;
mod machines;
pub(crate) mod made;
mod page;
mod page_frag;
pub mod plot;
mod recordings;
mod report;
mod router_picture;
mod row;
mod settings;
mod unsafely;
pub mod what_if;
mod what_if_options;
pub mod zonelist;

pub use crate::harness::samples::{Samples, gain};
pub use crate::published::{Line, Published};
pub use claim::{Claim, ClaimOutcome};
pub use document::{ClaimDocument, ExperimentDocument, ExperimentListed, ExperimentsDocument, RowDocument};
pub(crate) use framework::DISTURBED;
pub use framework::{Experiment, ExperimentReport, Run};
pub use made::Made;
pub use plot::{Plot, Series};
pub use row::{Row, Rows};
pub use settings::Settings;
pub use what_if_options::Options as WhatIfOptions;

use crate::error::BenchError;
use crate::harness::costs::Costs;
use crate::harness::machine::{CHECKED_BUILD, Machine};
use pageyard_replay::text::shown;

/// Every experiment.
pub const EXPERIMENTS: &[&dyn Experiment] = &[
    &irq_safe::IrqSafe,
    &batched_clear::BatchedClear,
    &direct_compaction::DirectCompaction,
    &page_frag::PageFrag,
    &zonelist::Zonelist,
    &what_if::WhatIf,
];

impl ExperimentsDocument {
    /// Lists every experiment.
    #[must_use]
    pub fn all() -> ExperimentsDocument {
        let listed = EXPERIMENTS.iter().map(|e| ExperimentListed { name: e.name(), about: e.about() });
        ExperimentsDocument { experiments: listed.collect() }
    }
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
