//! The frame allocator of a whole kernel, asked for a layout, as ostd's `GlobalFrameAllocator` is.

use pageyard::{CpuId, FirmwareMap, KernelFrames, PAGE_SIZE, PhysAddr, ZoneLimits};
use std::alloc::Layout;

type Paddr = usize;

/// The shape of `ostd::mm::frame::GlobalFrameAllocator`.
trait GlobalFrameAllocator: Sync {
    fn alloc(&self, layout: Layout) -> Option<Paddr>;
    fn dealloc(&self, addr: Paddr, size: usize);
    fn add_free_memory(&self, addr: Paddr, size: usize);
}

static FRAMES: KernelFrames = KernelFrames::new();

struct Yard;

/// A kernel asks its own per-CPU data.
fn here() -> CpuId {
    CpuId(0)
}

impl GlobalFrameAllocator for Yard {
    fn alloc(&self, layout: Layout) -> Option<Paddr> {
        FRAMES.alloc_layout(here(), layout).ok().map(|at| at.0 as Paddr)
    }

    /// Frees what one `alloc` returned, or any part of it, as ostd does when it drops a segment frame by frame.
    fn dealloc(&self, addr: Paddr, size: usize) {
        FRAMES.free_bytes(here(), PhysAddr(addr as u64), size as u64).expect("these frames are allocated");
    }

    /// Takes what the kernel's early allocator had.
    fn add_free_memory(&self, addr: Paddr, size: usize) {
        // SAFETY: the kernel says that the memory is free and its own; here it is no memory at all.
        unsafe { FRAMES.add(here(), PhysAddr(addr as u64), size as u64) }.expect("it lies in a zone");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut firmware = FirmwareMap::<8>::new(ZoneLimits::X86_64);
    firmware.usable(0..0x9_f000)?.usable(0x10_0000..0x2000_0000)?.reserved(0x100_0000..0x180_0000)?;
    let place = KernelFrames::place(&mut firmware, 1, 0x2000_0000)?;
    // A kernel maps these frames; this program has no such memory.
    let memory = vec![0; (place.end - place.start).as_bytes() as usize];
    FRAMES.init(&firmware, 1, Box::leak(memory.into_boxed_slice()))?;

    for (size, align) in [(4096, 4096), (1, 1), (3 * 4096, 4096), (4096, 1 << 21), (64 << 20, 4096)] {
        let addr = Yard.alloc(Layout::from_size_align(size, align)?).ok_or("no memory")?;
        println!("{size:9} bytes aligned to {align:7}: {addr:#x}");
        assert!(addr.is_multiple_of(align) && !(0x100_0000..0x180_0000).contains(&addr));
        Yard.dealloc(addr, size.next_multiple_of(PAGE_SIZE as usize));
    }
    // A segment of three frames, given up one by one and not in order.
    let segment = Yard.alloc(Layout::from_size_align(3 * 4096, 4096)?).ok_or("no memory")?;
    for at in [1, 0, 2] {
        Yard.dealloc(segment + at * 4096, 4096);
    }
    // The early allocator is done with five pages of the kernel's image.
    Yard.add_free_memory(0x100_3000, 5 * 4096);
    assert_eq!(Yard.alloc(Layout::from_size_align(1 << 40, 4096)?), None);
    let census = FRAMES.yard().ok_or("set up")?.audit()?;
    assert!(census.is_conserved());
    Ok(())
}
