//! Recordings of a Linux host's page allocator.
#![forbid(unsafe_code)]

mod error;
mod event;
mod fragmentation;
pub mod host;
mod meta;
mod pq;
mod prefetch;
pub mod proctext;
mod reader;
mod snapshot;
mod source;
mod summary;
mod text;
mod trace;
mod writer;

pub use error::TraceError;
pub use event::{Columns, Event, EventKind, FAILED, MAX_ORDER};
pub use host::HostSummary;
pub use meta::{Meta, ProcTexts};
pub use prefetch::Prefetch;
pub use reader::{BATCH_ROWS, EventReader};
pub use snapshot::{FrameKind, MAX_FRAMES, Run, Snapshot};
pub use fragmentation::ZoneFragmentation;
pub use summary::{Fallback, ORDERS, Requests, Summary, TYPES};
pub use trace::Trace;
pub use writer::TraceWriter;

/// The version of the trace format that this crate reads and writes.
pub const FORMAT: u32 = 1;
