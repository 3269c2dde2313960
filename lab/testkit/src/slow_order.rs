//! The slow path call by call: an owner that records what it is asked for, and what each kind of request must ask for,
//! in which order.
//!
//! `build` makes an engine over one Normal zone that starts at frame 0 and has as many frames as it is told.

use crate::owner::{Fault, Owner, Use};
use pageyard::compaction::{Busy, Migrate, MigrateError, Mode};
use pageyard::reclaim::{Priority, Reclaim, Reclaimed, Shortage};
use pageyard::{
    AllocError, BlockId, Counter, CpuId, CpuSet, Cx, Frames, Migratetype, Order, Pfn, PressureAllocator,
    Request, RequestFlags, ZoneId,
};
use std::sync::Mutex;

const CX: Cx = Cx::on(CpuId(0));
/// The smallest costly order.
const COSTLY: Order = Order::of(4);
/// Frames of the machine: 64 pageblocks.
const FRAMES: u64 = 64 * 512;
/// Frames of a machine that may reserve a pageblock for atomic requests: 256 pageblocks.
const LARGE: u64 = 256 * 512;

/// A step of a request while it waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// It compacts.
    Compact(Mode),
    /// It reclaims, as hard as it takes.
    Reclaim,
}

/// Shorthands for the steps, for lists of them.
pub const ASYNC: Step = Step::Compact(Mode::Async);
/// A compaction that waits for locks.
pub const LIGHT: Step = Step::Compact(Mode::SyncLight);
/// Reclaim.
pub const RECLAIM: Step = Step::Reclaim;

/// An engine's steps, in its order.
#[derive(Clone, Copy, Debug)]
pub struct Ways {
    /// For a costly request that cannot be served.
    pub costly: &'static [Step],
    /// For the same with `NORETRY`.
    pub noretry: &'static [Step],
    /// The beginning for the same with `RETRY_MAYFAIL`; where it is longer than `costly`, it may go on.
    pub retry_mayfail: &'static [Step],
    /// For a costly request that cannot be served, where too little is free to compact; then with `NORETRY`; and the
    /// beginning with `RETRY_MAYFAIL`, which goes on where it is longer than the first.
    pub starved: [&'static [Step]; 3],
    /// First for a small movable block.
    pub small_movable: Step,
    /// How hard it looks where nothing can be reclaimed.
    pub in_vain: Priority,
    /// When the reserve of atomic requests is given back to a request that reclaims without success.
    pub gives_back: GivesBack,
}

/// When the reserve of atomic requests is given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GivesBack {
    /// Before anything is reclaimed.
    First,
    /// Last.
    Last,
    /// Only when reclaim frees something: until 4.9.
    Never,
}

/// A call of the engine, and what it had done by then.
#[derive(Clone, Copy, Debug)]
struct Call {
    step: Step,
    priority: Option<Priority>,
    wakes: u64,
    given_back: u64,
}

/// An owner that writes down what it is asked for.
struct Recorder<'e, E> {
    engine: &'e E,
    owner: Owner<'e, E>,
    calls: Mutex<Vec<Call>>,
}

impl<'e, E: PressureAllocator> Recorder<'e, E> {
    fn new(engine: &'e E) -> Self {
        Recorder { engine, owner: Owner::new(engine, Fault::None), calls: Mutex::default() }
    }

    fn note(&self, step: Step, priority: Option<Priority>) {
        let stats = self.engine.stats();
        let mut calls = self.calls.lock().unwrap();
        // A compaction asks for many frames.
        if priority.is_some() || calls.last().is_none_or(|last| last.step != step) {
            calls.push(Call {
                step,
                priority,
                wakes: stats[Counter::KswapdWake],
                given_back: stats[Counter::HighatomicUnreserve],
            });
        }
    }

