//! Frames that are real memory: a mapping with the engine over it.
//!
//! ```
//! # #[cfg(all(target_os = "linux", target_arch = "x86_64"))] {
//! use pageyard::{Frames, Order};
//! use pageyard_arena::Arena;
//!
//! let arena = Arena::builder().size(64 << 20).build()?; // huge pages where the host grants them
//! let mut buffer = arena.alloc(Order::of(9))?; // 2 MiB, freed when it is dropped
//! buffer[..5].copy_from_slice(b"hello");
//! let page = arena.alloc_zeroed(Order::ZERO)?; // what is known to be zeros is not cleared again
//! assert!(page.iter().all(|byte| *byte == 0));
//! let mut data = arena.alloc_movable(Order::ZERO)?; // compaction may move it while it is not pinned
//! data.pin_mut()[..5].copy_from_slice(&buffer[..5]);
//! let ring = arena.alloc_bytes_zeroed(13 * 4096)?; // 13 frames, not 16
//! let (head, rest) = ring.split_at(Frames(5)).unwrap(); // two owners; each frees its part
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! * `builder`: [`ArenaBuilder`]; `error`: [`ArenaError`].
//! * `memory`: [`Arena`]; `alive`: whether it is the one that was built, or a copy in a child of a fork;
//!   `holder`: [`ArenaRef`], how the values below hold it.
//! * `block`: [`Block`], bytes that are freed when it is dropped; `bulk`: [`Blocks`], many of them; `pages`: [`Pages`],
//!   as many bytes as asked for, which can be split; `zeros`: [`Zeros`], what clears them for the engine; `poison`:
//!   [`Poison`], which finds writes to free frames.

mod alive;
mod block;
mod builder;
mod bulk;
mod error;
mod holder;
mod memory;
mod pages;
mod poison;
mod zeros;

pub use block::Block;
pub use builder::{ArenaBuilder, ArenaProgram};
pub use bulk::Blocks;
pub use error::ArenaError;
pub use holder::ArenaRef;
pub use memory::Arena;
pub use pages::Pages;
pub use poison::{Corruption, PATTERN, Poison};
pub use zeros::Zeros;

#[cfg(test)]
mod tests;
