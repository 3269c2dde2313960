//! Mistakes are named with the functions that made them, by an arena that is watched; and an arena that is watched does
//! what any other does.

use pageyard::{
    AllocError, Config, CpuId, Cx, FreeError, Migratetype, Observer, Order, PAGE_SIZE, Request, RequestFlags,
    TryLock,
};
use pageyard_arena::arena::{Corruption, PATTERN, Poison};
use pageyard_arena::{Arena, ArenaBuilder, Block};
use pageyard_debug::{FaultKnobs, Faults, Owner, OwnerKnobs, tagged};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

const CX: Cx = Cx::on(CpuId(0));

/// What was found, and what the owner knew of it then.
type Found = Arc<Mutex<Vec<(Corruption, String)>>>;

type Watched<O = Arc<Owner>> = Arena<TryLock, Poison<O>>;

fn watched(bytes: usize) -> (Watched, Arc<Owner>, Found) {
    let (owner, found) = (Arc::new(Owner::default()), Found::default());
    let (who, report) = (owner.clone(), found.clone());
    let arena = Arena::builder()
        .size(bytes)
        .observer(owner.clone())
        .poison(move |seen| report.lock().unwrap().push((seen.clone(), who.frame(seen.pfn).to_string())))
        .build_locked()
        .unwrap();
    (arena, owner, found)
}

#[inline(never)]
fn careless_driver<O: Observer>(arena: &Arena<TryLock, O>) -> NonNull<u8> {
    tagged("careless", || arena.alloc(Order::ZERO)).unwrap().into_raw()
}

#[inline(never)]
fn hasty_close<O: Observer>(arena: &Arena<TryLock, O>, at: NonNull<u8>) {
    // SAFETY: it came from `into_raw`.
    drop(unsafe { Block::from_raw_in(arena, at) });
}

#[inline(never)]
fn forgetful_cache<O: Observer>(arena: &Arena<TryLock, O>) {
    std::mem::forget(arena.alloc(Order::HUGE).unwrap());
}

