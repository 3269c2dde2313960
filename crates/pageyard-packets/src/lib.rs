//! Buffers for packets, over any engine: fragments of blocks, and pools of pages that are used again and again.
//!
//! They are for pipelines that take a buffer when a packet arrives and give it back from whatever CPU its transmission
//! completes on. [`PageFrag`] carves buffers of any size from a block; the block goes back to the allocator with the
//! last of them. [`PagePool`] keeps pages: what comes back is handed out again without the allocator.
//!
//! * `marks`: a byte for each frame: whose page is out under its address; `use_table`: that, and a word for who carves
//!   or pools the frame's block, and how many still use it; `placed`: where these and a pool's ring lie.
//! * `carve`: buffers from a block, downwards, paid for with a count set aside in advance.
//! * `fragment`: a buffer, and how it is given back, by its owner or by its address; `frag`: a CPU's cache of
//!   fragments.
//! * `ring`: pages that come back from other CPUs; `batch_ring`: batches that do; `returns`: both.
//! * `cache`: the state of a pool's consumer side; `pool`: a pool, and what any CPU can do with it; `page`: a page in
//!   its holder's hands; `consumer`: its one
//!   consumer; `batch`: taking and giving back up
//!   to 64 pages at a time; `stats`.
//! * `error`: what can be wrong.
//!
//! The layers point down in that order. Nothing is stored in the managed memory. A thread that stops anywhere keeps no
//! other from giving buffers back; a consumer that stops keeps its own queue from taking any. How it works, and what it
//! costs: `docs/design/packets.md`.
//!
//! The feature `alloc` adds tables and pools in memory of their own.

#![no_std]

#[cfg(pageyard_loom)]
extern crate std;

mod batch;
mod batch_ring;
mod cache;
mod carve;
mod consumer;
mod error;
mod frag;
mod fragment;
mod marks;
mod page;
mod placed;
mod pool;
mod returns;
mod ring;
mod stats;
mod use_table;

pub use batch::PoolBatch;
pub use consumer::PoolConsumer;
pub use error::{GetError, PacketsError, PutError, Refused};
pub use frag::{FragConfig, FragPages, PageFrag};
pub use fragment::{Fragment, FragmentOwner};
pub use page::PoolPage;
pub use pool::{PageMap, PagePool, PoolConfig};
pub use stats::PoolStats;
pub use use_table::{UseTable, Values};
