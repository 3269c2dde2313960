//! Every interleaving of a few calls, on machines small enough to try them all.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p pageyard --release --test loom`
#![cfg(loom)]

mod common;

mod engine;
mod reservations;
mod runs;
