use super::*;
use crate::backing::{Backing, PageSize, Prefault};
use crate::clear::{Clearer, Primitive};
use crate::rseq::{BiasedRseq, Rseq, bias_pays};
use pageyard::{
    AllocError, BadRequest, Frames, Migratetype, Order, PAGE_SIZE, PerCpu, Request, RequestFlags, TryLock,
};

use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

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
    assert!(again.was_zeroed());
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
fn bytes_are_as_many_frames_as_they_need_and_no_more() {
    let arena = small(8 * MIB);
    for (bytes, frames) in [(1, 1), (4096, 1), (4097, 2), (13 * 4096, 13), (3 * MIB + 1, 769)] {
        let mut pages = arena.alloc_bytes(bytes).unwrap();
        pages.fill(0xA5);
        assert_eq!((pages.frames(), pages.len()), (Frames(frames), 4096 * frames as usize));
        arena.yard().drain(pageyard::CpuSet::All);
        assert_eq!(arena.audit().unwrap().allocated, Frames(frames));
        drop(pages);
        assert!(arena.alloc_bytes_zeroed(bytes).unwrap().iter().all(|byte| *byte == 0));
    }
    for order in 0..=9 {
        let pages = arena.alloc_bytes_aligned(5 * 4096, Order::of(order)).unwrap();
        assert!(pages.as_ptr().addr().get().is_multiple_of(4096 << order));
        assert_eq!((pages.len(), pages.pfn().0 % (1 << order)), (5 * 4096, 0));
    }
    let atomic = Request::new(Order::of(7), Migratetype::Unmovable).with(RequestFlags::NON_BLOCKING);
    assert_eq!(arena.alloc_bytes_as(8193, Order::of(2), &atomic).unwrap().frames(), Frames(3));
    all_free(&arena);
}

#[test]
fn the_fastest_protection_is_one_that_this_host_has() {
    struct Name;
    impl ArenaProgram for Name {
        type Output = &'static str;

        fn run<P: PerCpu>(self, arena: Arena<P>) -> &'static str {
            assert!(arena.alloc(Order::ZERO).is_ok());
            P::NAME
        }
    }
    let name = Arena::builder().size(1 << 20).run_fastest(Name).unwrap();
    let wanted = match Rseq::new() {
        Ok(_) if bias_pays() => BiasedRseq::NAME,
        Ok(_) => <Rseq>::NAME,
        Err(_) => TryLock::NAME,
    };
    assert_eq!(name, wanted);
    assert!(matches!(Arena::builder().run_fastest(Name), Err(ArenaError::NoSize)));
}

#[test]
fn bytes_that_no_arena_has_are_refused() {
    let arena = small(8 * MIB);
    for bytes in [0, (1 << 30) + 1, usize::MAX] {
        let why = arena.alloc_bytes(bytes).unwrap_err();
        assert!(matches!(why, AllocError::BadRequest(BadRequest::Size { .. })), "{bytes}: {why}");
    }
    assert!(arena.alloc_bytes(9 * MIB).is_err() && arena.alloc_bytes(1 << 30).is_err());
    assert!(arena.alloc_bytes_aligned(4096, Order::of(18)).is_err());
    all_free(&arena);
}

#[test]
fn pages_are_split_anywhere_and_each_part_is_its_own() {
    let arena = small(16 * MIB);
    for (frames, at) in
        [(13, 5), (2, 1), (512, 1), (512, 511), (700, 513), (1024, 512), (1024, 300), (1, 1), (7, 0)]
    {
        let mut pages = arena.alloc_bytes(frames * 4096).unwrap();
        pages.iter_mut().enumerate().for_each(|(n, byte)| *byte = (n / 4096) as u8);
        let pfn = pages.pfn();
        let (first, mut second) = match pages.split_at(Frames(at)) {
            Ok(parts) => parts,
            Err(whole) => {
                assert!(at == 0 || at >= frames as u64);
                assert_eq!((whole.pfn(), whole.frames()), (pfn, Frames(frames as u64)));
                continue;
            }
        };
        assert_eq!((first.pfn(), first.frames(), second.pfn()), (pfn, Frames(at), pfn + Frames(at)));
        let own = arena.yard().order_of(second.pfn());
        assert!(own.is_some(), "no block has frames of both");
        assert_eq!(first.frames().0 + second.frames().0, frames as u64);
        drop(first);
        let mut other = arena.alloc_bytes_zeroed(at as usize * 4096).unwrap();
        other.fill(0xFF);
        assert!(second.iter().enumerate().all(|(n, byte)| *byte == (at as usize + n / 4096) as u8));
        second.fill(1);
        assert!(other.iter().all(|byte| *byte == 0xFF));
    }
    let half = Pages::from(arena.alloc(Order::of(9)).unwrap()).split_at(Frames(200)).unwrap();
    assert_eq!(half.1.frames(), Frames(312));
    assert!(half.0.split_at(Frames(200)).is_err(), "the second part would be empty");
    drop(half.1);
    all_free(&arena);
}

