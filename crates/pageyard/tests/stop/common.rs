//! Threads that stop before a step of their choice, and others that go on meanwhile.
//!
//! A hook runs before every atomic step of the engine. A call that is stopped counts its steps down and waits at the
//! last of them until it is told to go on. Two calls may be stopped at once, each in a thread of its own.

use pageyard::engine::Internals;
use pageyard::engine::hook;
use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    CompactorId, Config, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, OwnedPageyard,
    PageAllocator, PageblockId, Pageyard, PerCpu, Pfn, Region, Request, RequestFlags, TryLock, ZoneId,
    ZoneKind,
};
use pageyard_testkit::owner::{Fault, Owner, Use};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Calls that each of the others completes while two threads are stopped.
const CALLS: u64 = 600;
/// The same while one is.
const MANY_CALLS: u64 = 2_000;
/// Pageblocks of the machine; the first of them have frames that an owner lets compaction move.
pub const PAGEBLOCKS: u64 = 16;
const MOVABLE: u64 = 6;
/// CPUs of the machine.
const CPUS: u32 = 3;
/// How long calls may take before they count as blocked.
const PATIENCE: Duration = Duration::from_secs(60);
/// Threads that can be stopped at once.
const GATES: usize = 2;

pub type Engine<P = TryLock> = OwnedPageyard<P>;
/// Held blocks.
pub type Blocks = Vec<(Pfn, Order)>;

thread_local! {
    /// Steps until this thread stops; zero for threads that do not.
    static LEFT: Cell<u64> = const { Cell::new(0) };
    /// Steps that it has made.
    static MADE: Cell<u64> = const { Cell::new(0) };
    /// Where it stops.
    static MINE: Cell<usize> = const { Cell::new(0) };
}

/// Where a stopped thread waits: whether it has stopped or ended, and whether it may go on.
struct Gate(Mutex<(bool, bool)>, Condvar);

static GATE: [Gate; GATES] = [const { Gate(Mutex::new((false, false)), Condvar::new()) }; GATES];
/// The hook is one for the whole program, so one test uses it at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

impl Gate {
    fn state(&self) -> MutexGuard<'_, (bool, bool)> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Says that the thread is here, or done, and waits until it may go on.
    fn arrive(&self, waits: bool) {
        let mut state = self.state();
        state.0 = true;
        self.1.notify_all();
        if waits {
            drop(self.1.wait_while(state, |s| !s.1).unwrap());
        }
    }

    fn await_arrival(&self) {
        drop(self.1.wait_while(self.state(), |s| !s.0).unwrap());
    }

    fn open(&self) {
        self.state().1 = true;
        self.1.notify_all();
    }
}

fn step() {
    MADE.set(MADE.get() + 1);
    let left = LEFT.get();
    LEFT.set(left.saturating_sub(1));
    if left == 1 {
        GATE[MINE.get()].arrive(true);
    }
}

pub fn cx(cpu: u32) -> Cx {
    Cx::on(CpuId(cpu))
}

pub fn request(order: u8, ty: Migratetype) -> Request {
    Request::new(Order::of(order), ty).with(RequestFlags::MEMALLOC)
}

pub fn movable(order: u8) -> Request {
    request(order, Migratetype::Movable)
}

pub fn machine() -> Engine {
    machine_of(PAGEBLOCKS, TryLock)
}

/// Makes a machine of this many pageblocks whose lists are kept by `percpu`.
pub fn machine_of<P: PerCpu>(pageblocks: u64, percpu: P) -> Engine<P> {
    let regions = [Region::managed(Pfn(0), Frames(pageblocks * 512), NodeId(0), ZoneKind::Normal)];
    let map = MemoryMap::new(&regions).unwrap();
    let watermark = WatermarkKnobs { min_free_kbytes: Some(0), ..WatermarkKnobs::default() };
    Pageyard::owned(&map, Config { watermark, ..Config::new(CPUS) }, percpu).unwrap()
}

/// The setting of a stopped call.
pub struct Ground<'e, P: PerCpu = TryLock> {
    pub engine: &'e Engine<P>,
    /// The owner of frames that can be moved.
    pub owner: Owner<'e, Engine<P>>,
}

