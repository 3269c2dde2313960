//! Pageblocks that go offline and come back, and memory that is added later.

use crate::panicking::{ISOLATE, MIGRATE, at_every_callback};
use pageyard::engine::Internals;
use pageyard::reclaim::NoHelp;
use pageyard::{
    Accept, Config, ContigError, CpuId, CpuSet, Cx, FrameRange, Frames, FreeError, MemoryMap, Migratetype,
    NodeId, Order, OwnedPageyard, PageblockId, Pageyard, Pfn, PressureAllocator, RangeFault, Region, Request,
    RequestFlags, TryLock, ZoneId, ZoneKind,
};
use pageyard_testkit::child::in_child;
use pageyard_testkit::owner::{Fault, Owner, Use};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};

const CX: Cx = Cx::on(CpuId(0));
const ALL: u64 = 64 * 512;

type Yard = OwnedPageyard<TryLock>;

fn machine(regions: &[Region]) -> Yard {
    Pageyard::owned(&MemoryMap::new(regions).unwrap(), Config::new(2), TryLock).unwrap()
}

fn region(first: u64, frames: u64) -> Region {
    Region::managed(Pfn(first), Frames(frames), NodeId(0), ZoneKind::Normal)
}

fn offline(yard: &Yard, first: u64, frames: u64) -> Result<(), ContigError> {
    yard.offline_range(&CX, Pfn(first), Frames(frames), &NoHelp)
}

fn online(yard: &Yard, first: u64, frames: u64) -> Result<(), ContigError> {
    yard.online_range(&CX, Pfn(first), Frames(frames))
}

/// Checks the books: this many frames are managed, and this many of them allocated; and the watermarks are those of a
/// zone that size.
fn managed(yard: &Yard, frames: u64, allocated: u64) {
    let census = yard.audit().unwrap();
    assert!(census.is_conserved(), "{census:?}");
    assert_eq!((census.managed, census.allocated), (Frames(frames), Frames(allocated)));
    assert_eq!(census.isolated, Frames::ZERO);
    let stats = yard.zone_stats(ZoneId(0)).unwrap();
    assert_eq!(stats.span.managed, Frames(frames));
    let same = machine(&[region(0, frames)]).zone_stats(ZoneId(0)).unwrap();
    assert_eq!(stats.watermarks, same.watermarks, "{frames} frames");
}

/// Allocates everything, in blocks of an order, and says how many frames there were.
fn takes_all(yard: &Yard, order: u8) -> u64 {
    let request = Request::new(Order::of(order), Migratetype::Movable).with(RequestFlags::MEMALLOC);
    let blocks: Vec<Pfn> = std::iter::from_fn(|| yard.alloc(&CX, &request).ok()).collect();
    for pfn in &blocks {
        assert!(yard.free(&CX, *pfn, request.order).is_ok());
    }
    yard.drain(CpuSet::All);
    (blocks.len() as u64) << order
}

#[test]
fn what_is_offline_is_not_managed_until_it_is_back() {
    let yard = machine(&[region(0, ALL)]);
    for (first, frames) in [(512, 512), (0, 1024), (ALL - 512, 512), (2048, 16 * 512)] {
        offline(&yard, first, frames).unwrap();
        managed(&yard, ALL - frames, 0);
        assert_eq!((takes_all(&yard, 0), takes_all(&yard, 9)), (ALL - frames, ALL - frames));
        assert_eq!(yard.free(&CX, Pfn(first), Order::ZERO), Err(FreeError::OutsideArena));
        let freed = yard.free_range(&CX, Pfn(first), Frames(frames)).unwrap_err();
        assert_eq!((freed.at, freed.why), (Pfn(first), RangeFault::Free(FreeError::OutsideArena)));
        assert!(yard.claim_exact(&CX, Pfn(first), Order::of(9), Migratetype::Movable).is_err());
        assert!(!yard.isolate(&CX, PageblockId(first / 512)));
        assert_eq!(offline(&yard, first, frames), Err(ContigError::OutsideArena { at: Pfn(first) }));
        online(&yard, first, frames).unwrap();
        managed(&yard, ALL, 0);
        assert_eq!(online(&yard, first, frames), Err(ContigError::Busy { at: Pfn(first) }));
    }
    assert_eq!(takes_all(&yard, 14), ALL, "runs of pageblocks are whole again");
}

