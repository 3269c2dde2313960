//! Clearing frames: as fast as the processor can, without driving out what the caches hold where that is avoidable.
//!
//! * `extent`: [`Extent`], the memory to clear.
//! * `primitive`: [`Primitive`], what a processor can clear with; `fill`: the instructions.
//! * `unit`: [`Unit`], how much is cleared with one call: Linux's page, batch and whole extent.
//! * `clearer`: [`Clearer`], which primitive is used for what; `measure`: how it finds out.
//!
//! Costs, and the size from which batches pay: `docs/design/clearing.md`.

mod clearer;
mod extent;
mod fill;
mod measure;
mod primitive;
mod unit;

pub use clearer::{Clearer, clear_in};
pub use extent::Extent;
pub use pageyard::Caches;
pub use primitive::Primitive;
pub use unit::{NON_PREEMPT_BATCH, Preemption, Unit};

#[cfg(test)]
mod tests;
