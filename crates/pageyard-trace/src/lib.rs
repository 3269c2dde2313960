//! Recordings of a Linux host's page allocator: the format, and how it is read and written.
//!
//! A trace is a folder `NAME.trace/`: the events in `events.parquet`, memory before and after in `before.parquet` and
//! `after.parquet`, and a description in `meta.json`.
//!
//! * [`Trace`] opens one; [`Meta`] is its description; [`EventReader`] reads [`Event`]s in batches, and [`Prefetch`]
//!   does so on another thread; [`Snapshot`] is memory as [`Run`]s of frames that hold the same.
//! * [`TraceWriter`] writes one; [`salvage`] makes one from what a killed recording left.
//! * [`failures`] says what requests that got nothing asked for; [`contents`] says what frames and pageblocks hold.
//! * [`Summary`] counts what a trace holds; [`MoveReader`] reads which frames were moved meanwhile,
//!   [`SampleReader`] what the host's own texts said of its free memory.
//! * [`Trust`] judges how far an answer can be trusted that stands on one.
//! * [`fleet`] has a row for each window of a host, by which many hosts are compared.
//! * [`series`] writes figures over time as tables for other programs.
//! * [`document`] is what the command prints of all this as JSON, and its schemas.
//! * [`proctext`] reads the texts in which Linux reports its allocator, [`kernel_log`] what it logs of refused
//!   requests.
//!
//! No file is trusted. Whatever its bytes, reading it terminates, in time and memory bounded by its size, with the
//! events or with a [`TraceError`]: one sentence that names the file and, where one row is at fault, the row.
#![forbid(unsafe_code)]

mod checksum;
pub mod contents;
pub mod document;
mod error;
mod event;
pub mod failures;
pub mod fleet;
pub mod fragmentation;
mod free_lists;
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
mod json;
pub mod kernel_log;
pub mod limits;
mod meta;
mod moves;
mod pq;
mod prefetch;
pub mod proctext;
mod reader;
mod samples;
pub mod series;
mod snapshot;
pub mod source;
mod summary;
pub mod text;
mod thread_names;
mod trace;
mod trust;
mod whole_file;
mod writer;

pub use contents::{Contents, ContentsDocument, Pageblocks, Spoiler, ZonePageblocks};
pub use document::Document;
pub use error::TraceError;
pub use event::{Columns, Event, EventKind, FAILED, MAX_ORDER};
pub use failures::{
    FAILURES_SHOWN, FailedRequest, FailureDocument, FailureKind, FailureKindDocument, FailureReason, ORDERS,
};
pub use fragmentation::{HugeFrames, ZoneFragmentation};
pub use free_lists::FreeBlock;
pub use kernel_log::KernelLog;
pub use meta::{Meta, ProcTexts, kernel_name};
pub use moves::{Move, MoveKind, MoveReader};
pub use pageyard::Context;
pub use prefetch::Prefetch;
pub use reader::{BATCH_ROWS, EventReader};
pub use samples::{COUNTERS, CpuLists, HostSample, SampleReader, ZoneBlocks};
pub use snapshot::{FrameKind, MAX_FRAMES, Run, Snapshot};
pub use summary::{
    ContentsOverTimeDocument, Failures, FailuresDocument, FailuresOfKindDocument, Fallback, FallbackDocument,
    FragmentationDocument, HugeFramesDocument, Moved, OneOfSeveral, PerfKmemDocument, Requests, Sampled,
    SampledZoneDocument, SamplesDocument, SeveralDocument, Span, Summary, SummaryDocument, TYPES,
    TotalsOfOne,
};
pub use text::{grouped, shown};
pub use thread_names::ThreadNames;
pub use trace::Trace;
pub use trust::{ReplayTrust, Trust, TrustLevel, lost_pct, lost_sentence};
pub use whole_file::WholeFile;
pub use writer::{
    MovesWriter, SalvageDocument, Salvaged, SalvagedMoves, SalvagedSamples, SamplesWriter, TraceWriter,
    salvage,
};

/// The version of the trace format that this crate reads and writes.
pub const FORMAT: u32 = 1;
