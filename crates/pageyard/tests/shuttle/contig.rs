//! Contiguous ranges claimed by their numbers while other threads allocate, free, free twice, and compact: a range that
//! was had has one owner, and every pageblock is back in allocation.

use crate::common::{Block, Machine, PAGEBLOCK, explore_some};
use crate::compaction::{Owner, Part, calls, compact_all, scattered};
use pageyard::Migratetype::Movable;
use pageyard::engine::{CmaArea, Internals};
use pageyard::reclaim::NoHelp;
use pageyard::{ContigError, CpuId, CpuSet, Cx, Frames, FreeError, Order, PageAllocator, Pfn, RangeFault};
use shuttle::rand::Rng;
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Schedules of each kind: a range is hundreds of steps.
const SCHEDULES: usize = 60;

fn cx(cpu: u32) -> Cx {
    Cx::on(CpuId(cpu))
}

/// Takes a range into the books as single frames, and out of them again.
fn note(m: &Machine, first: u64, frames: u64, owned: bool) {
    for pfn in first..first + frames {
        let frame = (Pfn(pfn), 0);
        if owned {
            m.own(frame);
        } else {
            m.disown(frame);
        }
    }
}

fn give(m: &Machine, cpu: u32, first: u64, frames: u64) {
    note(m, first, frames, false);
    m.engine.free_range(&cx(cpu), Pfn(first), Frames(frames)).unwrap();
}

/// Takes ranges and gives them back in two parts; counts those it got.
fn ranges(o: &Owner, cpu: u32, wanted: &[(u64, u64)], got: &AtomicU64) {
    for (first, frames) in wanted.iter().copied() {
        match o.m.engine.alloc_contig_range(&cx(cpu), Pfn(first), Frames(frames), Movable, o) {
            Ok(()) => {
                got.fetch_add(1, Relaxed);
                note(&o.m, first, frames, true);
                let cut = 1 + frames / 3;
                give(&o.m, cpu, first, cut);
                give(&o.m, cpu, first + cut, frames - cut);
            }
            // Of a pageblock that is offline, no frame is managed.
            Err(ContigError::Busy { .. } | ContigError::Isolated { .. } | ContigError::NoTarget) => {}
            Err(ContigError::OutsideArena { .. }) => {}
            Err(why) => panic!("{why}"),
        }
    }
}

fn run(name: &str, pcp: bool, wanted: &'static [&'static [(u64, u64)]], others: &'static [Part]) {
    let (moves, got) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let all = got.clone();
    explore_some(name, SCHEDULES, move || {
        let m = Machine::new(3, pcp);
        let o = Owner::of(&m, scattered(3), &moves);
        let takers = wanted.iter().enumerate().map(|(cpu, wanted)| {
            let (o, got) = (o.clone(), got.clone());
            thread::spawn(move || {
                ranges(&o, cpu as u32, wanted, &got);
                Vec::new()
            })
        });
        let threads: Vec<_> = takers.collect();
        let others = others.iter().map(|part| {
            let o = o.clone();
            thread::spawn(move || part(&o))
        });
        let threads: Vec<_> = threads.into_iter().chain(others.collect::<Vec<_>>()).collect();
        let held: Vec<Block> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
        assert_eq!(m.engine.audit().unwrap().isolated, Frames::ZERO, "no pageblock is out of allocation");
        o.end(3, held);
    });
    println!("{name}: {} ranges", all.load(Relaxed));
    assert!(all.load(Relaxed) > 0, "{name}: some range was had");
}

#[test]
fn a_range_beside_allocations_and_frees() {
    for pcp in [true, false] {
        run("a contiguous range", pcp, &[&[(0, 60), (500, 30)]], &[|o| calls(o, 1, 4), |o| calls(o, 2, 4)]);
    }
}

#[test]
fn a_pageblock_beside_allocations_and_a_compaction() {
    run("a pageblock by its number", true, &[&[(512, 512)]], &[|o| calls(o, 1, 4), |o| compact_all(o, 2)]);
}

#[test]
fn two_ranges_that_share_a_pageblock() {
    run("two ranges", true, &[&[(10, 40), (500, 20)], &[(40, 30), (505, 10)]], &[|o| calls(o, 2, 4)]);
}

/// Frees of blocks that lie in the range, twice each, while it is being claimed: the frame is the range's once, or not
/// at all.
#[test]
fn a_range_beside_frees_that_come_twice() {
    let had = Arc::new(AtomicU64::new(0));
    let all = had.clone();
    explore_some("a range and double frees", 3 * SCHEDULES, move || {
        let m = Machine::new(2, true);
        let blocks = [m.exact(8, 0).unwrap(), m.exact(16, 3).unwrap(), m.exact(70, 0).unwrap()];
        blocks.iter().for_each(|block| m.disown(*block));
        let free_all = |cpu| {
            let m = m.clone();
            thread::spawn(move || blocks.map(|block| m.try_free(cpu, block).is_ok()))
        };
        let by_range = {
            let m = m.clone();
            thread::spawn(move || match m.engine.free_range(&cx(3), Pfn(16), Frames(8)) {
                Ok(()) => 8,
                Err(error) => {
                    let lost = [FreeError::NotAllocated, FreeError::Busy].map(RangeFault::Free);
                    assert!(lost.contains(&error.why), "{error}");
                    error.freed.0
                }
            })
        };
        let (one, two) = (free_all(0), free_all(1));
        let taker = {
            let (m, had) = (m.clone(), had.clone());
            thread::spawn(move || {
                let got = m.engine.alloc_contig_range(&cx(2), Pfn(4), Frames(100), Movable, &NoHelp);
                had.fetch_add(u64::from(got.is_ok()), Relaxed);
                got.is_ok()
            })
        };
        let (one, two) = (one.join().unwrap(), two.join().unwrap());
        let (ranged, taken) = (by_range.join().unwrap(), taker.join().unwrap());
        // A stale free may come after the range was handed out, and free a block of it.
        let freed: u64 = (0..3).map(|n| (u64::from(one[n]) + u64::from(two[n])) << blocks[n].1).sum();
        let census = m.engine.audit().unwrap();
        assert!(census.is_conserved(), "{census:?}");
        assert_eq!(
            census.allocated.0 + freed + ranged,
            10 + if taken { 100 } else { 0 },
            "each frame was freed once"
        );
        let live = (0..2 * PAGEBLOCK).filter_map(|pfn| Some((Pfn(pfn), m.engine.order_of(Pfn(pfn))?.get())));
        m.end(live.map(|block| m.own(block)).collect::<Vec<_>>());
    });
    assert!(all.load(Relaxed) > 0, "some range was had");
}

