//! Fragments and pools over the engine, one call after another and from threads.
#![cfg(not(any(pageyard_loom, pageyard_shuttle)))]

mod batches;
mod fragments;
mod pools;
