//! Benchmarks and experiments: what a frame costs here and in the alternatives, and documents reproduced.
//!
//! * [`sweep`]: batches of all sizes, allocated and freed; [`bulk`]: many frames with one call; [`cross`]: taken on one
//!   CPU and given back on another; [`mixed`]: several orders in bursts; [`scale`]: from 1 GiB to 1 TiB, lists
//!   bypassed; [`refused`]: requests that fail; [`pools`]: buffers for packets; [`primitives`]: what paths are made of.
//! * [`clear`], [`fault`], [`stream`]: memory itself: how fast it becomes zeros, what it takes until it can be used,
//!   how many bytes a second go between it and a processor.
//! * [`router`]: a host that forwards packets, simulated with real frames.
//! * [`states`]: named states of fragmented memory, in three degrees, for any allocator to open in.
//! * A result is its own JSON document, and writes itself as text; [`document`]: those of the router and of STREAM;
//!   [`external`]: rows that were measured elsewhere.
//! * [`experiment`]: a document's table, beside what this machine measures.
//! * `contestants`: who is measured, from a private array (the floor) to the reference and to [`peers`].
//! * `harness`: what all of them measure with.
//!
//! Subjects take turns within each setting, sample by sample, so that a noisy moment hits all of them alike. Medians
//! count; ratios to the floor of the same setting count more.
#![deny(unsafe_code)]

pub mod backtest;
pub mod bulk;
pub mod clear;
mod contestants;
pub mod cross;
pub mod document;
mod error;
pub mod experiment;
pub mod external;
pub mod fault;
mod harness;
pub mod mixed;
pub mod peers;
pub mod pools;
pub mod primitives;
mod published;
pub mod refused;
pub mod router;
pub mod scale;
pub mod states;
pub mod stream;
pub mod sweep;

pub use harness::locked::{LockedPair, count as count_locked};
mod text;

pub use contestants::{LARGEST, Outside};
pub use error::BenchError;
pub use harness::costs;
pub use harness::machine;
pub use harness::noise::{Noise, Skipped};
pub use harness::sampler::{FEWEST, SAMPLES};
pub use pageyard::Order;