    /// Makes a request; returns its result, and the calls it made.
    fn request(&self, request: &Request) -> (Result<Pfn, AllocError>, Vec<Call>) {
        self.calls.lock().unwrap().clear();
        let got = self.engine.alloc_with(&CX, request, self).map_err(|failure| failure.why);
        if let Ok(pfn) = got {
            self.owner.keep(pfn, request.order, Use::Pinned);
        }
        self.owner.check(&[]);
        (got, std::mem::take(&mut *self.calls.lock().unwrap()))
    }

    /// Frees frames of those that `which` picks until `free` are free.
    fn free_up_to(&self, free: u64, which: impl Fn(u64) -> bool) {
        let now = self.engine.zone_stats(ZoneId(0)).unwrap();
        let mut picked: Vec<Pfn> = self.owner.pfns().into_iter().filter(|pfn| which(pfn.0)).collect();
        picked.sort_unstable();
        let want = free.saturating_sub((now.free + now.cached).0) as usize;
        assert!(picked.len() >= want, "{} of {want}", picked.len());
        picked.iter().take(want).for_each(|pfn| assert!(self.owner.free(&CX, *pfn)));
        self.engine.drain(CpuSet::All);
        assert_eq!(self.engine.zone_stats(ZoneId(0)).unwrap().free.0, free);
    }
}

impl<E: PressureAllocator> Reclaim for Recorder<'_, E> {
    fn reclaim(&self, cx: &Cx, shortage: &Shortage) -> Reclaimed {
        assert!(!shortage.background, "the background does not run here");
        self.note(Step::Reclaim, Some(shortage.priority));
        self.owner.reclaim(cx, shortage)
    }

    fn reclaimable(&self, zone: ZoneId) -> Frames {
        self.owner.reclaimable(zone)
    }
}

// SAFETY: it hands every call to an owner that keeps the promise.
unsafe impl<E: PressureAllocator> Migrate for Recorder<'_, E> {
    type Isolated = Pfn;

    fn isolate(&self, pfn: Pfn, mode: Mode) -> Result<Pfn, Busy> {
        self.note(Step::Compact(mode), None);
        self.owner.isolate(pfn, mode)
    }

    fn isolate_block(&self, block: BlockId, mode: Mode) -> Result<Pfn, Busy> {
        self.note(Step::Compact(mode), None);
        self.owner.isolate_block(block, mode)
    }

    fn migrate(&self, from: &mut Pfn, to: Pfn, mode: Mode) -> Result<(), MigrateError> {
        self.owner.migrate(from, to, mode)
    }

    fn putback(&self, from: Pfn) {
        self.owner.putback(from);
    }
}

/// The steps of a request: reclaim starts over at its softest.
fn steps(calls: &[Call]) -> Vec<Step> {
    let begins = |c: &&Call| c.priority.is_none_or(|p| p == Priority::START);
    calls.iter().filter(begins).map(|c| c.step).collect()
}

/// Memory in which a pin lies in every block of order 4 and nothing but single frames is free. With `room` there is
/// enough to compact but little enough to reclaim for: a costly request tries everything, without success.
fn spoiled<E: PressureAllocator>(engine: &E, room: bool) -> Recorder<'_, E> {
    let recorder = Recorder::new(engine);
    recorder.owner.fill(&CX, |pfn| match pfn.0 % 16 {
        0 => Use::Pinned,
        n if n % 4 == 2 => Use::Cache,
        _ => Use::Movable,
    });
    let marks = engine.zone_stats(ZoneId(0)).unwrap().watermarks;
    let free = if room { marks.low.0 + 2 * COSTLY.frames().0 + 8 } else { (marks.min + marks.low).0 / 2 };
    assert!(free < marks.high.0 + 2 * COSTLY.frames().0);
    recorder.free_up_to(free, |pfn| pfn % 8 == 1);
    recorder
}

/// Runs all of it.
pub fn slow_path_order<E: PressureAllocator>(build: impl Fn(u64) -> E, ways: &Ways) {
    costly_requests_try_everything_in_order(&build, ways);
    small_blocks_come_from_compaction_unless_they_are_movable(&build, ways);
    single_frames_are_reclaimed_for_harder_and_harder(&build, ways);
    the_background_is_woken_before_anything_is_tried(&build);
    reserves_open_to_those_entitled_alone(&build);
    the_reserve_of_atomic_requests_is_given_back(&build, ways);
}

