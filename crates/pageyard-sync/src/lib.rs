//! Atomics and metadata of Pageyard's lock-free parts, so that a model checker or a test that stops threads can replace
//! every atomic step.
//!
//! * Normally the types here are `core::sync::atomic`'s, and a call costs what theirs costs.
//! * Under `--cfg pageyard_loom` they are the model checker's.
//! * Under `--cfg pageyard_shuttle` they are a scheduler's, which tries many orders of steps at the real sizes and
//!   knows only sequential consistency.
//! * With the feature `step-hook` a function that a test installs runs before every atomic step.
//!
//! [`eight`] changes eight neighbouring bytes with one instruction.
//!
//! [`Carver`] cuts metadata from the caller's memory as typed slices. It serves the crates `pageyard` and
//! `pageyard-packets`, and promises nothing to others.
//!
//! The feature `alloc` adds `OwnedMemory`.
#![no_std]

#[cfg(not(target_pointer_width = "64"))]
compile_error!(
    "Pageyard needs a processor of 64 bits: its free bits and descriptors are atomics of that size."
);

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(any(pageyard_loom, pageyard_shuttle))]
extern crate std;

mod atomics;
mod carver;
pub mod eight;
#[cfg(feature = "step-hook")]
pub mod hook;
#[cfg(not(feature = "step-hook"))]
mod hook;
mod metadata;
#[cfg(feature = "alloc")]
mod owned;

pub use atomics::{A8, A32, A64, APtr, Zeroable, store_load_fence};
pub use carver::{Carver, LINE};
pub use core::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};
pub use metadata::Metadata;
#[cfg(feature = "alloc")]
pub use owned::OwnedMemory;
