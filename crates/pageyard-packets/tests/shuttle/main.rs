//! Calls of several threads under schedules drawn at random, with rings at the sizes that ship.
//!
//! `RUSTFLAGS="--cfg pageyard_shuttle" cargo test -p pageyard-packets --test shuttle`
#![cfg(pageyard_shuttle)]

mod packets;
