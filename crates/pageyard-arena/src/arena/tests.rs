use super::*;
use crate::backing::{Backing, PageSize, Prefault};
use crate::clear::{Clearer, Primitive};
use pageyard::{Frames, Order, PAGE_SIZE, TryLock};

const MIB: usize = 1 << 20;

fn small(bytes: usize) -> Arena<TryLock> {
    let clearer = Clearer::only(Primitive::Memset).unwrap();
    Arena::builder().size(bytes).clearer(clearer).build_locked().unwrap()
}

fn all_free<P: pageyard::PerCpu>(arena: &Arena<P>) {
    let census = arena.audit().unwrap();
    assert!(census.is_conserved() && census.allocated == Frames(0), "{census:?}");
}

#[test]
fn all_of_an_arena_can_be_allocated_and_every_block_is_its_own() {
    let arena = small(8 * MIB);
    let mut blocks: Vec<_> = std::iter::from_fn(|| arena.alloc(Order::ZERO).ok()).collect();
    assert_eq!(blocks.len(), 2048);
    for (n, block) in blocks.iter_mut().enumerate() {
        block.fill(n as u8);
    }
    assert!(blocks.iter().enumerate().all(|(n, block)| block.iter().all(|byte| *byte == n as u8)));
    drop(blocks);
    all_free(&arena);
}

#[test]
fn zeroed_blocks_are_zeros_after_any_owner() {
    let arena = small(8 * MIB);
    for round in 0..4 {
        for order in [0, 1, 3, 5, 9] {
            let block = arena.alloc_zeroed(Order::of(order)).unwrap();
            assert!(block.iter().all(|byte| *byte == 0), "order {order}, round {round}");
            let mut dirty = arena.alloc(Order::of(order)).unwrap();
            dirty.fill(0xA5);
        }
    }
    all_free(&arena);
}

#[test]
fn what_the_caller_says_is_zeros_is_not_cleared_again() {
    let arena = small(2 * MIB);
    let mut block = arena.alloc(Order::of(9)).unwrap();
    block.fill(0);
    // SAFETY: it was just filled with zeros.
    unsafe { block.free_zeroed() };
    let again = arena.alloc_zeroed(Order::of(9)).unwrap();
    assert!(arena.was_zeroed(&again));
    drop(again);
    all_free(&arena);
}

#[test]
fn blocks_are_aligned_to_their_size() {
    let arena = small(16 * MIB);
    for order in 0..=9 {
        let block = arena.alloc(Order::of(order)).unwrap();
        assert!(block.as_ptr().addr().get().is_multiple_of(4096 << order));
        assert_eq!(block.len(), 4096 << order);
    }
}

#[test]
fn bulk_blocks_are_cleared_and_freed_together() {
    let arena = small(4 * MIB);
    for zero in [false, true, true] {
        let mut blocks = match zero {
            true => arena.alloc_bulk_zeroed(Order::ZERO, 1500),
            false => arena.alloc_bulk(Order::ZERO, 1500),
        };
        assert!(!blocks.is_empty() && blocks.len() <= 1024);
        for bytes in blocks.iter_mut() {
            assert!(!zero || bytes.iter().all(|byte| *byte == 0));
            bytes.fill(0xA5);
        }
    }
    all_free(&arena);
}

#[test]
fn memory_is_given_back_and_is_zeros_afterwards() {
    for backing in [Backing::Anonymous, Backing::Memfd(PageSize::Base)] {
        let arena = Arena::builder().size(16 * MIB).backing(backing).build_locked().unwrap();
        let mut block = arena.alloc(Order::of(9)).unwrap();
        block.fill(0xA5);
        let kept = block.pfn();
        assert_eq!(arena.purge(Frames(u64::MAX)), Ok(Frames(7 * 512)), "all but the block that is in use");
        assert!(block.iter().all(|byte| *byte == 0xA5));
        drop(block);
        assert_eq!(arena.purge(Frames(512)), Ok(Frames(512)));
        assert_eq!(arena.purge(Frames(u64::MAX)), Ok(Frames(8 * 512)));
        let zeroed = std::iter::from_fn(|| arena.alloc_zeroed(Order::of(9)).ok()).collect::<Vec<_>>();
        assert_eq!(zeroed.len(), 8, "{kept} too");
        assert!(zeroed.iter().all(|block| arena.was_zeroed(block) && block.iter().all(|b| *b == 0)));
        drop(zeroed);
        all_free(&arena);
    }
}

