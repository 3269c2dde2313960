//! Page frames for the Hermit unikernel, in the ranges of its crate `free-list` (0.3): the three calls of its
//! `PageRangeAllocator` (as of mid-2026), by their names.
//!
//! Hermit's trait is inside its kernel, and its calls have no receiver: there, a unit type hands them to a static.
//!
//! ```
//! use free_list::{PageLayout, PageRange};
//! use pageyard_hermit::{HermitFrames, Kernel, Refused};
//!
//! # static MEMORY: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
//! # fn to_virt(at: pageyard_hermit::PhysAddr) -> *mut u8 {
//! #     let base = MEMORY.get_or_init(|| Box::leak(vec![0_u8; 64 << 20].into_boxed_slice()).as_mut_ptr() as usize);
//! #     (*base + at.0 as usize) as *mut u8
//! # }
//! // SAFETY: memory that is given is mapped where `to_virt` says.
//! static FRAMES: HermitFrames = unsafe { HermitFrames::new(Kernel { core: || 0, cores: || 2, to_virt }) };
//!
//! struct FrameAlloc; // in the kernel: `impl PageRangeAllocator for FrameAlloc`
//! impl FrameAlloc {
//!     fn allocate(layout: PageLayout) -> Result<PageRange, Refused> {
//!         FRAMES.allocate(layout)
//!     }
//!     fn allocate_at(range: PageRange) -> Result<(), Refused> {
//!         FRAMES.allocate_at(range)
//!     }
//!     unsafe fn deallocate(range: PageRange) -> Result<(), Refused> {
//!         // SAFETY: the caller's promise.
//!         unsafe { FRAMES.deallocate(range) }
//!     }
//! }
//!
//! // SAFETY: the memory is free; Hermit gives it the same way.
//! unsafe { FrameAlloc::deallocate(PageRange::new(0x10_0000, 0x200_0000).unwrap()) }.unwrap();
//! let pages = FrameAlloc::allocate(PageLayout::from_size(0x3000).unwrap()).unwrap();
//! // SAFETY: it was allocated, and nothing uses it.
//! unsafe { FrameAlloc::deallocate(pages) }.unwrap();
//! ```

#![no_std]

use core::alloc::Layout;
use core::fmt;
use free_list::{PageLayout, PageRange};
use pageyard::reclaim::NoHelp;
use pageyard::{
    AllocError, BootFrames, ContigError, CpuId, Cx, Frames, GiveError, KernelFrames, Migratetype,
};

pub use pageyard::PhysAddr;

/// The functions of a kernel that its allocator calls.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// Returns the core that the caller runs on; it may move to another one meanwhile.
    pub core: fn() -> u32,
    /// Returns how many cores there are, when the first frame is allocated.
    pub cores: fn() -> u32,
    /// Returns where memory is mapped.
    pub to_virt: fn(PhysAddr) -> *mut u8,
}

/// Why a call was refused: in Hermit, its `AllocError`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// No memory for a layout.
    Alloc(AllocError),
    /// Pages of a range that are not free, or not there.
    Range(ContigError),
    /// A range that is not allocated, or that cannot be added.
    Give(GiveError),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Alloc(why) => why.fmt(f),
            Refused::Range(why) => why.fmt(f),
            Refused::Give(why) => why.fmt(f),
        }
    }
}

impl core::error::Error for Refused {}

/// The page frames of a Hermit kernel, for its static.
///
/// Ranges that are deallocated before the first allocation are its memory; that allocation sets an instance up, with
/// its metadata in that memory.
pub struct HermitFrames {
    boot: BootFrames,
    core: fn() -> u32,
}

impl HermitFrames {
    /// Makes it, without memory.
    ///
    /// # Safety
    /// Memory that is given before the first allocation is mapped and writable where `to_virt` says, each range in one
    /// piece.
    #[must_use]
    pub const unsafe fn new(kernel: Kernel) -> HermitFrames {
        // SAFETY: the caller's promise.
        HermitFrames { boot: unsafe { BootFrames::new(kernel.cores, kernel.to_virt) }, core: kernel.core }
    }

    /// Allocates a range of pages.
    ///
    /// # Errors
    /// [`Refused::Alloc`].
    pub fn allocate(&self, layout: PageLayout) -> Result<PageRange, Refused> {
        let refused = Refused::Alloc(AllocError::OutOfMemory);
        let whole = Layout::from_size_align(layout.size(), layout.align()).map_err(|_| refused)?;
        let at = self.boot.alloc_layout(self.here().cpu, whole).map_err(Refused::Alloc)?;
        PageRange::from_start_len(at.0 as usize, layout.size()).map_err(|_| refused)
    }

    /// Allocates exactly these pages.
    ///
    /// # Errors
    /// [`Refused::Range`] names a page that is in use, or not there; [`Refused::Alloc`] where there is no memory at
    /// all.
    pub fn allocate_at(&self, range: PageRange) -> Result<(), Refused> {
        self.boot.set_up().map_err(|_| Refused::Alloc(AllocError::OutOfMemory))?;
        let yard = self.frames().yard().ok_or(Refused::Alloc(AllocError::OutOfMemory))?;
        let (first, frames) = (PhysAddr(range.start() as u64).pfn(), Frames(range.pages().get() as u64));
        yard.alloc_contig_range(&self.here(), first, frames, Migratetype::Unmovable, &NoHelp)
            .map_err(Refused::Range)
    }

    /// Frees pages, any part of an allocation at a time, or adds memory that was never allocated.
    ///
    /// # Errors
    /// [`Refused::Give`].
    ///
    /// # Safety
    /// The pages are allocated and in use no more, or they are memory that nothing uses.
    pub unsafe fn deallocate(&self, range: PageRange) -> Result<(), Refused> {
        let (at, bytes) = (PhysAddr(range.start() as u64), range.len().get() as u64);
        // SAFETY: the caller's promise.
        unsafe { self.boot.give(self.here().cpu, at, bytes) }.map_err(Refused::Give)
    }

    /// Returns the frames behind it, for reports and for all that the trait has no call for.
    pub fn frames(&self) -> &KernelFrames {
        self.boot.frames()
    }

    fn here(&self) -> Cx {
        Cx::on(CpuId((self.core)()))
    }
}
