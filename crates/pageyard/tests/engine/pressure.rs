//! The engine's slow path and compaction: the common suite, and what choosing by index must reach.

use pageyard::compaction::{Busy, Listed, Migrate, MigrateError, Mode};
use pageyard::engine::Internals;
use pageyard::reclaim::{Priority, Reclaimed, Shortage};
use pageyard::{
    CompactorId, Config, Counter, CpuId, CpuSet, Cx, Exclusive, Frames, MemoryMap, Migratetype, NodeId,
    Order, OwnedPageyard, PageAllocator, PageblockId, Pageyard, PerCpu, Pfn, PressureAllocator, Reclaim,
    Region, Request, RequestFlags, TryLock, ZoneId, ZoneKind,
};
use pageyard_testkit::owner::{Fault, Owner, Use};
use pageyard_testkit::pressure::pressure_suite;
use pageyard_testkit::slow_order::{ASYNC, GivesBack, LIGHT, RECLAIM, Ways, slow_path_order};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const CX: Cx = Cx::on(CpuId(0));
const HUGE: Order = Order::of(9);

fn built<P: PerCpu>(frames: u64, config: Config, percpu: P) -> OwnedPageyard<P> {
    let regions = [Region::managed(Pfn(0), Frames(frames), NodeId(0), ZoneKind::Normal)];
    Pageyard::owned(&MemoryMap::new(&regions).unwrap(), config, percpu).unwrap()
}

#[test]
fn the_suite_passes() {
    pressure_suite(|frames| built(frames, Config::new(2), TryLock));
}

#[test]
fn the_suite_passes_without_lists() {
    pressure_suite(|frames| built(frames, Config { pcp: false, ..Config::new(2) }, TryLock));
}

#[test]
fn requests_wait_in_the_engines_order() {
    let ways = Ways {
        // One attempt more than Linux: what was reclaimed may be what compaction lacked.
        costly: &[ASYNC, RECLAIM, LIGHT, RECLAIM],
        // A huge page is not worth any page cache.
        noretry: &[ASYNC],
        retry_mayfail: &[ASYNC, RECLAIM, LIGHT, RECLAIM, RECLAIM],
        starved: [&[RECLAIM, RECLAIM], &[], &[RECLAIM, RECLAIM, RECLAIM]],
        // Compaction is cheap here, so it comes first for every block.
        small_movable: ASYNC,
        in_vain: Priority::HARDEST,
        gives_back: GivesBack::First,
    };
    slow_path_order(|frames| built(frames, Config::new(2), TryLock), &ways);
}

/// Memory with a random half free and no free huge block; `pinned` says which frames are pinned.
fn half_free<E: PageAllocator>(engine: &E, pinned: impl Fn(Pfn) -> bool) -> (Owner<'_, E>, Vec<Pfn>) {
    let owner = Owner::new(engine, Fault::None);
    let mut random = fastrand::Rng::with_seed(7);
    let mut pins = Vec::new();
    owner.fill(&CX, |pfn| match pinned(pfn) {
        true => {
            pins.push(pfn);
            Use::Pinned
        }
        false => Use::Movable,
    });
    let free: std::cell::RefCell<_> = std::cell::RefCell::new(&mut random);
    owner.free_if(&CX, |pfn| !pinned(pfn) && free.borrow_mut().bool());
    engine.drain(CpuSet::All);
    (owner, pins)
}

fn huge_free<E: PageAllocator>(engine: &E) -> u64 {
    let blocks = engine.zone_stats(ZoneId(0)).unwrap().blocks_by_order();
    (9..blocks.len()).map(|o| blocks[o] << (o - 9)).sum()
}

/// Says at random, but reproducibly, whether something holds for a number.
fn chance(n: u64, of_100_000: u64) -> bool {
    let x = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (x ^ x >> 32) % 100_000 < of_100_000
}

