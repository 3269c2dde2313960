//! Page frames that are real memory, on Linux: what backs them, what clears them, and who owns them.
//!
//! * [`arena`]: frames that are real memory, with the engine over them.
//! * [`handle`]: long-lived data that compaction may move.
//! * `pool` (feature `pools`): buffers that are used again and again, taken by one thread and given back by any.
//! * [`purge`]: free memory given back to the host, now and then or when memory is short.
//! * [`rseq`]: per-CPU lists without lock or mask, by restartable sequences.
//! * [`backing`]: memory of the host: transparent and reserved huge pages, files in memory, faulted in and given back.
//! * [`clear`]: frames made zeros, as fast as the processor can.
//!
//! The feature `hostile` adds calls with arguments drawn from bytes, for fuzzing.

pub mod arena;
pub mod backing;
pub mod clear;
pub mod handle;
#[cfg(feature = "hostile")]
pub mod hostile;
mod own_thread;
#[cfg(feature = "pools")]
pub mod pool;
pub mod purge;
pub mod rseq;
mod slots;

pub use arena::{Arena, ArenaBuilder, ArenaError, ArenaProgram, ArenaRef, Block, Blocks, Pages};
pub use handle::{Background, Handle, Pinned, PinnedMut};
pub use purge::{Purger, PurgerBuilder};
