//! Every interleaving of a few calls.
//!
//! `RUSTFLAGS="--cfg pageyard_loom" cargo test -p pageyard-packets --release --test loom`
#![cfg(pageyard_loom)]

mod packets;