#[test]
fn a_write_after_a_free_is_named_with_both_stacks() {
    let (arena, _, found) = watched(4 << 20);
    let at = careless_driver(&arena);
    hasty_close(&arena, at);
    // SAFETY: the arena's memory; that nobody may write to it now is what is tested.
    unsafe { at.add(10).cast::<[u8; 3]>().write_unaligned([1, 2, 3]) };
    let page = arena.alloc(Order::ZERO).unwrap();
    assert_eq!(page.as_ptr(), at, "the frame that was freed last");
    let found = found.lock().unwrap();
    let [(seen, history)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((seen.pfn, seen.bytes.clone(), &seen.found[..3]), (page.pfn(), 10..13, &[1, 2, 3][..]));
    assert!(!seen.is_single_bit);
    for name in ["careless_driver", "hasty_close", "\"careless\"", "was freed"] {
        assert!(history.contains(name), "{name} is missing: {history}");
    }
    assert!(!history.contains("pageyard_arena::"), "{history}");
}

#[test]
fn a_write_to_a_later_frame_of_a_freed_block_is_found() {
    let (arena, _, found) = watched(4 << 20);
    let order = Order::of(4);
    // Every block: also those at the end of the memory are filled when they are freed.
    let blocks: Vec<_> = std::iter::from_fn(|| arena.alloc(order).ok()).collect();
    let written: Vec<_> = blocks.iter().map(|block| (block.pfn(), block.as_ptr())).collect();
    drop(blocks);
    for (_, at) in &written {
        // SAFETY: as above.
        unsafe { at.add(15 * 4096 + 7).write(1) };
    }
    let again: Vec<_> = std::iter::from_fn(|| arena.alloc(order).ok()).collect();
    assert_eq!(again.len(), written.len());
    let mut seen: Vec<_> = found.lock().unwrap().iter().map(|(seen, _)| seen.pfn.0).collect();
    seen.sort_unstable();
    let mut expected: Vec<_> = written.iter().map(|(pfn, _)| pfn.0 + 15).collect();
    expected.sort_unstable();
    assert_eq!(seen, expected);
}

#[test]
fn one_bit_that_flipped_is_told_apart() {
    let (arena, _, found) = watched(4 << 20);
    let at = careless_driver(&arena);
    hasty_close(&arena, at);
    // SAFETY: as above.
    unsafe { at.add(4095).write(PATTERN ^ 0x10) };
    drop(arena.alloc(Order::ZERO).unwrap());
    let found = found.lock().unwrap();
    assert!(found[0].0.is_single_bit && found[0].0.bytes == (4095..4096), "{found:?}");
}

#[test]
fn a_second_free_is_named_with_both_stacks() {
    let (arena, owner, _) = watched(4 << 20);
    let at = careless_driver(&arena);
    hasty_close(&arena, at);
    let pfn = arena.frame_at(at).unwrap();
    // SAFETY: it is refused.
    let twice = unsafe { arena.engine() }.free(&CX, pfn, Order::ZERO);
    assert_eq!(twice, Err(FreeError::NotAllocated));
    let history = owner.frame(pfn);
    let freed = history.freed.unwrap();
    let names = |stack: &[String], name: &str| stack.iter().any(|function| function.contains(name));
    assert!(names(&freed.freed.stack, "hasty_close"), "{freed:?}");
    assert!(names(&freed.block.unwrap().allocated.stack, "careless_driver"));
}

#[test]
fn what_is_never_freed_is_named_and_nothing_else() {
    let (arena, owner, found) = watched(16 << 20);
    let kept = arena.alloc(Order::of(3)).unwrap();
    forgetful_cache(&arena);
    drop(arena.alloc_bulk(Order::ZERO, 100));
    let (head, rest) = arena.alloc_bytes(13 * 4096).unwrap().split_at(pageyard::Frames(5)).unwrap();
    drop((head, rest));
    drop(kept);
    let leaks = owner.leaks().unwrap();
    assert_eq!((leaks.blocks, leaks.frames.0, leaks.holders.len()), (1, 512, 1));
    assert!(leaks.to_string().contains("forgetful_cache"), "{leaks}");
    assert_eq!(found.lock().unwrap().len(), 0);
    drop(arena);
}

#[test]
fn tags_alone_are_enough_without_stacks() {
    let owner = Owner::new(OwnerKnobs { depth: 0 });
    let arena = Arena::builder().size(4 << 20).observer(&owner).build_locked().unwrap();
    let blocks = tagged("outer", || {
        let outer = arena.alloc(Order::ZERO).unwrap();
        let inner = tagged("inner", || arena.alloc(Order::ZERO).unwrap());
        [outer, inner, arena.alloc(Order::ZERO).unwrap()]
    });
    let report = owner.report();
    let held: Vec<_> = report.holders.iter().map(|h| (h.tag.unwrap(), h.blocks, h.stack.len())).collect();
    assert_eq!(held, [("outer", 2, 0), ("inner", 1, 0)]);
    drop(blocks);
    assert!(owner.leaks().is_none());
}

/// Calls of every kind: blocks, exact counts, bulk, zeros, handles that move, memory that goes back to the host.
fn every_call<O: Observer>(arena: &Arena<TryLock, O>, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut blocks, mut pages, mut handles) = (Vec::new(), Vec::new(), Vec::new());
    let mut zeroed = 0;
    for step in 0..4_000u32 {
        match rng.u8(..12) {
            0..=2 => blocks.extend(arena.alloc(Order::of([0, 0, 1, 4, 9][rng.usize(..5)])).ok()),
            3 => {
                let Ok(block) = arena.alloc_zeroed(Order::of(rng.u8(..4))) else { continue };
                assert!(block.iter().all(|byte| *byte == 0), "step {step}");
                zeroed += 1;
                blocks.push(block);
            }
            4 => pages.extend(arena.alloc_bytes_zeroed(rng.usize(1..40_000)).ok()),
            5 | 6 => handles.extend(arena.alloc_movable(Order::of(rng.u8(..2))).ok()),
            7 if !handles.is_empty() => drop(handles.swap_remove(rng.usize(..handles.len()))),
            8 if !pages.is_empty() => {
                let last: pageyard_arena::Pages<_> = pages.swap_remove(rng.usize(..pages.len()));
                assert!(last.iter().all(|byte| *byte == 0), "step {step}");
            }
            9 => drop(arena.alloc_bulk_zeroed(Order::ZERO, rng.usize(..100))),
            10 if step % 20 == 0 => {
                arena.purge(pageyard::Frames(512)).unwrap();
                arena.compact();
            }
            _ if blocks.len() > 8 => {
                let mut block = blocks.swap_remove(rng.usize(..blocks.len()));
                let clear = rng.bool();
                block.fill(if clear { 0 } else { step as u8 });
                // SAFETY: every byte was just set to zero.
                if clear { unsafe { block.free_zeroed() } } else { drop(block) }
            }
            _ => {}
        }
    }
    assert!(zeroed > 100, "{zeroed} blocks were asked for as zeros");
}

#[test]
fn nothing_is_found_where_nobody_is_at_fault() {
    for (seed, config) in [
        Config::pool(2),
        Config { compaction: true, ..Config::pool(2) },
        Config { init_on_free: true, ..Config::pool(2) },
        Config { init_on_alloc: true, compaction: true, ..Config::pool(2) },
        Config { pcp: false, ..Config::pool(2) },
    ]
    .into_iter()
    .enumerate()
    {
        let (owner, found) = (Arc::new(Owner::new(OwnerKnobs { depth: 0 })), Found::default());
        let report = found.clone();
        let builder: ArenaBuilder<'_, Poison<Arc<Owner>>> = Arena::builder()
            .size(64 << 20)
            .config(config)
            .observer(owner.clone())
            .poison(move |seen| report.lock().unwrap().push((seen.clone(), String::new())));
        let arena = builder.build_locked().unwrap();
        every_call(&arena, seed as u64);
        assert_eq!(*found.lock().unwrap(), [], "configuration {seed}");
        assert!(owner.leaks().is_none(), "configuration {seed}: {}", owner.report());
        let census = arena.audit().unwrap();
        assert_eq!(census.allocated.0, 0);
    }
}

