//! Why a benchmark or an experiment could not do its work: one sentence each.

use pageyard_replay::ReplayError;
use pageyard_trace::TraceError;

/// Why a benchmark or an experiment could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The replay or another fixture could not be made.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A recording cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// There is no experiment of this name.
    #[error("there is no experiment `{name}`;{meant} there are {known}")]
    NoSuchExperiment {
        /// The name.
        name: String,
        /// Which may have been meant.
        meant: String,
        /// Those there are.
        known: String,
    },
    /// A user set a knob that an experiment sets itself, in each of its columns another way.
    #[error("{experiment} varies `{knob}` itself, so it cannot be set; set another knob, or replay with it")]
    Varied {
        /// The experiment.
        experiment: &'static str,
        /// The knob.
        knob: String,
    },
    /// A user's settings leave an experiment nothing to measure.
    #[error("{why}")]
    Settings {
        /// The fault, and the remedy.
        why: String,
    },
    /// A number of samples for an experiment that takes none.
    #[error("{experiment} counts and takes no samples, so --samples has nothing to set; leave it out")]
    NoSamples {
        /// The experiment.
        experiment: &'static str,
    },
    /// An experiment went wrong: what it measured would mean nothing.
    #[error("the experiment cannot be trusted: {why}")]
    Experiment {
        /// The fault.
        why: String,
    },
    /// A kept run cannot be read.
    #[error(
        "{path} cannot be read as a kept run: {why}; keep one with `pageyard-lab experiment NAME --json | gzip`"
    )]
    Kept {
        /// The file.
        path: String,
        /// The fault.
        why: String,
    },
    /// A report cannot be written.
    #[error("the report {path} cannot be written: {why}")]
    Report {
        /// Where to.
        path: String,
        /// The fault, and the remedy.
        why: String,
    },
    /// A state of memory cannot be made, or an allocator cannot be brought into it.
    #[error("{why}")]
    State {
        /// The fault, and the remedy.
        why: String,
    },
    /// A recording that an experiment needs is not there.
    #[error("the recording {name} is not here; run this in a folder that has data/traces/{name}.trace")]
    NoRecording {
        /// Its name.
        name: String,
    },
}
