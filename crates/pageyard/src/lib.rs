//! A lock-free page-frame allocator that stores nothing in the memory it manages.
//!
//! The crate is `no_std` and never allocates. [`engine`] is the allocator; everything else here is
//! [`pageyard_core`]'s, what it shares with other engines, under the same names.
#![no_std]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(loom)]
extern crate std;

pub mod engine;
mod placement;

#[cfg(feature = "alloc")]
pub use engine::OwnedPageyard;
pub use engine::{Alone, Config, Exclusive, Metadata, MetadataLayout, Pageyard, PerCpu, TryLock};
pub use pageyard_core::*;