/// Background compaction of half-free memory; returns what pins allow, what it recovered, what an optimal plan would
/// move, and what it moved.
fn recovered(frames: u64, pinned: impl Fn(Pfn) -> bool) -> (u64, u64, u64, u64) {
    let engine = built(frames, Config::new(1), TryLock);
    let (owner, pins) = half_free(&engine, &pinned);
    assert_eq!(huge_free(&engine), 0);
    let held: std::collections::HashSet<u64> = owner.pfns().into_iter().map(|p| p.0).collect();
    let mut used: Vec<(u64, bool)> = (0..frames / 512)
        .map(|b| {
            let all = b * 512..(b + 1) * 512;
            (all.clone().filter(|p| held.contains(p)).count() as u64, all.clone().any(|p| pinned(Pfn(p))))
        })
        .collect();
    // What an optimal plan does: empty pin-free pageblocks, the emptiest first, as long as the others have room.
    let mut room: u64 = used.iter().map(|(u, _)| 512 - u).sum();
    used.retain(|(_, pins)| !pins);
    used.sort_unstable();
    let (mut allowed, mut least) = (0, 0);
    for (u, _) in used {
        // Emptying it takes its own room away as well as what its frames need elsewhere.
        if room < 512 {
            break;
        }
        room -= 512;
        allowed += 1;
        least += u;
    }
    let (outcome, work) = engine.compact_zone_with(&CX, ZoneId(0), &owner).unwrap();
    let got = huge_free(&engine);
    owner.check(&pins);
    println!(
        "{outcome:?} pins allow {allowed}, recovered {got}, must move {least}, moved {}, {work:?}",
        work.moved
    );
    (allowed, got, least, work.moved)
}

#[test]
fn the_background_recovers_nine_tenths_of_what_pins_allow_and_moves_little_more_than_it_must() {
    const FRAMES: u64 = 512 * 512;
    // A frame in 740 is pinned: about half of the pageblocks have none. And: pins in one pageblock of ten.
    let spread = recovered(FRAMES, |pfn| chance(pfn.0, 135));
    let clustered = recovered(FRAMES, |pfn| chance(pfn.0 / 512 + (1 << 40), 10_000) && pfn.0 % 64 == 3);
    for (allowed, got, least, moved) in [spread, clustered] {
        assert!(got * 10 >= allowed * 9, "{got} of {allowed}");
        assert!(moved * 2 <= least * 3, "{moved} instead of {least}");
    }
}

/// An owner in the middle of whose 40th move a second compaction runs to its end.
struct Interrupted<'e> {
    owner: Owner<'e, OwnedPageyard<TryLock>>,
    engine: &'e OwnedPageyard<TryLock>,
    moves: AtomicU64,
    /// The pageblocks between which the first compaction moves a frame meanwhile.
    taken: Mutex<Option<[PageblockId; 2]>>,
    /// Frames that the second one moved.
    second: AtomicU64,
}

impl Interrupted<'_> {
    fn check_free(&self, pfn: Pfn) {
        let taken = self.taken.lock().unwrap();
        assert!(
            taken.is_none_or(|blocks| !blocks.contains(&pfn.pageblock())),
            "{pfn} is in the first one's use"
        );
    }
}

impl Reclaim for Interrupted<'_> {
    fn reclaim(&self, cx: &Cx, shortage: &Shortage) -> Reclaimed {
        self.owner.reclaim(cx, shortage)
    }

    fn reclaimable(&self, zone: ZoneId) -> Frames {
        self.owner.reclaimable(zone)
    }
}

// SAFETY: it does what the owner does.
unsafe impl Migrate for Interrupted<'_> {
    type Isolated = Pfn;

    fn isolate(&self, pfn: Pfn, mode: Mode) -> Result<Pfn, Busy> {
        self.check_free(pfn);
        self.owner.isolate(pfn, mode)
    }

    fn migrate(&self, from: &mut Pfn, to: Pfn, mode: Mode) -> Result<(), MigrateError> {
        self.check_free(*from);
        self.check_free(to);
        if self.moves.fetch_add(1, SeqCst) == 40 {
            *self.taken.lock().unwrap() = Some([from.pageblock(), to.pageblock()]);
            let (_, work) = self.engine.compact_zone_with(&Cx::on(CpuId(1)), ZoneId(0), self).unwrap();
            *self.taken.lock().unwrap() = None;
            self.second.store(work.moved, SeqCst);
        }
        self.owner.migrate(from, to, mode)
    }

    fn putback(&self, from: Pfn) {
        self.owner.putback(from);
    }
}

