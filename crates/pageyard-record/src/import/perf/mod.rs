//! Files that `perf record` wrote.
//!
//! The container is read here, piece by piece, with the attributes' meaning from the `linux-perf-event-reader` crate.
//! The existing readers of whole files allocate memory for whatever a file claims, and hold two rounds of records at
//! once; a file from another host can have any size, and can be corrupt.

mod attributes;
mod container;
mod records;

pub(super) use container::Container;
pub(super) use records::PerfRecords;
