//! The engine: a lock-free page-frame allocator that stores nothing in the memory it manages.
//!
//! Its layers, lowest first, each using only those before it:
//!
//! * `geometry`: the sizes, and the numbers of frames and pageblocks in a zone; `words`: runs in a word of bits.
//!   Atomics are those of the crate `pageyard-sync`, below.
//! * `map`: the frame map. `tag` and `descriptor`: what is known of a frame and of a pageblock, as packed values with
//!   pure transitions; `frame_map`: where they lie; `watch`: rereading one of them; `bias`: how tags are won; `tree`,
//!   `index`: which pageblocks can serve what; `cpu_words`: a word of each CPU; `count`: the free frames, counted in
//!   such words.
//! * `pcp`: per-CPU pages. `tuning`, `list`, `lists`: what CPUs keep for themselves; `percpu`: how a list is kept to
//!   one user at a time; `runs`: how much moves; `bias_asks`: which CPUs ask for bias; `scratch`: where it is sorted.
//!   Nothing here knows of zones.
//! * `zone`: `pageblocks`, `claims`, `wholes`, `high`, `steal`: claims and releases up to a pageblock, of several,
//!   above it, and across types; `current`, `emptied`: what a CPU works on; `choose`, `hints`, `compaction_state`: what
//!   compaction empties, fills and remembers; `isolated`: pageblocks that are taken out of allocation; `marks`: how far
//!   down a request may go. `Zone` ties them to the zone's lists.
//! * `zonelists`: nodes; in which order a CPU's requests try the zones, and which zone has a frame.
//! * `config`: how an instance is set up; `yard`: an instance and its construction; `managed`: how much memory it has,
//!   which watermarks follow.
//! * `requests`: `alloc`, with reclaim, compaction and retries in `slow_path`; `free`; `win`: who frees a block, of
//!   several that try; `bulk`; `batches`: what moves between zones and lists; `here`: the usual request without a list;
//!   `origin`: which nodes requests were served from.
//! * `held`: frames that the engine holds for itself while it moves others; `evacuate`: a range emptied.
//! * `ranges`: frames by their numbers, in any pieces, and memory that comes and goes. `compaction`: blocks and runs of
//!   pageblocks made free.
//! * `isolation`: isolated and leased pageblocks; `report`, `audit`: what an instance reports; `repair`: what it knows,
//!   made anew after a kill.
//! * `interface`: the trait of all engines; `internals`: what tests see beyond it; `owned`: an instance that owns its
//!   memory.
//!
//! The protocol and why it holds: `docs/design/frame-map.md`.

mod audit;
#[cfg(not(pageyard_loom))]
mod compaction;
mod config;
#[cfg(not(pageyard_loom))]
mod evacuate;
mod geometry;
#[cfg(not(pageyard_loom))]
mod held;
mod interface;
mod internals;
mod isolation;
#[cfg(not(pageyard_loom))]
mod managed;
mod map;
#[cfg(feature = "alloc")]
mod owned;
mod pcp;
mod ranges;
#[cfg(not(pageyard_loom))]
mod repair;
mod report;
mod requests;
#[cfg(all(test, not(any(pageyard_loom, pageyard_shuttle))))]
mod tests_audit;
#[cfg(all(test, not(any(pageyard_loom, pageyard_shuttle))))]
mod tests_repair;
mod words;
mod yard;
mod zone;
mod zonelists;

pub use config::{Accept, Config};
pub use internals::Internals;
pub use map::bias::BiasState;
pub use map::damage::MetadataPart;
#[cfg(feature = "alloc")]
pub use owned::OwnedPageyard;
pub use pageyard_sync::Metadata;
#[cfg(feature = "step-hook")]
pub use pageyard_sync::hook;
pub use pcp::bias_asks::BiasStats;
pub use pcp::percpu::{Alone, Exclusive, PerCpu, TryLock};
#[cfg(not(pageyard_loom))]
pub use ranges::CmaArea;
pub use ranges::{Visit, Visited};
#[cfg(not(pageyard_loom))]
pub use repair::Repaired;
pub use yard::{MetadataLayout, Pageyard};

/// Exports for an implementer of [`PerCpu`] outside this crate.
#[cfg(feature = "percpu-impl")]
mod for_implementers {
    pub use super::map::bias::{RawPlace, TagPlace};
    pub use super::map::cpu_words::{CpuWords, RawCpuWords};
    pub use super::map::watch::{DescriptorWatch, Unchanged};
    pub use super::pcp::list::{List, Pushed};
    pub use super::pcp::lists::{CpuLists, RawLists};
    pub use super::pcp::loose::LooseLists;
    pub use super::pcp::percpu::Winning;
    pub use super::pcp::tuning::ListIdx;
}
#[cfg(feature = "percpu-impl")]
pub use for_implementers::*;