#[test]
fn contents_move_first_and_what_stays_is_named() {
    let yard = machine(&[region(0, ALL)]);
    let owner = Owner::new(&*yard, Fault::None);
    for pfn in (7..ALL).step_by(100).map(Pfn) {
        yard.claim_exact(&CX, pfn, Order::ZERO, Migratetype::Movable).unwrap();
        owner.keep(pfn, Order::ZERO, Use::Movable);
    }
    let held = owner.frames();
    assert_eq!(offline(&yard, 1024, 512), Err(ContigError::Busy { at: Pfn(1107) }), "nothing moves it");
    yard.offline_range(&CX, Pfn(1024), Frames(1024), &owner).unwrap();
    assert!(owner.pfns().iter().all(|pfn| !(1024..2048).contains(&pfn.0)));
    managed(&yard, ALL - 1024, held);
    owner.check(&[]);
    online(&yard, 1536, 512).unwrap();
    managed(&yard, ALL - 512, held);
    // A block of several frames stays, and with it the pageblock.
    yard.claim_exact(&CX, Pfn(1536), Order::of(2), Migratetype::Movable).unwrap();
    assert_eq!(
        yard.offline_range(&CX, Pfn(1536), Frames(512), &owner),
        Err(ContigError::Busy { at: Pfn(1536) })
    );
    managed(&yard, ALL - 512, held + 4);
}

#[test]
fn memory_that_is_added_later_comes_online_once() {
    let mut later = region(8 * 512, 8 * 512);
    later.managed = false;
    let yard = machine(&[region(0, 8 * 512), later, region(16 * 512, 100)]);
    // SAFETY: no frame here is real memory.
    let add = |first, frames| unsafe { yard.add_range(&CX, Pfn(first), Frames(frames)) };
    let census = yard.audit().unwrap();
    assert_eq!(census.managed, Frames(8 * 512 + 100));
    assert_eq!(online(&yard, 4096, 512), Err(ContigError::Busy { at: Pfn(4096) }), "it was never there");
    let refused = |first, frames| add(first, frames).map_err(|e| (e.at.0, e.why)).unwrap_err();
    assert_eq!(refused(0, 512), (0, RangeFault::Free(FreeError::NotAllocated)), "it is there, and free");
    let outside = RangeFault::Free(FreeError::OutsideArena);
    assert_eq!(refused(4096 + 7 * 512, 1024), (16 * 512 + 100, outside));
    add(4096, 1024).unwrap();
    assert_eq!(refused(4096, 1024), (4096, RangeFault::Free(FreeError::NotAllocated)));
    assert_eq!(yard.audit().unwrap().free, Frames(10 * 512 + 100));
    // Once it was there it goes and comes as all other memory.
    offline(&yard, 4096, 512).unwrap();
    assert_eq!(refused(4096, 512), (4096, outside), "what was taken offline comes back as a whole");
    online(&yard, 4096, 512).unwrap();
    add(5120, 6 * 512).unwrap();
    assert_eq!(takes_all(&yard, 9), 16 * 512);
    assert_eq!(yard.audit().unwrap().managed, Frames(16 * 512 + 100));
}

#[test]
fn wrong_ranges_are_refused() {
    let yard = machine(&[region(0, ALL)]);
    for call in [offline, online] {
        assert_eq!(call(&yard, 512, 0), Err(ContigError::BadRange));
        assert_eq!(call(&yard, 512, u64::MAX), Err(ContigError::BadRange));
        assert_eq!(call(&yard, 100, 512), Err(ContigError::Misaligned));
        assert_eq!(call(&yard, 512, 100), Err(ContigError::Misaligned));
        assert_eq!(call(&yard, ALL, 512), Err(ContigError::OutsideArena { at: Pfn(ALL) }));
    }
    let nowhere = Cx::on(CpuId(9));
    assert_eq!(yard.offline_range(&nowhere, Pfn(0), Frames(512), &NoHelp), Err(ContigError::NoSuchCpu));
    assert_eq!(yard.online_range(&nowhere, Pfn(0), Frames(512)), Err(ContigError::NoSuchCpu));
    let area = yard.declare_cma(&CX, Pfn(1024), Frames(512)).unwrap();
    assert_eq!(offline(&yard, 512, 1024), Err(ContigError::Busy { at: area.range().first }));
    assert!(yard.isolate(&CX, PageblockId(7)));
    assert_eq!(offline(&yard, 6 * 512, 1024), Err(ContigError::Isolated { at: Pfn(7 * 512) }));
    yard.restore(&CX, PageblockId(7));
    managed(&yard, ALL, 0);
}

