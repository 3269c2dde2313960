//! A kernel's frames in a static: placed below a limit, set up once, freed in any pieces, added to at any time.

use pageyard::{
    AllocError, BadRequest, CpuId, CpuSet, FirmwareError, FirmwareMap, Frames, FreeError, KernelFrames,
    Order, PAGE_SIZE, PhysAddr, RangeFault, ZoneLimits,
};
use std::alloc::Layout;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const MIB: u64 = 1 << 20;
const CPU: CpuId = CpuId(0);

fn pages(n: usize) -> Layout {
    Layout::from_size_align(n << 12, 1 << 12).unwrap()
}

/// Sets a machine up: 64 MiB, of which the second half is a hole, and 2 MiB behind.
fn set_up(frames: &KernelFrames, cpus: u32) -> u64 {
    let mut firmware = FirmwareMap::<32>::new(ZoneLimits::X86_64);
    firmware.usable(MIB..32 * MIB).unwrap().usable(64 * MIB..66 * MIB).unwrap();
    let place = KernelFrames::place(&mut firmware, cpus, 24 * MIB).unwrap();
    assert!(place.end.address().0 <= 24 * MIB);
    let bytes = (place.end - place.start).as_bytes();
    // It is filled with zeros.
    let memory = Box::leak(vec![0xee; bytes as usize].into_boxed_slice());
    frames.init(&firmware, cpus, memory).unwrap();
    bytes
}

fn conserved(frames: &KernelFrames, managed: u64) {
    let yard = frames.yard().unwrap();
    yard.drain(CpuSet::All);
    let census = yard.audit().unwrap();
    assert!(census.is_conserved(), "{census:?}");
    assert_eq!((census.managed.as_bytes(), census.allocated), (managed, Frames::ZERO));
}

#[test]
fn without_memory_everything_is_refused_and_nothing_is_set_up_twice() {
    static FRAMES: KernelFrames = KernelFrames::new();
    assert_eq!(FRAMES.alloc_layout(CPU, pages(1)), Err(AllocError::OutOfMemory));
    assert_eq!(FRAMES.cpu(CPU).err(), Some(BadRequest::NoSuchCpu));
    let outside = RangeFault::Free(FreeError::OutsideArena);
    assert_eq!(FRAMES.free_bytes(CPU, PhysAddr(0), PAGE_SIZE).unwrap_err().why, outside);
    set_up(&FRAMES, 1);
    let firmware = FirmwareMap::<4>::new(ZoneLimits::NONE);
    assert_eq!(FRAMES.init(&firmware, 1, &mut []), Err(FirmwareError::SetUpTwice));
    assert!(FRAMES.yard().is_some());

    static FAILED: KernelFrames = KernelFrames::new();
    assert_eq!(FAILED.init(&firmware, 1, &mut []), Err(FirmwareError::NothingUsable));
    assert_eq!(FAILED.init(&firmware, 1, &mut []), Err(FirmwareError::SetUpTwice));
    assert_eq!(FAILED.alloc_layout(CPU, pages(1)), Err(AllocError::OutOfMemory));
}

#[test]
fn a_limit_that_nothing_lies_below_leaves_no_room() {
    let mut firmware = FirmwareMap::<4>::new(ZoneLimits::NONE);
    firmware.usable(32 * MIB..64 * MIB).unwrap();
    for below in [0, MIB, 32 * MIB] {
        let refused = KernelFrames::place(&mut firmware, 1, below).unwrap_err();
        assert!(matches!(refused, FirmwareError::NoRoom { .. }), "{refused}");
    }
    assert!(KernelFrames::place(&mut firmware, 1, 34 * MIB).is_ok());
}

#[test]
fn every_frame_can_be_had_and_pieces_come_back_in_any_order() {
    static FRAMES: KernelFrames = KernelFrames::new();
    let managed = 33 * MIB - set_up(&FRAMES, 2);
    let ten = FRAMES.alloc_layout(CPU, pages(10)).unwrap();
    for i in [3, 0, 9, 1, 2, 4, 5, 6, 8, 7] {
        FRAMES.free_bytes(CpuId(1), PhysAddr(ten.0 + i * PAGE_SIZE), PAGE_SIZE).unwrap();
    }
    for (bytes, align) in [(1, 1), (PAGE_SIZE, 2 * MIB), (3 * PAGE_SIZE, 16384), (5 * MIB, 4096), (0, 1)] {
        let at = FRAMES.alloc_layout(CPU, Layout::from_size_align(bytes as usize, align as usize).unwrap());
        let at = at.unwrap();
        assert!(at.0.is_multiple_of(align.max(PAGE_SIZE)), "{at:?} {align}");
        FRAMES.free_bytes(CPU, at, bytes.max(1).next_multiple_of(PAGE_SIZE)).unwrap();
    }
    let cpu = FRAMES.cpu(CPU).unwrap();
    let all: Vec<_> = std::iter::from_fn(|| FRAMES.alloc_layout(CPU, pages(1)).ok()).collect();
    assert_eq!(all.len() as u64 * PAGE_SIZE, managed, "nothing is kept back");
    assert_eq!(cpu.alloc(Order::ZERO), Err(AllocError::OutOfMemory));
    for at in all {
        FRAMES.free_bytes(CPU, at, PAGE_SIZE).unwrap();
    }
    let huge = cpu.alloc(Order::HUGE).unwrap();
    cpu.free(huge, Order::HUGE).unwrap();
    assert_eq!(cpu.free(huge, Order::HUGE), Err(FreeError::NotAllocated));
    conserved(&FRAMES, managed);
}

