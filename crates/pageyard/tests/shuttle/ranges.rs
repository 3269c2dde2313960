//! Frees by range against each other and against every other call: each frame is freed once, and owners of parts of one
//! block get in each other's way only as [`FreeError::Busy`].

use crate::common::{BLOCK, Block, Machine, PAGEBLOCK, Part, all, explore, explore_some};
use crate::sequences::{Sequences, run_on};
use pageyard::Migratetype::{Movable, Unmovable};
use pageyard::engine::Internals;
use pageyard::engine::Visit;
use pageyard::{
    BlockId, Config, CpuId, CpuSet, Cx, FrameRange, Frames, FreeError, Order, PageAllocator, PageblockId,
    PerCpu, Pfn, RangeFault, Request, RequestFlags,
};
use shuttle::rand::Rng;
use shuttle::thread;
use std::sync::Arc;

/// Frees frames, again where another call was splitting the block at that moment; returns how many it freed before the
/// first that was not allocated.
fn free<P: PerCpu>(m: &Machine<P>, cpu: u32, first: u64, frames: u64) -> u64 {
    let mut freed = 0;
    while freed < frames {
        match m.engine.free_range(&Cx::on(CpuId(cpu)), Pfn(first + freed), Frames(frames - freed)) {
            Ok(()) => return frames,
            Err(error) => {
                freed += error.freed.0;
                match error.why {
                    RangeFault::Free(FreeError::Busy) => thread::yield_now(),
                    RangeFault::Free(FreeError::NotAllocated) => return freed,
                    why => panic!("{why}"),
                }
            }
        }
    }
    freed
}

/// Frees frames that the caller owns.
fn give(m: &Machine, cpu: u32, first: u64, frames: u64) {
    (first..first + frames).for_each(|pfn| m.disown((Pfn(pfn), 0)));
    assert_eq!(free(m, cpu, first, frames), frames, "an owner frees all that is its own");
}

/// The parts of one block, freed by their owners at the same time, beside threads that take and give what they can.
fn parts_of(name: &'static str, order: u8, cuts: &'static [u64], pcp: bool) {
    explore(name, move || {
        let m = Machine::new(4, pcp);
        let block = m.exact(0, order).unwrap();
        let owners = cuts.windows(2).enumerate().map(|(cpu, part)| {
            let (m, from, to) = (m.clone(), part[0], part[1]);
            thread::spawn(move || give(&m, cpu as u32, block.0.0 + from, to - from))
        });
        let other = {
            let m = m.clone();
            thread::spawn(move || {
                let mut held: Vec<Block> =
                    [0, 3, BLOCK].iter().filter_map(|order| m.movable(4, *order)).collect();
                held.extend(m.alloc(4, 2, Unmovable));
                held
            })
        };
        owners.collect::<Vec<_>>().into_iter().for_each(|t| t.join().unwrap());
        m.end(other.join().unwrap());
    });
}

#[test]
fn owners_free_the_parts_of_a_small_block() {
    parts_of("parts of order 3", 3, &[0, 3, 5, 8], true);
}

#[test]
fn owners_free_the_parts_of_a_pageblock() {
    parts_of("parts of order 9", BLOCK, &[0, 129, 300, 512], true);
    parts_of("parts of order 9 without lists", BLOCK, &[0, 1, 511, 512], false);
}

#[test]
fn owners_free_the_parts_of_a_run_of_pageblocks() {
    parts_of("parts of order 10", 10, &[0, 500, 512, 1024], true);
}

/// Frees of the same frames: by two ranges that overlap, by the block, and in bulk.
fn contested(name: &'static str, order: u8, ranges: [(u64, u64); 2], single: Block) {
    explore(name, move || {
        let m = Machine::new(4, true);
        let block = m.exact(0, order).unwrap();
        m.disown(block);
        let by_range = |cpu: u32, (first, frames): (u64, u64)| {
            let m = m.clone();
            thread::spawn(move || free(&m, cpu, first, frames))
        };
        let ranges = [by_range(0, ranges[0]), by_range(1, ranges[1])];
        let by_block = {
            let m = m.clone();
            thread::spawn(move || if m.try_free(2, single).is_ok() { 1 << single.1 } else { 0 })
        };
        let freed: u64 = ranges.into_iter().chain([by_block]).map(|t| t.join().unwrap()).sum();
        let census = m.engine.audit().unwrap();
        assert!(census.is_conserved(), "{census:?}");
        assert_eq!(census.allocated.0 + freed, 1 << order, "each frame was freed once");
        // Nothing that is live is lost.
        let live = (0..1 << order).filter_map(|pfn| Some((Pfn(pfn), m.engine.order_of(Pfn(pfn))?.get())));
        m.end(live.map(|block| m.own(block)).collect::<Vec<_>>());
    });
}

#[test]
fn ranges_that_overlap_and_a_free_of_the_block() {
    contested("a small block, contested", 3, [(0, 6), (2, 6)], (Pfn(0), 3));
    contested("a pageblock, contested", BLOCK, [(0, 512), (100, 100)], (Pfn(0), BLOCK));
    contested("a run, contested", 10, [(0, 1024), (511, 2)], (Pfn(0), 10));
}

