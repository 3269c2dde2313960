//! The frame allocator of a kernel on OSTD (Asterinas; its trait as of 0.17), with Pageyard behind it.
//!
//! OSTD is not a dependency. A kernel names the trait, and says how it finds its CPU and its memory:
//!
//! ```
//! # mod ostd {
//! #     pub mod mm {
//! #         pub type Paddr = usize;
//! #         pub fn paddr_to_vaddr(at: usize) -> usize { at }
//! #         pub mod frame {
//! #             pub trait GlobalFrameAllocator: Sync {
//! #                 fn alloc(&self, layout: core::alloc::Layout) -> Option<usize>;
//! #                 fn dealloc(&self, addr: usize, size: usize);
//! #                 fn add_free_memory(&self, addr: usize, size: usize);
//! #             }
//! #         }
//! #     }
//! #     pub mod cpu { pub fn num_cpus() -> usize { 4 } pub fn current() -> u32 { 0 } }
//! # }
//! use pageyard_ostd::{Kernel, OstdFrames};
//!
//! // SAFETY: only OSTD adds memory, and maps all of it where `paddr_to_vaddr` says.
//! static FRAMES: OstdFrames = unsafe {
//!     OstdFrames::new(Kernel {
//!         cpu: ostd::cpu::current,
//!         cpus: || ostd::cpu::num_cpus() as u32,
//!         to_virt: |at| ostd::mm::paddr_to_vaddr(at.0 as usize) as *mut u8,
//!     })
//! };
//!
//! struct Allocator;
//! pageyard_ostd::implement!(Allocator => FRAMES: ostd::mm::frame::GlobalFrameAllocator);
//!
//! // With `#[ostd::global_frame_allocator]` before it.
//! static ALLOCATOR: Allocator = Allocator;
//! # fn main() {
//! #     use ostd::mm::frame::GlobalFrameAllocator;
//! #     assert!(ALLOCATOR.alloc(core::alloc::Layout::new::<u8>()).is_none());
//! # }
//! ```

#![no_std]

use core::alloc::Layout;
// ORDER: Relaxed: a count orders nothing.
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use pageyard::{BootFrames, CpuId, KernelFrames, PhysAddr};

/// The functions of a kernel that its allocator calls.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// Returns the CPU that the caller runs on. OSTD calls with interrupts off, so it does not change meanwhile.
    pub cpu: fn() -> u32,
    /// Returns how many CPUs there are, when the first frame is allocated.
    pub cpus: fn() -> u32,
    /// Returns where memory is mapped.
    pub to_virt: fn(PhysAddr) -> *mut u8,
}

/// The frames of a kernel on OSTD, for its static: the three calls of OSTD's trait, by their names.
///
/// OSTD adds memory while it boots; the first allocation sets an instance up, with its metadata in that memory. Calls
/// come with interrupts off. What the trait cannot refuse is [counted](OstdFrames::refused).
pub struct OstdFrames {
    boot: BootFrames,
    cpu: fn() -> u32,
    refused: AtomicU64,
}

impl OstdFrames {
    /// Makes it, without memory.
    ///
    /// # Safety
    /// Only OSTD calls [`add_free_memory`](OstdFrames::add_free_memory), with memory that is free. What it adds while
    /// it boots is mapped and writable where `to_virt` says, each range in one piece.
    #[must_use]
    pub const unsafe fn new(kernel: Kernel) -> OstdFrames {
        // SAFETY: the caller's promise.
        let boot = unsafe { BootFrames::new(kernel.cpus, kernel.to_virt) };
        OstdFrames { boot, cpu: kernel.cpu, refused: AtomicU64::new(0) }
    }

    /// Allocates frames that follow each other: as many as the layout's size, aligned as it says.
    pub fn alloc(&self, layout: Layout) -> Option<usize> {
        self.boot.alloc_layout(self.here(), layout).ok().map(|at| at.0 as usize)
    }

    /// Frees what one `alloc` returned, or any part of it, in any order: OSTD drops a segment frame by frame.
    pub fn dealloc(&self, addr: usize, size: usize) {
        let done = self.boot.frames().free_bytes(self.here(), PhysAddr(addr as u64), size as u64);
        self.note(done.is_ok());
    }

    /// Takes free memory while the kernel boots, and later what its early allocator had.
    pub fn add_free_memory(&self, addr: usize, size: usize) {
        // SAFETY: OSTD adds memory that is free, by the promise to `new`.
        let done = unsafe { self.boot.give(self.here(), PhysAddr(addr as u64), size as u64) };
        self.note(done.is_ok());
    }

    /// Returns how many calls failed that cannot report an error through the trait: invalid frees, and memory that
    /// could not be added.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Returns the frames behind it, for reports and for all that the trait has no call for.
    pub fn frames(&self) -> &KernelFrames {
        self.boot.frames()
    }

    fn here(&self) -> CpuId {
        CpuId((self.cpu)())
    }

    fn note(&self, done: bool) {
        if !done {
            self.refused.fetch_add(1, Relaxed);
        }
    }
}

/// Implements OSTD's `GlobalFrameAllocator`, whose path is given, for a type that hands every call to a static of
/// [`OstdFrames`]: `implement!(Allocator => FRAMES: ostd::mm::frame::GlobalFrameAllocator)`.
#[macro_export]
macro_rules! implement {
    ($type:ident => $frames:path: $($trait:tt)+) => {
        impl $($trait)+ for $type {
            fn alloc(&self, layout: ::core::alloc::Layout) -> ::core::option::Option<usize> {
                $frames.alloc(layout)
            }

            fn dealloc(&self, addr: usize, size: usize) {
                $frames.dealloc(addr, size);
            }

            fn add_free_memory(&self, addr: usize, size: usize) {
                $frames.add_free_memory(addr, size);
            }
        }
    };
}