#[test]
fn two_compactors_never_use_a_pageblock_for_opposite_ends_and_lose_nothing() {
    let engine = built(128 * 512, Config::new(2), TryLock);
    let (owner, pins) = half_free(&engine, |pfn| pfn.0 % 5120 == 7);
    let (moves, second) = (AtomicU64::new(0), AtomicU64::new(0));
    let helper = Interrupted { owner, engine: &engine, moves, taken: Mutex::default(), second };
    let (_, work) = engine.compact_zone_with(&CX, ZoneId(0), &helper).unwrap();
    assert!(work.moved > 40 && helper.second.load(SeqCst) > 0, "both had something to do");
    helper.owner.check(&pins);
    for block in (0..128).map(PageblockId) {
        assert!(engine.lease_pageblock(block, CompactorId(9)), "{block:?} is still leased");
        assert!(engine.unlease_pageblock(block));
    }
}

/// An owner that wants its CPU, or has too many frames isolated.
struct Restrains<'e> {
    owner: Owner<'e, OwnedPageyard<TryLock>>,
    yields: bool,
    listed: Listed,
    /// How often a compaction waited.
    waits: AtomicU64,
}

impl Reclaim for Restrains<'_> {
    fn reclaim(&self, _: &Cx, _: &Shortage) -> Reclaimed {
        Reclaimed::default()
    }

    fn reclaimable(&self, _: ZoneId) -> Frames {
        Frames::ZERO
    }
}

// SAFETY: it does what the owner does.
unsafe impl Migrate for Restrains<'_> {
    type Isolated = Pfn;

    fn isolate(&self, pfn: Pfn, mode: Mode) -> Result<Pfn, Busy> {
        self.owner.isolate(pfn, mode)
    }

    fn migrate(&self, from: &mut Pfn, to: Pfn, mode: Mode) -> Result<(), MigrateError> {
        self.owner.migrate(from, to, mode)
    }

    fn must_yield(&self) -> bool {
        self.yields
    }

    fn listed(&self, _: ZoneId) -> Option<Listed> {
        Some(self.listed)
    }

    fn wait_for_isolated(&self) -> bool {
        self.waits.fetch_add(1, SeqCst) < 5
    }

    fn putback(&self, from: Pfn) {
        self.owner.putback(from);
    }
}

#[test]
fn a_compaction_gives_way_where_its_cpu_is_wanted_or_too_much_is_isolated() {
    let few = Listed { listed: Frames(100), isolated: Frames(50) };
    let many = Listed { listed: Frames(100), isolated: Frames(51) };
    // Only an asynchronous compaction, which is all that a costly request without retries asks for, yields its CPU;
    // only one that may wait does so, until the owner says that it is not to go on.
    for (noretry, yields, listed, moves, waits) in [
        (true, false, few, true, 0),
        (true, true, few, false, 0),
        (true, false, many, false, 0),
        (false, true, few, true, 0),
        // Five times in vain, and at once refused in this attempt and the next.
        (false, false, many, false, 7),
    ] {
        let engine = built(64 * 512, Config::new(1), TryLock);
        let (owner, pins) = half_free(&engine, |pfn| pfn.0 % 5120 == 7);
        let helper = Restrains { owner, yields, listed, waits: AtomicU64::new(0) };
        let flags = if noretry { RequestFlags::NORETRY } else { RequestFlags::empty() };
        let got = engine.alloc_with(&CX, &Request::new(HUGE, Migratetype::Movable).with(flags), &helper);
        got.iter().for_each(|pfn| helper.owner.keep(*pfn, HUGE, Use::Pinned));
        let case = (noretry, yields, listed);
        assert_eq!(engine.stats()[Counter::PgmigrateSuccess] > 0, moves, "{case:?}");
        assert_eq!((got.is_ok(), helper.waits.load(SeqCst)), (moves, waits), "{case:?}");
        helper.owner.check(&pins);
    }
}

