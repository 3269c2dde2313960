//! Fragments and pools over the engine, one call after another and from threads.
#![cfg(not(any(loom, shuttle)))]

mod batches;
mod fragments;
mod pools;
