//! Recordings of this host's page allocator, and an examination of its memory now.
//!
//! * [`record`] records this host into a trace; [`import`] makes a trace from what another recorder wrote; `tracepoint`
//!   has what both know of the kernel's events; [`export`] makes a file of a trace for another program; `llfree` has
//!   the format that imports and exports share.
//! * [`HostSummary`] describes this host's memory now, and what holds it ([`host`]).
//!
//! No file is trusted: see [`pageyard_trace`].
// Two files of the recorder have system calls to make: `record/fd.rs` and `record/fexit/call.rs`.
#![deny(unsafe_code)]

mod btf;
pub mod export;
pub mod host;
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
pub mod import;
mod llfree;
mod message;
pub mod record;
mod tracepoint;

pub use host::HostSummary;