#[test]
fn four_threads_may_allocate_and_free_while_two_compact() {
    let engine = built(64 * 512, Config::new(4), TryLock);
    let (owner, pins) = half_free(&engine, |pfn| pfn.0 % 5120 == 7);
    std::thread::scope(|s| {
        for cpu in 0..4u32 {
            let (engine, owner) = (&engine, &owner);
            s.spawn(move || {
                let mut random = fastrand::Rng::with_seed(u64::from(cpu));
                let cx = Cx::on(CpuId(cpu));
                for _ in 0..4000 {
                    if random.bool() {
                        if let Ok(pfn) = engine.alloc(&cx, &Request::new(Order::ZERO, Migratetype::Movable)) {
                            owner.keep(pfn, Order::ZERO, Use::Movable);
                        }
                    } else if let Some(pfn) = owner.any(random.usize(..64)).filter(|p| p.0 % 5120 != 7) {
                        owner.free(&cx, pfn);
                    }
                }
            });
        }
        for cpu in 0..2u32 {
            let (engine, owner) = (&engine, &owner);
            s.spawn(move || {
                for _ in 0..20 {
                    let _ = engine.compact_zone_with(&Cx::on(CpuId(cpu)), ZoneId(0), owner);
                }
            });
        }
    });
    engine.drain(CpuSet::All);
    owner.check(&pins);
}

#[test]
fn a_request_scans_a_few_pageblocks_and_takes_its_targets_directly() {
    let engine = built(512 * 512, Config::new(1), TryLock);
    let (owner, _) = half_free(&engine, |pfn| chance(pfn.0, 135));
    for order in [4, 9] {
        let request = Request::new(Order::of(order), Migratetype::Unmovable);
        let mut looked = 0;
        let before = engine.stats();
        for _ in 0..20 {
            let pfn = engine.alloc_with(&CX, &request, &owner).unwrap();
            owner.keep(pfn, Order::of(order), Use::Pinned);
        }
        let after = engine.stats();
        for c in
            [Counter::CompactMigrateScanned, Counter::CompactFreeScanned, Counter::CompactFreeDirectAlloc]
        {
            looked += after[c] - before[c];
        }
        println!("order {order}: {} frames examined or taken for each success", looked / 20);
        // A block inside a pageblock is found by a word of bits; a whole pageblock is looked at frame by frame.
        assert!(looked / 20 < if order < 9 { 3 * 64 } else { 16 * 512 }, "order {order}: {looked}");
        assert_eq!(after[Counter::CompactFreeScanned], 0);
    }
    owner.check(&[]);
}

#[test]
fn free_frames_in_unmovable_pageblocks_serve_unmovable_requests_without_reclaim() {
    let engine = built(64 * 512, Config { pcp: false, ..Config::new(1) }, TryLock);
    let owner = Owner::new(&engine, Fault::None);
    let unmovable = |order| Request::new(Order::of(order), Migratetype::Unmovable);
    let mut pins = Vec::new();
    let part = Order::of(5);
    for _ in 0..32 {
        let block = engine.alloc(&CX, &unmovable(9)).unwrap();
        engine.split(&Cx::on(CpuId(0)), block, Order::of(9), part).unwrap();
        for (i, pfn) in (block.0..block.0 + 512).step_by(32).map(Pfn).enumerate() {
            // More than half of a pageblock: so it stays unmovable.
            if i < 9 {
                owner.keep(pfn, part, Use::Pinned);
                pins.push(pfn);
            } else {
                engine.free(&CX, pfn, part).unwrap();
            }
        }
    }
    owner.fill(&CX, |_| Use::Movable);
    let spoiled: std::collections::HashSet<u64> = pins.iter().map(|pfn| pfn.pageblock().0).collect();
    owner.free_if(&CX, |pfn| spoiled.contains(&pfn.pageblock().0) && pfn.0 % 2 == 0 && !pins.contains(&pfn));
    engine.drain(CpuSet::All);
    let zone = engine.zone_stats(ZoneId(0)).unwrap();
    assert!(zone.blocks_by_order()[1..].iter().all(|n| *n == 0), "only single frames are free");

    for _ in 0..8 {
        let pfn = engine.alloc_with(&CX, &unmovable(4), &owner).unwrap();
        assert!(spoiled.contains(&pfn.pageblock().0), "no movable pageblock is spoiled for it");
        owner.keep(pfn, Order::of(4), Use::Pinned);
    }
    let stats = engine.stats();
    assert_eq!(stats[Counter::CompactSuccess], 8);
    assert_eq!(stats[Counter::Allocstall], 0, "nothing was reclaimed");
    owner.check(&pins);
}

