//! Threads that are stopped before an atomic step of the engine, and calls that are counted in such steps.
//!
//! `cargo test -p pageyard --features step-hook --test stop`
#![cfg(not(any(pageyard_loom, pageyard_shuttle)))]

mod biased;
mod common;

mod costs;
mod hidden;
mod isolation;
mod one;
mod pairs;
mod ranges;
