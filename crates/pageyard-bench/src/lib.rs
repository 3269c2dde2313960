//! Benchmarks and experiments: what a frame costs here and in the alternatives, and documents reproduced.
//!
//! * [`sweep`]: batches of all sizes, allocated and freed; [`bulk`]: many frames with one call; [`cross`]: taken on one
//!   CPU and given back on another; [`scale`]: from 1 GiB to 1 TiB, lists bypassed; [`refused`]: requests that fail;
//!   [`primitives`]: what paths are made of.
//! * [`document`]: the results as JSON documents, and as text.
//! * [`experiment`]: a document's table, beside what this machine measures.
//! * `subjects`: the contestants, from a private array (the floor) to the reference and to [`peers`]; `floors`,
//!   `paged`: their code, each an `allocator`; `subject`: what a benchmark sees of them; `handover`: one sample of
//!   [`cross`].
//! * `cell`: one setting measured; `team`: threads that stay; [`environment`]: the machine, and what else used it;
//!   `clock`; `noise`: what disturbed a figure.
//!
//! Subjects take turns within each setting, sample by sample, so that a noisy moment hits all of them alike. Medians
//! count; ratios to the floor of the same setting count more.
#![deny(unsafe_code)]

mod allocator;
pub mod bulk;
mod cell;
mod clock;
pub mod cross;
pub mod document;
pub mod environment;
mod error;
pub mod experiment;
mod floors;
mod handover;
mod noise;
mod paged;
pub mod peers;
pub mod primitives;
pub mod refused;
pub mod scale;
mod subject;
mod subjects;
pub mod sweep;
mod team;
mod text;
mod variants;

pub use error::BenchError;
pub use noise::{Noise, Skipped};
pub use pageyard::Order;
pub use subjects::ORDERS;

pub(crate) use noise::{SAMPLES, median};
