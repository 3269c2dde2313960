//! Every interleaving of a few calls, on machines small enough to try them all.
//!
//! `RUSTFLAGS="--cfg pageyard_loom" cargo test -p pageyard --release --test loom`
#![cfg(pageyard_loom)]

mod common;

mod engine;
mod reservations;
mod runs;
