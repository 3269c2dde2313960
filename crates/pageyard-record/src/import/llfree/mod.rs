//! Traces of LLFree: pages of records, each page of one CPU. [`crate::llfree`] has the bytes.
//!
//! As of Perfetto's events, a sample is put together from each record in a form that is made up here.

#[cfg(any(test, feature = "hostile"))]
pub(crate) mod made;
mod records;
#[cfg(test)]
mod tests;

pub(super) use records::{LlfreeRecords, looks_like};