#[test]
fn a_panic_of_the_owner_takes_nothing_offline() {
    in_child("hotplug::a_panic_of_the_owner_takes_nothing_offline", || {
        at_every_callback("offline", &[ISOLATE, MIGRATE], |yard, keeper| {
            if yard.offline_range(&CX, Pfn(0), Frames(512), keeper).is_ok() {
                yard.online_range(&CX, Pfn(0), Frames(512)).unwrap();
            }
        });
    });
}

#[test]
fn pageblocks_come_and_go_beside_everything_else() {
    let yard = &machine(&[region(0, ALL)]);
    let owner = &Owner::new(&**yard, Fault::None);
    std::thread::scope(|s| {
        for cpu in 0..2 {
            s.spawn(move || {
                let (cx, mut random) = (Cx::on(CpuId(cpu)), fastrand::Rng::with_seed(cpu.into()));
                for _ in 0..300 {
                    let (first, frames) = (Pfn(512 * random.u64(..62)), Frames(512 * random.u64(1..3)));
                    if yard.offline_range(&cx, first, frames, owner).is_ok() {
                        yard.online_range(&cx, first, frames).unwrap();
                    }
                }
            });
        }
        s.spawn(move || {
            let mut random = fastrand::Rng::with_seed(9);
            let request = Request::new(Order::ZERO, Migratetype::Movable);
            for _ in 0..20_000 {
                if random.bool() {
                    if let Ok(pfn) = yard.alloc(&CX, &request) {
                        owner.keep(pfn, Order::ZERO, Use::Movable);
                    }
                } else if let Some(pfn) = owner.any(random.usize(..1000)) {
                    owner.free(&CX, pfn);
                }
            }
        });
    });
    owner.check(&[]);
    owner.free_if(&CX, |_| true);
    yard.drain(CpuSet::All);
    managed(yard, ALL, 0);
    assert_eq!(takes_all(yard, 9), ALL);
}

/// A machine whose second half is a hole, or present and not managed.
fn half(present: bool) -> Yard {
    let (low, high) = (region(0, ALL / 2), Region { managed: false, ..region(ALL / 2, ALL / 2) });
    let last = region(ALL, 512);
    machine(&if present { [low, high, last] } else { [low, Region { frames: Frames(0), ..high }, last] })
}

/// # Safety
/// As [`Pageyard::add_range`]: nothing of these machines is memory.
unsafe fn add(yard: &Yard, first: u64, frames: u64) -> Result<(), pageyard::RangeError> {
    // SAFETY: the caller's promise.
    unsafe { yard.add_range(&CX, Pfn(first), Frames(frames)) }
}

#[test]
fn memory_is_added_frame_by_frame_in_any_order_and_merges() {
    for present in [true, false] {
        let yard = half(present);
        let mut rng = fastrand::Rng::with_seed(7);
        let mut cuts: Vec<u64> = (0..60).map(|_| ALL / 2 + rng.u64(1..ALL / 2)).collect();
        cuts.extend([ALL / 2, ALL / 2 + 512, ALL / 2 + 1024, ALL]);
        cuts.sort_unstable();
        cuts.dedup();
        let mut parts: Vec<_> = cuts.windows(2).map(|w| (w[0], w[1] - w[0])).collect();
        rng.shuffle(&mut parts);
        let mut all = ALL / 2 + 512;
        for (first, frames) in parts {
            // SAFETY: frames are numbers here.
            unsafe { add(&yard, first, frames) }.unwrap();
            all += frames;
            let census = yard.audit().unwrap();
            assert!(census.is_conserved(), "{census:?}");
            assert_eq!((census.managed, census.allocated), (Frames(all), Frames::ZERO));
        }
        yard.drain(CpuSet::All);
        managed(&yard, ALL + 512, 0);
        assert_eq!((takes_all(&yard, 0), takes_all(&yard, 14)), (ALL + 512, ALL));
    }
}

