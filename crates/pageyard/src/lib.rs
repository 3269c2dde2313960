//! A lock-free page-frame allocator that stores nothing in the memory it manages.
//!
//! It is for owners of physical memory: a kernel, a hypervisor, a driver of a device's memory, a simulator. Frames are
//! numbers, in blocks of 4 KiB (order 0) to 1 GiB (order 18), each aligned to its size. The design is that of Linux's
//! page allocator: zones, watermarks, pageblocks by mobility, per-CPU lists. Every free is checked; a wrong one is a
//! value.
//!
//! # Ten lines
#![cfg_attr(feature = "alloc", doc = "```")]
#![cfg_attr(not(feature = "alloc"), doc = "```ignore")]
//! use pageyard::{FreeError, Order, Pageyard, Request};
//!
//! let yard = Pageyard::builder().cpus(4).usable(0x10_0000..0x4000_0000).build()?;
//! let cpu = yard.cpu(0)?; // this CPU's lists
//! let huge = cpu.alloc(Order::HUGE)?; // for contents that do not move, at once or not at all
//! cpu.free(huge, Order::HUGE)?;
//! assert_eq!(cpu.free(huge, Order::HUGE), Err(FreeError::NotAllocated)); // a second free is a value, not a crash
//! let page = cpu.alloc(Request::order(0).movable().waiting())?; // drains other CPUs' lists before it is refused
//! cpu.free(page, Order::ZERO)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`KernelFrames`] is the same for a kernel: a static, whose metadata lies in the managed memory, that serves layouts,
//! takes pieces back and gets memory later.
//!
//! # More to choose
//! The builder makes a [`MemoryMap`] from a [`FirmwareMap`]: what firmware says of ranges of bytes. A map can also be
//! made from [`Region`]s, with nodes, kinds of zones and holes. The metadata's memory comes from the global allocator
//! (`Pageyard::owned`, which makes an `OwnedPageyard`), from the caller ([`Pageyard::layout`], [`Pageyard::new`]), or
//! from the managed memory itself ([`Pageyard::place_metadata`]). [`Config`] has Linux's watermarks and reserves. The
//! calls that name a CPU each time are those of [`PageAllocator`], which every engine has; [`Pageyard`] has them too,
//! under the same names. [`compaction`] and [`reclaim`] say what an owner of frames can offer when memory runs short.
//!
//! # Ranges of frames
//! Beyond blocks of a power of two, [`Pageyard`] has [`free_range`](Pageyard::free_range) (frames in any pieces,
//! whatever blocks they were), [`alloc_exact`](Pageyard::alloc_exact) (any count, aligned as asked),
//! [`alloc_frames`](Pageyard::alloc_frames) (in one piece, or in the largest there are),
//! [`visit_free_blocks`](Pageyard::visit_free_blocks) (for balloons), and `alloc_contig_range`, `declare_cma` and
//! `alloc_cma` (a range by its numbers, emptied if need be), `offline_range` and `online_range`.
//! `docs/design/ranges.md` says how they work.
//!
//! # Packets
//! The crate `pageyard-packets` has buffers for packets over any engine: fragments of blocks, and pools whose pages
//! come back from any CPU.
//!
//! # Features
//! Without any feature, the crate is `no_std` and never allocates.
//!
//! * `alloc`: instances that own the memory of their metadata; [`PageAllocator`] for `Box` and `Arc`.
//! * `percpu-impl`: what an implementer of [`PerCpu`] outside this crate works with: lists, tags and words as
//!   addresses. `pageyard-arena` is one.
//! * `step-hook`: for tests of the engine itself; a function that is called before every atomic step.
//!
//! # Concurrency
//! Every call except [`PageAllocator::audit`] can run at the same time as any other, on any thread.
//! No call waits for another: a thread that stops in the middle of a call blocks no other.
//! Calls that name the same CPU may overlap as far as the [`PerCpu`] allows.
//!
//! # Which `PerCpu`
//! | | for |
//! |---|---|
//! | [`TryLock`] | most uses: threads, interrupt handlers and signal handlers can all call |
//! | [`Exclusive`] | a kernel that calls with preemption off and never in an interrupt: no lock on a hit |
//! | [`Alone`] | one caller at a time: a simulator, a kernel before it starts its other CPUs |
//! | `Rseq`, of the crate `pageyard-arena` | a process on Linux (x86-64): no lock, safe in signal handlers |
//!
//! [`Exclusive`] and [`Alone`] are made by `unsafe` functions that say what the caller promises.
//!
//! # Further reading
//! In the repository: `docs/design/frame-map.md` (the protocol, and why no frame has two owners), `docs/design/pcp.md`
//! (per-CPU lists), `docs/design/compaction.md`, and `examples/` beside this crate: a hypervisor, a kernel's frame
//! allocator, the frame traits of the `x86_64` crate, a program without std.
//!
//! [`engine`] is the allocator; everything else is from [`pageyard_core`], which all engines share.
#![no_std]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(pageyard_loom)]
extern crate std;

#[cfg(not(pageyard_loom))]
mod boot;
mod builder;
pub mod engine;
#[cfg(not(pageyard_loom))]
mod kernel;
mod placement;

#[cfg(not(pageyard_loom))]
pub use boot::{BootFrames, GiveError};
pub use builder::Builder;
#[cfg(not(pageyard_loom))]
pub use kernel::KernelFrames;

#[cfg(feature = "alloc")]
pub use engine::OwnedPageyard;
pub use engine::{Accept, Alone, Config, Exclusive, Metadata, MetadataLayout, Pageyard, PerCpu, TryLock};
pub use pageyard_core::*;
