//! The remains of killed calls, planted in an engine's metadata one at a time: the audit must find each, and a repair
//! must mend it.

extern crate std;

use super::config::Config;
use super::map::count::FrameDelta;
use super::map::tag::Tag;
use super::pcp::percpu::TryLock;
use super::repair::Repaired;
use super::yard::Pageyard;
use super::zone::pageblocks::Pageblocks;
use crate::engine::pcp::tuning::ListIdx;
use pageyard_core::allocator::Cx;
use pageyard_core::memmap::{MemoryMap, Region, ZoneKind};
use pageyard_core::migratetype::Migratetype;
use pageyard_core::request::Request;
use pageyard_core::units::{CpuId, CpuSet, Frames, NodeId, Order, PageblockId, Pfn};
use pageyard_core::watermark::WatermarkKnobs;
use pageyard_sync::Metadata;
use pageyard_sync::SeqCst;
use std::vec::Vec;

type Engine<'m> = Pageyard<'m, TryLock>;
type Blocks = Vec<(Pfn, Order)>;

const CX: Cx = Cx::on(CpuId(0));
/// Frames: six pageblocks, a hole in the fifth.
const FRAMES: u64 = 6 * 512;
const MANAGED: u64 = FRAMES - 100;

fn at(block: u64, frame: u64) -> Pfn {
    Pfn(512 * block + frame)
}

/// Runs a test on an engine with free and used frames, alone and in blocks, some of them in lists; it is told what is
/// live.
fn with_engine(test: impl FnOnce(&Engine<'_>, Blocks)) {
    let (kind, node) = (ZoneKind::Normal, NodeId(0));
    let regions = [
        Region::managed(Pfn(0), Frames(4 * 512 + 200), node, kind),
        Region::managed(Pfn(4 * 512 + 300), Frames(FRAMES - 4 * 512 - 300), node, kind),
    ];
    let watermark = WatermarkKnobs { min_free_kbytes: Some(0), ..WatermarkKnobs::default() };
    let config = Config { watermark, ..Config::new(2) };
    let mut memory = [0u8; 1 << 16];
    let map = MemoryMap::new(&regions).unwrap();
    let engine = Pageyard::new(&map, config, TryLock, Metadata::zeroed(&mut memory)).unwrap();
    let mut live = Vec::new();
    let exact = |pfn: Pfn, order: Order| {
        engine.claim_exact(&CX, pfn, order, Migratetype::Movable).unwrap();
        (pfn, order)
    };
    live.extend([
        exact(at(2, 0), Order::of(10)),
        exact(at(1, 9), Order::ZERO),
        exact(at(1, 64), Order::of(6)),
        exact(at(1, 256), Order::of(8)),
    ]);
    let frames = [0; 3].map(|_| engine.alloc(&CX, &Request::new(Order::ZERO, Migratetype::Movable)).unwrap());
    engine.free(&CX, frames[1], Order::ZERO).unwrap();
    live.extend([(frames[0], Order::ZERO), (frames[2], Order::ZERO)]);
    engine.audit().unwrap();
    test(&engine, live);
}

fn zone<'e>(engine: &'e Engine<'_>) -> &'e Pageblocks<'e> {
    &engine.main.pageblocks
}

/// Repairs an engine, checks that it is sound and has lost nothing, and returns the live blocks and what was found.
fn repair(engine: &Engine<'_>) -> (Blocks, Repaired) {
    let mut live = Vec::new();
    // SAFETY: nothing else runs.
    let repaired = unsafe { engine.repair(|pfn, order| live.push((pfn, order))) };
    let census = engine.audit().unwrap_or_else(|e| panic!("{e}"));
    assert!(census.is_conserved());
    assert_eq!((census.managed, census.cached, census.isolated), (Frames(MANAGED), Frames(0), Frames(0)));
    assert_eq!(census.allocated, repaired.allocated);
    assert_eq!(census.allocated, live.iter().map(|(_, order)| order.frames()).sum());
    for (pfn, order) in &live {
        engine.free(&CX, *pfn, *order).unwrap();
    }
    engine.drain(CpuSet::All);
    assert_eq!(engine.audit().unwrap().free, Frames(MANAGED), "all of it can be allocated");
    live.sort_unstable();
    (live, repaired)
}

