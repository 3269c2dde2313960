//! Linux's page allocator, rewritten for reading and for experiments: the reference of Pageyard.
//!
//! Its layers, lowest first. A file calls only files of the layers below, and files of its own layer that are listed
//! before it:
//!
//! | layer | files |
//! |---|---|
//! | settings | [`compaction`]: Linux's scanners, on what they see of an allocator; `protection`: who may use a CPU's lists; [`irq`]: what turns interrupts off, in user space; `choices`: what knobs choose between; [`config`]: which Linux it is, and the table of its knobs; [`knobs`]: knobs by name; `presets`: `linux-4.6` to `linux-7.3`; `posted`: patches that are in no release; [`rules`]: which rule explains that answers differ |
//! | values | `effort`: how hard a request tries; `events`: what is counted; `gauge`: what is read without a lock; `marks`: watermarks and reserves, which can change; `scans`: what reclaim looked at in vain; [`place`]: where a thread is that frees |
//! | parts of a zone | `tag`: a byte a frame; `freelist`: links and lists; `pageblock`: types, hints, leases; `owners`: which CPU owns a pageblock; `lock`: the zone lock, which measures its own waiting; `late`: pageblocks with blocks freed while it was held; `pcp_limits`: how long a CPU's lists may become; `pcp`: the policy of the lists, which decides and moves nothing; `cpu_pages`: the lists; `slot`: their lock |
//! | the zone | `zone`: its parts, and how they are locked |
//! | on the zone | `watermark`: may a request take; `buddy`: splitting and merging; `fallback`, `classes`, `highatomic`: taking from other types, and a reserve; `owned`: lists that own what they are filled from; `refill`: carries out what `pcp` decides; `take_free`: free frames that leave for compaction; `boot`: a zone at the start |
//! | the allocator | `cpusets`: to which nodes a task keeps; `zonelist`: which zones in which order; `node`: what a node's background was asked for; `allocator`: its state, none of its operations; `dirty`: nodes with too much that is dirty; `set_watermarks`: settings that are written while requests run |
//! | taking and giving | `wake`: whether a node is balanced, and waking its reclaimer; `walk`: a request goes from zone to zone; `frees`: every one checked; `exact`: one block by its frame number |
//! | requests | `compaction_view`: what compaction sees; `reclaim`: asking for frames; `kcompactd`, `kswapd`: a node's background; `waiting`: reclaim, compaction and retries; `slowpath`: what is tried when no zone is above its low watermark; `requests`: one path for all |
//! | top | `bulk`: by the array; `nolock`: calls that wait for no lock; `numa`: nodes and their counters; `opening`: recorded states and background work; `exact_opening`: a state in every detail, taken and given; `report`; `audit`: everything recounted; `engine`: the interface that all engines have; `one_by_one`: the same for page pools of 2018 |
//!
//! To follow a request, start at `requests` and go down: `walk`, `refill`, `pcp`, `fallback`, `buddy`.
//!
//! ```
//! use pageyard_core::{CpuId, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, PageAllocator, Pfn};
//! use pageyard_core::{Region, Request, ZoneKind};
//! use pageyard_linux::{Config, LinuxAllocator};
//!
//! let regions = [Region::managed(Pfn(0), Frames(1 << 18), NodeId(0), ZoneKind::Normal)];
//! let allocator = LinuxAllocator::new(&MemoryMap::new(&regions)?, &Config::linux_6_18())?;
//! let cx = Cx::on(CpuId(0));
//! let huge = allocator.alloc(&cx, &Request::new(Order::of(9), Migratetype::Movable))?;
//! allocator.free(&cx, huge, Order::of(9))?;
//! assert!(allocator.free(&cx, huge, Order::of(9)).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Locks are taken in this order: a CPU's lists, then the zone. No line of Linux's source is in here.
#![deny(unsafe_code)]

mod allocator;
mod audit;
mod boot;
mod buddy;
mod bulk;
mod choices;
mod classes;
pub mod compaction;
mod compaction_view;
pub mod config;
mod cpu_pages;
mod cpusets;
mod dirty;
mod effort;
mod engine;
mod events;
mod exact;
mod exact_opening;
mod fallback;
mod freelist;
mod frees;
mod gauge;
mod highatomic;
pub mod irq;
mod kcompactd;
pub mod knobs;
mod kswapd;
mod late;
mod lock;
mod marks;
mod node;
mod nolock;
mod numa;
mod one_by_one;
mod opening;
mod owned;
mod owners;
mod pageblock;
mod pcp;
mod pcp_limits;
pub mod place;
mod posted;
mod presets;
mod protection;
mod reclaim;
mod refill;
mod report;
mod requests;
pub mod rules;
mod scans;
mod set_watermarks;
mod slot;
mod slowpath;
mod tag;
mod take_free;
mod waiting;
mod wake;
mod walk;
mod watermark;
mod zone;
mod zonelist;

pub use allocator::LinuxAllocator;
pub use config::Config;
pub use cpusets::{CpusetError, Cpusets, Wall};
pub use dirty::FilePages;
pub use events::Fallbacks;
pub use exact_opening::{CpuOpening, FreeList, Opening, OpeningError, ZoneOpening};
pub use knobs::KnobError;
pub use lock::LockStats;
pub use nolock::NolockError;
pub use numa::NumaStats;
pub use one_by_one::OneByOne;
pub use posted::Posted;
pub use report::ListedBlocks;
pub use tag::MAX_PAGE_ORDER;
