//! Traces: read, written, summarised; the recordings that are shipped, and spoilt ones.

mod checks;
mod golden;
mod rows;
mod summary;
mod support;
mod traces;
mod writing;
