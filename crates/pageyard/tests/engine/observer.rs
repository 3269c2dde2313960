//! An observer that keeps a table of live blocks, as page_owner does: the table is right after calls of every kind, and
//! an observer that panics leaves an engine whose audit finds nothing but the block that was being handed over.

use pageyard::engine::Visit;
use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    BlockId, Config, Counter, CpuId, CpuSet, Cx, Exclusive, FrameRange, Frames, MapError, MemoryMap,
    Migratetype, NodeId, Observer, Order, OwnedPageyard, PageAllocator, Pageyard, PerCpu, Pfn,
    PressureAllocator, Region, Request, RequestFlags, TryLock, ZoneId, ZoneKind,
};
use pageyard_testkit::generate::{Generator, PROFILES};
use pageyard_testkit::owner::{Fault, Owner, Use};
use pageyard_testkit::{Build, Session, maps};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;

const CX: Cx = Cx::on(CpuId(0));
const HUGE: Order = Order::of(9);
const PAGEBLOCKS: u64 = 16;

/// An event that an observer is told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Allocated(Pfn, Order),
    Freed(Pfn, Order),
    Split(Pfn, Order, Order),
    Migrated(BlockId, Pfn),
}

/// The panic payload of a callback.
struct Asked;

/// A table of live blocks, in which each event has to fit; and a callback that panics before it is noted there.
#[derive(Default)]
struct Table {
    live: BTreeMap<u64, Order>,
    /// Allocations, frees, splits and moves.
    seen: [u64; 4],
    events: u64,
    /// The number of the event that panics; 0 for none.
    panics_at: u64,
    panicked: Option<Event>,
}

impl Table {
    fn note(&mut self, event: Event) {
        self.events += 1;
        if self.events == self.panics_at {
            self.panicked = Some(event);
            return;
        }
        match event {
            Event::Allocated(pfn, order) => self.insert(pfn, order),
            Event::Freed(pfn, order) => assert_eq!(self.live.remove(&pfn.0), Some(order), "{event:?}"),
            Event::Split(pfn, from, to) => {
                assert_eq!(self.live.remove(&pfn.0), Some(from), "{event:?}");
                let parts = (pfn.0..pfn.0 + from.frames().0).step_by(to.frames().0 as usize);
                parts.for_each(|part| self.insert(Pfn(part), to));
            }
            Event::Migrated(from, to) => {
                assert_eq!(self.live.remove(&from.pfn.0), Some(from.order), "{event:?}");
                self.insert(to, from.order);
            }
        }
        self.seen[match event {
            Event::Allocated(..) => 0,
            Event::Freed(..) => 1,
            Event::Split(..) => 2,
            Event::Migrated(..) => 3,
        }] += 1;
    }

    fn insert(&mut self, pfn: Pfn, order: Order) {
        let end = pfn.0 + order.frames().0;
        let before = self.live.range(..end).next_back().map(|(pfn, order)| pfn + order.frames().0);
        assert!(before.is_none_or(|end| end <= pfn.0), "{pfn}, order {order}, has two owners");
        self.live.insert(pfn.0, order);
    }
}

#[derive(Default)]
struct PageOwner(Mutex<Table>);

impl PageOwner {
    fn panicking_at(event: u64) -> PageOwner {
        PageOwner(Mutex::new(Table { panics_at: event, ..Table::default() }))
    }

    fn note(&self, event: Event) {
        let panics = {
            let mut table = self.0.lock().unwrap();
            table.note(event);
            table.panicked == Some(event) && table.events == table.panics_at
        };
        if panics {
            resume_unwind(Box::new(Asked));
        }
    }

    fn live(&self) -> BTreeMap<u64, Order> {
        self.0.lock().unwrap().live.clone()
    }

    fn seen(&self) -> [u64; 4] {
        self.0.lock().unwrap().seen
    }
}

impl Observer for PageOwner {
    fn allocated(&self, pfn: Pfn, order: Order, _: Migratetype) {
        self.note(Event::Allocated(pfn, order));
    }

    fn freed(&self, pfn: Pfn, order: Order) {
        self.note(Event::Freed(pfn, order));
    }

    fn split(&self, pfn: Pfn, from: Order, to: Order) {
        self.note(Event::Split(pfn, from, to));
    }

    fn migrated(&self, from: BlockId, to: Pfn) {
        self.note(Event::Migrated(from, to));
    }
}

