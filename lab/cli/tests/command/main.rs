//! The laboratory's command as a user meets it.

mod claims;
mod external;
mod judge;
mod numbers;
mod pages;
mod router;
mod schemas;
mod states;
mod verbs;
mod what_if;

use pageyard_documents::program::Program;

const LAB: Program = Program(env!("CARGO_BIN_EXE_pageyard-lab"));