#[test]
fn wrong_ranges_and_layouts_are_values() {
    static FRAMES: KernelFrames = KernelFrames::new();
    let managed = 33 * MIB - set_up(&FRAMES, 1);
    let why = |at, bytes| FRAMES.free_bytes(CPU, PhysAddr(at), bytes).unwrap_err().why;
    let free = RangeFault::Free;
    assert_eq!(why(MIB + 1, PAGE_SIZE), free(FreeError::Misaligned));
    assert_eq!(why(MIB, 1), free(FreeError::Misaligned));
    assert_eq!(why(MIB, PAGE_SIZE), free(FreeError::NotAllocated));
    assert_eq!(why(MIB, 0), RangeFault::Empty);
    assert_eq!(why(!4095, PAGE_SIZE), free(FreeError::OutsideArena));
    assert_eq!(why(MIB, !4095), free(FreeError::OutsideArena));
    let huge = Layout::from_size_align(usize::MAX >> 1, 1).unwrap();
    assert!(FRAMES.alloc_layout(CPU, huge).is_err());
    let aligned = Layout::from_size_align(1, 1 << 40).unwrap();
    assert_eq!(FRAMES.alloc_layout(CPU, aligned), Err(AllocError::OutOfMemory));
    assert!(FRAMES.alloc_layout(CpuId(1), pages(1)).is_err());
    conserved(&FRAMES, managed);
}

#[test]
fn memory_is_added_later_page_by_page() {
    static FRAMES: KernelFrames = KernelFrames::new();
    let managed = 33 * MIB - set_up(&FRAMES, 2);
    let first = 40 * MIB + 5 * PAGE_SIZE;
    // SAFETY: frames are numbers here.
    unsafe {
        FRAMES.add(CPU, PhysAddr(first), 9 * MIB).unwrap();
        conserved(&FRAMES, managed + 9 * MIB);
        FRAMES.add(CPU, PhysAddr(32 * MIB), first - 32 * MIB).unwrap();
        let held = FRAMES.alloc_layout(CPU, pages(3)).unwrap();
        FRAMES.add(CPU, held, 3 * PAGE_SIZE).unwrap(); // of allocated frames it is a free
        let again = FRAMES.add(CPU, PhysAddr(first), PAGE_SIZE).unwrap_err();
        assert_eq!(again.why, RangeFault::Free(FreeError::NotAllocated));
        assert!(FRAMES.add(CPU, PhysAddr(66 * MIB), PAGE_SIZE).is_err());
    }
    conserved(&FRAMES, managed + 17 * MIB + 5 * PAGE_SIZE);
}

#[test]
fn memory_of_a_confidential_guest_is_accepted_when_it_is_needed() {
    static ACCEPTED: AtomicU64 = AtomicU64::new(0);
    // ORDER: Relaxed: one thread.
    static FRAMES: KernelFrames = KernelFrames::accepting(|range| {
        ACCEPTED.fetch_add(range.frames.as_bytes(), Relaxed);
        true
    });
    let managed = 33 * MIB - set_up(&FRAMES, 1);
    // SAFETY: frames are numbers here.
    unsafe { FRAMES.add_unaccepted(CPU, PhysAddr(32 * MIB), 20 * MIB) }.unwrap();
    assert_eq!(ACCEPTED.load(Relaxed), 0);
    conserved(&FRAMES, managed);
    let all: Vec<_> = std::iter::from_fn(|| FRAMES.alloc_layout(CPU, pages(1)).ok()).collect();
    assert_eq!(all.len() as u64 * PAGE_SIZE, managed + 20 * MIB);
    assert_eq!(ACCEPTED.load(Relaxed), 20 * MIB);
    for at in all {
        FRAMES.free_bytes(CPU, at, PAGE_SIZE).unwrap();
    }
    conserved(&FRAMES, managed + 20 * MIB);
}
