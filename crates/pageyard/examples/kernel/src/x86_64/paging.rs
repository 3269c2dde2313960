//! Page tables whose frames are the allocator's, by the adapter to the crate `x86_64`.

use super::cpu;
use crate::{FRAMES, Failed, say};
use pageyard_x86_64::CpuFrames;
use x86_64::VirtAddr;
use x86_64::registers::control::Cr3;
use x86_64::structures::paging::mapper::CleanUp;
use x86_64::structures::paging::{
    FrameAllocator, FrameDeallocator, Mapper, OffsetPageTable, Page, PageSize, PageTable, PageTableFlags,
    PhysFrame, Size2MiB, Size4KiB,
};

/// Maps a page and a large page, writes through them, and unmaps them: nothing is left.
pub fn map_pages() -> Result<(), Failed> {
    let top = Cr3::read().0.start_address().as_u64() as *mut PageTable;
    // SAFETY: memory lies at its addresses, and nothing else has the tables now.
    let mut tables = unsafe { OffsetPageTable::new(&mut *top, VirtAddr::new(0)) };
    // SAFETY: the allocator's frames are memory that nothing else uses.
    let mut frames = unsafe { CpuFrames::new(FRAMES.cpu(cpu())?) };
    map::<Size4KiB, _>(&mut tables, &mut frames, 0x4444_4444_0000)?;
    map::<Size2MiB, _>(&mut tables, &mut frames, 0x5555_4000_0000)?;
    // SAFETY: the tables of the start are in use, and none of them is empty.
    unsafe { tables.clean_up(&mut frames) };
    match frames.refused() {
        None => Ok(()),
        Some((pfn, why)) => {
            say!("frame {pfn} was not taken back: {why}");
            Err(Failed::Free(why))
        }
    }
}

fn map<S: PageSize, F>(tables: &mut OffsetPageTable<'_>, frames: &mut F, at: u64) -> Result<(), Failed>
where
    for<'a> OffsetPageTable<'a>: Mapper<S>,
    F: FrameAllocator<S> + FrameDeallocator<S> + FrameAllocator<Size4KiB>,
{
    let frame: PhysFrame<S> = frames.allocate_frame().ok_or(Failed::Said("no frame for a page"))?;
    let page = Page::<S>::containing_address(VirtAddr::new(at));
    let flags = PageTableFlags::PRESENT | PageTableFlags::WRITABLE;
    // SAFETY: nothing is mapped there, and the frame is this one's.
    let mapped = unsafe { tables.map_to(page, frame, flags, frames) };
    mapped.map_err(|_| Failed::Said("a page could not be mapped"))?.flush();
    let (there, here) = ((at + 8) as *mut u64, (frame.start_address().as_u64() + 8) as *const u64);
    // SAFETY: both are the frame's second word.
    let reads = unsafe {
        there.write_volatile(at);
        here.read_volatile()
    };
    if reads != at {
        return Err(Failed::Said("a page leads to another frame"));
    }
    let (frame, flush) = tables.unmap(page).map_err(|_| Failed::Said("a page could not be unmapped"))?;
    flush.flush();
    // SAFETY: nothing is mapped to it any more.
    unsafe { frames.deallocate_frame(frame) };
    say!("mapped {} KiB at {at:#x}", S::SIZE >> 10);
    Ok(())
}