fn costly_requests_try_everything_in_order<E: PressureAllocator>(build: &impl Fn(u64) -> E, ways: &Ways) {
    let run = |room: bool, flags: RequestFlags| {
        let engine = build(FRAMES);
        let recorder = spoiled(&engine, room);
        let request = Request::new(COSTLY, Migratetype::Unmovable).with(flags);
        let before = engine.stats()[Counter::AllocFail];
        let (got, calls) = recorder.request(&request);
        assert!(got.is_err(), "{flags:?}: a pin is in every block, {got:?}");
        assert_eq!(engine.stats()[Counter::AllocFail], before + 1, "{flags:?}: one request failed");
        steps(&calls)
    };
    let reclaims = |steps: &[Step]| steps.iter().filter(|s| **s == RECLAIM).count();
    for (room, [costly, noretry, patient]) in
        [(true, [ways.costly, ways.noretry, ways.retry_mayfail]), (false, ways.starved)]
    {
        assert_eq!(run(room, RequestFlags::empty()), costly, "room {room}");
        assert_eq!(run(room, RequestFlags::NORETRY), noretry, "room {room}");
        // What NOFAIL adds comes after all of this, and cannot make a block either.
        assert_eq!(run(room, RequestFlags::NOFAIL), costly, "room {room}");
        let tried = run(room, RequestFlags::RETRY_MAYFAIL);
        assert_eq!(tried.get(..patient.len()), Some(patient), "room {room}: {tried:?}");
        assert!(patient == costly || reclaims(&tried) > reclaims(costly), "room {room}: {tried:?}");
        assert!(reclaims(&tried) <= 1024 && !tried.contains(&Step::Compact(Mode::Sync)), "{tried:?}");
        for alone in [RequestFlags::NON_BLOCKING, RequestFlags::MEMALLOC] {
            assert_eq!(run(room, alone), [], "room {room}, {alone:?}");
        }
    }
}

fn small_blocks_come_from_compaction_unless_they_are_movable<E: PressureAllocator>(
    build: &impl Fn(u64) -> E,
    ways: &Ways,
) {
    for (m, first) in [(Migratetype::Movable, ways.small_movable), (Migratetype::Unmovable, ASYNC)] {
        let engine = build(FRAMES);
        let recorder = spoiled(&engine, true);
        // Compaction or a little reclaim makes such a block: pins lie further apart.
        let (got, calls) = recorder.request(&Request::new(Order::of(2), m));
        assert_eq!((got.is_ok(), steps(&calls).first()), (true, Some(&first)), "{m}: {got:?} {calls:?}");
    }
}

fn single_frames_are_reclaimed_for_harder_and_harder<E: PressureAllocator>(
    build: &impl Fn(u64) -> E,
    ways: &Ways,
) {
    let engine = build(FRAMES);
    let recorder = Recorder::new(&engine);
    recorder.owner.fill(&CX, |_| Use::Movable);
    let request = Request::new(Order::ZERO, Migratetype::Unmovable);
    // There is nothing to reclaim: once through the priorities, and no compaction, which makes no frames.
    let (got, calls) = recorder.request(&request);
    let priorities: Vec<u8> = calls.iter().map(|c| c.priority.map_or(u8::MAX, |p| p.0)).collect();
    assert_eq!((got.is_err(), priorities), (true, (ways.in_vain.0..=12).rev().collect()));
    // There is something: the softest attempt gets it, and nothing more is asked for.
    let cache: Vec<Pfn> = recorder.owner.pfns().into_iter().take(8000).collect();
    for pfn in cache {
        assert!(recorder.owner.free(&CX, pfn));
    }
    recorder.owner.fill(&CX, |_| Use::Cache);
    let (mut served, mut asked) = (0, Vec::new());
    for _ in 0..600 {
        let (got, calls) = recorder.request(&request);
        served += u64::from(got.is_ok());
        asked.extend(calls);
    }
    assert!(served > 0, "reclaim frees enough in the end");
    assert!(asked.iter().all(|c| c.step == RECLAIM && c.priority == Some(Priority::START)), "{asked:?}");
}