type Watched<P = TryLock> = OwnedPageyard<P, PageOwner>;

/// Engines that are watched, with per-CPU lists or without.
struct Watching {
    pcp: bool,
}

impl Build for Watching {
    type Engine = Watched;

    fn name(&self) -> String {
        "pageyard with an observer".to_owned()
    }

    fn build(&self, map: &MemoryMap<'_>, cpus: u32) -> Result<Watched, MapError> {
        let config = Config { pcp: self.pcp, ..Config::new(cpus) };
        Pageyard::owned_with_observer(map, config, TryLock, PageOwner::default())
    }

    fn largest_order(&self) -> Order {
        Order::MAX
    }
}

/// Makes a machine of one zone that keeps nothing back.
fn machine<P: PerCpu>(percpu: P, observer: PageOwner) -> OwnedPageyard<P, PageOwner> {
    let regions = [Region::managed(Pfn(0), Frames(PAGEBLOCKS * 512), NodeId(0), ZoneKind::Normal)];
    let watermark =
        WatermarkKnobs { min_free_kbytes: Some(0), watermark_scale_factor: 0, ..WatermarkKnobs::default() };
    let config = Config { watermark, ..Config::new(2) };
    Pageyard::owned_with_observer(&MemoryMap::new(&regions).unwrap(), config, percpu, observer).unwrap()
}

fn movable(order: Order) -> Request {
    Request::new(order, Migratetype::Movable)
}

/// Checks that the engine has exactly these blocks, each its owner's, and that its books are right.
fn judge<P: PerCpu>(engine: &OwnedPageyard<P, PageOwner>, live: &BTreeMap<u64, Order>, when: &str) {
    let census = engine.audit().unwrap_or_else(|why| panic!("{when}: {why}"));
    assert!(census.is_conserved(), "{when}: {census:?}");
    let frames: u64 = live.values().map(|order| order.frames().0).sum();
    assert_eq!(census.allocated, Frames(frames), "{when}: frames that are allocated");
    for pfn in 0..PAGEBLOCKS * 512 {
        assert_eq!(engine.order_of(Pfn(pfn)), live.get(&pfn).copied(), "{when}: frame {pfn}");
    }
}

#[test]
fn the_table_equals_the_naive_model_under_random_calls() {
    let mut seen = [0; 4];
    let mut seeds = fastrand::Rng::with_seed(0x0b5e);
    for pcp in [true, false] {
        for map in maps::random() {
            for profile in PROFILES {
                let mut generator = Generator::new(profile, fastrand::Rng::with_seed(seeds.u64(..)));
                let mut session = Session::new(&Watching { pcp }, &map.regions, 3);
                for at in 0..2000 {
                    let op = generator.next(&session.model);
                    session.apply(op).unwrap_or_else(|why| panic!("operation {at}, {op:?}: {why}"));
                    if at % 50 == 0 || at == 1999 {
                        let held: BTreeMap<_, _> =
                            session.held.iter().map(|block| (block.pfn.0, block.order)).collect();
                        assert!(session.engine.observer().live() == held, "{}: {at}, {op:?}", profile.name);
                    }
                }
                session.finish().unwrap();
                assert!(session.engine.observer().live().is_empty());
                session.engine.observer().seen().iter().zip(&mut seen).for_each(|(n, sum)| *sum += n);
            }
        }
    }
    println!("allocated, freed, split, migrated: {seen:?}");
    assert!(seen[..3].iter().all(|n| *n > 1000), "{seen:?}");
}

#[test]
fn a_hit_and_a_miss_are_told_of_once_each() {
    // SAFETY: one thread makes all calls.
    let percpu = unsafe { Exclusive::by_instance() };
    let engine = machine(percpu, PageOwner::default());
    for order in [0, 0, 3, 5, 9, 9, 10].map(Order::of) {
        let before = engine.observer().seen();
        let pfn = engine.alloc(&CX, &movable(order)).unwrap();
        assert_eq!(engine.order_of(pfn), Some(order));
        engine.free(&CX, pfn, order).unwrap();
        assert!(engine.free(&CX, pfn, order).is_err());
        let cold = engine.alloc(&CX, &movable(order).with(RequestFlags::COLD)).unwrap();
        engine.free_zeroed(&CX, cold, order).unwrap();
        let after = engine.observer().seen();
        assert_eq!((after[0] - before[0], after[1] - before[1]), (2, 2), "order {order}");
    }
    judge(&engine, &BTreeMap::new(), "at the end");
}

