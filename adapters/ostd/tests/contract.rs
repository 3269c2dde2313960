//! OSTD's contract of a frame allocator, as its own tests and its callers have it: layouts are met, what one call
//! returned comes back in any pieces by either call, and memory is added page by page before and after the first
//! allocation.

use pageyard_ostd::{Kernel, OstdFrames};
use std::alloc::Layout;
use std::cell::Cell;
use std::sync::OnceLock;

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;
/// Bytes of the machine.
const MACHINE: usize = 256 * MIB;

/// OSTD's trait, by its signatures.
trait GlobalFrameAllocator: Sync {
    fn alloc(&self, layout: Layout) -> Option<usize>;
    fn dealloc(&self, addr: usize, size: usize);
    fn add_free_memory(&self, addr: usize, size: usize);
}

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

fn to_virt(at: usize) -> *mut u8 {
    static MEMORY: OnceLock<usize> = OnceLock::new();
    let start = *MEMORY
        .get_or_init(|| Box::leak(vec![0_u8; MACHINE].into_boxed_slice()).as_mut_ptr().expose_provenance());
    std::ptr::with_exposed_provenance_mut(start + at)
}

const KERNEL: Kernel = Kernel { cpu: || CPU.get(), cpus: || 4, to_virt: |at| to_virt(at.0 as usize) };

fn pages(n: usize, align: usize) -> Layout {
    Layout::from_size_align(n * PAGE, align * PAGE).unwrap()
}

/// Checks the books: so many bytes are managed, and all of them free.
fn conserved(frames: &OstdFrames) -> usize {
    let yard = frames.frames().yard().unwrap();
    yard.drain(pageyard::CpuSet::All);
    let census = yard.audit().unwrap();
    assert!(census.is_conserved() && census.allocated == pageyard::Frames::ZERO, "{census:?}");
    census.managed.as_bytes() as usize
}

#[test]
fn the_traits_contract_is_kept() {
    // SAFETY: the machine's memory lies where `to_virt` says, and is added once.
    static FRAMES: OstdFrames = unsafe { OstdFrames::new(KERNEL) };
    struct Allocator;
    pageyard_ostd::implement!(Allocator => FRAMES: GlobalFrameAllocator);

    assert_eq!(Allocator.alloc(pages(1, 1)), None, "there is no memory yet");
    // Two usable regions, with pages of an early allocator cut out of one, and a hole between them.
    Allocator.add_free_memory(PAGE, 0x9e000);
    Allocator.add_free_memory(MIB + 37 * PAGE, 63 * MIB);
    Allocator.add_free_memory(128 * MIB + 5 * PAGE, 99 * MIB);
    for (n, align) in [(1, 1), (2, 1), (3, 1), (4, 1), (2, 2), (4, 4), (8, 8), (16, 16), (1, 512), (13, 4)] {
        let at = Allocator.alloc(pages(n, align)).unwrap();
        assert!(at.is_multiple_of(align * PAGE), "{at:#x} is aligned to {align} pages");
        // OSTD's own test gives an allocated range back as free memory.
        Allocator.add_free_memory(at, n * PAGE);
    }
    let ten = Allocator.alloc(pages(10, 1)).unwrap();
    for i in [3, 0, 9, 1, 2, 4, 5, 6, 8, 7] {
        Allocator.dealloc(ten + i * PAGE, PAGE);
    }
    let managed = conserved(&FRAMES);
    // The early allocator's pages come later.
    Allocator.add_free_memory(MIB, 37 * PAGE);
    Allocator.add_free_memory(100 * MIB, 3 * PAGE);
    assert_eq!((conserved(&FRAMES), FRAMES.refused()), (managed + 40 * PAGE, 0));

    let threads = (0..4).map(|cpu| {
        std::thread::spawn(move || {
            CPU.set(cpu);
            let mut rng = fastrand::Rng::with_seed(cpu.into());
            let mut held: Vec<(usize, usize)> = Vec::new();
            for _ in 0..50_000 {
                if held.len() < 200 && rng.bool() {
                    let n = if rng.u8(..) < 200 { 1 } else { rng.usize(1..40) };
                    if let Some(at) = Allocator.alloc(pages(n, 1)) {
                        // SAFETY: the frames are this thread's.
                        unsafe { to_virt(at).cast::<u32>().write(cpu) };
                        held.push((at, n));
                    }
                } else if !held.is_empty() {
                    let (at, n) = held.swap_remove(rng.usize(..held.len()));
                    // SAFETY: as above.
                    assert_eq!(unsafe { to_virt(at).cast::<u32>().read() }, cpu, "it has one owner");
                    let cut = rng.usize(0..=n);
                    for (at, n) in [(at + cut * PAGE, n - cut), (at, cut)] {
                        if n > 0 {
                            Allocator.dealloc(at, n * PAGE);
                        }
                    }
                }
            }
            held.into_iter().for_each(|(at, n)| Allocator.dealloc(at, n * PAGE));
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|t| t.join().unwrap());
    assert_eq!((conserved(&FRAMES), FRAMES.refused()), (managed + 40 * PAGE, 0));
}

#[test]
fn what_is_wrong_is_refused_and_counted() {
    // SAFETY: as above; only metadata is touched, behind the other test's memory.
    static FRAMES: OstdFrames = unsafe { OstdFrames::new(KERNEL) };
    FRAMES.dealloc(PAGE, PAGE);
    assert_eq!(FRAMES.refused(), 1, "there is no memory yet");
    FRAMES.add_free_memory(PAGE, 0);
    FRAMES.add_free_memory(240 * MIB, PAGE);
    assert_eq!((FRAMES.alloc(pages(1, 1)), FRAMES.refused()), (None, 2), "no room for the metadata");
    FRAMES.add_free_memory(241 * MIB, 8 * MIB);
    let at = FRAMES.alloc(pages(2, 1)).unwrap();
    for (addr, size) in
        [(at + 1, PAGE), (at, 1), (at, 0), (0, PAGE), (usize::MAX & !4095, PAGE), (at, usize::MAX & !4095)]
    {
        let before = FRAMES.refused();
        FRAMES.dealloc(addr, size);
        FRAMES.add_free_memory(addr, size);
        assert_eq!(FRAMES.refused(), before + 2, "{addr:#x} {size:#x}");
    }
    // More ranges than there is room for, with the metadata's.
    // SAFETY: no memory of it is touched.
    static MANY: OstdFrames = unsafe { OstdFrames::new(KERNEL) };
    (0..70).for_each(|n| MANY.add_free_memory(245 * MIB + 2 * n * PAGE, PAGE));
    MANY.add_free_memory(246 * MIB, MIB);
    assert_eq!(MANY.refused(), 70 - 62 + 1, "each that is refused is told");
    FRAMES.dealloc(at, 2 * PAGE);
    let before = FRAMES.refused();
    FRAMES.dealloc(at, 2 * PAGE);
    assert_eq!(FRAMES.refused(), before + 1, "freed twice");
    for layout in [pages(1 << 20, 1), pages(1, 1 << 30)] {
        assert_eq!(FRAMES.alloc(layout), None);
    }
    conserved(&FRAMES);
}
