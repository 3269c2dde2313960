//! Recordings of this host's page allocator, and a look at its memory as it is now.
//!
//! * [`record`] records this host into a trace; [`import`] makes a trace of what `perf record` wrote; `tracepoint` is what
//!   both know of the kernel's events.
//! * [`HostSummary`] says what this host's memory is like now, and who holds it ([`host`]).
//!
//! No file is trusted: see [`pageyard_trace`].
// One file of the recorder has two system calls to make.
#![deny(unsafe_code)]

pub mod host;
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
pub mod import;
pub mod record;
mod tracepoint;

pub use host::HostSummary;
