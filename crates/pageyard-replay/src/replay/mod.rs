//! Replay: a recorded trace re-executed on an engine. Allocations are repeated by their recorded request; the engine
//! may return another frame. Frees are made by identity: what the host freed, the engine frees, wherever it put it. The
//! `ledger` maps recorded blocks to the engine's.

mod clock;
mod direct;
mod display;
mod distance;
mod early;
mod event_counts;
mod failures;
mod free_view;
mod hidden;
mod host;
mod in_kernel;
mod in_kernel_text;
mod kernel_engine;
mod kernel_plan;
mod kernel_report;
mod kernels_beside;
mod llfree_score;
mod merged;
mod moved;
mod opening;
mod prediction;
mod prediction_text;
mod progress;
mod refusals;
mod refusals_report;
mod report;
mod run;
mod series;
mod slow_path;
mod threads;
mod timeline;
mod trial;
pub(crate) mod trust;
mod unseen;
mod walk;
mod with_slow_path;

pub(crate) use direct::ReplayObserver;
pub use distance::{Baselines, ComparedWithHost, Distance, DistanceAt, Distances};
pub use early::EarlyFrees;
pub use failures::{FailedByReason, Failures};
pub use hidden::HiddenMoves;
pub use kernel_report::InKernel;
pub(crate) use merged::{WORDS, merged};
pub use moved::MoveCounts;
pub use opening::{Opened, ShortZone};
pub use pageyard_debug::FaultKnobs;
pub use prediction::{EndDistance, ListFrames, ListPrediction, PredictedAndRecorded, Prediction};
pub use progress::Progress;
pub(crate) use refusals::Asked;
pub use refusals::{Refusal, RefusalCounts, Refusals};
pub use refusals_report::{RefusalDocument, RefusalsDocument, RefusalsOfKindDocument};
pub use report::{
    CompactionCounters, EngineReport, OpeningReport, ReplayReport, Seconds, TraceReport, Waiting,
    WorkCounters,
};
pub(crate) use run::Stage;
pub use run::{MOST_SAMPLES, ReplayOptions, SAMPLES, faults, replay};
pub use slow_path::{SlowPath, SlowPathTotals};
pub use timeline::Sample;
pub use walk::Follow;
