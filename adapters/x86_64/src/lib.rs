//! Frames for the page tables and mappings of the `x86_64` crate (0.15), in all three of its page sizes.
//!
//! ```
//! use pageyard::Pageyard;
//! use pageyard_x86_64::CpuFrames;
//! use x86_64::structures::paging::{FrameAllocator, FrameDeallocator, PhysFrame, Size2MiB};
//!
//! let yard = Pageyard::builder().cpus(2).usable(0x10_0000..0x4000_0000).build()?;
//! // SAFETY: here, frames are numbers: nothing is written to them. A kernel's engine has its free memory.
//! let mut frames = unsafe { CpuFrames::new(yard.cpu(0)?) };
//! let huge: PhysFrame<Size2MiB> = frames.allocate_frame().ok_or("no memory")?;
//! // SAFETY: nothing uses it.
//! unsafe { frames.deallocate_frame(huge) };
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![no_std]

use pageyard_core::{Cpu, FreeError, Order, PAGE_SIZE, PageAllocator, Pfn};
use x86_64::PhysAddr;
use x86_64::structures::paging::{FrameAllocator, FrameDeallocator, PageSize, PhysFrame};

/// Frames of an allocator, on one CPU.
#[derive(Debug)]
pub struct CpuFrames<'a, A> {
    cpu: Cpu<'a, A>,
    refused: Option<(Pfn, FreeError)>,
}

impl<'a, A: PageAllocator> CpuFrames<'a, A> {
    /// Makes a frame allocator that allocates and frees through the handle of one CPU.
    ///
    /// # Safety
    /// The allocator's frames are memory that nothing else uses: page tables are written to them.
    #[must_use]
    pub const unsafe fn new(cpu: Cpu<'a, A>) -> CpuFrames<'a, A> {
        CpuFrames { cpu, refused: None }
    }

    /// Returns the last frame that was not taken back, and why: the trait has no way to say so.
    #[must_use]
    pub const fn refused(&self) -> Option<(Pfn, FreeError)> {
        self.refused
    }
}

const fn order_of<S: PageSize>() -> Order {
    Order::of((S::SIZE / PAGE_SIZE).trailing_zeros() as u8)
}

// SAFETY: `PageAllocator` promises that a block has one owner, and is aligned to its size; `new` was promised that it
// is unused memory.
unsafe impl<A: PageAllocator, S: PageSize> FrameAllocator<S> for CpuFrames<'_, A> {
    #[inline]
    fn allocate_frame(&mut self) -> Option<PhysFrame<S>> {
        let pfn = self.cpu.alloc(order_of::<S>()).ok()?;
        // Both hold for every frame: numbers end at 4 PiB, as addresses do, and a block is aligned to its size.
        PhysFrame::from_start_address(PhysAddr::try_new(pfn.address().0).ok()?).ok()
    }
}

impl<A: PageAllocator, S: PageSize> FrameDeallocator<S> for CpuFrames<'_, A> {
    #[inline]
    unsafe fn deallocate_frame(&mut self, frame: PhysFrame<S>) {
        let pfn = Pfn(frame.start_address().as_u64() / PAGE_SIZE);
        if let Err(why) = self.cpu.free(pfn, order_of::<S>()) {
            self.refused = Some((pfn, why));
        }
    }
}
