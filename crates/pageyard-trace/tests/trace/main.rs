//! Traces: read, written, summarised; the shipped recordings, and corrupt ones.

mod checks;
mod golden;
mod rows;
mod samples;
mod summary;
mod support;
mod traces;
mod writing;
