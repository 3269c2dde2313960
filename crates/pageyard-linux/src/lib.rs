//! Linux's page allocator, written anew for reading and for experiments: the reference of Pageyard.
//!
//! Start at [`LinuxAllocator`], then read downwards:
//!
//! * [`config`]: presets (`linux-4.6` to `linux-6.18`) and the knobs that tell them apart;
//! * `allocator`: requests walk the `zonelist`; frees find their zone;
//! * `zone`: watermarks; `pcp`: per-CPU lists; `fallback` and `highatomic`: taking from other types;
//! * `buddy`: splitting and merging; `freelist` and `tag`: what is kept for each frame;
//! * `lock`: the zone lock, which measures its own waiting; `audit`: everything counted anew.
//!
//! Locks are taken in this order: a CPU's lists, then the zone. No line of Linux's source is in here.
#![forbid(unsafe_code)]

mod allocator;
mod audit;
mod buddy;
pub mod config;
mod fallback;
mod freelist;
mod highatomic;
mod lock;
mod pcp;
mod tag;
mod zone;
mod zonelist;

pub use allocator::{Fallbacks, LinuxAllocator};
pub use config::{Config, KnobError};
pub use lock::LockStats;
pub use tag::MAX_PAGE_ORDER;
