//! Searches are bounded whatever the size of memory: steps are counted, not timed. And starting is cheap.

use pageyard::engine::Internals;
use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    Config, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, OwnedPageyard, PageAllocator,
    Pageyard, Pfn, Region, Request, RequestFlags, TryLock, ZoneKind,
};

const CX: Cx = Cx::on(CpuId(0));
/// Index words and descriptors that an allocation that succeeds may look at: a zone, the CPU's current pageblock, the
/// shelves of two fallback types at each fit, a word a level, and the descriptor that was found.
const MOST_STEPS: u64 = 64;

const GIB: u64 = 1 << 18;

fn regions(frames: u64) -> [Region; 1] {
    [Region::managed(Pfn(0), Frames(frames), NodeId(0), ZoneKind::Normal)]
}

fn machine(frames: u64, pcp: bool) -> OwnedPageyard<TryLock> {
    let regions = regions(frames);
    let watermark = WatermarkKnobs { min_free_kbytes: Some(0), ..WatermarkKnobs::default() };
    let config = Config { watermark, pcp, ..Config::new(2) };
    Pageyard::owned(&MemoryMap::new(&regions).unwrap(), config, TryLock).unwrap()
}

fn request(order: Order, ty: Migratetype) -> Request {
    Request::new(order, ty).with(RequestFlags::MEMALLOC)
}

/// Takes every pageblock that `which` picks, the others stay free.
fn take(engine: &OwnedPageyard<TryLock>, frames: u64, which: impl Fn(u64) -> bool) {
    for block in (0..frames / 512).filter(|b| which(*b)) {
        engine.claim_exact(&Cx::on(CpuId(0)), Pfn(block * 512), Order::of(9), Migratetype::Movable).unwrap();
    }
}

/// Allocates and frees each order that fits, for each type, and returns the most steps.
fn most_steps(engine: &OwnedPageyard<TryLock>) -> u64 {
    let (mut most, mut granted) = (0, 0);
    for ty in Migratetype::REQUESTED {
        for order in Order::ZERO.up_to(Order::MAX) {
            let mut held = Vec::new();
            engine.take_search_steps(CpuId(0));
            for _ in 0..40 {
                let Ok(pfn) = engine.alloc(&CX, &request(order, ty)) else { break };
                held.push(pfn);
                let steps = engine.take_search_steps(CpuId(0)).unwrap();
                assert!(steps > 0, "a search looks at something");
                assert!(steps <= MOST_STEPS, "{ty}, order {order}: {steps} steps");
                most = most.max(steps);
            }
            granted += held.len();
            held.iter().for_each(|pfn| engine.free(&CX, *pfn, order).unwrap());
        }
    }
    assert!(granted > 100, "the memory was not full: {granted}");
    most
}

#[test]
fn a_search_takes_a_constant_number_of_steps() {
    for frames in [GIB, 16 * GIB, 1024 * GIB] {
        let blocks = frames / 512;
        let empty = machine(frames, false);
        let steps = [
            most_steps(&empty),
            {
                let half = machine(frames, false);
                take(&half, frames, |b| b * 0x9e37 % 64 < 32);
                most_steps(&half)
            },
            {
                let full = machine(frames, false);
                let free = (blocks / 1000).max(1);
                take(&full, frames, |b| b % (blocks / free) != 7);
                // What is left is broken up as well, but for one pageblock in four.
                for block in (0..blocks).filter(|b| b % (blocks / free) == 7 && b % 4 != 0) {
                    for part in (0..512).step_by(16) {
                        full.claim_exact(
                            &Cx::on(CpuId(0)),
                            Pfn(block * 512 + part),
                            Order::of(3),
                            Migratetype::Movable,
                        )
                        .unwrap();
                    }
                }
                most_steps(&full)
            },
        ];
        println!("{} GiB: at most {steps:?} steps at 0, 50 and 99.9 % full", frames / GIB);
    }
}

#[test]
fn a_frame_of_an_area_is_found_by_the_index() {
    let engine = machine(GIB, false);
    // Of 512 pageblocks the last is lent, and the others are taken.
    engine.declare_cma(&CX, Pfn(511 * 512), Frames(512)).unwrap();
    take(&engine, GIB, |b| b < 511);
    engine.take_search_steps(CpuId(0));
    assert_eq!(engine.alloc(&CX, &request(Order::ZERO, Migratetype::Movable)).unwrap().0 / 512, 511);
    let steps = engine.take_search_steps(CpuId(0)).unwrap();
    assert!(steps <= MOST_STEPS, "{steps} steps");
}

