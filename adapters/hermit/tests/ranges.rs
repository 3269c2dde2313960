//! The calls that Hermit's kernel makes: ranges given while it boots, allocated by layout and by place, and freed in
//! parts.

use free_list::{PageLayout, PageRange};
use pageyard_hermit::{HermitFrames, Kernel, PhysAddr, Refused};
use std::sync::OnceLock;

const MIB: usize = 1 << 20;

fn to_virt(at: PhysAddr) -> *mut u8 {
    static MEMORY: OnceLock<usize> = OnceLock::new();
    let start = *MEMORY
        .get_or_init(|| Box::leak(vec![0_u8; 64 * MIB].into_boxed_slice()).as_mut_ptr().expose_provenance());
    std::ptr::with_exposed_provenance_mut(start + at.0 as usize)
}

const KERNEL: Kernel = Kernel { core: || 0, cores: || 2, to_virt };

fn range(start: usize, end: usize) -> PageRange {
    PageRange::new(start, end).unwrap()
}

fn free(frames: &HermitFrames, pages: PageRange) -> Result<(), Refused> {
    // SAFETY: nothing uses it: no page of this machine but the metadata's is touched.
    unsafe { frames.deallocate(pages) }
}

/// Checks the books; returns how many bytes are free.
fn free_bytes(frames: &HermitFrames) -> u64 {
    let yard = frames.frames().yard().unwrap();
    yard.drain(pageyard::CpuSet::All);
    let census = yard.audit().unwrap();
    assert!(census.is_conserved(), "{census:?}");
    census.free.as_bytes()
}

#[test]
fn ranges_come_and_go_by_layout_and_by_place() {
    // SAFETY: the machine's memory lies where `to_virt` says.
    static FRAMES: HermitFrames = unsafe { HermitFrames::new(KERNEL) };
    let layout = |size, align| PageLayout::from_size_align(size, align).unwrap();
    assert!(
        matches!(FRAMES.allocate(layout(0x1000, 0x1000)), Err(Refused::Alloc(_))),
        "there is no memory yet"
    );
    // Ranges of a device tree, with the kernel's image between them.
    free(&FRAMES, range(0x1000, 0x5000)).unwrap();
    free(&FRAMES, range(MIB, 4 * MIB)).unwrap();
    free(&FRAMES, range(6 * MIB + 0x3000, 40 * MIB)).unwrap();
    // A place that there is, in part of it, again, across a hole, and where there is none.
    FRAMES.allocate_at(range(0x2000, 0x4000)).unwrap();
    let before = free_bytes(&FRAMES);
    for taken in
        [range(0x2000, 0x3000), range(0x1000, 0x5000), range(3 * MIB, 7 * MIB), range(50 * MIB, 51 * MIB)]
    {
        assert!(matches!(FRAMES.allocate_at(taken), Err(Refused::Range(_))), "{taken}");
    }
    assert_eq!(free_bytes(&FRAMES), before, "nothing is kept of what was refused");
    free(&FRAMES, range(0x3000, 0x4000)).unwrap();
    FRAMES.allocate_at(range(0x3000, 0x5000)).unwrap();
    free(&FRAMES, range(0x2000, 0x5000)).unwrap();
    assert_eq!(free_bytes(&FRAMES), before + 0x2000);

    let all = free_bytes(&FRAMES);
    for (size, align) in
        [(0x1000, 0x1000), (0x3000, 0x1000), (0x4000, 0x4000), (0x1000, 2 * MIB), (3 * MIB, 0x1000)]
    {
        let pages = FRAMES.allocate(layout(size, align)).unwrap();
        assert!(pages.start().is_multiple_of(align) && pages.len().get() == size, "{pages}");
        assert!(FRAMES.allocate_at(pages).is_err(), "it is in use");
        // In parts, the last one first.
        let cut = pages.start() + size / 2 / 0x1000 * 0x1000;
        free(&FRAMES, range(cut, pages.end())).unwrap();
        if cut > pages.start() {
            free(&FRAMES, range(pages.start(), cut)).unwrap();
        }
    }
    assert_eq!(free_bytes(&FRAMES), all);
    // The image's memory is given when the kernel has started.
    free(&FRAMES, range(4 * MIB, 6 * MIB + 0x3000)).unwrap();
    assert_eq!(free_bytes(&FRAMES), all + 2 * MIB as u64 + 0x3000);
    let big = FRAMES.allocate(layout(16 * MIB, 2 * MIB)).unwrap();
    free(&FRAMES, big).unwrap();
}

#[test]
fn wrong_ranges_are_values() {
    // SAFETY: as above; another part of the machine.
    static FRAMES: HermitFrames = unsafe { HermitFrames::new(KERNEL) };
    assert!(matches!(FRAMES.allocate_at(range(0x1000, 0x2000)), Err(Refused::Alloc(_))));
    free(&FRAMES, range(48 * MIB, 60 * MIB)).unwrap();
    let pages = FRAMES.allocate(PageLayout::from_size(0x2000).unwrap()).unwrap();
    free(&FRAMES, pages).unwrap();
    let all = free_bytes(&FRAMES);
    for wrong in [pages, range(0, 0x1000), range(usize::MAX - 0x1fff, usize::MAX & !0xfff)] {
        let refused = free(&FRAMES, wrong).unwrap_err();
        assert!(matches!(refused, Refused::Give(_)) && !refused.to_string().is_empty(), "{wrong}");
    }
    assert!(FRAMES.allocate(PageLayout::from_size(1 << 40).unwrap()).is_err());
    assert_eq!(free_bytes(&FRAMES), all, "nothing changed");
}
