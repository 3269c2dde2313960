//! Frames for the page tables and mappings of the `x86_64` crate, of all three of its page sizes.

use pageyard::{Cpu, Frames, Order, PAGE_SIZE, PageAllocator, Pageyard, Pfn};
use x86_64::structures::paging::{
    FrameAllocator, FrameDeallocator, Mapper, OffsetPageTable, Page, PageSize, PageTable, PageTableFlags,
    PhysFrame, Size2MiB, Size4KiB, Translate,
};
use x86_64::{PhysAddr, VirtAddr};

/// Any allocator, on one CPU.
struct Physical<'a, A>(Cpu<'a, A>);

fn order<S: PageSize>() -> Order {
    Order::of((S::SIZE / PAGE_SIZE).trailing_zeros() as u8)
}

// SAFETY: `PageAllocator` promises that a block has one owner, and is aligned to its size.
unsafe impl<A: PageAllocator, S: PageSize> FrameAllocator<S> for Physical<'_, A> {
    fn allocate_frame(&mut self) -> Option<PhysFrame<S>> {
        let pfn = self.0.alloc(order::<S>()).ok()?;
        PhysFrame::from_start_address(PhysAddr::new(pfn.address().0)).ok()
    }
}

impl<A: PageAllocator, S: PageSize> FrameDeallocator<S> for Physical<'_, A> {
    unsafe fn deallocate_frame(&mut self, frame: PhysFrame<S>) {
        let pfn = Pfn(frame.start_address().as_u64() / PAGE_SIZE);
        self.0.free(pfn, order::<S>()).expect("a frame that was allocated");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The machine: 16 MiB, seen at an offset. Frame 0 holds the root of the page tables, so it is not usable.
    let mut memory = vec![PageTable::new(); 4096];
    let offset = VirtAddr::from_ptr(memory.as_mut_ptr());
    let yard = Pageyard::builder().usable(PAGE_SIZE..16 << 20).build()?;
    let mut frames = Physical(yard.cpu(0)?);

    let huge: PhysFrame<Size2MiB> = frames.allocate_frame().ok_or("no huge frame")?;
    let page = Page::<Size2MiB>::containing_address(VirtAddr::new(0x4000_0000));
    // SAFETY: 1. All of the machine is mapped at `offset`. 2. Nothing else uses its tables: the vector is not touched
    // below.
    let mut tables = unsafe { OffsetPageTable::new(&mut *offset.as_mut_ptr::<PageTable>(), offset) };
    // SAFETY: no processor uses these tables.
    unsafe { tables.map_to(page, huge, PageTableFlags::PRESENT, &mut frames) }
        .map_err(|_| "no table")?
        .ignore();
    let inside = page.start_address() + 0x1234;
    assert_eq!(tables.translate_addr(inside), Some(huge.start_address() + 0x1234));
    println!("{inside:?} is {:?}, through two tables that were allocated on the way", huge.start_address());
    // SAFETY: nothing uses it any more: no processor has these tables.
    unsafe { frames.deallocate_frame(huge) };
    assert_eq!(yard.audit()?.allocated, Frames(2));
    let one: Option<PhysFrame<Size4KiB>> = frames.allocate_frame();
    assert!(one.is_some());
    Ok(())
}