#[test]
fn above_a_pageblocks_order_the_run_that_moves_the_fewest_frames_is_emptied() {
    for order in [10, 11, 12] {
        let engine = built(128 * 512, Config::new(1), TryLock);
        let (owner, pins) = half_free(&engine, |pfn| pfn.0 % 20_480 == 7);
        let held: std::collections::HashSet<u64> = owner.pfns().into_iter().map(|pfn| pfn.0).collect();
        let runs = (0..128 * 512).step_by(1 << order).map(|first| first..first + (1 << order));
        let free_of_pins = runs.filter(|run| run.clone().all(|pfn| pfn % 20_480 != 7));
        let least =
            free_of_pins.map(|run| run.filter(|pfn| held.contains(pfn)).count() as u64).min().unwrap();
        let pfn =
            engine.alloc_with(&CX, &Request::new(Order::of(order), Migratetype::Movable), &owner).unwrap();
        owner.keep(pfn, Order::of(order), Use::Pinned);
        let stats = engine.stats();
        assert_eq!(stats[Counter::PgmigrateSuccess], least, "order {order}");
        assert_eq!((stats[Counter::CompactFreeScanned], stats[Counter::CompactCapture]), (0, 1));
        owner.check(&pins);
    }
}

#[test]
fn a_run_with_a_pin_is_left_before_anything_of_it_moves_and_stays_in_allocation() {
    let engine = built(64 * 512, Config::new(1), TryLock);
    // One in each pair of pageblocks.
    let (owner, pins) = half_free(&engine, |pfn| pfn.0 % 1024 == 1000);
    let request = Request::new(Order::of(10), Migratetype::Movable);
    engine.alloc_with(&CX, &request, &owner).unwrap_err();
    assert_eq!(engine.stats()[Counter::PgmigrateSuccess], 0);
    assert_eq!(engine.audit().unwrap().isolated, Frames::ZERO);
    owner.check(&pins);
    // Where something is freed, it is looked at again.
    assert!(owner.free(&CX, pins[9]));
    let pfn = engine.alloc_with(&CX, &request, &owner).unwrap();
    assert_eq!(pfn, Pfn(9 * 1024));
    owner.keep(pfn, Order::of(10), Use::Pinned);
    owner.check(&[]);
}

#[test]
fn the_background_makes_runs_for_requests_that_could_not_wait() {
    let engine = built(64 * 512, Config::new(1), TryLock);
    let (owner, pins) = half_free(&engine, |pfn| pfn.0 % 5120 == 7);
    let request = Request::new(Order::of(10), Migratetype::Movable).with(RequestFlags::NON_BLOCKING);
    engine.alloc(&CX, &request).unwrap_err();
    engine.kswapd_with(&CX, &owner).unwrap();
    assert!(engine.kcompactd_with(&CX, &owner).unwrap().moved > 0);
    let pfn = engine.alloc(&CX, &request).unwrap();
    owner.keep(pfn, Order::of(10), Use::Pinned);
    owner.check(&pins);
}

#[test]
fn one_thread_needs_no_lock() {
    // SAFETY: the only thread of this test makes all calls, one at a time.
    let engine = built(64 * 512, Config::new(1), unsafe { Exclusive::by_instance() });
    let (owner, pins) = half_free(&engine, |pfn| pfn.0 % 5120 == 7);
    let pfn = engine.alloc_with(&CX, &Request::new(HUGE, Migratetype::Movable), &owner).unwrap();
    owner.keep(pfn, HUGE, Use::Pinned);
    owner.check(&pins);
}
