use super::moves::Mover;
use super::*;
use crate::arena::Arena;
use crate::backing::BackingError;
use crate::clear::{Clearer, Primitive};
use crate::slots::Table;
use pageyard::compaction::{Busy, Migrate, MigrateError, Mode};
use pageyard::{AllocError, BadRequest, BlockId, Frames, Order, PageAllocator, Pfn, TryLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const MIB: usize = 1 << 20;

fn small(bytes: usize) -> Arena<TryLock> {
    let clearer = Clearer::only(Primitive::Memset).unwrap();
    Arena::builder().size(bytes).clearer(clearer).build_locked().unwrap()
}

fn all_free(arena: &Arena<TryLock>) {
    let census = arena.audit().unwrap();
    assert!(census.is_conserved() && census.allocated == Frames(0), "{census:?}");
}

/// Fills an arena with handles, each with its number, and keeps those that `keep` says.
fn fragmented(arena: &Arena<TryLock>, keep: impl Fn(usize) -> bool) -> Vec<(usize, Handle<&Arena<TryLock>>)> {
    let all = std::iter::from_fn(|| arena.alloc_movable(Order::ZERO).ok());
    let mut all: Vec<_> = all.enumerate().collect();
    for (n, handle) in &mut all {
        handle.pin_mut().fill(*n as u8);
    }
    all.retain(|(n, _)| keep(*n));
    all
}

fn holds(handles: &[(usize, Handle<&Arena<TryLock>>)]) {
    for (n, handle) in handles {
        let pinned = handle.pin();
        assert!(pinned.iter().all(|byte| *byte == *n as u8), "handle {n}, now at {}", handle.pfn());
    }
}

fn huge_free(arena: &Arena<TryLock>) -> usize {
    std::iter::from_fn(|| arena.alloc(Order::of(9)).ok()).collect::<Vec<_>>().len()
}

#[test]
fn handles_move_together_and_keep_what_they_hold() {
    let arena = small(32 * MIB);
    let handles = fragmented(&arena, |n| n % 8 == 0);
    assert_eq!(handles.len(), 1024);
    assert_eq!(huge_free(&arena), 0);
    let (_, work) = arena.compact();
    assert!(work.moved > 0, "{work:?}");
    holds(&handles);
    assert!(huge_free(&arena) >= 13, "of 16, two pageblocks' worth of frames is in use");
    drop(handles);
    all_free(&arena);
}

#[test]
fn pages_of_several_frames_move_as_a_whole() {
    let arena = small(32 * MIB);
    // 4 to 64 KiB, in turn, each with its number in every frame.
    let orders = [4, 0, 1, 3, 2].map(Order::of);
    let all = orders.iter().cycle().map_while(|order| arena.alloc_movable(*order).ok());
    let mut all: Vec<_> = all.enumerate().collect();
    all.iter_mut().for_each(|(n, handle)| handle.pin_mut().fill(*n as u8));
    all.retain(|(n, _)| n % 8 == 0);
    assert!(all.iter().all(|(_, handle)| handle.pin().len() == (handle.order().frames().0 << 12) as usize));
    let before = huge_free(&arena);
    let (_, work) = arena.compact();
    assert!(work.moved > 500, "{work:?}");
    holds(&all);
    assert!(all.iter().all(|(_, handle)| handle.pfn().is_aligned(handle.order())));
    let after = huge_free(&arena);
    assert!(before < 3 && after >= 12, "{before}, then {after} of 16: an eighth of the memory is in use");
    drop(all);
    all_free(&arena);
}

#[test]
fn a_handle_has_less_than_a_pageblock() {
    let arena = small(4 * MIB);
    assert_eq!(arena.alloc_movable(Order::of(8)).unwrap().pin().len(), MIB);
    let most = Frames(256);
    for order in [9, 10, 18] {
        let why = AllocError::BadRequest(BadRequest::Size { frames: Order::of(order).frames(), most });
        assert_eq!(arena.alloc_movable(Order::of(order)).unwrap_err(), why);
    }
    all_free(&arena);
}

#[test]
fn a_block_is_isolated_by_its_own_order_only() {
    let arena = small(4 * MIB);
    let (mover, handle) = (Mover(&arena), arena.alloc_movable(Order::of(2)).unwrap());
    let block = |order| BlockId { pfn: handle.pfn(), order: Order::of(order) };
    for order in [0, 1, 3] {
        assert_eq!(mover.isolate_block(block(order), Mode::Sync).err(), Some(Busy::Gone));
    }
    let mut isolated = mover.isolate_block(block(2), Mode::Sync).unwrap();
    let small = arena.alloc(Order::of(1)).unwrap();
    assert_eq!(mover.migrate(&mut isolated, small.pfn(), Mode::Sync), Err(MigrateError::Refused));
    mover.putback(isolated);
    drop((small, handle));
    all_free(&arena);
}

#[test]
fn a_request_moves_what_is_in_its_way() {
    let arena = small(16 * MIB);
    let handles = fragmented(&arena, |n| n % 4 == 0);
    assert!(arena.alloc(Order::of(9)).is_err());
    let mut block = arena.alloc_compacting(Order::of(9)).unwrap();
    block.fill(0xFF);
    holds(&handles);
    drop((block, handles));
    all_free(&arena);
}

#[test]
fn what_is_pinned_stays() {
    let arena = small(8 * MIB);
    let handles = fragmented(&arena, |n| n % 8 == 0);
    let places: Vec<Pfn> = handles.iter().map(|(_, handle)| handle.pfn()).collect();
    let pins: Vec<_> = handles.iter().map(|(_, handle)| (handle.pin(), handle.pin())).collect();
    arena.compact();
    assert!(handles.iter().map(|(_, handle)| handle.pfn()).eq(places.iter().copied()));
    drop(pins);
    arena.compact();
    assert!(!handles.iter().map(|(_, handle)| handle.pfn()).eq(places.iter().copied()));
    holds(&handles);
    drop(handles);
    all_free(&arena);
}

#[test]
fn each_end_of_a_move_is_one_word() {
    let arena = small(4 * MIB);
    let mover = Mover(&arena);
    let mut handle = arena.alloc_movable(Order::ZERO).unwrap();
    handle.pin_mut().fill(7);
    let to = arena.alloc(Order::ZERO).unwrap();
    let block = to.pfn();
    assert_eq!(
        mover.isolate(block, Mode::Sync).err(),
        Some(Busy::Pinned),
        "a block's owner knows its address"
    );
    // Pinned before it is isolated, and after.
    let pin = handle.pin();
    assert_eq!(mover.isolate(handle.pfn(), Mode::Sync).err(), Some(Busy::Locked));
    drop(pin);
    let mut isolated = mover.isolate(handle.pfn(), Mode::Sync).unwrap();
    assert_eq!(mover.isolate(handle.pfn(), Mode::Sync).err(), Some(Busy::Gone), "one compaction at a time");
    let pin = handle.pin();
    assert_eq!(mover.migrate(&mut isolated, block, Mode::Sync), Err(MigrateError::Again));
    drop(pin);
    mover.putback(isolated);
    // Its handle goes while it is isolated.
    let mut isolated = mover.isolate(handle.pfn(), Mode::Sync).unwrap();
    drop(handle);
    assert_eq!(mover.migrate(&mut isolated, block, Mode::Sync), Err(MigrateError::Gone));
    let again = arena.alloc_movable(Order::ZERO).unwrap();
    let isolated = mover.isolate(again.pfn(), Mode::Sync).unwrap();
    drop(again);
    mover.putback(isolated);
    drop(to);
    all_free(&arena);
}

#[test]
fn a_handle_moves_to_no_frame_that_is_none_of_the_arenas_or_somebodys() {
    let arena = small(4 * MIB);
    let mover = Mover(&arena);
    let mut handle = arena.alloc_movable(Order::ZERO).unwrap();
    handle.pin_mut().fill(7);
    let (place, other) = (handle.pfn(), arena.alloc_movable(Order::ZERO).unwrap());
    let large = arena.alloc(Order::of(3)).unwrap();
    let free = Pfn(1000);
    assert_eq!(arena.yard().order_of(free), None);
    let mut isolated = mover.isolate(place, Mode::Sync).unwrap();
    for to in [place, other.pfn(), large.pfn(), free, Pfn(1024), Pfn(1 << 30), Pfn(u64::MAX)] {
        assert_eq!(mover.migrate(&mut isolated, to, Mode::Sync), Err(MigrateError::Refused), "{to}");
    }
    mover.putback(isolated);
    assert_eq!((handle.pfn(), handle.pin()[0]), (place, 7));
    drop((handle, other, large));
    all_free(&arena);
}

#[test]
fn a_handle_that_is_dropped_under_a_compaction_keeps_its_frame_and_slot_until_the_compaction_is_done() {
    let arena = small(2 * MIB);
    let mover = Mover(&arena);
    let mut all: Vec<_> = std::iter::from_fn(|| arena.alloc_movable(Order::ZERO).ok()).collect();
    assert_eq!(all.len(), 512);
    let one = all.pop().unwrap();
    let isolated = mover.isolate(one.pfn(), Mode::Sync).unwrap();
    drop(one);
    assert!(arena.alloc_movable(Order::ZERO).is_err(), "the compaction may be reading the last frame");
    mover.putback(isolated);
    all.push(arena.alloc_movable(Order::ZERO).unwrap());
    assert!(arena.alloc_movable(Order::ZERO).is_err());
    drop(all);
    all_free(&arena);
}

#[test]
fn an_arena_of_more_frames_than_a_slot_names_is_refused() {
    for frames in [u64::from(u32::MAX), 1 << 32, u64::MAX] {
        assert!(matches!(Table::new(Frames(frames)), Err(BackingError::TooLarge { .. })));
    }
}

#[test]
fn every_slot_is_handed_out_once_and_comes_back() {
    for frames in [1, 2, 3, 1000] {
        let table = Table::new(Frames(frames)).unwrap();
        for _ in 0..3 {
            let ids: Vec<_> = (0..frames)
                .map(|n| table.insert(BlockId { pfn: Pfn(n), order: Order::ZERO }).unwrap())
                .collect();
            assert_eq!(table.insert(BlockId { pfn: Pfn(0), order: Order::ZERO }), None);
            let mut numbers: Vec<_> = ids.iter().map(|id| id.0).collect();
            numbers.sort_unstable();
            assert!(numbers.iter().copied().eq(1..=frames as u32));
            let (odd, even): (Vec<_>, Vec<_>) = ids.into_iter().partition(|id| id.0 % 2 == 1);
            odd.into_iter().chain(even).for_each(|id| table.release(id));
        }
    }
}

/// Fragment and compact, a thousand times, while four threads read and write what moves.
#[test]
fn threads_read_and_write_while_everything_moves() {
    const CYCLES: usize = if cfg!(debug_assertions) { 300 } else { 1000 };
    let arena = small(32 * MIB);
    let (done, writes) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (arena, done, writes) = (&arena, &done, &writes);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(thread);
                let mut held: Vec<(u64, Handle<&Arena<TryLock>>)> = Vec::new();
                while !done.load(Ordering::Acquire) {
                    if held.len() < 200 || (held.len() < 400 && rng.bool()) {
                        if let Ok(mut handle) = arena.alloc_movable(Order::ZERO) {
                            let stamp = rng.u64(..);
                            handle.pin_mut()[..8].copy_from_slice(&stamp.to_ne_bytes());
                            handle.pin_mut()[4088..].copy_from_slice(&stamp.to_ne_bytes());
                            held.push((stamp, handle));
                        }
                    } else if rng.u8(..8) == 0 {
                        held.swap_remove(rng.usize(..held.len()));
                    }
                    let at = rng.usize(..held.len().max(1));
                    if let Some((stamp, handle)) = held.get_mut(at) {
                        let mut pinned = handle.pin_mut();
                        assert_eq!(
                            (&pinned[..8], &pinned[4088..]),
                            (&stamp.to_ne_bytes()[..], &stamp.to_ne_bytes()[..])
                        );
                        *stamp = rng.u64(..);
                        pinned[..8].copy_from_slice(&stamp.to_ne_bytes());
                        pinned[4088..].copy_from_slice(&stamp.to_ne_bytes());
                        writes.fetch_add(1, Ordering::Relaxed);
                    }
                }
                for (stamp, handle) in &held {
                    let pinned = handle.pin();
                    assert_eq!(
                        (&pinned[..8], &pinned[4088..]),
                        (&stamp.to_ne_bytes()[..], &stamp.to_ne_bytes()[..])
                    );
                }
            });
        }
        let (mut moved, mut failed) = (0, 0);
        for cycle in 0..CYCLES {
            let scattered: Vec<_> = (0..2000).filter_map(|_| arena.alloc_movable(Order::ZERO).ok()).collect();
            let kept: Vec<_> =
                scattered.into_iter().enumerate().filter(|(n, _)| n % 8 == cycle % 8).collect();
            let (_, work) = arena.compact();
            (moved, failed) = (moved + work.moved, failed + work.failed);
            drop(kept);
        }
        done.store(true, Ordering::Release);
        println!("{CYCLES} cycles moved {moved} frames and failed on {failed}");
        assert!(moved > 0);
    });
    assert!(writes.into_inner() > 0);
    all_free(&arena);
}