fn the_background_is_woken_before_anything_is_tried<E: PressureAllocator>(build: &impl Fn(u64) -> E) {
    for wakes in [true, false] {
        let engine = build(FRAMES);
        let recorder = spoiled(&engine, true);
        let mut request = Request::new(COSTLY, Migratetype::Unmovable);
        request.flags.set(RequestFlags::WAKE_RECLAIM, wakes);
        let before = engine.stats()[Counter::KswapdWake];
        let (_, calls) = recorder.request(&request);
        assert!(!calls.is_empty());
        assert!(calls.iter().all(|c| (c.wakes > before) == wakes), "{wakes}: {calls:?}");
    }
}

fn reserves_open_to_those_entitled_alone<E: PressureAllocator>(build: &impl Fn(u64) -> E) {
    let short = |flags: RequestFlags, eighths: u64| {
        let engine = build(FRAMES);
        let recorder = Recorder::new(&engine);
        recorder.owner.fill(&CX, |_| Use::Movable);
        let min = engine.zone_stats(ZoneId(0)).unwrap().watermarks.min.0;
        recorder.free_up_to(min * eighths / 8, |pfn| pfn % 2 == 1);
        let request = Request::new(Order::ZERO, Migratetype::Movable).with(flags);
        let (got, calls) = recorder.request(&request);
        (got.is_ok(), steps(&calls))
    };
    assert_eq!(short(RequestFlags::empty(), 1), (false, vec![RECLAIM]));
    assert_eq!(short(RequestFlags::NORETRY, 1), (false, vec![RECLAIM]));
    assert_eq!(short(RequestFlags::MEMALLOC, 1), (true, vec![]), "reclaim's own requests do not reclaim");
    // More than half of the reserve is left.
    assert!(!short(RequestFlags::NORETRY, 6).0);
    let (served, tried) = short(RequestFlags::NOFAIL | RequestFlags::NORETRY, 6);
    assert_eq!((served, tried), (true, vec![RECLAIM]), "a part of the reserve is its last resort");
}

fn the_reserve_of_atomic_requests_is_given_back<E: PressureAllocator>(
    build: &impl Fn(u64) -> E,
    ways: &Ways,
) {
    const RESERVED: u64 = 200;
    let engine = build(LARGE);
    let recorder = Recorder::new(&engine);
    recorder.owner.fill(&CX, |_| Use::Movable);
    recorder.owner.free_if(&CX, |pfn| pfn.0 / 512 == RESERVED);
    let min = engine.zone_stats(ZoneId(0)).unwrap().watermarks.min.0;
    recorder.free_up_to(min + 256, |pfn| pfn % 2 == 1 && pfn / 512 != RESERVED);
    let atomic =
        Request::new(COSTLY, Migratetype::Movable).with(RequestFlags::HIGH | RequestFlags::NON_BLOCKING);
    let pfn = engine.alloc(&CX, &atomic).unwrap();
    recorder.owner.keep(pfn, atomic.order, Use::Pinned);
    let stats = engine.stats();
    assert_eq!((stats[Counter::HighatomicReserve], pfn.0 / 512), (1, RESERVED));
    // Now there is enough for a request if nothing were reserved, and too little as it is.
    let before = stats[Counter::HighatomicUnreserve];
    let (got, calls) = recorder.request(&Request::new(Order::ZERO, Migratetype::Movable));
    let gives = ways.gives_back != GivesBack::Never;
    let after = engine.stats()[Counter::HighatomicUnreserve];
    assert_eq!((got.is_ok(), after), (gives, before + u64::from(gives)), "{got:?}");
    match ways.gives_back {
        GivesBack::First => assert!(calls.is_empty(), "{calls:?}"),
        _ => assert!(!calls.is_empty() && calls.iter().all(|c| c.given_back == before), "{calls:?}"),
    }
}
