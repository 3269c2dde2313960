//! Rows of a benchmark's document, read and checked.
//!
//! * `fields`: what a row says, checked; `rows`: the rows of each benchmark.

mod fields;
mod rows;

pub(crate) use fields::{Fields, check_name};
pub(crate) use rows::Figures;
pub use rows::{CrossFigures, MixedFigures, SweepFigures};
