//! Requests for zeros: what is handed out is clear, what is known to be is not cleared again, and no promise is
//! believed where everything has to be cleared.

use pageyard::{
    BadRequest, Caches, Clear, Config, CpuId, Cx, Frames, FreeError, MapError, MemoryMap, Migratetype,
    NodeId, Order, OwnedPageyard, Pageyard, Pfn, Region, Request, RequestFlags, TryLock, ZoneKind,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

const CX: Cx = Cx::on(CpuId(0));
const FRAMES: u64 = 4096;

/// Memory of which only one thing is known: which frames were written to since they were cleared.
struct Memory {
    dirty: Vec<AtomicBool>,
    cleared: AtomicU64,
    unfenced: AtomicBool,
    panics: AtomicBool,
}

impl Memory {
    fn new(dirty: bool) -> Memory {
        Memory {
            dirty: (0..FRAMES).map(|_| AtomicBool::new(dirty)).collect(),
            cleared: AtomicU64::new(0),
            unfenced: AtomicBool::new(false),
            panics: AtomicBool::new(false),
        }
    }

    fn set(&self, pfn: Pfn, order: Order, dirty: bool) {
        (pfn.0..pfn.0 + order.frames().0).for_each(|frame| self.dirty[frame as usize].store(dirty, Relaxed));
    }

    fn is_clear(&self, pfn: Pfn, order: Order) -> bool {
        assert!(!self.unfenced.load(Relaxed), "what was cleared was not fenced");
        (pfn.0..pfn.0 + order.frames().0).all(|frame| !self.dirty[frame as usize].load(Relaxed))
    }

    /// Returns how many frames were cleared since the last call.
    fn cleared(&self) -> u64 {
        self.cleared.swap(0, Relaxed)
    }
}

impl Clear for Memory {
    fn clear(&self, pfn: Pfn, order: Order, _: Caches) {
        assert!(!self.panics.load(Relaxed), "the clearer gives up");
        self.set(pfn, order, false);
        self.cleared.fetch_add(order.frames().0, Relaxed);
        self.unfenced.store(true, Relaxed);
    }

    fn fence(&self) {
        self.unfenced.store(false, Relaxed);
    }
}

type Engine<'a> = OwnedPageyard<TryLock, (), &'a Memory>;

fn engine<'a>(memory: &'a Memory, config: impl FnOnce(&mut Config)) -> Engine<'a> {
    let dirty = memory.dirty[0].load(Relaxed);
    let region = Region::managed(Pfn(0), Frames(FRAMES), NodeId(0), ZoneKind::Normal);
    let regions = [if dirty { region } else { region.zeroed() }];
    let mut settings = Config::new(1);
    settings.watermark.min_free_kbytes = Some(0);
    config(&mut settings);
    Pageyard::owned_with_clearer(&MemoryMap::new(&regions).unwrap(), settings, TryLock, (), memory).unwrap()
}

fn plain(order: Order) -> Request {
    Request::new(order, Migratetype::Movable)
}

fn zeroed(order: Order) -> Request {
    plain(order).with(RequestFlags::ZERO)
}

/// Calls of all kinds; every block that was asked for as zeros, or all, is checked. Returns how many frames were
/// cleared.
fn churn(memory: &Memory, engine: &Engine<'_>, all: bool) -> u64 {
    let mut rng = fastrand::Rng::with_seed(26);
    let mut held: Vec<(Pfn, Order)> = Vec::new();
    for _ in 0..20_000 {
        let order = Order::of([0, 0, 0, 1, 3, 4, 7, 9][rng.usize(..8)]);
        match rng.u8(..8) {
            0..3 => {
                let wants = rng.bool();
                let request = if wants { zeroed(order) } else { plain(order) };
                if let Ok(pfn) = engine.alloc(&CX, &request) {
                    assert!(!(wants || all) || memory.is_clear(pfn, order), "{pfn}, {order}");
                    held.push((pfn, order));
                }
            }
            3 => {
                let mut out = [Pfn(0); 20];
                let got = engine.alloc_bulk(&CX, &zeroed(Order::ZERO), &mut out);
                assert!(out[..got].iter().all(|pfn| memory.is_clear(*pfn, Order::ZERO)));
                held.extend(out[..got].iter().map(|pfn| (*pfn, Order::ZERO)));
            }
            4 if !held.is_empty() => {
                let (pfn, order) = held.swap_remove(rng.usize(..held.len()));
                memory.set(pfn, order, false);
                engine.free_zeroed(&CX, pfn, order).unwrap();
            }
            _ if held.len() > 50 => {
                for _ in 0..rng.usize(..30) {
                    let (pfn, order) = held.swap_remove(rng.usize(..held.len()));
                    memory.set(pfn, order, true);
                    engine.free(&CX, pfn, order).unwrap();
                }
            }
            _ => {}
        }
    }
    for (pfn, order) in held {
        memory.set(pfn, order, true);
        engine.free(&CX, pfn, order).unwrap();
    }
    let census = engine.audit().unwrap();
    assert!(census.is_conserved() && census.allocated == Frames(0));
    memory.cleared()
}