/// Plants what a killed call leaves, and checks that a repair mends it, and finds exactly the live blocks and as many
/// lost frames.
fn mends(lost: u64, plant: impl FnOnce(&Engine<'_>, &mut Blocks)) {
    with_engine(|engine, mut live| {
        plant(engine, &mut live);
        assert!(engine.audit().is_err(), "what was planted is a fault");
        let (found, repaired) = repair(engine);
        live.sort_unstable();
        assert_eq!((found, repaired.lost), (live, Frames(lost)));
    });
}

#[test]
fn a_sound_engine_stays_as_it_is() {
    with_engine(|engine, mut live| {
        live.sort_unstable();
        let cached = engine.audit().unwrap().cached;
        assert!(cached > Frames(0));
        let (found, repaired) = repair(engine);
        assert_eq!((found, repaired.lost, repaired.cached), (live, Frames(0), cached));
    });
}

#[test]
fn a_claim_that_reserved_frames_and_took_none() {
    mends(8, |e, _| {
        let z = zone(e);
        z.transit(z.frame_of(at(1, 0)).unwrap().block(), |s| s.claim_any(8));
    });
}

#[test]
fn a_claim_that_took_frames_and_marked_none() {
    mends(1, |e, live| {
        let (pfn, order) = live.remove(1);
        assert_eq!(order, Order::ZERO);
        let z = zone(e);
        z.frames.set_tag(z.frame_of(pfn).unwrap(), Tag::Free);
    });
}

#[test]
fn a_free_that_gave_a_frame_and_did_not_count_it() {
    mends(1, |e, live| {
        let (pfn, _) = live.remove(1);
        let z = zone(e);
        let frame = z.frame_of(pfn).unwrap();
        z.frames.set_tag(frame, Tag::Free);
        z.frames.release_bits(frame.block(), frame.word(), 1 << frame.bit());
    });
}

#[test]
fn a_free_of_a_pageblock_that_the_index_was_not_told_of() {
    mends(0, |e, live| {
        let (pfn, order) = live.remove(0);
        let z = zone(e);
        let frame = z.frame_of(pfn).unwrap();
        z.frames.set_tag(frame, Tag::Free);
        for block in frame.block().run(2) {
            z.frames.update(block, |s| s.release_whole(false));
        }
        assert_eq!(order, Order::of(10));
    });
}

#[test]
fn a_run_of_pageblocks_of_which_one_was_claimed() {
    mends(512, |e, _| {
        let z = zone(e);
        z.transit(z.frame_of(at(5, 0)).unwrap().block(), |s| s.claim_whole());
    });
}

#[test]
fn a_split_that_had_marked_one_part() {
    mends(224, |e, live| {
        let z = zone(e);
        let first = z.frame_of(at(1, 256)).unwrap();
        z.frames.set_tag(first, Tag::Splitting);
        z.frames.set_tag(first.plus(192), Tag::Allocated(Order::of(5)));
        live.retain(|(pfn, _)| *pfn != at(1, 256));
        live.push((at(1, 448), Order::of(5)));
    });
}

#[test]
fn a_split_of_pageblocks_that_had_taken_the_bits_of_one() {
    mends(1024, |e, live| {
        let z = zone(e);
        let first = z.frame_of(at(2, 0)).unwrap();
        z.frames.set_tag(first, Tag::Splitting);
        z.frames.take_huge(first.block());
        z.transit(first.block(), |s| s.shatter());
        live.remove(0);
    });
}

#[test]
fn a_pageblock_that_was_marked_and_is_in_no_slot() {
    mends(0, |e, _| {
        let z = zone(e);
        z.transit(z.frame_of(at(4, 0)).unwrap().block(), |s| Some(s.with_current(true)));
    });
}

#[test]
fn a_count_that_was_not_added() {
    mends(0, |e, _| zone(e).free.add(FrameDelta::between(7, 0)));
}

#[test]
fn a_list_whose_lock_its_user_took_along() {
    with_engine(|engine, live| {
        let list = engine.main.lists.get(CpuId(0), ListIdx::of_head(0));
        assert!(list.try_lock());
        assert_eq!(engine.drain(CpuSet::All).busy, 1);
        let (found, repaired) = repair(engine);
        assert!(repaired.cached > Frames(0) && found.len() == live.len());
        assert!(engine.drain(CpuSet::All).is_complete() && list.is_empty());
    });
}

#[test]
fn a_frame_that_was_popped_and_not_marked() {
    mends(1, |e, _| assert!(e.main.lists.get(CpuId(0), ListIdx::of_head(0)).pop().is_some()));
}

/// An addition of frames that was killed after it had marked some: the pageblock is a hole again, and can be added.
#[test]
fn an_addition_that_had_begun() {
    let regions = [
        Region::managed(Pfn(0), Frames(512), NodeId(0), ZoneKind::Normal),
        Region { managed: false, ..Region::managed(Pfn(512), Frames(1024), NodeId(0), ZoneKind::Normal) },
    ];
    let mut memory = [0u8; 1 << 15];
    let map = MemoryMap::new(&regions).unwrap();
    let engine = Pageyard::new(&map, Config::kernel(1), TryLock, Metadata::zeroed(&mut memory)).unwrap();
    let z = zone(&engine);
    let first = z.frame_of(at(1, 0)).unwrap();
    assert!(z.transit(first.block(), |s| s.begin_opening()));
    for frame in first.run(100) {
        z.frames.set_tag(frame, Tag::Hole);
    }
    z.frames.take_huge(first.block());
    // SAFETY: nothing else runs, and the frames are numbers.
    let add = || unsafe { engine.add_range(&CX, at(1, 0), Frames(1024)) };
    assert!(add().is_err(), "another call has the pageblock");
    // SAFETY: nothing else runs.
    let repaired = unsafe { engine.repair(|_, _| {}) };
    assert_eq!((repaired.lost, repaired.allocated), (Frames(0), Frames(0)));
    assert_eq!(engine.audit().unwrap().managed, Frames(512));
    add().unwrap();
    let census = engine.audit().unwrap();
    assert_eq!((census.managed, census.free + census.cached), (Frames(1536), Frames(1536)));
}

#[test]
fn isolations_and_leases_end() {
    with_engine(|engine, _| {
        for block in [1, 2] {
            assert!(engine.isolate(&CX, PageblockId(block)));
        }
        assert!(engine.lease_pageblock(PageblockId(1), pageyard_core::units::CompactorId(3)));
        let (_, repaired) = repair(engine);
        assert_eq!((repaired.isolated, repaired.leased, repaired.lost), (2, 1, Frames(0)));
    });
}

#[test]
fn zeros_are_known_only_of_frames_that_no_call_had() {
    with_engine(|engine, _| {
        let z = zone(engine);
        let (whole, part) = (z.frame_of(at(5, 0)).unwrap().block(), z.frame_of(at(1, 0)).unwrap().block());
        for block in [whole, part] {
            z.frames.set_state(block, z.frames.state(block).known_zero());
        }
        z.frames.set_taken(part, 7, 1 << 63);
        z.frames.set_taken(part, 0, 1 << 60);
        // SAFETY: nothing else runs.
        unsafe { engine.repair(|_, _| {}) };
        assert!(z.frames.state(whole).is_all_zero() && !z.frames.state(part).is_all_zero());
        engine.audit().unwrap();
    });
}

#[test]
fn biases_and_scratch_areas_are_nobodys() {
    with_engine(|engine, _| {
        let z = zone(engine);
        z.frames.bias(z.frame_of(at(1, 0)).unwrap().block()).set(Some(CpuId(1)));
        // SAFETY: nothing else runs.
        unsafe { engine.repair(|_, _| {}) };
        assert_eq!(engine.bias_of(at(1, 0)), Some(crate::engine::BiasState::Shared));
        assert!(z.current.iter().all(|slot| slot.load(SeqCst) == 0));
    });
}

#[test]
fn nothing_changes_where_the_caller_panics() {
    with_engine(|engine, live| {
        let before = engine.audit().unwrap();
        let repair = || {
            // SAFETY: nothing else runs.
            unsafe { engine.repair(|_, _| panic!("on purpose")) }
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(repair)).is_err());
        assert_eq!(engine.audit().unwrap(), before);
        assert_eq!(before.allocated, live.iter().map(|(_, order)| order.frames()).sum());
    });
}
