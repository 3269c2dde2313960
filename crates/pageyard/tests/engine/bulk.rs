//! Bulk calls over neighbours, which are won and marked eight at a time where the processor can.

use pageyard::{
    Config, CpuId, CpuSet, Cx, Frames, FreeError, MemoryMap, Migratetype, NodeId, Order, OwnedPageyard,
    PageAllocator, Pageyard, Pfn, Region, Request, TryLock, ZoneKind,
};

const CX: Cx = Cx::on(CpuId(0));

fn machine() -> OwnedPageyard<TryLock> {
    let regions = [Region::managed(Pfn(0), Frames(64 * 512), NodeId(0), ZoneKind::Normal)];
    Pageyard::owned(&MemoryMap::new(&regions).unwrap(), Config::new(2), TryLock).unwrap()
}

fn take(engine: &OwnedPageyard<TryLock>, n: usize, ty: Migratetype) -> Vec<Pfn> {
    let mut frames = vec![Pfn(0); n];
    assert_eq!(engine.alloc_bulk(&CX, &Request::new(Order::ZERO, ty), &mut frames), n);
    frames.sort();
    frames
}

fn free(engine: &OwnedPageyard<TryLock>, frames: &[Pfn]) -> Vec<(Pfn, FreeError)> {
    let mut refused = Vec::new();
    engine.free_bulk(&CX, frames, Order::ZERO, &mut |pfn, why| refused.push((pfn, why)));
    refused
}

#[test]
fn neighbours_of_two_types_in_one_call_go_to_the_list_of_their_own() {
    let engine = machine();
    let types = [Migratetype::Movable, Migratetype::Unmovable];
    let [movable, unmovable] = types.map(|ty| take(&engine, 64, ty));
    engine.drain(CpuSet::All);
    let mixed: Vec<Pfn> =
        movable.chunks(8).zip(unmovable.chunks(8)).flat_map(|(a, b)| a.iter().chain(b).copied()).collect();
    assert_eq!(free(&engine, &mixed), []);
    // The lists hold nothing else.
    for (ty, frames) in types.into_iter().zip([movable, unmovable]) {
        assert_eq!(take(&engine, 64, ty), frames);
        assert_eq!(free(&engine, &frames), []);
    }
    engine.audit().unwrap();
}

#[test]
fn one_wrong_frame_among_neighbours_is_named_and_the_others_are_freed() {
    for wrong in 0..24 {
        for reversed in [false, true] {
            let engine = machine();
            let mut frames = take(&engine, 64, Migratetype::Movable);
            frames.truncate(24);
            engine.free(&CX, frames[wrong], Order::ZERO).unwrap();
            if reversed {
                frames.reverse();
            }
            let pfn = if reversed { frames[23 - wrong] } else { frames[wrong] };
            assert_eq!(free(&engine, &frames), [(pfn, FreeError::NotAllocated)]);
            assert_eq!(free(&engine, &frames).len(), 24);
            engine.drain(CpuSet::All);
            assert_eq!(engine.audit().unwrap().allocated, Frames(40));
        }
    }
}

#[test]
fn neighbours_beyond_the_end_of_memory_are_refused() {
    let engine = machine();
    for first in [64 * 512, u64::MAX - 31, 1 << 32, 1 << 40] {
        let frames: Vec<Pfn> = (0..32).map(|n| Pfn(first + n)).collect();
        let refused = free(&engine, &frames);
        assert!(refused.len() == 32 && refused.iter().all(|(_, why)| *why == FreeError::OutsideArena));
    }
    engine.audit().unwrap();
}
