//! Every interleaving of a few calls.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p pageyard-packets --release --test loom`
#![cfg(loom)]

mod packets;