#[test]
fn what_is_added_twice_is_a_wrong_free_and_what_is_allocated_is_freed() {
    let yard = half(true);
    let first = ALL / 2 + 37;
    // SAFETY: frames are numbers here.
    unsafe {
        add(&yard, first, 5).unwrap();
        let again = add(&yard, first, 5).unwrap_err();
        assert_eq!((again.at, again.why), (Pfn(first), RangeFault::Free(FreeError::NotAllocated)));
        assert_eq!(yard.audit().unwrap().managed, Frames(ALL / 2 + 512 + 5));
        let held = yard.alloc(&CX, &Request::new(Order::of(3), Migratetype::Movable)).unwrap();
        add(&yard, held.0, 8).unwrap();
        assert_eq!(yard.audit().unwrap().allocated, Frames::ZERO);
        for (first, frames) in [(ALL + 512, 1), (ALL + 500, 13), (u64::MAX, 1), (u64::MAX - 5, 10)] {
            assert!(add(&yard, first, frames).is_err(), "{first} {frames}");
        }
        assert_eq!(add(&yard, first, 0).unwrap_err().why, RangeFault::Empty);
        offline(&yard, 0, 512).unwrap();
        let refused = add(&yard, 0, 512).unwrap_err();
        assert_eq!((refused.at, refused.why), (Pfn(0), RangeFault::Free(FreeError::OutsideArena)));
    }
    assert!(yard.audit().unwrap().is_conserved());
}

#[test]
fn two_threads_add_parts_of_the_same_pageblocks_while_others_allocate() {
    for seed in 0..20 {
        let yard = half(seed % 2 == 0);
        std::thread::scope(|scope| {
            for cpu in 0..2 {
                let yard = &yard;
                scope.spawn(move || {
                    let cx = Cx::on(CpuId(cpu));
                    let mut rng = fastrand::Rng::with_seed(seed);
                    let mut at = ALL / 2;
                    // Both cut alike; each adds every second piece.
                    for piece in 0.. {
                        let n = rng.u64(1..200).min(ALL - at);
                        if n == 0 {
                            break;
                        }
                        if piece % 2 == cpu {
                            let mut left = FrameRange::new(Pfn(at), Frames(n));
                            // SAFETY: frames are numbers here.
                            while let Err(why) = unsafe { yard.add_range(&cx, left.first, left.frames) } {
                                assert_eq!(why.why, RangeFault::Free(FreeError::Busy), "{why}");
                                left = FrameRange::new(why.at, Frames(at + n - why.at.0));
                                std::thread::yield_now();
                            }
                            let request = Request::new(Order::of(2), Migratetype::Unmovable);
                            let held = yard.alloc(&cx, &request).unwrap();
                            yard.free(&cx, held, request.order).unwrap();
                        }
                        at += n;
                    }
                });
            }
        });
        yard.drain(CpuSet::All);
        managed(&yard, ALL + 512, 0);
    }
}

thread_local! {
    /// The pageblocks that the platform was asked for.
    static ASKED: RefCell<Vec<FrameRange>> = const { RefCell::new(Vec::new()) };
}

/// Accepts everything, and notes it.
fn accept(range: FrameRange) -> bool {
    ASKED.with_borrow_mut(|asked| asked.push(range));
    true
}

/// Accepts every second pageblock, and the ends.
fn accept_even(range: FrameRange) -> bool {
    accept(range) && (range.frames.0 < 512 || (range.first.0 / 512).is_multiple_of(2))
}

fn asked() -> Vec<(u64, u64)> {
    ASKED.with_borrow_mut(|asked| asked.drain(..).map(|range| (range.first.0, range.frames.0)).collect())
}

/// A machine that keeps nothing back, whose second half waits to be accepted, but for its first 100 frames and its
/// last.
fn waiting(accept: fn(FrameRange) -> bool) -> Yard {
    let rest = Region { managed: false, ..region(ALL / 2, ALL / 2) };
    let config = Config { accept: Some(Accept(accept)), ..Config::kernel(2) };
    let yard =
        Pageyard::owned(&MemoryMap::new(&[region(0, ALL / 2), rest]).unwrap(), config, TryLock).unwrap();
    // SAFETY: frames are numbers here.
    unsafe { yard.add_unaccepted(&CX, Pfn(ALL / 2 + 100), Frames(ALL / 2 - 101)) }.unwrap();
    yard
}

fn alloc(yard: &Yard, order: u8, flags: RequestFlags) -> Option<Pfn> {
    yard.alloc(&CX, &Request::new(Order::of(order), Migratetype::Movable).with(flags)).ok()
}