/// Allocates every frame for an owner, who then frees most of them, so that every pageblock is partly used.
fn scattered(engine: &Watched, fault: Fault) -> Owner<'_, Watched> {
    let owner = Owner::new(engine, fault);
    owner.fill(&CX, |_| Use::Movable);
    owner.free_if(&CX, |pfn| pfn.0 % 16 != pfn.0 / 512 % 16);
    engine.drain(CpuSet::All);
    owner
}

#[test]
fn the_table_follows_what_compaction_moves() {
    let engine = machine(TryLock, PageOwner::default());
    for order in [4, 9, 10].map(Order::of) {
        for fault in [Fault::None, Fault::FailsHalfway, Fault::FreesUnderUs] {
            let owner = scattered(&engine, fault);
            let block = engine.alloc_with(&CX, &movable(order), &owner).ok();
            block.iter().for_each(|pfn| owner.keep(*pfn, order, Use::Pinned));
            engine.compact_zone_with(&CX, ZoneId(0), &owner).unwrap();
            owner.check(block.as_slice());
            let mut held = owner.pfns();
            held.sort_unstable();
            let live = engine.observer().live();
            assert!(live.keys().map(|pfn| Pfn(*pfn)).eq(held), "{fault:?}");
            judge(&engine, &live, &format!("order {order}, {fault:?}"));
            owner.free_if(&CX, |_| true);
        }
    }
    assert!(engine.observer().seen()[3] > 100, "{:?}", engine.observer().seen());
    assert!(engine.stats()[Counter::CompactCapture] > 2, "blocks were captured");
}

#[test]
fn threads_tell_of_each_block_once() {
    let engine = machine(TryLock, PageOwner::default());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let engine = &engine;
            scope.spawn(move || {
                let (cx, mut held) = (Cx::on(CpuId(thread % 2)), Vec::new());
                let mut random = fastrand::Rng::with_seed(u64::from(thread));
                for _ in 0..4000 {
                    let order = Order::of([0, 0, 0, 1, 3, 6, 9][random.usize(..7)]);
                    if random.bool()
                        && let Ok(pfn) = engine.alloc(&cx, &movable(order))
                    {
                        held.push((pfn, order));
                    } else if !held.is_empty() {
                        let (pfn, order) = held.swap_remove(random.usize(..held.len()));
                        if order == Order::of(3) {
                            engine.split(&cx, pfn, order, Order::ZERO).unwrap();
                            let parts = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| Pfn(pfn.0 + i));
                            engine.free_bulk(&cx, &parts, Order::ZERO, &mut |pfn, why| {
                                panic!("{pfn}: {why:?}");
                            });
                        } else {
                            engine.free(&cx, pfn, order).unwrap();
                        }
                    }
                }
                held.into_iter().for_each(|(pfn, order)| engine.free(&cx, pfn, order).unwrap());
            });
        }
    });
    judge(&engine, &BTreeMap::new(), "at the end");
    assert!(engine.observer().live().is_empty());
}

/// Runs a scenario once to count the events, then once for each of them with a panic there. What is live afterwards is
/// what the table says and, where the panic was told of a hand-over, what that handed over.
fn at_every_event(scenario: impl Fn(&Watched)) -> [u64; 4] {
    let engine = machine(TryLock, PageOwner::default());
    scenario(&engine);
    let events = engine.observer().0.lock().unwrap().events;
    let mut panics = [0; 4];
    for at in 1..=events {
        let engine = machine(TryLock, PageOwner::panicking_at(at));
        if let Err(why) = catch_unwind(AssertUnwindSafe(|| scenario(&engine)))
            && !why.is::<Asked>()
        {
            resume_unwind(why);
        }
        let event = engine.observer().0.lock().unwrap().panicked.expect("it is reached");
        let mut live = engine.observer().live();
        let kind = match event {
            Event::Allocated(pfn, order) => {
                assert_eq!(live.insert(pfn.0, order), None, "{event:?}");
                0
            }
            // The block is live, as it was.
            Event::Freed(..) => 1,
            Event::Split(..) => 2,
            Event::Migrated(_, to) => {
                assert_eq!(live.insert(to.0, Order::ZERO), None, "{event:?}");
                3
            }
        };
        panics[kind] += 1;
        let when = format!("{event:?}, event {at}");
        judge(&engine, &live, &when);
        // Nothing is lost: what is live can be freed, and all of it merges again.
        engine.observer().0.lock().unwrap().live = live.clone();
        for (pfn, order) in live {
            engine.free(&CX, Pfn(pfn), order).unwrap_or_else(|why| panic!("{when}: {pfn}: {why:?}"));
        }
        assert!(engine.drain(CpuSet::All).is_complete(), "{when}");
        let census = engine.audit().unwrap_or_else(|why| panic!("{when}: {why}"));
        assert_eq!(census.free, census.managed, "{when}: {census:?}");
    }
    panics
}