#[test]
fn a_report_that_panics_leaks_the_block_and_nothing_else() {
    let arena: Watched<()> =
        Arena::builder().size(4 << 20).poison(|seen| panic!("{seen}")).build_locked().unwrap();
    let at = careless_driver(&arena);
    hasty_close(&arena, at);
    // SAFETY: as above.
    unsafe { at.write(0) };
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| arena.alloc(Order::ZERO)));
    let said = caught.unwrap_err();
    assert!(said.downcast_ref::<String>().unwrap().contains("written to after it was freed"));
    let census = arena.audit().unwrap();
    assert_eq!(census.allocated.0, 1);
    assert_ne!(arena.alloc(Order::ZERO).unwrap().as_ptr(), at);
}

#[test]
fn requests_fail_on_purpose_by_every_call_of_an_arena() {
    let faults = Arc::new(Faults::off());
    let arena = Arena::builder().size(16 << 20).observer(faults.clone()).build_locked().unwrap();
    drop(arena.alloc(Order::ZERO).unwrap());
    faults.set(FaultKnobs::default());
    assert_eq!(arena.alloc(Order::ZERO).unwrap_err(), AllocError::OutOfMemory);
    assert_eq!(arena.alloc_zeroed(Order::HUGE).unwrap_err(), AllocError::OutOfMemory);
    assert_eq!(arena.alloc_bytes(13 * PAGE_SIZE as usize).unwrap_err(), AllocError::OutOfMemory);
    assert_eq!(arena.alloc_movable(Order::ZERO).unwrap_err(), AllocError::OutOfMemory);
    assert_eq!(arena.alloc_compacting(Order::HUGE).unwrap_err(), AllocError::OutOfMemory);
    assert_eq!(faults.failed(), 5);
    let must = Request::new(Order::ZERO, Migratetype::Movable).with(RequestFlags::NOFAIL);
    drop(arena.alloc_as(&must).unwrap());
    // Forty are handed out, and then one fails.
    faults.set(FaultKnobs { interval: 41, ..FaultKnobs::default() });
    assert_eq!(arena.alloc_bulk(Order::ZERO, 100).len(), 40);
    faults.set(FaultKnobs { interval: 41, ..FaultKnobs::default() });
    assert_eq!(arena.alloc_bulk_zeroed(Order::ZERO, 100).len(), 40);
    assert_eq!(arena.audit().unwrap().allocated.0, 0);
}

#[inline(never)]
fn unmovable_table<'a, O: Observer>(
    arena: &'a Arena<TryLock, O>,
    request: &Request,
) -> Block<&'a Arena<TryLock, O>> {
    arena.alloc_as(request).unwrap()
}

#[test]
fn the_list_in_the_form_of_page_owner_says_who_keeps_pageblocks() {
    let owner = Owner::default();
    let arena = Arena::builder().size(32 << 20).observer(&owner).build_locked().unwrap();
    let huge: Vec<_> = (0..3).map(|_| arena.alloc(Order::HUGE).unwrap()).collect();
    let request = Request::new(Order::ZERO, Migratetype::Unmovable);
    let page = unmovable_table(&arena, &request);
    let file = std::env::temp_dir().join(format!("pageyard-owners-{}", std::process::id()));
    owner.write_page_owner(&mut std::fs::File::create(&file).unwrap()).unwrap();
    let stacks = pageyard_record::host::Stacks::read(&file, &mut |_| ()).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!((stacks.allocations, stacks.unreadable, stacks.lost_pageblocks), (4, 0, 1));
    assert!(stacks.callers[0].caller.contains("unmovable_table"), "{:?}", stacks.callers);
    drop((huge, page));
}

#[test]
fn the_example_names_three_mistakes() {
    let mut cargo = std::process::Command::new(env!("CARGO"));
    let out = cargo
        .args(["run", "--quiet", "--profile", "checked", "-p", "pageyard-debug", "--example", "who-has-it"])
        .output()
        .unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    for name in [
        "1. frame ",
        "bytes 0x40 to 0x45 hold 70 61 63 6b 65 74",
        "receive_buffer",
        "close_ring",
        "2. a second free: ",
        "3. at the end still held: 1 block, 512 frames",
        "forgetful_cache",
    ] {
        assert!(said.contains(name), "{name}: {said}");
    }
}