#[test]
fn parts_are_freed_and_split_by_several_threads_at_once() {
    let arena = small(16 * MIB);
    let mut seed = fastrand::Rng::with_seed(5);
    for _ in 0..200 {
        let mut parts = vec![arena.alloc_bytes(1000 * 4096).unwrap()];
        for _ in 0..20 {
            let part = parts.swap_remove(seed.usize(..parts.len()));
            match part.split_at(Frames(seed.u64(..1000))) {
                Ok((first, second)) => parts.extend([first, second]),
                Err(whole) => parts.push(whole),
            }
        }
        assert_eq!(parts.iter().map(|part| part.frames().0).sum::<u64>(), 1000);
        std::thread::scope(|scope| {
            for part in parts {
                scope.spawn(move || drop(part.split_at(Frames(3))));
            }
        });
        all_free(&arena);
    }
}

#[test]
fn memory_of_the_caller_is_not_believed_to_be_zeros() {
    let mut memory = vec![0xA5_u8; 5 * MIB];
    let at = memory.as_ptr().align_offset(PAGE_SIZE as usize);
    let start = NonNull::new(memory[at..].as_mut_ptr()).unwrap();
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
fn sizes_are_rounded_up_or_refused() {
    let built = |bytes| Arena::builder().size(bytes).build_locked();
    for (bytes, frames) in [(1, 1), (4095, 1), (4097, 2), (2 * MIB + 1, 513), (3 * MIB - 1, 768)] {
        let arena = built(bytes).unwrap();
        assert_eq!(arena.mapping().frames(), Frames(frames), "{bytes}");
        let blocks: Vec<_> = std::iter::from_fn(|| arena.alloc(Order::ZERO).ok()).collect();
        assert_eq!(blocks.len() as u64, frames, "{bytes}");
        drop(blocks);
        all_free(&arena);
    }
    for bytes in [0, 1 << 50, isize::MAX as usize, usize::MAX - 4095, usize::MAX] {
        assert!(built(bytes).is_err(), "{bytes}");
        assert_eq!(bytes == 0, matches!(built(bytes), Err(ArenaError::NoSize)));
    }
}

#[test]
fn a_configuration_for_one_cpu_serves_threads_on_all() {
    let mut config = pageyard::Config::new(1);
    config.watermark.min_free_kbytes = Some(0);
    let arena = Arena::builder().size(8 * MIB).config(config).build_locked().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 * crate::rseq::possible_cpus() {
            scope.spawn(|| (0..1000).for_each(|_| drop(arena.alloc(Order::ZERO).unwrap())));
        }
    });
    all_free(&arena);
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
    let handle = arena.alloc_movable(Order::ZERO).unwrap();
    let pages = arena.alloc_bytes(3 * 4096).unwrap();
    // SAFETY: the child calls nothing that another thread of this process may hold a lock of, and ends without
    // unwinding.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let inert = arena.is_inert()
            && arena.alloc(Order::ZERO).is_err()
            && arena.alloc_bytes(1).is_err()
            && block[0] == 7;
        drop((block, handle, pages.split_at(Frames(1))));
        // SAFETY: nothing that this process holds needs to be given back.
        unsafe { libc::_exit(if inert { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: `status` is the caller's.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child's copy hands nothing out");
    assert!(!arena.is_inert() && block.iter().all(|byte| *byte == 7));
    drop((block, handle, pages));
    all_free(&arena);
}

#[test]
fn what_holds_a_count_is_kept_beside_its_arena() {
    struct Cache {
        blocks: Vec<Block<Arc<Arena<TryLock>>>>,
        arena: Arc<Arena<TryLock>>,
    }
    let mut cache = Cache { blocks: Vec::new(), arena: Arc::new(small(8 * MIB)) };
    for n in 0..10 {
        let mut block = Block::alloc_in(cache.arena.clone(), Order::of(n % 4)).unwrap();
        block.fill(n);
        cache.blocks.push(block);
    }
    assert_eq!(Arc::strong_count(&cache.arena), 11);
    let request = Request::new(Order::of(1), Migratetype::Unmovable);
    let pages = Pages::alloc_in(cache.arena.clone(), 13 * 4096, Order::ZERO, &request).unwrap();
    let many = Blocks::alloc_in(cache.arena.clone(), &request, 7);
    let (mut head, rest) = pages.split_at(Frames(5)).unwrap();
    head.fill(1);
    assert_eq!((many.len(), rest.len(), Arc::strong_count(&cache.arena)), (7, 8 * 4096, 14));
    let moved = std::thread::spawn(move || {
        assert!(cache.blocks.iter().enumerate().all(|(n, block)| block[0] == n as u8));
        drop((many, rest));
        cache
    });
    let Cache { blocks, arena } = moved.join().unwrap();
    drop((blocks, head));
    assert_eq!(Arc::strong_count(&arena), 1);
    all_free(&arena);
    let one = Rc::new(small(MIB));
    drop(Block::alloc_in(one.clone(), Order::ZERO).unwrap());
    all_free(&one);
}

#[test]
fn blocks_and_pages_go_through_addresses() {
    let arena = small(8 * MIB);
    let mut block = arena.alloc(Order::of(3)).unwrap();
    block.fill(7);
    let at = block.into_raw();
    let (pages, bytes) = arena.alloc_bytes(5 * 4096).unwrap().into_raw();
    let inside = NonNull::new(at.as_ptr().wrapping_add(4096)).unwrap();
    let before = NonNull::new(arena.mapping().start().as_ptr().wrapping_sub(4096)).unwrap();
    let behind = NonNull::new(arena.mapping().start().as_ptr().wrapping_add(8 * MIB)).unwrap();
    // SAFETY: both came from this arena, and are taken back once. The other addresses are refused.
    unsafe {
        for wrong in [inside, before, behind, NonNull::new(at.as_ptr().wrapping_add(1)).unwrap()] {
            assert!(Block::from_raw_in(&arena, wrong).is_none());
        }
        for (wrong, bytes) in [
            (before, 4096),
            (behind, 4096),
            (pages, 0),
            (pages, 100),
            (pages, 9 * MIB),
            (pages, usize::MAX - 4095),
        ] {
            assert!(Pages::from_raw_in(&arena, wrong, bytes).is_none());
        }
        let block = Block::from_raw_in(&arena, at).unwrap();
        assert!(block.order() == Order::of(3) && block.iter().all(|byte| *byte == 7));
        let pages = Pages::from_raw_in(&arena, pages, bytes).unwrap();
        assert_eq!(pages.frames(), Frames(5));
    }
    all_free(&arena);
}

#[test]
fn discarded_bytes_are_zeros_and_their_whole_pages_are_the_hosts() {
    let base = [
        Backing::AnonymousBase,
        Backing::Memfd(PageSize::Base),
        Backing::Anonymous,
        Backing::MemfdTransparent,
    ];
    for backing in base {
        let arena = Arena::builder().size(4 * MIB).backing(backing).build_locked().unwrap();
        let mut block = arena.alloc(Order::of(4)).unwrap();
        let is = |bytes: &[u8], zeros: std::ops::Range<usize>| {
            bytes.iter().enumerate().all(|(n, byte)| *byte == if zeros.contains(&n) { 0 } else { 7 })
        };
        for (range, frames) in [
            (0..65536, 16),
            (4096..8192, 1),
            (4095..8193, 1),
            (4097..8191, 0),
            (100..200, 0),
            (100..65535, 14),
            (65536..70000, 0),
            (9..usize::MAX, 15),
            (30..30, 0),
            (usize::MAX - 1..usize::MAX, 0),
        ] {
            block.fill(7);
            assert_eq!(block.discard(range.clone()), Ok(Frames(frames)), "{range:?}");
            assert!(is(&block, range.clone()), "{backing:?} {range:?}");
        }
        let (first, order) = (block.pfn(), block.order());
        let mut pages = Pages::from(block);
        pages.fill(7);
        assert_eq!(pages.discard(0..usize::MAX), Ok(order.frames()));
        assert_eq!(arena.mapping().resident(first, order.frames()), Frames::ZERO, "{backing:?}");
        assert!(pages.iter().all(|byte| *byte == 0));
        drop(pages);
        all_free(&arena);
    }
    // Memory of the caller is not the host's to take; it is zeros all the same.
    let mut memory = vec![7_u8; 3 * 4096];
    let at = memory.as_ptr().align_offset(PAGE_SIZE as usize);
    let start = NonNull::new(memory[at..].as_mut_ptr()).unwrap();
    // SAFETY: it is the test's own, and outlives the arena.
    let mapping = unsafe { crate::backing::Mapping::of_caller(start, 2 * 4096) }.unwrap();
    let arena = Arena::builder().memory(mapping).build_locked().unwrap();
    let mut block = arena.alloc(Order::of(1)).unwrap();
    block.fill(7);
    assert_eq!(block.discard(1..8191), Ok(Frames::ZERO));
    assert!(block[1..8191].iter().all(|byte| *byte == 0) && block[0] == 7 && block[8191] == 7);
}
