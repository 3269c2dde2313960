//! Measures the engine quickly, beside floors: nanoseconds for one allocation and its free.
//!
//! `cargo run --release -p pageyard --example measure`

use pageyard::{
    Alone, Config, CpuId, Cx, Exclusive, Frames, MemoryMap, Migratetype, NodeId, Order, Pageyard, PerCpu,
    Pfn, Region, Request, TryLock, ZoneKind,
};
use std::hint::black_box;
use std::sync::atomic::{AtomicU8, Ordering::AcqRel, Ordering::Relaxed};
use std::time::Instant;

/// Frames of the machine: 16 GiB.
const FRAMES: u64 = 4 << 20;
/// Pairs of one sample.
const PAIRS: usize = 1 << 18;
/// Samples, of which the median counts.
const SAMPLES: usize = 31;

/// Returns the median time of one pair in nanoseconds.
fn median(mut sample: impl FnMut() -> usize) -> f64 {
    let mut times: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            let start = Instant::now();
            let pairs = sample();
            start.elapsed().as_nanos() as f64 / pairs as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[SAMPLES / 2]
}

/// Allocates and frees batches, first in, first out.
#[inline(always)]
fn pairs(batch: usize, mut alloc: impl FnMut() -> u64, mut free: impl FnMut(u64)) -> f64 {
    let mut held = vec![0; batch];
    let laps = (PAIRS / batch).max(2);
    median(|| {
        for _ in 0..laps {
            held.iter_mut().for_each(|slot| *slot = alloc());
            held.iter().for_each(|pfn| free(black_box(*pfn)));
        }
        laps * batch
    })
}

fn order<P: PerCpu, const ORDER: u8>(engine: &Pageyard<'_, P>, batches: &[usize]) {
    let cx = Cx::on(CpuId(0));
    let request = Request::new(Order::of(ORDER), Migratetype::Movable);
    for batch in batches {
        let alloc = || engine.alloc(&cx, &request).expect("memory").0;
        let free = |pfn| engine.free(&cx, Pfn(pfn), Order::of(ORDER)).expect("held");
        print!("  {ORDER}x{batch} {:6.2}", pairs(*batch, alloc, free));
    }
}

fn measure<P: PerCpu>(percpu: P, pcp: bool) {
    let regions = [Region::managed(Pfn(0), Frames(FRAMES), NodeId(0), ZoneKind::Normal)];
    let map = MemoryMap::new(&regions).expect("a map");
    let config = Config { pcp, ..Config::new(2) };
    let engine = Pageyard::owned(&map, config, percpu).expect("an engine");
    let cx = Cx::on(CpuId(0));
    let name = if pcp { P::NAME } else { "without lists" };
    print!("{name:20}");
    order::<P, 0>(&engine, &[1, 64, 1024, 16384]);
    order::<P, 3>(&engine, &[64]);
    order::<P, 9>(&engine, &[1, 64]);
    let request = Request::new(Order::ZERO, Migratetype::Movable);
    let mut out = vec![Pfn(0); 64];
    let bulk = median(|| {
        for _ in 0..4096 {
            assert_eq!(engine.alloc_bulk(&cx, &request, &mut out), 64);
            engine.free_bulk(&cx, black_box(&out), Order::ZERO, &mut |pfn, why| panic!("{pfn}: {why}"));
        }
        4096 * 64
    });
    println!("  bulk 64 {bulk:6.2}");
    engine.audit().expect("a clean audit");
}

fn main() {
    for _ in 0..2 {
        // The floor: an array, and the one locked instruction that a sound check costs.
        let mut stack: Vec<u64> = (0..1 << 16).collect();
        let tags: Vec<AtomicU8> = (0..1 << 16).map(|_| AtomicU8::new(0)).collect();
        let stack = std::cell::RefCell::new(&mut stack);
        let pop = || stack.borrow_mut().pop().expect("an item");
        let array = pairs(64, pop, |pfn| stack.borrow_mut().push(pfn));
        let checked = pairs(
            64,
            || {
                let pfn = pop();
                tags[pfn as usize].store(128, Relaxed);
                pfn
            },
            |pfn| {
                tags[pfn as usize].compare_exchange(128, 0, AcqRel, Relaxed).expect("allocated");
                stack.borrow_mut().push(pfn);
            },
        );
        println!("floors, 0x64: array {array:.2}, array with a checked tag {checked:.2}");
        // SAFETY: this program has one thread.
        measure(unsafe { Exclusive::by_instance() }, true);
        // SAFETY: as above.
        measure(unsafe { Alone::by_instance() }, true);
        measure(TryLock, true);
        measure(TryLock, false);
    }
}
