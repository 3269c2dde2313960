//! The engine: a lock-free page-frame allocator that stores nothing in the memory it manages.
//!
//! From the bottom up, each module using only those before it:
//!
//! * `geometry`: the sizes; `sync`: the one file that names atomics; `words`: runs in a word of bits.
//! * `tag`, `state`: what is known of a frame and of a pageblock, as packed values with pure transitions.
//! * `frames`: the frame map, where those values live; `tree`, `index`: which pageblocks can serve what.
//! * `count`: free frames, counted by each CPU for itself.
//! * `zone`, `claims`, `wholes`, `high`, `steal`: claims and releases up to a pageblock, of several, above it, and across types.
//! * `tuning`, `list`, `lists`, `percpu`: per-CPU lists, and how they are kept from being used twice at once.
//! * `desk`, `transfer`: what moves between zones and lists, and where it is sorted.
//! * `framemap`, `choose`: what compaction sees, and what it is told to empty; `pressure`: reclaim, compaction, retries.
//! * `yard`: an instance; `alloc`, `free`, `bulk`: its calls; `report`, `audit`: its accounts.
//!
//! The protocol and why it holds: `docs/design/frame-map.md`.

mod alloc;
mod audit;
mod bulk;
#[cfg(not(loom))]
mod choose;
mod claims;
mod count;
mod desk;
#[cfg(not(loom))]
mod framemap;
mod frames;
mod free;
mod geometry;
mod high;
mod index;
mod list;
mod lists;
mod percpu;
#[cfg(not(loom))]
mod pressure;
mod report;
mod state;
mod steal;
mod sync;
mod tag;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests_audit;
mod transfer;
mod tree;
mod tuning;
mod wholes;
mod words;
mod yard;
mod zone;

pub use list::{List, Pushed};
pub use lists::{CpuLists, LooseLists, RawLists};
pub use percpu::{Alone, Exclusive, PerCpu, TryLock};
#[cfg(feature = "step-hook")]
pub use sync::hook;
pub use yard::{Config, Metadata, MetadataLayout, Pageyard};