#[test]
fn memory_is_accepted_when_a_request_needs_it_and_not_before() {
    let yard = waiting(accept);
    assert_eq!(asked(), [(ALL / 2 + 100, 412), (ALL - 512, 511)], "the ends, at once");
    let count = || (yard.audit().unwrap().managed.0, yard.unaccepted().0);
    assert_eq!(count(), (ALL / 2 + 923, 30 * 512));
    for _ in 0..32 {
        assert!(alloc(&yard, 9, RequestFlags::NON_BLOCKING).is_some());
    }
    assert_eq!((asked(), yard.unaccepted().0), (vec![], 30 * 512));
    // One at a time, the lowest first, for requests that may not wait as for others.
    for n in 0..4 {
        let flags = if n % 2 == 0 { RequestFlags::NON_BLOCKING } else { RequestFlags::default() };
        assert_eq!(alloc(&yard, 9, flags), Some(Pfn(ALL / 2 + 512 * (n + 1))));
        assert_eq!(asked(), [(ALL / 2 + 512 * (n + 1), 512)]);
    }
    // A run of pageblocks takes as many as it needs, and bulk all there are.
    assert!(alloc(&yard, 11, RequestFlags::NON_BLOCKING).is_some());
    assert_eq!((asked().len(), yard.unaccepted().0), (7, 19 * 512));
    let mut all = vec![Pfn(0); ALL as usize];
    let order0 = Request::new(Order::ZERO, Migratetype::Movable);
    let got = yard.alloc_bulk(&CX, &order0, &mut all) as u64;
    assert_eq!((got, yard.unaccepted().0, asked().len()), (ALL - 101 - 40 * 512, 0, 19));
    assert_eq!(alloc(&yard, 0, RequestFlags::default()), None);
    let census = yard.audit().unwrap();
    assert!(census.is_conserved() && census.managed == Frames(ALL - 101), "{census:?}");
}

#[test]
fn the_best_zone_is_accepted_before_another_one_serves() {
    let high = Region { zone: ZoneKind::Normal, ..region(ALL / 2, 512) };
    let rest = Region { managed: false, ..region(ALL / 2 + 512, ALL / 2 - 512) };
    let low = Region { zone: ZoneKind::Dma32, ..region(0, ALL / 2) };
    let config = Config { accept: Some(Accept(accept)), ..Config::kernel(1) };
    let yard = Pageyard::owned(&MemoryMap::new(&[low, high, rest]).unwrap(), config, TryLock).unwrap();
    // SAFETY: frames are numbers here.
    unsafe { yard.add_unaccepted(&CX, Pfn(ALL / 2 + 512), Frames(512)) }.unwrap();
    let got = [(); 3].map(|()| alloc(&yard, 9, RequestFlags::default()).unwrap().0);
    assert_eq!(got[..2], [ALL / 2, ALL / 2 + 512]);
    assert!(got[2] < ALL / 2 && asked().len() == 1);
}

#[test]
fn what_the_platform_refuses_is_a_hole_and_the_next_is_tried() {
    let yard = waiting(accept_even);
    let huge = std::iter::from_fn(|| alloc(&yard, 9, RequestFlags::default())).count() as u64;
    assert_eq!((huge, yard.unaccepted().0), (32 + 15, 0));
    assert_eq!(asked().len(), 2 + 30, "each was asked for once");
    assert!(yard.audit().unwrap().is_conserved());
    // What was refused is memory like any other hole, to one that knows better.
    // SAFETY: frames are numbers here.
    unsafe { add(&yard, ALL / 2 + 512, 512) }.unwrap();
    assert_eq!(alloc(&yard, 9, RequestFlags::default()), Some(Pfn(ALL / 2 + 512)));
}

