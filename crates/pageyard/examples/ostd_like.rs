//! The frame allocator of a whole kernel, asked for a layout, as ostd's `GlobalFrameAllocator` is.

use pageyard::{
    Config, CpuId, Cx, FirmwareMap, Migratetype, Order, OwnedPageyard, PAGE_SIZE, Pageyard, Pfn, Request,
    TryLock, ZoneLimits,
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
    /// Serves any size and alignment with one block, which is aligned to its own size.
    fn alloc(&self, layout: Layout) -> Option<Paddr> {
        let bytes = layout.size().max(layout.align()).max(PAGE_SIZE as usize).checked_next_power_of_two()?;
        let order = Order::new((bytes / PAGE_SIZE as usize).trailing_zeros() as u8)?;
        let pfn = self.0.get()?.alloc(&here(), &Request::new(order, Migratetype::Unmovable)).ok()?;
        Some((pfn.0 * PAGE_SIZE) as Paddr)
    }

    /// Frees what one `alloc` returned: the allocator knows how large the block is.
    fn dealloc(&self, addr: Paddr, _: usize) {
        let (yard, pfn) = (self.0.get().expect("set up"), Pfn(addr as u64 / PAGE_SIZE));
        let freed = yard.order_of(pfn).is_some_and(|order| yard.free(&here(), pfn, order).is_ok());
        assert!(freed, "no block starts at {addr:#x}");
    }
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
    assert_eq!(FRAMES.alloc(Layout::from_size_align(1 << 40, 4096)?), None);
    let census = FRAMES.0.get().ok_or("set up")?.audit()?;
    assert!(census.is_conserved());
    Ok(())
}
