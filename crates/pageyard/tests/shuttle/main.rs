//! Calls of several threads under schedules drawn at random, on machines of the sizes that ship.
//!
//! `RUSTFLAGS="--cfg pageyard_shuttle" cargo test -p pageyard --test shuttle`
#![cfg(pageyard_shuttle)]

mod common;
mod sequences;

mod bias;
mod compaction;
mod contig;
mod eight;
mod engine;
mod hotplug;
mod isolation;
mod ranges;
mod reservations;
mod runs;
mod unlisted;
