//! Blocks of orders 9 to 18 in threads: runs of pageblocks that several CPUs claim, break up and complete.

use pageyard::engine::Internals;
use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    Config, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, OwnedPageyard, PageAllocator,
    PageblockId, Pageyard, Pfn, Region, Request, RequestFlags, TryLock, ZoneKind,
};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const THREADS: u32 = 4;
/// Rounds, after each of which everything is checked.
const ROUNDS: u64 = 200;
/// Calls of a thread in a round.
const CALLS: usize = 150;
/// Pageblocks: two blocks of order 18, and a part of one.
const PAGEBLOCKS: u64 = 1024 + 200;

/// A machine whose zone does not begin at a multiple of the largest block.
fn machine(start: u64, pcp: bool) -> OwnedPageyard<TryLock> {
    let regions = [Region::managed(Pfn(start), Frames(PAGEBLOCKS * 512), NodeId(0), ZoneKind::Normal)];
    let watermark = WatermarkKnobs { min_free_kbytes: Some(0), ..WatermarkKnobs::default() };
    let config = Config { watermark, pcp, ..Config::new(THREADS) };
    Pageyard::owned(&MemoryMap::new(&regions).unwrap(), config, TryLock).unwrap()
}

/// Which pageblocks are owned.
struct Owners(Vec<AtomicBool>, u64);

impl Owners {
    fn note(&self, pfn: Pfn, order: Order, owned: bool) {
        let first = ((pfn.0 - self.1) / 512) as usize;
        for block in &self.0[first..first + (1 << (order.get() - 9))] {
            assert_ne!(block.swap(owned, SeqCst), owned, "{pfn:?}, order {order}: one owner at a time");
        }
    }
}

/// One round of one thread; it returns what it holds.
fn calls(
    engine: &OwnedPageyard<TryLock>,
    owners: &Owners,
    cpu: u32,
    seed: u64,
    mut held: Vec<(Pfn, Order)>,
) -> Vec<(Pfn, Order)> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let cx = Cx::on(CpuId(cpu));
    for _ in 0..CALLS {
        match rng.u32(..12) {
            0..=4 => {
                // Large ones are tried as often as small ones, and seldom fit.
                let order = Order::of(rng.u8(9..=18));
                let ty = Migratetype::REQUESTED[rng.usize(..3)];
                let request = Request::new(order, ty).with(RequestFlags::MEMALLOC);
                if let Ok(pfn) = engine.alloc(&cx, &request) {
                    assert!(pfn.is_aligned(order));
                    owners.note(pfn, order, true);
                    held.push((pfn, order));
                }
            }
            5 => {
                let order = rng.u8(9..=17);
                let at = (owners.1 + rng.u64(..PAGEBLOCKS * 512)) >> order << order;
                if engine
                    .claim_exact(&Cx::on(CpuId(0)), Pfn(at), Order::of(order), Migratetype::Movable)
                    .is_ok()
                {
                    owners.note(Pfn(at), Order::of(order), true);
                    held.push((Pfn(at), Order::of(order)));
                }
            }
            6 => {
                let block = PageblockId(owners.1 / 512 + rng.u64(..PAGEBLOCKS));
                if engine.isolate(&Cx::on(CpuId(0)), block) {
                    assert!(engine.restore(&Cx::on(CpuId(0)), block));
                }
            }
            7 if !held.is_empty() => {
                // Split into parts of which one is freed at once.
                let (pfn, from) = held.swap_remove(rng.usize(..held.len()));
                let to = Order::of(rng.u8(9..=from.get()));
                engine.split(&Cx::on(CpuId(0)), pfn, from, to).unwrap();
                let parts = (0..1u64 << (from.get() - to.get())).map(|n| Pfn(pfn.0 + n * to.frames().0));
                held.extend(parts.map(|pfn| (pfn, to)));
            }
            _ if held.is_empty() => {}
            _ => {
                let (pfn, order) = held.swap_remove(rng.usize(..held.len()));
                owners.note(pfn, order, false);
                engine.free(&cx, pfn, order).unwrap();
            }
        }
    }
    // Most of it goes back, so that large blocks come together again.
    while held.len() > rng.usize(1..6) {
        let (pfn, order) = held.swap_remove(rng.usize(..held.len()));
        owners.note(pfn, order, false);
        engine.free(&cx, pfn, order).unwrap();
    }
    held
}

/// While nothing runs: the books are right, and the largest block that is free is not refused.
fn check(engine: &OwnedPageyard<TryLock>, when: &str) {
    engine.drain(CpuSet::All);
    engine.audit().unwrap_or_else(|why| panic!("{when}: {why}"));
    let free = engine.zone_stats(pageyard::ZoneId(0)).unwrap().blocks_by_order();
    let largest = free.iter().rposition(|n| *n > 0).filter(|order| *order >= 9);
    let Some(order) = largest.map(|order| Order::of(order as u8)) else { return };
    let request = Request::new(order, Migratetype::Movable).with(RequestFlags::MEMALLOC);
    let pfn = engine.alloc(&Cx::on(CpuId(0)), &request);
    let pfn = pfn.unwrap_or_else(|why| panic!("{when}: order {order} is free: {why}"));
    engine.free(&Cx::on(CpuId(0)), pfn, order).unwrap();
}

fn threads_take_and_break_up_large_blocks(start: u64, pcp: bool) {
    let engine = machine(start, pcp);
    let owners = Owners((0..PAGEBLOCKS).map(|_| AtomicBool::new(false)).collect(), start);
    let mut held: Vec<Vec<(Pfn, Order)>> = (0..THREADS).map(|_| Vec::new()).collect();
    for round in 0..ROUNDS {
        held = std::thread::scope(|scope| {
            let spawn = |(cpu, held)| {
                let (engine, owners) = (&engine, &owners);
                scope.spawn(move || {
                    calls(engine, owners, cpu, round << 8 | u64::from(cpu) | start << 32, held)
                })
            };
            let threads: Vec<_> = (0..THREADS).zip(held).map(spawn).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        check(&engine, &format!("after round {round}"));
    }
    for (pfn, order) in held.into_iter().flatten() {
        engine.free(&Cx::on(CpuId(0)), pfn, order).unwrap();
    }
    engine.drain(CpuSet::All);
    let census = engine.audit().unwrap();
    assert_eq!(census.free, census.managed);
    let request = Request::new(Order::of(18), Migratetype::Movable);
    assert!(engine.alloc(&Cx::on(CpuId(0)), &request).is_ok(), "the largest block is whole again");
}

#[test]
fn threads_take_and_break_up_blocks_up_to_order_18() {
    threads_take_and_break_up_large_blocks(0, false);
}

#[test]
fn threads_take_and_break_up_blocks_where_the_zone_begins_inside_one() {
    threads_take_and_break_up_large_blocks((1 << 18) - 130 * 512, true);
}