#[test]
fn what_is_asked_for_as_zeros_is() {
    for (dirty, pcp) in [(true, true), (false, true), (true, false)] {
        let memory = Memory::new(dirty);
        let engine = engine(&memory, |config| config.pcp = pcp);
        assert!(churn(&memory, &engine, false) > 0);
    }
}

#[test]
fn what_is_known_to_be_zeros_is_not_cleared_again() {
    let memory = Memory::new(false);
    let engine = engine(&memory, |_| ());
    let block = engine.alloc(&CX, &zeroed(Order::of(9))).unwrap();
    let frame = engine.alloc(&CX, &zeroed(Order::ZERO)).unwrap();
    assert_eq!(memory.cleared(), 0, "fresh memory");
    engine.free_zeroed(&CX, frame, Order::ZERO).unwrap();
    assert_eq!(engine.alloc(&CX, &zeroed(Order::ZERO)), Ok(frame));
    assert_eq!(memory.cleared(), 0, "from the list");
    engine.free(&CX, frame, Order::ZERO).unwrap();
    assert_eq!(engine.alloc(&CX, &zeroed(Order::ZERO)), Ok(frame));
    assert_eq!(memory.cleared(), 1, "its owner may have written to it");
    engine.free(&CX, block, Order::of(9)).unwrap();
}

/// A pageblock that was all zeros must not be taken for one after frames that were written to came back in batches.
#[test]
fn frames_that_lists_spill_are_not_taken_for_the_zeros_they_were() {
    for bulk in [false, true] {
        let memory = Memory::new(false);
        let engine = engine(&memory, |_| ());
        let mut frames = vec![Pfn(0); FRAMES as usize];
        assert_eq!(engine.alloc_bulk(&CX, &plain(Order::ZERO), &mut frames), frames.len());
        // Every other frame comes back, so that no pageblock is freed as a whole.
        let written: Vec<Pfn> = frames.iter().copied().filter(|pfn| pfn.0 % 2 == 0).collect();
        written.iter().for_each(|pfn| memory.set(*pfn, Order::ZERO, true));
        match bulk {
            true => engine.free_bulk(&CX, &written, Order::ZERO, &mut |pfn, why| panic!("{pfn}: {why}")),
            false => written.iter().for_each(|pfn| engine.free(&CX, *pfn, Order::ZERO).unwrap()),
        }
        engine.drain(pageyard::CpuSet::All);
        for _ in &written {
            let pfn = engine.alloc(&CX, &zeroed(Order::ZERO)).unwrap();
            assert!(memory.is_clear(pfn, Order::ZERO), "{pfn}");
        }
        assert_eq!(memory.cleared(), written.len() as u64);
    }
}

#[test]
fn everything_is_zeros_when_it_is_handed_out_or_when_it_is_freed() {
    let memory = Memory::new(true);
    let on_alloc = engine(&memory, |config| config.init_on_alloc = true);
    churn(&memory, &on_alloc, true);
    let frame = on_alloc.alloc(&CX, &plain(Order::ZERO)).unwrap();
    memory.set(frame, Order::ZERO, true);
    on_alloc.free_zeroed(&CX, frame, Order::ZERO).unwrap();
    let frame = on_alloc.alloc(&CX, &plain(Order::ZERO)).unwrap();
    assert!(memory.is_clear(frame, Order::ZERO), "its last owner's promise was false, and is not believed");

    let memory = Memory::new(false);
    let on_free = engine(&memory, |config| config.init_on_free = true);
    churn(&memory, &on_free, true);
    assert!(memory.dirty.iter().all(|dirty| !dirty.load(Relaxed)), "nothing that is free holds anything");
    let frame = on_free.alloc(&CX, &plain(Order::ZERO)).unwrap();
    memory.set(frame, Order::ZERO, true);
    on_free.free_zeroed(&CX, frame, Order::ZERO).unwrap();
    assert!(memory.is_clear(frame, Order::ZERO));
    let mut frames = [Pfn(0); 40];
    assert_eq!(on_free.alloc_bulk(&CX, &plain(Order::ZERO), &mut frames), 40);
    frames.iter().for_each(|pfn| memory.set(*pfn, Order::ZERO, true));
    on_free.free_bulk(&CX, &frames, Order::ZERO, &mut |pfn, why| panic!("{pfn}: {why}"));
    assert!(frames.iter().all(|pfn| memory.is_clear(*pfn, Order::ZERO)));
}