#[test]
fn ranges_that_overlap_over_many_blocks() {
    explore("many blocks, contested", || {
        let m = Machine::new(1, true);
        for pfn in 64..72 {
            let block = m.exact(pfn, 0).unwrap();
            m.disown(block);
        }
        let block = m.exact(72, 3).unwrap();
        m.disown(block);
        let by_range = |cpu: u32, first: u64, frames: u64| {
            let m = m.clone();
            thread::spawn(move || free(&m, cpu, first, frames))
        };
        let threads = [by_range(0, 64, 16), by_range(1, 66, 12), by_range(2, 70, 3)];
        let freed: u64 = threads.into_iter().map(|t| t.join().unwrap()).sum();
        let census = m.engine.audit().unwrap();
        assert_eq!(census.allocated.0 + freed, 16, "each frame was freed once");
        let live = (64..80).filter_map(|pfn| Some((Pfn(pfn), m.engine.order_of(Pfn(pfn))?.get())));
        m.end(live.map(|block| m.own(block)).collect::<Vec<_>>());
    });
}

/// Two frees by range and one by block, of a block in a pageblock that is biased to one CPU.
#[test]
fn ranges_of_a_biased_pageblock() {
    explore("a biased pageblock, contested", || {
        run_on(Some(0));
        let m: Arc<Machine<Sequences>> = Machine::of(1, Config::new(3), Sequences::new(3, false));
        let block = m.movable(0, 3).unwrap();
        m.disown(block);
        let frees = [(0, 8), (2, 4)].into_iter().enumerate().map(|(cpu, (from, frames))| {
            let m = m.clone();
            thread::spawn(move || {
                run_on(Some(cpu as u32));
                free(&m, cpu as u32, block.0.0 + from, frames)
            })
        });
        let freed: u64 = frees.collect::<Vec<_>>().into_iter().map(|t| t.join().unwrap()).sum();
        run_on(Some(0));
        let census = m.engine.audit().unwrap();
        assert_eq!(census.allocated.0 + freed, 8, "each frame was freed once");
        let frames = block.0.0..block.0.0 + 8;
        let live = frames.filter_map(|pfn| Some((Pfn(pfn), m.engine.order_of(Pfn(pfn))?.get())));
        m.end(live.map(|block| m.own(block)).collect::<Vec<_>>());
    });
}

/// A range that the thread owns.
fn own(m: &Machine, range: FrameRange) -> FrameRange {
    (range.first.0..range.first.0 + range.frames.0).for_each(|pfn| {
        m.own((Pfn(pfn), 0));
    });
    range
}

/// Calls of one thread; returns what it holds, as single frames.
fn calls(m: &Machine, cpu: u32) -> Vec<Block> {
    let (cx, mut rng) = (Cx::on(CpuId(cpu)), shuttle::rand::thread_rng());
    let request = Request::new(Order::ZERO, Movable).with(RequestFlags::MEMALLOC);
    let mut held: Vec<FrameRange> = Vec::new();
    for _ in 0..5 {
        match rng.gen_range(0..7) {
            0 => {
                let frames = Frames([3, 70, 513][rng.gen_range(0..3)]);
                let got = m.engine.alloc_exact(&cx, frames, Order::of(rng.gen_range(0..3)), &request);
                held.extend(got.ok().map(|first| own(m, FrameRange::new(first, frames))));
            }
            1 => {
                let mut out = [FrameRange::default(); 3];
                let n = m.engine.alloc_frames(&cx, Frames(9), Order::of(1), &request, &mut out).unwrap_or(0);
                held.extend(out[..n].iter().map(|range| own(m, *range)));
            }
            2 => {
                let order = [0, 5, BLOCK][rng.gen_range(0..3)];
                held.extend(
                    m.movable(cpu, order).map(|(pfn, order)| FrameRange::new(pfn, Frames(1 << order))),
                );
            }
            3 => {
                let (least, from) = ([3, 8, BLOCK][rng.gen_range(0..3)], rng.gen_range(0..3 * PAGEBLOCK));
                let mut kept = None;
                let visit = |block: BlockId| {
                    let range = own(m, FrameRange::new(block.pfn, block.order.frames()));
                    if kept.is_none() {
                        kept = Some(range);
                        return Visit::Keep;
                    }
                    m.disown((block.pfn, block.order.get()));
                    if block.pfn.0.is_multiple_of(16) { Visit::Zeroed } else { Visit::Return }
                };
                m.engine.visit_free_blocks(&cx, Order::of(least), Pfn(from), Frames(64), visit).unwrap();
                held.extend(kept);
            }
            4 => {
                let block = PageblockId(rng.gen_range(0..3));
                if m.engine.isolate(&cx, block) {
                    m.engine.drain(CpuSet::All);
                    assert!(m.engine.restore(&cx, block), "no other thread restores it");
                }
            }
            _ if !held.is_empty() => {
                let at = rng.gen_range(0..held.len());
                let FrameRange { first, frames } = held.swap_remove(at);
                let n = rng.gen_range(1..=frames.0);
                give(m, cpu, first.0, n);
                if n < frames.0 {
                    held.push(FrameRange::new(Pfn(first.0 + n), Frames(frames.0 - n)));
                }
            }
            _ => {}
        }
    }
    // As the blocks that they are.
    let blocks = |range: FrameRange| {
        (range.first.0..range.first.0 + range.frames.0)
            .filter_map(|pfn| Some((Pfn(pfn), m.engine.order_of(Pfn(pfn))?.get())))
            .collect::<Vec<_>>()
    };
    held.into_iter().flat_map(blocks).collect()
}

#[test]
fn calls_on_ranges_beside_each_other() {
    for pcp in [true, false] {
        explore_some("calls on ranges", 150, move || {
            let m = Machine::new(3, pcp);
            const CALLS: [Part; 3] = [|m| calls(m, 0), |m| calls(m, 1), |m| calls(m, 2)];
            let held = all(&m, &CALLS);
            m.end(held);
        });
    }
}
