//! Calls of several threads under schedules drawn at random, with rings at the sizes that ship.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p pageyard-packets --test shuttle`
#![cfg(shuttle)]

mod packets;