#[test]
fn a_clearer_that_panics_leaks_a_block_that_was_allocated_and_none_that_was_freed() {
    let memory = Memory::new(true);
    let engine = engine(&memory, |config| config.init_on_free = true);
    let held = engine.alloc(&CX, &plain(Order::ZERO)).unwrap();
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    memory.panics.store(true, Relaxed);
    let calls: [&dyn Fn() -> bool; 3] = [
        &|| engine.free(&CX, held, Order::ZERO).is_ok(),
        &|| engine.alloc(&CX, &zeroed(Order::ZERO)).is_ok(),
        &|| engine.alloc(&CX, &zeroed(Order::of(9))).is_ok(),
    ];
    for call in calls {
        catch_unwind(AssertUnwindSafe(call)).unwrap_err();
    }
    memory.panics.store(false, Relaxed);
    std::panic::set_hook(quiet);
    assert_eq!(engine.free(&CX, held, Order::ZERO), Ok(()), "it is live still");
    assert_eq!(engine.free(&CX, held, Order::ZERO), Err(FreeError::NotAllocated));
    let census = engine.audit().unwrap();
    assert!(census.is_conserved());
    assert_eq!(census.allocated, Frames(1 + 512), "two blocks have no owner");
}

#[test]
fn without_a_clearer_zeros_are_refused() {
    let regions = [Region::managed(Pfn(0), Frames(FRAMES), NodeId(0), ZoneKind::Normal)];
    let map = MemoryMap::new(&regions).unwrap();
    let plain = Pageyard::owned(&map, Config::new(1), TryLock).unwrap();
    assert_eq!(plain.alloc(&CX, &zeroed(Order::ZERO)), Err(BadRequest::CannotZero.into()));
    for (init_on_alloc, init_on_free) in [(true, false), (false, true)] {
        let config = Config { init_on_alloc, init_on_free, ..Config::new(1) };
        assert_eq!(Pageyard::owned(&map, config, TryLock).err(), Some(MapError::CannotClear));
    }
}

#[test]
fn ranges_are_cleared_where_every_block_is() {
    let blocks = [(0, 9), (512, 0), (513, 0), (514, 1), (1024, 10)];
    let free = |e: &Engine<'_>, first, frames| e.free_range(&CX, Pfn(first), Frames(frames));
    let memory = Memory::new(true);
    let e = engine(&memory, |config| config.init_on_free = true);
    for (pfn, order) in blocks {
        e.claim_exact(&CX, Pfn(pfn), Order::of(order), Migratetype::Movable).unwrap();
    }
    memory.cleared();
    free(&e, 100, 416).unwrap();
    free(&e, 1025, 1000).unwrap();
    assert_eq!(memory.cleared(), 1416, "each frame that was freed, and no other");
    for pfn in (100..516).chain(1025..2025).map(Pfn) {
        assert!(memory.is_clear(pfn, Order::ZERO));
    }
    assert!(!memory.is_clear(Pfn(99), Order::ZERO) && !memory.is_clear(Pfn(2025), Order::ZERO));
    e.drain(pageyard::CpuSet::All);
    e.audit().unwrap();
    e.claim_exact(&CX, Pfn(1040), Order::of(4), Migratetype::Movable).unwrap();
    assert!(e.was_zeroed(Pfn(1040)), "and that is known");
    // Where clearing panics, what was cleared is free, and the rest is live.
    memory.panics.store(true, Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| free(&e, 0, 100))).is_err());
    memory.panics.store(false, Relaxed);
    assert_eq!(e.audit().unwrap().allocated, Frames(100 + 24 + 16));
    free(&e, 0, 100).unwrap();

    let memory = Memory::new(true);
    let e = engine(&memory, |config| config.init_on_alloc = true);
    let first = e.alloc_exact(&CX, Frames(13), Order::ZERO, &plain(Order::ZERO)).unwrap();
    assert!((0..13).all(|n| memory.is_clear(Pfn(first.0 + n), Order::ZERO)));
    let owner = &pageyard::reclaim::NoHelp;
    e.alloc_contig_range(&CX, Pfn(2000), Frames(700), Migratetype::Movable, owner).unwrap();
    assert!((2000..2700).all(|pfn| memory.is_clear(Pfn(pfn), Order::ZERO)));
    let keep = |_| pageyard::engine::Visit::Keep;
    let kept = e.visit_free_blocks(&CX, Order::of(9), Pfn(3072), Frames(1), keep).unwrap();
    assert_eq!(kept.kept, Frames(512));
    assert!(memory.is_clear(Pfn(3072), Order::of(9)));
}

#[test]
fn a_block_that_is_claimed_by_its_number_is_cleared_where_every_block_is() {
    let memory = Memory::new(true);
    let e = engine(&memory, |config| config.init_on_alloc = true);
    for (pfn, order) in [(3, 0), (8, 3), (512, 9), (1024, 10)] {
        let (pfn, order) = (Pfn(pfn), Order::of(order));
        e.claim_exact(&CX, pfn, order, Migratetype::Movable).unwrap();
        assert!(memory.is_clear(pfn, order), "frame {pfn}, order {order}");
    }
}
