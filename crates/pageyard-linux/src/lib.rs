//! Linux's page allocator, written anew for reading and for experiments: the reference of Pageyard.
//!
//! Start at [`LinuxAllocator`], then read downwards:
//!
//! * [`config`]: presets (`linux-4.6` to `linux-6.18`) and the knobs that tell them apart;
//! * `allocator`: requests walk the `zonelist`; `slowpath`: what is tried when that fails; `frees`: checked, every one; `bulk`: by the array;
//! * `pressure`: reclaim, compaction and retries, with the helpers of a workload; `compaction_view`: what compaction sees;
//! * `zone`: watermarks; `pcp`: per-CPU lists; `fallback` and `highatomic`: taking from other types;
//! * `buddy`: splitting and merging; `freelist` and `tag`: what is kept for each frame;
//! * `irq`: what turns interrupts off, in user space; `slot`: the lock of a CPU's lists; `numa`: nodes, masks and their counters;
//! * `opening`: recorded states and background work; `lock`: the zone lock, which measures its own waiting; `audit`: everything counted anew.
//!
//! ```
//! use pageyard_core::{CpuId, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, PageAllocator, Pfn, Region, Request, ZoneKind};
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
mod compaction_view;
pub mod config;
mod cpu_pages;
mod effort;
mod engine;
mod events;
mod exact;
mod fallback;
mod freelist;
mod frees;
mod gauge;
mod highatomic;
pub mod irq;
mod knobs;
mod lock;
mod numa;
mod opening;
mod pageblock;
mod pcp;
mod reclaim;
mod refill;
mod report;
mod requests;
mod slot;
mod slowpath;
mod tag;
mod waiting;
mod walk;
mod watermark;
mod zone;
mod zonelist;

pub use allocator::LinuxAllocator;
pub use config::Config;
pub use events::Fallbacks;
pub use knobs::KnobError;
pub use lock::LockStats;
pub use numa::NumaStats;
pub use tag::MAX_PAGE_ORDER;
