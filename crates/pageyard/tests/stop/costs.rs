//! Costs of calls in atomic steps: exact, where a clock would not be.

use pageyard::engine::hook;
use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    Config, CpuId, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, OwnedPageyard, PageAllocator, Pageyard,
    Pfn, Region, Request, TryLock, ZoneKind,
};
use std::cell::Cell;

const CX: Cx = Cx::on(CpuId(0));

thread_local! {
    /// Steps of this thread.
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// Returns how many atomic steps `call` takes.
fn steps_of(call: impl FnOnce()) -> u64 {
    let _guard = crate::common::alone();
    hook::set(Some(|| STEPS.with(|n| n.set(n.get() + 1))));
    let before = STEPS.get();
    call();
    hook::set(None);
    STEPS.get() - before
}

fn machine() -> OwnedPageyard<TryLock> {
    machine_with(true)
}

/// Makes a machine of two CPUs, with lists or without.
fn machine_with(pcp: bool) -> OwnedPageyard<TryLock> {
    let regions = [Region::managed(Pfn(0), Frames(32 * 512), NodeId(0), ZoneKind::Normal)];
    let watermark = WatermarkKnobs { min_free_kbytes: Some(0), ..WatermarkKnobs::default() };
    let config = Config { pcp, watermark, ..Config::new(2) };
    Pageyard::owned(&MemoryMap::new(&regions).unwrap(), config, TryLock).unwrap()
}

/// Takes frames and frees them, more than a list holds, so that batches of them go back and forth.
fn refills_and_spills(engine: &OwnedPageyard<TryLock>) {
    let request = Request::new(Order::ZERO, Migratetype::Movable);
    let frames: Vec<_> = (0..4000).map(|_| engine.alloc(&CX, &request).unwrap()).collect();
    frames.into_iter().for_each(|pfn| engine.free(&CX, pfn, Order::ZERO).unwrap());
}

#[test]
fn a_refused_free_of_zeros_makes_no_later_spill_dearer() {
    let plain = machine();
    let usual = steps_of(|| refills_and_spills(&plain));
    let engine = machine();
    for pfn in [Pfn(17), Pfn(1 << 30)] {
        engine.free_zeroed(&CX, pfn, Order::ZERO).unwrap_err();
    }
    let after = steps_of(|| refills_and_spills(&engine));
    assert_eq!(after, usual, "nothing changed by a free that was refused");
}

#[test]
fn a_batch_of_as_many_pageblocks_as_a_cpu_works_on_costs_what_single_blocks_cost() {
    let engine = machine_with(false);
    let request = Request::new(Order::of(8), Migratetype::Movable);
    let batch = |blocks: usize| {
        let taken: Vec<_> = (0..blocks).map(|_| engine.alloc(&CX, &request).unwrap()).collect();
        taken.into_iter().for_each(|pfn| engine.free(&CX, pfn, request.order).unwrap());
    };
    // The first time, it begins pageblocks.
    batch(8);
    let two = steps_of(|| batch(2));
    let eight = steps_of(|| batch(8));
    // Each pageblock but the first is looked for in the slots of those before it.
    assert!(eight < 4 * two + 60, "two blocks take {two} steps, eight {eight}");
}