impl<'e, P: PerCpu> Ground<'e, P> {
    /// Makes one whose owner has nothing yet.
    pub fn bare(engine: &'e Engine<P>) -> Ground<'e, P> {
        Ground { engine, owner: Owner::new(engine, Fault::None) }
    }

    /// Gives the owner some frames of each of the first pageblocks.
    pub fn new(engine: &'e Engine<P>) -> Ground<'e, P> {
        let Ground { owner, .. } = Ground::bare(engine);
        for pfn in (0..MOVABLE * 512).step_by(37).map(Pfn) {
            engine.claim_exact(&Cx::on(CpuId(0)), pfn, Order::ZERO, Migratetype::Movable).unwrap();
            owner.keep(pfn, Order::ZERO, Use::Movable);
        }
        Ground { engine, owner }
    }

    /// Checks that nothing was lost, that all of it merges again, and that no lease or isolation is left.
    pub fn judge(&self, held: Blocks, when: &str) {
        let engine = self.engine;
        let audit = || engine.audit().unwrap_or_else(|e| panic!("{when}: {e}"));
        let census = audit();
        assert!(census.is_conserved(), "{when}: {census:?}");
        let frames: u64 = held.iter().map(|(_, order)| order.frames().0).sum();
        assert_eq!(census.allocated, Frames(frames + self.owner.frames()), "{when}");
        let pageblocks = engine.zone_stats(ZoneId(0)).unwrap().span.spanned.0 / 512;
        for block in (0..pageblocks).map(PageblockId) {
            assert!(engine.lease_pageblock(block, CompactorId(200)), "{when}: {block:?} is leased");
            assert!(engine.unlease_pageblock(block));
        }
        for (pfn, order) in held {
            engine.free(&cx(0), pfn, order).expect("what is held can be freed");
        }
        self.owner.free_if(&cx(0), |_| true);
        engine.drain(CpuSet::All);
        let census = audit();
        assert_eq!(census.free, census.managed, "{when}: frames are lost");
        let blocks = engine.zone_stats(ZoneId(0)).unwrap().blocks_by_order();
        let whole: u64 = (9..blocks.len()).map(|order| blocks[order] << (order - 9)).sum();
        assert_eq!(whole, pageblocks, "{when}: every pageblock is whole again");
    }
}

/// A call that is stopped somewhere, and what it needs. It returns what it holds in the end.
pub struct Call<'a, P: PerCpu = TryLock> {
    pub name: &'a str,
    pub prepare: &'a (dyn Fn(&Ground<'_, P>) -> Blocks + Sync),
    pub run: &'a (dyn Fn(&Ground<'_, P>, Blocks) -> Blocks + Sync),
}

impl<P: PerCpu> Clone for Call<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: PerCpu> Copy for Call<'_, P> {}

/// Makes calls until there were enough; returns how many blocks it got and what it still holds.
fn others(engine: &Engine, seed: u64, calls: u64) -> (u64, Blocks) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut held = Vec::new();
    let mut granted = 0;
    for _ in 0..calls {
        let cpu = rng.u32(..CPUS);
        if held.len() < 24 && rng.bool() {
            let order = [0, 0, 0, 1, 2, 3, 4, 6, 7, 8, 9, 10][rng.usize(..12)];
            let ty = Migratetype::REQUESTED[rng.usize(..3)];
            if let Ok(pfn) = engine.alloc(&cx(cpu), &request(order, ty)) {
                granted += 1;
                held.push((pfn, Order::of(order)));
            }
        } else if !held.is_empty() {
            let (pfn, order) = held.swap_remove(rng.usize(..held.len()));
            engine.free(&cx(cpu), pfn, order).expect("what is held can be freed");
        }
    }
    (granted, held)
}

/// Says when tests that use the hook may run.
pub fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner())
}

/// Returns how many steps a call has when nothing else runs.
pub fn steps_of(call: &Call<'_>) -> u64 {
    let engine = machine();
    steps_on(&Ground::new(&engine), call, Vec::new())
}

/// The same on a ground where `held` is held as well.
pub fn steps_on<P: PerCpu>(ground: &Ground<'_, P>, call: &Call<'_, P>, mut held: Blocks) -> u64 {
    let blocks = (call.prepare)(ground);
    hook::set(Some(step));
    let before = MADE.get();
    held.extend((call.run)(ground, blocks));
    let steps = MADE.get() - before;
    hook::set(None);
    ground.judge(held, call.name);
    steps
}

