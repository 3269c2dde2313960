//! Files that `trace-cmd record` and `trace-cmd extract` wrote: `trace.dat`, versions 6 and 7.
//!
//! The manual pages trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5) describe the file. What it holds of each CPU are pages
//! of the kernel's ring buffer, in the form that the kernel describes in `events/header_page` and
//! `events/header_event`.

mod container;
#[cfg(any(test, feature = "hostile"))]
pub(crate) mod made;
mod options;
mod page;
mod pages;
mod records;
#[cfg(test)]
mod tests;

pub(super) use container::TraceDat;
pub(super) use records::TraceCmdRecords;
