//! Experiments: their definition, their input, and their report.

use super::claim::Claim;
use super::made::Made;
use super::plot::Plot;
use super::row::Rows;
use super::settings::Settings;
use super::what_if_options::Options as WhatIfOptions;
use crate::error::BenchError;
use crate::harness::sampler::{SAMPLES, Sampler};
use crate::published::Published;

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

    /// Returns whether it sets a knob of the reference itself, in each column another way.
    fn varies(&self, knob: &str) -> bool;

    /// Returns how many samples of each row it takes where no other number is asked for; `None` where it counts
    /// instead.
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

    /// Draws rows over a range; claims draw their own bars.
    fn plots(&self, _rows: &Rows) -> Vec<Plot> {
        Vec::new()
    }
}

/// The input of an experiment, and its progress while it runs.
pub struct Run<'a> {
    /// Whether to end within a minute: fewer settings, as many samples.
    pub quick: bool,
    /// The program that runs, where it can count itself: see [`zonelist::count`](super::zonelist::count).
    pub program: Option<std::path::PathBuf>,
    /// The recording that experiments use where they need one of a build; if none, one beside the program.
    pub trace: Option<pageyard_trace::Trace>,
    /// Knobs that are set on the engines beside those of the document.
    pub settings: Settings,
    /// Samples of each row; without it as many as the experiment takes by itself.
    pub samples: Option<usize>,
    /// Where `what-if` tries settings.
    pub what_if: WhatIfOptions,
    pub(super) notes: Vec<String>,
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
            what_if: WhatIfOptions::default(),
            notes: Vec::new(),
            progress,
        }
    }

    /// Says how far a part has come.
    pub fn at(&mut self, part: &'static str, done: usize, all: usize) {
        (self.progress)(part, done as u64, all as u64);
    }

    /// Returns a sampler that takes as many samples as were asked for.
    pub(super) fn sampler(&self) -> Sampler<'static> {
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
pub(crate) const DISTURBED: f64 = 5.0;

/// The outcome of an experiment.
#[derive(Clone, Debug)]
pub struct ExperimentReport {
    /// Its name.
    pub name: &'static str,
    /// Its subject.
    pub about: &'static str,
    /// The machine it ran on.
    pub machine: String,
    /// Measured and published values.
    pub rows: Rows,
    /// Remarks.
    pub notes: Vec<String>,
    /// The claims of the document and the targets, and which of them were reproduced.
    pub claims: Vec<Claim>,
    /// Pictures.
    pub plots: Vec<Plot>,
    /// Whether it was a quick run.
    pub quick: bool,
    /// The limits of this run; empty if there are none.
    pub cannot_show: &'static str,
    /// Knobs that were set on the engines beside those of the document.
    pub settings: Settings,
    /// Samples of each row; `None` where the experiment counts instead.
    pub samples: Option<usize>,
    /// The meanings of column names.
    pub columns: &'static [(&'static str, &'static str)],
    /// How it was made.
    pub made: Made,
}