#[test]
fn memory_of_the_caller_is_not_believed_to_be_zeros() {
    let mut memory = vec![0xA5_u8; 5 * MIB];
    let at = memory.as_ptr().align_offset(PAGE_SIZE as usize);
    let start = std::ptr::NonNull::new(memory[at..].as_mut_ptr()).unwrap();
    // SAFETY: it is the test's own, and outlives the arena.
    let mapping = unsafe { crate::backing::Mapping::of_caller(start, 4 * MIB) }.unwrap();
    let arena = Arena::builder().memory(mapping).build_locked().unwrap();
    let block = arena.alloc_zeroed(Order::of(3)).unwrap();
    assert!(block.iter().all(|byte| *byte == 0));
    drop(block);
    drop(arena);
}

#[test]
fn an_arena_says_why_it_cannot_be_built() {
    let text = |error: ArenaError| error.to_string();
    assert!(text(Arena::builder().build_locked().err().unwrap()).contains("size()"));
    assert!(text(Arena::builder().size(1 << 55).build_locked().err().unwrap()).contains("ask for less"));
    let huge = Arena::builder().size(1 << 46).backing(Backing::HugeTlb(PageSize::Huge1G)).build_locked();
    assert!(text(huge.err().unwrap()).contains("/sys/kernel/mm/hugepages"));
    assert!(text(Arena::builder().size(MIB).node(1000).build_locked().err().unwrap()).contains("node 1000"));
}

#[test]
fn an_arena_can_be_faulted_in_and_one_page_is_an_arena() {
    let how = Prefault { threads: 2, progress: &|_, _| () };
    let arena = Arena::builder().size(32 * MIB).prefault(how).build_locked().unwrap();
    assert!(arena.alloc_zeroed(Order::of(9)).unwrap().iter().all(|byte| *byte == 0));
    let arena = Arena::builder().size(1).build_locked().unwrap();
    let only = arena.alloc(Order::ZERO).unwrap();
    assert!(arena.alloc(Order::ZERO).is_err());
    drop(only);
    all_free(&arena);
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn threads_share_an_arena_by_restartable_sequences() {
    let Ok(arena) = Arena::builder().size(64 * MIB).build() else {
        println!("skipped: no restartable sequences here");
        return;
    };
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let arena = &arena;
            scope.spawn(move || {
                let _registered = crate::rseq::register_thread();
                for n in 0..2000_usize {
                    let mut block = arena.alloc_zeroed(Order::of([0, 0, 1, 3, 5][n % 5])).unwrap();
                    assert!(block.iter().all(|byte| *byte == 0));
                    block.fill(thread + 1);
                }
            });
        }
    });
    all_free(&arena);
}

#[test]
fn a_childs_arena_is_inert() {
    let arena =
        Arena::builder().size(4 * MIB).backing(Backing::Memfd(PageSize::Base)).build_locked().unwrap();
    let mut block = arena.alloc(Order::ZERO).unwrap();
    block.fill(7);
    let handle = arena.alloc_movable().unwrap();
    // SAFETY: the child calls nothing that another thread of this process may hold a lock of, and ends without unwinding.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let inert = arena.is_inert() && arena.alloc(Order::ZERO).is_err() && block[0] == 7;
        drop((block, handle));
        // SAFETY: nothing that this process holds needs to be given back.
        unsafe { libc::_exit(if inert { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: `status` is the caller's.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child's copy hands nothing out");
    assert!(!arena.is_inert() && block.iter().all(|byte| *byte == 7));
    drop((block, handle));
    all_free(&arena);
}