/// Stops calls, each before the given step of its own, lets `meanwhile` run, and lets them go on, the first of them
/// first or last. Returns what they hold and what `meanwhile` returned.
pub fn stopped<T, P: PerCpu>(
    ground: &Ground<'_, P>,
    calls: &[(Call<'_, P>, u64)],
    first_goes_first: bool,
    meanwhile: impl FnOnce() -> T,
) -> (Blocks, T) {
    hook::set(Some(step));
    GATE.iter().for_each(|gate| *gate.state() = (false, false));
    let result = std::thread::scope(|scope| {
        let blocks: Vec<_> = calls.iter().map(|(call, _)| (call.prepare)(ground)).collect();
        let mut threads = Vec::new();
        for (n, ((call, at), blocks)) in calls.iter().zip(blocks).enumerate() {
            threads.push(scope.spawn(move || {
                MINE.set(n);
                LEFT.set(*at);
                let held = (call.run)(ground, blocks);
                LEFT.set(0);
                GATE[n].arrive(false);
                held
            }));
            GATE[n].await_arrival();
        }
        let between = meanwhile();
        let mut order: Vec<usize> = (0..calls.len()).collect();
        if !first_goes_first {
            order.reverse();
        }
        // The next one goes on while the one before runs.
        order.into_iter().for_each(|n| GATE[n].open());
        let held = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
        (held, between)
    });
    hook::set(None);
    result
}

/// Stops calls at the given steps while others complete theirs, and checks everything afterwards.
pub fn stop_at(calls: &[(Call<'_>, u64)], seed: u64, of_others: u64) {
    let names: Vec<_> = calls.iter().map(|(call, at)| format!("{} before step {at}", call.name)).collect();
    let when = names.join(", ");
    let engine = machine();
    let ground = Ground::new(&engine);
    let (mut held, rest) = stopped(&ground, calls, seed.is_multiple_of(2), || {
        let (finished, blocked) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let spawn = |n: u64| {
                let (engine, finished) = (&engine, &finished);
                scope.spawn(move || {
                    let result = others(engine, seed * 2 + n, of_others);
                    finished.fetch_add(1, SeqCst);
                    result
                })
            };
            let threads = [spawn(0), spawn(1)];
            let start = Instant::now();
            while threads.iter().any(|t| !t.is_finished()) {
                if start.elapsed() > PATIENCE {
                    // The stopped ones go on, so that the test ends and says so.
                    blocked.store(true, SeqCst);
                    GATE.iter().for_each(Gate::open);
                }
                std::thread::sleep(Duration::from_micros(50));
            }
            let results = threads.map(|t| t.join().unwrap());
            assert!(!blocked.load(SeqCst), "{when}: others were blocked");
            results.map(|(granted, held)| {
                assert!(granted > of_others / 20, "{when}: others starve: {granted}");
                held
            })
        })
    });
    held.extend(rest.into_iter().flatten());
    ground.judge(held, &when);
}

/// Stops two calls at once, before every pair of steps, or before `most` pairs drawn from them.
pub fn stop_pairs(a: Call<'_>, b: Call<'_>, most: u64) {
    let _guard = alone();
    // One step more than there are: that one is not stopped. Beside another one a call may have more steps than alone.
    let (of_a, of_b) = (steps_of(&a) + 1, steps_of(&b) + 1);
    let all = of_a * of_b;
    let mut rng = fastrand::Rng::with_seed(of_a << 32 | of_b);
    let run = |n: u64, pair: u64| stop_at(&[(a, pair % of_a + 1), (b, pair / of_a + 1)], n, CALLS);
    if all <= most {
        (0..all).for_each(|n| run(n, n));
    } else {
        (0..most).for_each(|n| run(n, rng.u64(..all)));
    }
    println!("{} and {}: {} of {all} pairs of steps", a.name, b.name, all.min(most));
}

/// Stops one call before each of its steps, or before `most` of them; returns how many steps it has.
pub fn stop_one(a: Call<'_>, most: u64) -> u64 {
    let _guard = alone();
    let steps = steps_of(&a);
    let mut rng = fastrand::Rng::with_seed(steps);
    if steps <= most {
        (1..=steps).for_each(|at| stop_at(&[(a, at)], at, MANY_CALLS));
    } else {
        (0..most).for_each(|n| stop_at(&[(a, rng.u64(1..=steps))], n, CALLS));
    }
    println!("{}: {} of {steps} steps", a.name, steps.min(most));
    steps
}