#[test]
fn refusals_leave_the_count_of_steps_alone() {
    let engine = machine(GIB, false);
    take(&engine, GIB, |b| b % 2 == 0);
    engine.take_search_steps(CpuId(0));
    engine.alloc(&CX, &request(Order::of(10), Migratetype::Movable)).unwrap_err();
    assert_eq!(engine.take_search_steps(CpuId(0)), Some(0));
    assert_eq!(engine.take_search_steps(CpuId(2)), None);
}

#[test]
fn metadata_is_small() {
    for frames in [GIB, 16 * GIB, 1024 * GIB] {
        let regions = regions(frames);
        let map = MemoryMap::new(&regions).unwrap();
        let layout = Pageyard::<TryLock>::layout(&map, &Config::new(64)).unwrap();
        let each = layout.frames_bytes as f64 / frames as f64;
        println!("{} GiB: {each:.3} bytes a frame", frames / GIB);
        assert!(each <= 1.5, "{each} bytes a frame");
        assert!(layout.layout.size() > layout.frames_bytes);
    }
}

/// Resident memory of this process in bytes.
#[cfg(target_os = "linux")]
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
#[cfg(target_os = "linux")]
fn starting_a_tebibyte_touches_little() {
    let before = resident();
    let engine = machine(1024 * GIB, true);
    let pfn = engine.alloc(&CX, &request(Order::ZERO, Migratetype::Movable)).unwrap();
    engine.free(&CX, pfn, Order::ZERO).unwrap();
    engine.drain(CpuSet::All);
    let grown = resident().saturating_sub(before);
    println!("resident: {grown} bytes");
    // A start that touched what each frame has would touch five times as much.
    assert!(grown < 64 << 20, "{grown} bytes");
}

#[test]
fn a_leased_pageblock_serves_parts_but_not_as_a_whole() {
    use pageyard::{CompactorId, PageblockId};
    let engine = machine(512, false);
    assert!(engine.lease_pageblock(PageblockId(0), CompactorId(7)));
    assert!(!engine.lease_pageblock(PageblockId(0), CompactorId(8)), "a lease is for one");
    engine.audit().unwrap();
    engine.alloc(&CX, &request(Order::of(9), Migratetype::Movable)).unwrap_err();
    let pfn = engine.alloc(&CX, &request(Order::of(8), Migratetype::Movable)).unwrap();
    engine.free(&CX, pfn, Order::of(8)).unwrap();
    engine.audit().unwrap();
    assert!(engine.unlease_pageblock(PageblockId(0)) && !engine.unlease_pageblock(PageblockId(0)));
    engine.alloc(&CX, &request(Order::of(9), Migratetype::Movable)).unwrap();
    engine.audit().unwrap();
}

#[test]
fn known_zeros_are_told_and_forgotten() {
    let engine = machine(2 * 512, true);
    let alloc = |order| engine.alloc(&CX, &request(Order::of(order), Migratetype::Movable)).unwrap();
    let (whole, other) = (alloc(9), alloc(9));
    assert!(!engine.was_zeroed(whole), "nothing is known of fresh memory");
    engine.free_zeroed(&CX, whole, Order::of(9)).unwrap();
    engine.drain(CpuSet::All);
    // A part of it is known to be zero, and so is one of several frames.
    let (one, eight) = (alloc(0), alloc(3));
    assert!(engine.was_zeroed(one) && engine.was_zeroed(eight));
    // It was handed out: its owner may have written to it.
    engine.free(&CX, eight, Order::of(3)).unwrap();
    let again = alloc(3);
    assert_eq!(again, eight, "the hottest");
    assert!(!engine.was_zeroed(again));
    // Back as zeros, one frame at a time: the larger block of them is not all zero.
    engine.free_zeroed(&CX, one, Order::ZERO).unwrap();
    engine.free(&CX, again, Order::of(3)).unwrap();
    engine.drain(CpuSet::All);
    engine.audit().unwrap();
    let whole = alloc(9);
    assert!(!engine.was_zeroed(whole), "some of it was written to");
    engine.free_zeroed(&CX, whole, Order::of(9)).unwrap();
    engine.free_zeroed(&CX, other, Order::of(9)).unwrap();
    let run = alloc(10);
    engine.audit().unwrap();
    engine.free(&CX, run, Order::of(10)).unwrap();
    engine.drain(CpuSet::All);
    assert_eq!(engine.audit().unwrap().free, Frames(1024));
}