/// A pageblock goes offline and comes back beside a range in it, allocations and frees.
#[test]
fn a_pageblock_that_goes_offline_beside_everything_else() {
    let (moves, gone) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (all, got) = (gone.clone(), Arc::new(AtomicU64::new(0)));
    explore_some("offline and online", SCHEDULES, move || {
        let m = Machine::new(3, true);
        let o = Owner::of(&m, scattered(3), &moves);
        let goes = |cpu: u32| {
            let (o, gone) = (o.clone(), gone.clone());
            thread::spawn(move || {
                let (first, n) = (Pfn(PAGEBLOCK), Frames(PAGEBLOCK));
                match o.m.engine.offline_range(&cx(cpu), first, n, &*o) {
                    Ok(()) => {
                        gone.fetch_add(1, Relaxed);
                        // No other call brings it back.
                        o.m.engine.online_range(&cx(cpu), first, n).unwrap();
                    }
                    Err(
                        ContigError::Busy { .. }
                        | ContigError::Isolated { .. }
                        | ContigError::OutsideArena { .. },
                    ) => {}
                    Err(why) => panic!("{why}"),
                }
                Vec::new()
            })
        };
        let threads = [goes(0), goes(1)];
        let taker = {
            let (o, got) = (o.clone(), got.clone());
            thread::spawn(move || {
                ranges(&o, 2, &[(PAGEBLOCK + 20, 30)], &got);
                Vec::new()
            })
        };
        let caller = {
            let o = o.clone();
            thread::spawn(move || calls(&o, 3, 3))
        };
        let held: Vec<Block> =
            threads.into_iter().chain([taker, caller]).flat_map(|t| t.join().unwrap()).collect();
        let census = m.engine.audit().unwrap();
        assert_eq!((census.isolated, census.managed), (Frames::ZERO, Frames(3 * PAGEBLOCK)));
        o.end(3, held);
    });
    assert!(all.load(Relaxed) > 0, "it was offline in some schedule");
}

/// A pageblock is isolated while it comes online, or it is not; the answer is that.
#[test]
fn a_pageblock_that_comes_online_beside_its_isolation() {
    let (yes, no) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (isolated, refused) = (yes.clone(), no.clone());
    explore_some("online and isolation", 10 * SCHEDULES, move || {
        let m = Machine::new(2, false);
        let (block, n) = (Pfn(PAGEBLOCK), Frames(PAGEBLOCK));
        m.engine.offline_range(&cx(0), block, n, &NoHelp).unwrap();
        let comes = {
            let m = m.clone();
            thread::spawn(move || m.engine.online_range(&cx(0), block, n).unwrap())
        };
        let is_isolated = m.engine.isolate(&cx(1), block.pageblock());
        comes.join().unwrap();
        assert_eq!(m.engine.restore(&cx(1), block.pageblock()), is_isolated);
        if is_isolated { &yes } else { &no }.fetch_add(1, Relaxed);
        m.end(Vec::new());
    });
    assert!(isolated.load(Relaxed) > 0 && refused.load(Relaxed) > 0, "both answers came");
}

/// Two owners of one area, beside movable requests that are served from it.
#[test]
fn an_area_beside_movable_requests() {
    let (moves, had) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let all = had.clone();
    explore_some("a contiguous area", SCHEDULES, move || {
        let m = Machine::new(3, true);
        let area: CmaArea = m.engine.declare_cma(&cx(0), Pfn(0), Frames(2 * PAGEBLOCK)).unwrap();
        let o = Owner::of(&m, scattered(3), &moves);
        let takers = (0..2).map(|cpu| {
            let (o, had) = (o.clone(), had.clone());
            thread::spawn(move || {
                let frames = 30 + 10 * u64::from(cpu);
                let got = o.m.engine.alloc_cma(&cx(cpu), area, Frames(frames), Order::of(3), &*o);
                if let Ok(first) = got {
                    had.fetch_add(1, Relaxed);
                    note(&o.m, first.0, frames, true);
                    give(&o.m, cpu, first.0, frames);
                }
                Vec::new()
            })
        });
        let takers: Vec<_> = takers.collect();
        let other = {
            let o = o.clone();
            thread::spawn(move || {
                let cpu = 2;
                let got: Vec<Block> = (0..3)
                    .filter_map(|_| o.m.movable(cpu, shuttle::rand::thread_rng().gen_range(0..3)))
                    .collect();
                o.m.engine.drain(CpuSet::All);
                got
            })
        };
        let held: Vec<Block> = takers.into_iter().chain([other]).flat_map(|t| t.join().unwrap()).collect();
        assert_eq!(m.engine.audit().unwrap().isolated, Frames::ZERO, "no pageblock is out of allocation");
        o.end(3, held);
    });
    assert!(all.load(Relaxed) > 0, "some range was had");
}
