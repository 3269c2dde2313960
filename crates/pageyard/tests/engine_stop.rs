//! A thread that stops blocks nobody.
//!
//! A hook runs before every atomic step of the engine. One thread is stopped before its first step of a call, then
//! before its second, and so on to its last; each time two others complete ten thousand calls each, on the stopped
//! thread's CPU among others. Then it goes on, and nothing may be lost.

#![cfg(all(feature = "step-hook", not(loom)))]

mod engine_common;

use engine_common::Owned;
use pageyard::engine::hook;
use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    Config, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, PageAllocator, PageblockId,
    Pfn, Region, Request, RequestFlags, TryLock, ZoneKind,
};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Calls that each of the others completes while one thread is stopped.
const CALLS: u64 = 10_000;
/// Pageblocks of the machine.
const PAGEBLOCKS: u64 = 16;
/// How long a call may take before it counts as blocked.
const PATIENCE: Duration = Duration::from_secs(60);

thread_local! {
    /// Steps until this thread stops; zero for threads that do not.
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// Where the stopped thread waits: whether it has stopped, and whether it may go on.
static GATE: (Mutex<(bool, bool)>, Condvar) = (Mutex::new((false, false)), Condvar::new());
/// The hook is one for the whole program, so one test uses it at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn gate() -> MutexGuard<'static, (bool, bool)> {
    GATE.0.lock().unwrap()
}

fn step() {
    let stop = LEFT.with(|left| {
        let n = left.get();
        left.set(n.saturating_sub(1));
        n == 1
    });
    if stop {
        let mut gate = gate();
        gate.0 = true;
        GATE.1.notify_all();
        drop(GATE.1.wait_while(gate, |g| !g.1).unwrap());
    }
}

type Engine = Owned<TryLock>;

fn cx(cpu: u32) -> Cx {
    Cx::on(CpuId(cpu))
}

fn request(order: u8, ty: Migratetype) -> Request {
    Request::new(Order::of(order), ty).with(RequestFlags::MEMALLOC)
}

fn movable(order: u8) -> Request {
    request(order, Migratetype::Movable)
}

fn machine() -> Arc<Engine> {
    let frames = PAGEBLOCKS * 512;
    let regions = [Region::managed(Pfn(0), Frames(frames), NodeId(0), ZoneKind::Normal)];
    let map = MemoryMap::new(&regions).unwrap();
    let watermark = WatermarkKnobs { min_free_kbytes: Some(0), ..WatermarkKnobs::default() };
    Arc::new(Owned::new(&map, Config { watermark, ..Config::new(3) }, TryLock).unwrap())
}

