//! Workloads: owners of frames that can be moved and given up, states that memory can be brought to, and load.
//!
//! * [`Owners`] holds page cache, anonymous memory, slab, page tables and pins, and helps an engine that calls it;
//! * [`fragment`] brings memory to a named state, and says how close it came;
//! * [`Load`] repeats a recorded trace, in several jobs at once; [`LoadTrace`] is the trace, made ready for that;
//! * [`stress`] asks for large unmovable blocks meanwhile, in three phases: `stress-highalloc`.

mod beside;
mod ends;
pub mod fragment;
mod fragmentation;
mod frame_table;
mod job;
mod load;
mod lru;
mod migrate;
mod object;
mod owners;
pub mod stress;

pub use beside::Lag;
pub use ends::{End, Ends};
pub use frame_table::Doubles;
pub(crate) use load::role;
pub use load::{Load, LoadTrace, Shape};
pub use object::Role;
pub use owners::{Owners, Shares};