#[test]
fn an_observer_that_panics_leaks_what_was_being_handed_over_and_nothing_else() {
    let panics = at_every_event(|engine| {
        for order in [0, 2, 3, 6, 9, 10].map(Order::of) {
            let blocks = [(); 3].map(|()| engine.alloc(&CX, &movable(order)).unwrap());
            engine.free(&CX, blocks[1], order).unwrap();
            engine.free_zeroed(&CX, blocks[0], order).unwrap();
            let to = Order::of(order.get() / 2);
            engine.split(&CX, blocks[2], order, to).unwrap();
            engine.free(&CX, blocks[2], to).unwrap();
        }
        let exact = Pfn(512 * (PAGEBLOCKS - 1));
        engine.claim_exact(&CX, exact, HUGE, Migratetype::Movable).unwrap();
        let mut out = [Pfn(0); 100];
        let n = engine.alloc_bulk(&CX, &movable(Order::ZERO), &mut out);
        engine.free_bulk(&CX, &out[..n / 2], Order::ZERO, &mut |pfn, why| panic!("{pfn}: {why:?}"));
    });
    assert!(panics[..3].iter().all(|n| *n > 0), "{panics:?}");
}

#[test]
fn an_observer_that_panics_over_a_range_leaves_what_it_was_told_of_free_and_the_rest_live() {
    let panics = at_every_event(|engine| {
        let free = |first, frames| engine.free_range(&CX, first, Frames(frames)).unwrap();
        let ring = engine.alloc_exact(&CX, Frames(700), Order::ZERO, &movable(Order::ZERO)).unwrap();
        free(Pfn(ring.0 + 33), 600);
        for (pfn, order) in [(4096, 10), (5120, 9), (5632, 0), (5633, 0), (5634, 1), (5636, 2), (5640, 3)] {
            engine.claim_exact(&CX, Pfn(pfn), Order::of(order), Migratetype::Movable).unwrap();
        }
        free(Pfn(4096 + 77), 1459);
        free(Pfn(5633), 9);
        let mut out = [FrameRange::default(); 4];
        let n = engine.alloc_frames(&CX, Frames(90), Order::of(2), &movable(Order::ZERO), &mut out).unwrap();
        out[..n].iter().for_each(|piece| free(piece.first, piece.frames.0));
        let keep = |block: BlockId| if block.pfn.0 < 2048 { Visit::Keep } else { Visit::Return };
        engine.visit_free_blocks(&CX, HUGE, Pfn(1024), Frames(2048), keep).unwrap();
        let owner = Owner::new(engine, Fault::None);
        for pfn in [6000, 6700].map(Pfn) {
            engine.claim_exact(&CX, pfn, Order::ZERO, Migratetype::Movable).unwrap();
            owner.keep(pfn, Order::ZERO, Use::Movable);
        }
        engine.alloc_contig_range(&CX, Pfn(5900), Frames(1000), Migratetype::Unmovable, &owner).unwrap();
        free(Pfn(5900), 999);
    });
    assert!(panics.iter().all(|n| *n > 0), "{panics:?}");
}

#[test]
fn an_observer_that_panics_over_a_move_leaks_the_frame_that_was_moved() {
    for order in [HUGE, Order::of(10)] {
        let panics = at_every_event(|engine| {
            let owner = Owner::new(engine, Fault::None);
            for pfn in (0..PAGEBLOCKS * 512).step_by(64).map(|pfn| Pfn(pfn + pfn / 512)) {
                engine.claim_exact(&CX, pfn, Order::ZERO, Migratetype::Movable).unwrap();
                owner.keep(pfn, Order::ZERO, Use::Movable);
            }
            let block = engine.alloc_with(&CX, &movable(order), &owner).unwrap();
            engine.free(&CX, block, order).unwrap();
        });
        assert!(panics[0] > 0 && panics[1] > 0 && panics[3] > 0, "{panics:?}");
    }
}
