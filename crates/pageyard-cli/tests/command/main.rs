//! The command as a user meets it.

mod compare;
mod doctor;
mod examples;
mod export;
mod fleet;
mod knobs;
mod limits;
mod map;
mod numbers;
mod pages;
mod recording;
mod sampled;
mod schemas;
mod series;
mod trust;
mod verbs;
mod watch;

use pageyard_documents::program::Program;

const PAGEYARD: Program = Program(env!("CARGO_BIN_EXE_pageyard"));
