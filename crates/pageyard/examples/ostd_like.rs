//! The frame allocator of a whole kernel, asked for a layout, as ostd's `GlobalFrameAllocator` is. It serves `alloc`
//! and `dealloc`; memory that a kernel adds later (`add_free_memory`) is not served.

use pageyard::{
    Config, CpuId, Cx, FirmwareMap, Frames, Migratetype, Order, OwnedPageyard, PAGE_SIZE, Pageyard, Pfn,
    Request, TryLock, ZoneLimits,
};
use std::alloc::Layout;
use std::sync::OnceLock;

type Paddr = usize;

/// The shape of `ostd::mm::frame::GlobalFrameAllocator`.
trait GlobalFrameAllocator: Sync {
    fn alloc(&self, layout: Layout) -> Option<Paddr>;
    fn dealloc(&self, addr: Paddr, size: usize);
}

struct Yard(OnceLock<OwnedPageyard<TryLock>>);

static FRAMES: Yard = Yard(OnceLock::new());

/// A kernel asks its own per-CPU data.
fn here() -> Cx {
    Cx::on(CpuId(0))
}

impl GlobalFrameAllocator for Yard {
    /// Serves any size and alignment, with exactly as many frames as the size takes.
    fn alloc(&self, layout: Layout) -> Option<Paddr> {
        let align =
            Order::new((layout.align().max(PAGE_SIZE as usize) / PAGE_SIZE as usize).trailing_zeros() as u8)?;
        let request = Request::new(Order::ZERO, Migratetype::Unmovable);
        let pfn = self.0.get()?.alloc_exact(&here(), frames(layout.size()), align, &request).ok()?;
        Some((pfn.0 * PAGE_SIZE) as Paddr)
    }

    /// Frees frames that are allocated: what one `alloc` returned, or any part of it, as ostd does when it drops a
    /// segment frame by frame.
    fn dealloc(&self, addr: Paddr, size: usize) {
        let (yard, first) = (self.0.get().expect("set up"), Pfn(addr as u64 / PAGE_SIZE));
        yard.free_range(&here(), first, frames(size)).expect("these frames are allocated");
    }
}

/// Returns how many frames so many bytes take, at least one.
fn frames(bytes: usize) -> Frames {
    Frames((bytes as u64).div_ceil(PAGE_SIZE).max(1))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut firmware = FirmwareMap::<8>::new(ZoneLimits::X86_64);
    firmware.usable(0..0x9_f000)?.usable(0x10_0000..0x2000_0000)?.reserved(0x100_0000..0x180_0000)?;
    let yard = Pageyard::owned(&firmware.regions()?.map(), Config::new(1), TryLock)?;
    FRAMES.0.set(yard).map_err(|_| "set up twice")?;

    for (size, align) in [(4096, 4096), (1, 1), (3 * 4096, 4096), (4096, 1 << 21), (64 << 20, 4096)] {
        let addr = FRAMES.alloc(Layout::from_size_align(size, align)?).ok_or("no memory")?;
        println!("{size:9} bytes aligned to {align:7}: {addr:#x}");
        assert!(addr.is_multiple_of(align) && !(0x100_0000..0x180_0000).contains(&addr));
        FRAMES.dealloc(addr, size);
    }
    // A segment of three frames, given up one by one and not in order.
    let segment = FRAMES.alloc(Layout::from_size_align(3 * 4096, 4096)?).ok_or("no memory")?;
    for at in [1, 0, 2] {
        FRAMES.dealloc(segment + at * 4096, 4096);
    }
    assert_eq!(FRAMES.alloc(Layout::from_size_align(1 << 40, 4096)?), None);
    let census = FRAMES.0.get().ok_or("set up")?.audit()?;
    assert!(census.is_conserved());
    Ok(())
}
