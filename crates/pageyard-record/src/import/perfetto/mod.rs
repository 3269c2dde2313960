//! Files that Perfetto wrote: a sequence of protobuf packets, some of them bundles of ftrace events of one CPU.
//!
//! Perfetto has taken each event's fields apart already, so a sample is put together from them in a form that is made
//! up here, and described as the kernel describes its own.

mod event;
mod fields;
#[cfg(any(test, feature = "hostile"))]
pub(crate) mod made;
mod packets;
mod records;
#[cfg(test)]
mod tests;

pub(crate) use event::numbers;
pub(super) use records::PerfettoRecords;