/// Makes calls until there were enough; returns how many blocks it got and what it still holds.
fn others(engine: &Engine, seed: u64) -> (u64, Vec<(Pfn, Order)>) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut held = Vec::new();
    let mut granted = 0;
    for _ in 0..CALLS {
        let cpu = rng.u32(..3);
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

/// Runs `call` on a machine that `prepare` made ready, stopped before each of its steps in turn, and returns how many
/// steps it has. `call` returns what it holds at the end.
fn stop_everywhere<S: Clone + Send + 'static>(
    name: &str,
    prepare: impl Fn(&Engine) -> S,
    call: impl Fn(&Engine, S) -> Vec<(Pfn, Order)> + Send + Sync + 'static,
) -> u64 {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let call = Arc::new(call);
    for at in 1.. {
        let engine = machine();
        let state = prepare(&engine);
        *gate() = (false, false);
        hook::set(Some(step));
        let done = Arc::new(AtomicBool::new(false));
        let victim = std::thread::spawn({
            let (engine, call, done) = (engine.clone(), call.clone(), done.clone());
            move || {
                LEFT.with(|left| left.set(at));
                let held = call(&engine, state);
                LEFT.with(|left| left.set(0));
                done.store(true, SeqCst);
                GATE.1.notify_all();
                held
            }
        });
        let stopped = {
            let mut gate = gate();
            while !gate.0 && !done.load(SeqCst) {
                gate = GATE.1.wait_timeout(gate, Duration::from_millis(1)).unwrap().0;
            }
            gate.0
        };
        let finished = Arc::new(AtomicU64::new(0));
        let threads: Vec<_> = (0..2)
            .map(|n| {
                let (engine, finished) = (engine.clone(), finished.clone());
                std::thread::spawn(move || {
                    let result = others(&engine, at * 2 + n);
                    finished.fetch_add(1, SeqCst);
                    result
                })
            })
            .collect();
        let start = std::time::Instant::now();
        while finished.load(SeqCst) < 2 {
            assert!(start.elapsed() < PATIENCE, "{name}: stopped before step {at}, it blocks others");
            if threads.iter().any(|t| t.is_finished()) && finished.load(SeqCst) == 0 {
                break;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        let mut held = Vec::new();
        for thread in threads {
            let (granted, still) = thread.join().unwrap();
            assert!(granted > CALLS / 20, "{name}: stopped before step {at}, it starves others: {granted}");
            held.extend(still);
        }
        *gate() = (stopped, true);
        GATE.1.notify_all();
        held.extend(victim.join().unwrap());
        hook::set(None);

        let census = engine.audit().unwrap_or_else(|e| panic!("{name}: stopped before step {at}: {e}"));
        assert!(census.is_conserved());
        let frames: u64 = held.iter().map(|(_, order)| order.frames().0).sum();
        assert_eq!(census.allocated, Frames(frames), "{name}: stopped before step {at}");
        for (pfn, order) in held {
            engine.free(&cx(0), pfn, order).expect("what is held can be freed");
        }
        engine.drain(CpuSet::All);
        let census = engine.audit().unwrap_or_else(|e| panic!("{name}: stopped before step {at}: {e}"));
        assert_eq!(census.free, census.managed, "{name}: stopped before step {at}, it loses frames");
        if !stopped {
            println!("{name}: {} steps", at - 1);
            return at - 1;
        }
    }
    unreachable!("a call has an end")
}

/// Allocates a block of `order` in a call that is stopped.
fn stop_alloc(order: u8, ty: Migratetype) -> u64 {
    let name = format!("allocate {ty}, order {order}");
    stop_everywhere(
        &name,
        |_| (),
        move |engine, ()| {
            let got = engine.alloc(&cx(0), &request(order, ty));
            got.ok().map(|pfn| (pfn, Order::of(order))).into_iter().collect()
        },
    )
}

/// Frees a block of `order` in a call that is stopped.
fn stop_free(order: u8) -> u64 {
    let prepare = move |engine: &Engine| engine.alloc(&cx(0), &movable(order)).unwrap();
    stop_everywhere(&format!("free, order {order}"), prepare, move |engine, pfn| {
        engine.free(&cx(0), pfn, Order::of(order)).unwrap();
        Vec::new()
    })
}

#[test]
fn allocations_that_miss() {
    for order in [0, 1, 3, 5, 6, 7, 8, 9, 10, 12] {
        assert!(stop_alloc(order, Migratetype::Movable) > 5, "order {order}");
    }
}

#[test]
fn allocations_that_steal() {
    for order in [0, 4, 9] {
        assert!(stop_alloc(order, Migratetype::Unmovable) > 5, "order {order}");
    }
}

#[test]
fn frees() {
    for order in [0, 3, 5, 7, 8, 9, 10] {
        assert!(stop_free(order) > 3, "order {order}");
    }
}

#[test]
fn a_list_hit_and_a_push() {
    let prepare = |engine: &Engine| engine.alloc(&cx(0), &movable(0)).unwrap();
    let steps = stop_everywhere("a list hit and a push", prepare, |engine, pfn| {
        engine.free(&cx(0), pfn, Order::ZERO).unwrap();
        let got = engine.alloc(&cx(0), &movable(0));
        got.ok().map(|pfn| (pfn, Order::ZERO)).into_iter().collect()
    });
    assert!(steps > 5);
}

#[test]
fn a_drain() {
    let prepare = |engine: &Engine| {
        let pfn = engine.alloc(&cx(0), &movable(0)).unwrap();
        engine.free(&cx(0), pfn, Order::ZERO).unwrap();
    };
    let steps = stop_everywhere("drain", prepare, |engine, ()| {
        engine.drain(CpuSet::One(CpuId(0)));
        Vec::new()
    });
    assert!(steps > 5);
}

#[test]
fn splits() {
    for (from, to) in [(3, 0), (9, 7), (10, 5)] {
        let prepare = move |engine: &Engine| engine.alloc(&cx(0), &movable(from)).unwrap();
        let steps = stop_everywhere(&format!("split {from} to {to}"), prepare, move |engine, pfn| {
            engine.split(&Cx::on(CpuId(0)), pfn, Order::of(from), Order::of(to)).unwrap();
            (0..1u64 << (from - to)).map(|n| (Pfn(pfn.0 + (n << to)), Order::of(to))).collect()
        });
        assert!(steps > 3, "{from} to {to}");
    }
}

#[test]
fn exact_claims() {
    for order in [0, 8, 9, 11] {
        let steps = stop_everywhere(
            &format!("claim, order {order}"),
            |_| (),
            move |engine, ()| {
                let pfn = Pfn(4096);
                let claimed = engine
                    .claim_exact(&Cx::on(CpuId(0)), pfn, Order::of(order), Migratetype::Movable)
                    .is_ok();
                claimed.then_some((pfn, Order::of(order))).into_iter().collect()
            },
        );
        assert!(steps > 3, "order {order}");
    }
}

#[test]
fn isolation_and_back() {
    let steps = stop_everywhere(
        "isolate and restore",
        |_| (),
        |engine, ()| {
            if engine.yard.isolate(&Cx::on(CpuId(0)), PageblockId(3)) {
                assert!(engine.yard.restore(&Cx::on(CpuId(0)), PageblockId(3)));
            }
            Vec::new()
        },
    );
    assert!(steps > 5);
}
