//! The engine: a lock-free page-frame allocator that stores nothing in the memory it manages.
//!
//! From the bottom up, each module using only those before it:
//!
//! * `geometry`: the sizes; `sync`: the one file that names atomics; `words`: runs in a word of bits.
//! * `tag`, `state`: what is known of a frame and of a pageblock, as packed values with pure transitions.
//! * `frames`: the frame map, where those values live; `tree`, `index`: which pageblocks can serve what.
//! * `count`: free frames, counted by each CPU for itself.
//! * `pageblocks`, `claims`, `wholes`, `high`, `steal`: claims and releases up to a pageblock, of several, above it, and across types.
//! * `tuning`, `list`, `lists`, `percpu`: per-CPU lists, and how they are kept from being used twice at once.
//! * `scratch`, `batches`: what moves between zones and lists, and where it is sorted.
//! * `compaction_view`, `choose`: what compaction sees, and what it is told to empty; `with_help`: reclaim, compaction, retries.
//! * `yard`: an instance; `request`, `free`, `bulk`: its calls; `isolation`; `report`, `audit`: its accounts;
//!   `interface`: all of that as every engine offers it.
//!
//! The protocol and why it holds: `docs/design/frame-map.md`.

mod audit;
mod batches;
mod bulk;
#[cfg(not(loom))]
mod choose;
mod claims;
#[cfg(not(loom))]
mod compaction_view;
mod count;
mod frames;
mod free;
mod geometry;
mod high;
mod hints;
mod index;
mod interface;
mod isolation;
mod list;
mod lists;
#[cfg(feature = "alloc")]
mod owned;
mod pageblocks;
mod percpu;
mod report;
mod request;
mod scratch;
mod state;
mod steal;
mod sync;
mod tag;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests_audit;
mod tree;
mod tuning;
mod watch;
mod wholes;
#[cfg(not(loom))]
mod with_help;
mod words;
mod yard;

pub use list::{List, Pushed};
pub use lists::{CpuLists, LooseLists, RawLists};
#[cfg(feature = "alloc")]
pub use owned::OwnedPageyard;
pub use percpu::{Alone, Exclusive, PerCpu, TryLock};
#[cfg(feature = "step-hook")]
pub use sync::hook;
pub use watch::{Unchanged, Watch};
pub use yard::{Config, Metadata, MetadataLayout, Pageyard};
