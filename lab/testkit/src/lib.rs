//! The suite that every engine of Pageyard must pass, written only against the interfaces.
//!
//! An engine implements [`Build`] for a unit type in its `tests/` directory and expands [`suite!`] there. The suite,
//! from the bottom up:
//! * [`naive`]: a third opinion: one state a frame, no lists, no policy. [`judge`] says whether it allows an answer,
//!   [`check`] whether the engine's counts agree with it.
//! * [`op`]: operations that print themselves as Rust; [`session`]: an engine and the model side by side.
//! * [`generate`], [`random`]: weighted random operations from a seed; [`shrink`]: a failing list made short and
//!   printed as a test to paste; [`tally`]: what a run provoked, so that a run that provoked nothing is noticed.
//! * [`differential`]: two engines asked the same, which agree wherever the interface leaves no choice.
//! * `storm`: every kind of call at once, from many threads, for any length of time.
//! * [`child`]: a test in its own process; `interleavings`, `schedules`: what the model checkers try.
//! * [`maps`]: memory maps that engines get wrong; [`suite`](mod@suite): hand-written cases, the concurrent ones
//!   included.
//!
//! # Which error is right
//! Faults of the arguments (no such CPU, outside the arena, misaligned, too large) come before faults of the state
//! (free already, wrong order, inside a block). Where several arguments are at fault, any of them may be named; the
//! state has only one answer.

pub mod check;
pub mod child;
pub mod differential;
pub mod engine;
pub mod generate;
#[cfg(pageyard_loom)]
pub mod interleavings;
pub mod judge;
pub mod maps;
pub mod naive;
pub mod op;
pub mod owner;
pub mod pressure;
pub mod random;
mod rerun;
#[cfg(pageyard_shuttle)]
pub mod schedules;
pub mod session;
pub mod shrink;
pub mod slow_order;
#[cfg(not(pageyard_loom))]
pub mod storm;
pub mod suite;
pub mod tally;

pub use engine::{Build, Verdict};
pub use maps::Map;
pub use naive::{Frame, Naive};
pub use op::Op;
pub use random::{random_suite, random_suite_from_env};
pub use session::{Session, replay};
pub use tally::Tally;