/// Waits for what a thread does.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_background_compacts_until_it_is_stopped() {
    let arena = Arc::new(small(32 * MIB));
    let handles = fragmented(&arena, |n| n % 8 == 0);
    let background = arena.compactor().every(Duration::from_millis(1)).start().unwrap();
    until("nothing was compacted", || huge_free(&arena) >= 13);
    let report = background.stop();
    assert!(report.passes > 0 && report.moved > pageyard::Frames::ZERO && !report.stuck, "{report:?}");
    assert!(report.scattered <= 0.1, "{report:?}");
    holds(&handles);
    assert_eq!(Arc::strong_count(&arena), 1, "the thread has ended");
    drop(handles);
    all_free(&arena);
}

#[test]
fn the_background_goes_as_far_as_it_is_told_and_says_what_stops_it() {
    let arena = Arc::new(small(32 * MIB));
    let handles = fragmented(&arena, |n| n % 8 == 0);
    let every = Duration::from_millis(1);
    let never = arena.compactor().every(every).down_to(1.0).start().unwrap();
    until("it does not look", || never.report().scattered > 0.0);
    assert_eq!(never.stop().passes, 0);
    let pins: Vec<_> = handles.iter().map(|(_, handle)| handle.pin()).collect();
    let kept = arena.compactor().every(every).down_to(0.0).start().unwrap();
    until("pins stop it", || kept.report().stuck);
    assert!(kept.report().scattered > 0.5, "{:?}", kept.report());
    drop(pins);
    until("nothing was compacted", || huge_free(&arena) >= 13);
    until("it is not done", || !kept.report().stuck && kept.report().scattered < 0.1);
    drop(kept);
    holds(&handles);
    drop(handles);
    all_free(&arena);
}

#[test]
fn a_handle_is_kept_beside_its_arena_and_goes_through_a_number() {
    let arena = Arc::new(small(4 * MIB));
    let mut held = Handle::alloc_in(arena.clone(), Order::ZERO).unwrap();
    held.pin_mut()[7] = 9;
    drop(arena.alloc_movable(Order::ZERO).unwrap());
    let id = held.into_raw();
    assert_eq!(Arc::strong_count(&arena), 1, "a number holds nothing");
    arena.compact();
    // SAFETY: the number was taken from a handle of this arena, and only the last of these finds it.
    unsafe {
        for wrong in [0, 1025, u32::MAX, if id == 1 { 2 } else { 1 }] {
            assert!(Handle::from_raw_in(&*arena, wrong).is_none(), "{wrong}");
        }
        let back = Handle::from_raw_in(arena.clone(), id).unwrap();
        assert_eq!((back.pin()[7], Arc::strong_count(&arena)), (9, 2));
        drop(back);
        assert!(Handle::from_raw_in(&*arena, id).is_none(), "it is gone");
    }
    let last = Handle::alloc_in(arena, Order::ZERO).unwrap();
    assert_eq!(last.pin().len(), 4096, "it keeps its arena");
}
