//! The types and traits that all page allocators of Pageyard share. It depends on no engine: each keeps free memory in
//! its own way, so two engines that are compared cannot share a bug in it.
//!
//! Code that runs on any engine takes a [`PageAllocator`] and needs only this crate. `pageyard` is an engine; it
//! re-exports all of this.
//!
//! ```
//! use pageyard_core::{AllocError, Cx, Migratetype, Order, PageAllocator, Pfn, Request};
//!
//! /// Allocates the largest block that there is, of order `largest` or smaller.
//! fn largest_block(from: &impl PageAllocator, cx: &Cx, largest: Order) -> Result<(Pfn, Order), AllocError> {
//!     let mut order = largest;
//!     loop {
//!         match (from.alloc(cx, &Request::new(order, Migratetype::Movable)), order.smaller()) {
//!             (Ok(pfn), _) => return Ok((pfn, order)),
//!             (Err(_), Some(smaller)) => order = smaller,
//!             (Err(why), None) => return Err(why),
//!         }
//!     }
//! }
//! ```
//!
//! The crate is `no_std` and never allocates; the feature `alloc` only teaches the trait of `Box` and `Arc`. From the
//! bottom up:
//!
//! * [`units`]: frame numbers, orders and counts of frames, each its own type instead of a bare `usize`.
//! * [`block`]: buddies, alignment and pageblocks, as pure functions.
//! * [`migratetype`], [`gfp`], [`request`]: what a caller asks for, and how a kernel's bits say it.
//! * [`memmap`]: which frames exist, and in which zone and node they lie; [`firmware`]: the map as a boot loader hands
//!   it over; [`topology`]: which node each CPU belongs to, and how far nodes are from one another.
//! * [`watermark`]: reserves: how much memory a zone keeps back, and from whom.
//! * [`error`]: why a request was refused; [`reason`]: one rule for every engine that picks the error.
//! * [`allocator`]: the trait an engine implements; [`cpu`]: its calls on one CPU; [`compaction`]: how frames are moved
//!   together; [`reclaim`]: the interface an engine calls when memory runs short.
//! * [`range`]: ranges of frames, and why a call on one was refused.
//! * [`observer`]: callbacks as blocks change hands; [`clear`]: clearing frames.
//! * [`knob`]: settings by name, with their equivalents in Linux.
//! * [`stats`], [`metrics`], [`proctext`]: an engine's counters, the figures derived from them, and Linux's text
//!   formats.
#![no_std]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod allocator;
mod ask;
pub mod block;
pub mod clear;
pub mod compaction;
pub mod cpu;
#[cfg(test)]
mod drawn;
pub mod error;
pub mod firmware;
pub mod gfp;
pub mod knob;
pub mod memmap;
pub mod metrics;
pub mod migratetype;
pub mod observer;
pub mod proctext;
pub mod range;
pub mod reason;
pub mod reclaim;
pub mod request;
pub mod stats;
pub mod topology;
pub mod units;
pub mod watermark;

pub use allocator::{Context, Cx, Drained, PageAllocator};
pub use clear::{Caches, Clear};
pub use cpu::Cpu;
pub use error::{AllocError, AuditError, BadRequest, ClaimError, FreeError, MapError};
pub use firmware::{FirmwareError, FirmwareMap, Regions, ZoneLimits};
pub use gfp::{Gfp, GfpMap};
pub use memmap::{MemoryMap, Region, ZoneKind, ZoneSpan};
pub use migratetype::Migratetype;
pub use observer::Observer;
pub use range::{ContigError, FrameRange, RangeError, RangeFault};
pub use reclaim::{Failure, Helpers, PressureAllocator, Reclaim};
pub use request::{NodeMask, Request, RequestFlags};
pub use stats::{Census, Counter, PcpStats, Stats, ZoneStats};
pub use topology::{NodeSet, Topology};
pub use units::{
    BlockId, CompactorId, CpuId, CpuSet, CpusetId, Frames, MAX_CPUS, NR_ORDERS, Nanos, NodeId, Order,
    PAGE_SIZE, PAGEBLOCK_ORDER, PageblockId, Pfn, PhysAddr, ZoneId,
};
