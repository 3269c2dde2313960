//! Page tables that are walked, with tables and pages from an allocator.

use pageyard::{Frames, FreeError, PAGE_SIZE, Pageyard, Pfn};
use pageyard_x86_64::CpuFrames;
use x86_64::structures::paging::{
    FrameAllocator, FrameDeallocator, Mapper, OffsetPageTable, Page, PageTable, PageTableFlags, PhysFrame,
    Size1GiB, Size2MiB, Size4KiB, Translate,
};
use x86_64::{PhysAddr, VirtAddr};

#[test]
fn tables_and_pages_come_from_the_allocator_and_go_back() {
    // The machine: 16 MiB, seen at an offset. Frame 0 holds the root of the page tables, so it is not usable.
    let mut memory = vec![PageTable::new(); 4096];
    let offset = VirtAddr::from_ptr(memory.as_mut_ptr());
    let yard = Pageyard::builder().usable(PAGE_SIZE..16 << 20).build().unwrap();
    // SAFETY: its frames are the machine's.
    let mut frames = unsafe { CpuFrames::new(yard.cpu(0).unwrap()) };

    let huge: PhysFrame<Size2MiB> = frames.allocate_frame().unwrap();
    let page = Page::<Size2MiB>::containing_address(VirtAddr::new(0x4000_0000));
    // SAFETY: 1. All of the machine is mapped at `offset`. 2. Nothing else uses its tables: the vector is not touched
    // below.
    let mut tables = unsafe { OffsetPageTable::new(&mut *offset.as_mut_ptr::<PageTable>(), offset) };
    // SAFETY: no processor uses these tables.
    unsafe { tables.map_to(page, huge, PageTableFlags::PRESENT, &mut frames) }.unwrap().ignore();
    let inside = page.start_address() + 0x1234;
    assert_eq!(tables.translate_addr(inside), Some(huge.start_address() + 0x1234));
    // SAFETY: nothing uses it any more: no processor has these tables.
    unsafe { frames.deallocate_frame(huge) };
    assert_eq!(yard.audit().unwrap().allocated, Frames(2), "the two tables on the way");
    let one: Option<PhysFrame<Size4KiB>> = frames.allocate_frame();
    assert!(one.is_some() && frames.refused().is_none());
}

#[test]
fn what_there_is_not_is_none_and_a_wrong_free_is_told() {
    let yard = Pageyard::builder().usable(0..4 << 20).build().unwrap();
    // SAFETY: nothing is written to them.
    let mut frames = unsafe { CpuFrames::new(yard.cpu(0).unwrap()) };
    let none: Option<PhysFrame<Size1GiB>> = frames.allocate_frame();
    assert!(none.is_none());
    let at = |pfn: u64| PhysFrame::<Size4KiB>::from_start_address(PhysAddr::new(pfn * PAGE_SIZE)).unwrap();
    let one: PhysFrame<Size4KiB> = frames.allocate_frame().unwrap();
    // SAFETY: nothing is memory here.
    unsafe {
        frames.deallocate_frame(one);
        frames.deallocate_frame(one);
        assert_eq!(frames.refused().map(|(_, why)| why), Some(FreeError::NotAllocated));
        frames.deallocate_frame(at(4096));
        assert_eq!(frames.refused(), Some((Pfn(4096), FreeError::OutsideArena)));
    }
    assert_eq!(yard.audit().unwrap().allocated, Frames::ZERO);
}