#[test]
fn memory_that_waits_is_reached_by_no_other_call_and_added_once() {
    let yard = waiting(accept);
    let (at, outside) = (ALL / 2 + 1024, RangeFault::Free(FreeError::OutsideArena));
    // SAFETY: frames are numbers here.
    unsafe {
        assert_eq!(add(&yard, at, 512).unwrap_err().why, outside);
        let again =
            |first, frames| yard.add_unaccepted(&CX, Pfn(first), Frames(frames)).map_err(|e| (e.at.0, e.why));
        assert_eq!(again(at, 512), Err((at, RangeFault::Managed)));
        assert_eq!(again(at + 5, 12), Err((at + 5, RangeFault::Managed)));
        assert_eq!(again(0, 512), Err((0, RangeFault::Managed)));
        assert_eq!(again(ALL / 2 + 99, 2), Err((ALL / 2 + 99, RangeFault::Managed)));
        assert_eq!(again(ALL, 1), Err((ALL, outside)));
        assert_eq!(again(at, 0), Err((at, RangeFault::Empty)));
    }
    assert!(online(&yard, at, 512).is_err() && offline(&yard, at, 512).is_err());
    assert!(!yard.isolate(&CX, PageblockId(at / 512)));
    assert_eq!(yard.free(&CX, Pfn(at), Order::of(9)), Err(FreeError::OutsideArena));
    // Compaction, and the notes that it forgets, leave it alone.
    assert!(yard.compact_zone_with(&CX, ZoneId(0), &NoHelp).is_ok());
    yard.kswapd_with(&CX, &NoHelp).unwrap();
    offline(&yard, ALL / 2 - 512, 512).unwrap();
    // SAFETY: frames are numbers here.
    let again = unsafe { yard.add_unaccepted(&CX, Pfn(ALL / 2 - 100), Frames(50)) }.unwrap_err();
    assert_eq!((again.at, again.why), (Pfn(ALL / 2 - 100), outside), "what is offline comes back as a whole");
    online(&yard, ALL / 2 - 512, 512).unwrap();
    assert_eq!((yard.unaccepted().0, asked().len()), (30 * 512, 2));
    assert!(yard.audit().unwrap().is_conserved());
    assert_eq!(std::iter::from_fn(|| alloc(&yard, 9, RequestFlags::default())).count(), 32 + 30);
    let none = machine(&[region(0, 512), region(1024, 512)]);
    // SAFETY: frames are numbers here.
    let refused = unsafe { none.add_unaccepted(&CX, Pfn(512), Frames(512)) }.unwrap_err();
    assert_eq!((refused.at, refused.why), (Pfn(512), RangeFault::NotAccepted), "nothing accepts");
}

#[test]
fn a_callback_that_panics_loses_its_pageblock_and_nothing_else() {
    in_child("hotplug::a_callback_that_panics_loses_its_pageblock_and_nothing_else", || {
        let yard = waiting(|range| if range.first == Pfn(ALL / 2 + 512) { panic!("planted") } else { true });
        let take = || alloc(&yard, 9, RequestFlags::default());
        let caught = || std::panic::catch_unwind(std::panic::AssertUnwindSafe(take));
        assert!((0..32).all(|_| take().is_some()));
        assert!(caught().is_err());
        assert_eq!(take(), Some(Pfn(ALL / 2 + 1024)));
        assert_eq!(std::iter::from_fn(take).count(), 28);
        assert!(yard.unaccepted() == Frames::ZERO && alloc(&yard, 0, RequestFlags::default()).is_some());
        assert!(yard.audit().unwrap().is_conserved());
    });
}

#[test]
fn each_pageblock_is_accepted_by_one_thread() {
    static TIMES: [AtomicU32; (ALL / 512) as usize] = [const { AtomicU32::new(0) }; (ALL / 512) as usize];
    for _ in 0..20 {
        let yard = &waiting(|range| {
            // ORDER: Relaxed: read after the threads have ended.
            TIMES[(range.first.0 / 512) as usize].fetch_add(1, Ordering::Relaxed);
            true
        });
        let held: u64 = std::thread::scope(|scope| {
            let take = |cpu| {
                let (cx, request) = (Cx::on(CpuId(cpu)), Request::new(Order::of(4), Migratetype::Movable));
                std::iter::from_fn(|| yard.alloc(&cx, &request).ok()).count() as u64
            };
            let threads = [0, 1].map(|cpu| scope.spawn(move || take(cpu)));
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        });
        let census = yard.audit().unwrap();
        assert!(census.is_conserved() && census.allocated == Frames(held * 16), "{census:?}");
        assert_eq!((yard.unaccepted(), census.managed), (Frames::ZERO, Frames(ALL - 101)));
    }
    let times = TIMES[(ALL / 1024) as usize..].iter().map(|n| n.load(Ordering::Relaxed));
    assert!(times.into_iter().all(|n| n == 20));
}

#[test]
fn configurations_differ_where_their_callbacks_do() {
    fn all(_: FrameRange) -> bool {
        true
    }
    fn some(range: FrameRange) -> bool {
        range.frames.0 > 1
    }
    let with = |accept| Config { accept: Some(Accept(accept)), ..Config::kernel(1) };
    assert_eq!(with(all), with(all));
    assert_ne!(with(all), with(some));
    assert_ne!(with(all), Config::kernel(1));
}
