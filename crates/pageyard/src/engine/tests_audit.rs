//! Faults planted in an engine's metadata, one at a time: the audit has to find each.

use super::config::Config;
use super::geometry::BlockIdx;
use super::map::count::FrameDelta;
use super::map::frame_map::masks_of;
use super::map::tag::Tag;
use super::pcp::percpu::TryLock;
use super::yard::Pageyard;
use super::zone::current::By;
use super::zone::isolated::{ClaimedRange, IsolatedRange, ZoneRange};
use super::zone::pageblocks::{Pageblocks, Take, Want};
use crate::engine::pcp::tuning::ListIdx;
use pageyard_core::allocator::Cx;
use pageyard_core::memmap::{MemoryMap, Region, ZoneKind};
use pageyard_core::migratetype::Migratetype;
use pageyard_core::request::Request;
use pageyard_core::units::{CpuId, CpuSet, Frames, NodeId, Order, Pfn};
use pageyard_core::watermark::WatermarkKnobs;
use pageyard_sync::Metadata;
use pageyard_sync::{Relaxed, SeqCst};

type Engine<'m> = Pageyard<'m, TryLock>;

const CX: Cx = Cx::on(CpuId(0));
const PAGEBLOCKS: u64 = 6;
/// A pageblock of which a frame is in use, and which no CPU works on.
const PARTLY: BlockIdx = BlockIdx::new(1);
/// One that a CPU works on.
const WORKED_ON: BlockIdx = BlockIdx::new(0);
/// One that is free as a whole.
const WHOLE: BlockIdx = BlockIdx::new(5);

/// Runs a test on an engine with one pageblock of each kind, and something in a list.
fn with_engine(test: impl FnOnce(&Engine<'_>)) {
    let regions = [Region::managed(Pfn(0), Frames(PAGEBLOCKS * 512), NodeId(0), ZoneKind::Normal)];
    let map = MemoryMap::new(&regions).unwrap();
    let watermark = WatermarkKnobs { min_free_kbytes: Some(0), ..WatermarkKnobs::default() };
    let config = Config { watermark, ..Config::new(2) };
    let mut memory = [0u8; 1 << 16];
    let engine = Pageyard::new(&map, config, TryLock, Metadata::zeroed(&mut memory)).unwrap();
    let single = Request::new(Order::ZERO, Migratetype::Movable);
    let frames = [0; 3].map(|_| engine.alloc(&CX, &single).unwrap());
    engine.free(&CX, frames[1], Order::ZERO).unwrap();
    for (frame, order) in [(9, 0), (64, 6)] {
        let pfn = Pfn(512 * PARTLY.get() as u64 + frame);
        engine.claim_exact(&CX, pfn, Order::of(order), Migratetype::Movable).unwrap();
    }
    for block in 2..WHOLE.get() as u64 {
        engine.claim_exact(&CX, Pfn(512 * block), Order::of(9), Migratetype::Movable).unwrap();
    }
    engine.audit().unwrap();
    test(&engine);
}

fn zone<'e>(engine: &'e Engine<'_>) -> &'e Pageblocks<'e> {
    &engine.main.pageblocks
}

/// Returns the pageblock that a CPU works on.
fn worked_on(z: &Pageblocks<'_>) -> BlockIdx {
    z.frames.all().find(|b| z.frames.state(*b).is_current()).expect("a CPU works on one")
}

/// Plants a fault, and returns whether the audit finds it.
fn finds(plant: impl FnOnce(&Engine<'_>)) -> bool {
    let mut found = false;
    with_engine(|engine| {
        plant(engine);
        found = engine.audit().is_err();
    });
    found
}

#[test]
fn the_audit_finds_a_pageblock_that_is_marked_and_has_no_slot() {
    assert!(finds(|e| {
        let z = zone(e);
        let marked = worked_on(z);
        for slot in z.current.iter().filter(|slot| slot.load(Relaxed) == marked.get() as u64 + 1) {
            slot.store(0, Relaxed);
        }
    }));
}

#[test]
fn the_audit_finds_a_pageblock_that_is_marked_and_has_a_slot_of_another_type_only() {
    assert!(finds(|e| {
        let z = zone(e);
        let marked = worked_on(z);
        let unmovable = Migratetype::Unmovable;
        z.transit(marked, |s| Some(s.with_type(unmovable).with_current(true)));
    }));
}

#[test]
fn the_audit_finds_a_free_frame_called_zeros_in_a_pageblock_that_knows_of_none() {
    assert!(finds(|e| zone(e).frames.set_tag(PARTLY.frame(3), Tag::FreeZero)));
}

#[test]
fn the_audit_finds_a_frame_called_zeros_inside_a_live_block() {
    assert!(finds(|e| zone(e).frames.set_tag(PARTLY.frame(64 + 5), Tag::FreeZero)));
}

#[test]
fn the_audit_finds_a_bit_that_is_taken_by_nobody() {
    assert!(finds(|e| zone(e).frames.set_taken(PARTLY, 0, 1 << 20)));
}

#[test]
fn the_audit_finds_a_bit_that_is_free_under_an_allocated_frame() {
    assert!(finds(|e| {
        zone(e).frames.release_masks(PARTLY, &masks_of(9, Order::ZERO), 0);
    }));
}

#[test]
fn the_audit_finds_a_live_block_that_is_not_aligned() {
    let as_blocks = |second: u8| {
        move |e: &Engine<'_>| {
            // The same 64 frames: one, 2^second from the second on, and the others one by one.
            let set = |offset, order| {
                zone(e).frames.set_tag(PARTLY.frame(offset), Tag::Allocated(Order::of(order)))
            };
            (64..65).chain(65 + (1 << second)..128).for_each(|offset| set(offset, 0));
            set(65, second);
        }
    };
    assert!(!finds(as_blocks(0)));
    assert!(finds(as_blocks(5)));
}

#[test]
fn the_audit_finds_a_hint_that_is_too_small() {
    assert!(finds(|e| {
        let z = zone(e);
        z.transit(PARTLY, |s| Some(s.with_hint(2)));
    }));
}

// The audit lets a hint be too large. What it misleads lowers it.
#[test]
fn a_hint_that_is_too_large_is_lowered_by_the_claim_that_it_misled() {
    with_engine(|e| {
        let z = zone(e);
        // Of one pageblock every second frame.
        for frame in (0..512).step_by(2) {
            let pfn = Pfn(512 * WHOLE.get() as u64 + frame);
            e.claim_exact(&CX, pfn, Order::ZERO, Migratetype::Movable).unwrap();
        }
        z.transit(WHOLE, |s| Some(s.with_hint(8)));
        let (ty, cpu) = (Migratetype::Movable, CpuId(0));
        let want = Want { ty, order: Order::of(2), blocks: 1, cpu };
        assert!(z.claim_of(WHOLE, want, Take::Same, false).is_none());
        assert_eq!(z.frames.state(WHOLE).hint(), 0);
        e.audit().unwrap();
    });
}

#[test]
fn a_pageblock_that_is_emptied_stays_current_only_where_a_slot_of_the_cpu_names_it() {
    with_engine(|e| {
        let z = zone(e);
        // As a thread leaves it that stopped before it put the pageblock into a slot.
        z.transit(PARTLY, |s| Some(s.with_current(true)));
        for (frame, order) in [(9, 0), (64, 6)] {
            let first = PARTLY.frame(frame);
            assert!(z.frames.retag(first, Tag::Allocated(Order::of(order)), Tag::Free).is_ok());
            let by = By::cpu(CpuId(1));
            z.free.add(z.release_one(first, Order::of(order), false, by).freed);
        }
        let state = z.frames.state(PARTLY);
        assert!(state.is_whole() && !state.is_current());
        e.audit().unwrap();
        // As a claim leaves it that is over.
        let want = Want { ty: Migratetype::Movable, order: Order::ZERO, blocks: 1, cpu: CpuId(1) };
        let got = z.claim_of(PARTLY, want, Take::Same, true).expect("it is whole");
        z.free.add(got.claimed);
        let frame = got.first();
        z.free.add(z.release_one(frame, Order::ZERO, false, By::cpu(CpuId(1))).freed);
        assert!(z.frames.state(PARTLY).is_emptied());
        e.audit().unwrap();
        z.emptied().store(0, SeqCst);
        assert!(e.audit().is_err(), "requests for a pageblock would not find it");
    });
}

#[test]
fn a_claim_from_what_a_cpu_works_on_lowers_the_hint_that_it_breaks_or_that_misled_it() {
    with_engine(|e| {
        let (z, ty, cpu) = (zone(e), Migratetype::Movable, CpuId(0));
        let block = worked_on(z);
        let claim = |order| {
            let frame = z.claim_here(cpu, ty, order)?;
            z.free.add(FrameDelta::claimed(1 << order.get()));
            z.frames.allocate_tag(frame, order);
            assert_eq!(frame.block(), block);
            Some(frame)
        };
        // Its first frames are in use: one run of 256 is left, then none, then one of 128.
        assert_eq!(z.frames.state(block).hint(), 8);
        claim(Order::of(8)).expect("there is one");
        assert_eq!(z.frames.state(block).hint(), 7);
        claim(Order::of(6)).expect("there is one, beside the other of 128");
        claim(Order::of(7)).expect("there is one");
        assert!(z.frames.state(block).hint() < 6);
        while z.frames.state(block).free() > 16 {
            claim(Order::ZERO).expect("there are some");
        }
        assert!(z.frames.state(block).hint() <= 4, "each that broke the largest run lowered it");
        let free: [u64; 8] = core::array::from_fn(|word| z.frames.free_bits(block, word));
        let is_free = |frame: &u32| free[*frame as usize / 64] >> (frame % 64) & 1 != 0;
        for (_, frame) in (0..512).filter(is_free).enumerate().filter(|(n, _)| n % 2 == 0) {
            let pfn = z.pfn(block.frame(frame));
            e.claim_exact(&CX, pfn, Order::ZERO, Migratetype::Movable).unwrap();
        }
        assert_eq!((z.frames.state(block).free(), z.frames.state(block).hint()), (8, 0));
        z.transit(block, |s| Some(s.with_hint(8)));
        let counted = z.free();
        assert!(claim(Order::of(3)).is_none(), "the hint misled it");
        assert_eq!((z.frames.state(block).free(), z.frames.state(block).hint(), z.free()), (8, 0, counted));
        e.audit().unwrap();
    });
}

#[test]
fn a_push_is_refused_where_the_pageblock_became_part_of_an_area() {
    with_engine(|e| {
        let z = zone(e);
        let (state, watch) = z.frames.state_of(PARTLY.first_frame().get() as u64).unwrap();
        assert!(watch.stands() && !state.is_isolated());
        // Isolated, changed and restored since.
        assert!(z.set_type(PARTLY, Migratetype::Movable, Migratetype::Cma));
        assert!(!watch.stands());
        for ty in Migratetype::REQUESTED {
            let from = z.frames.state(PARTLY).migratetype();
            z.transit(PARTLY, |s| Some(s.with_type(ty)));
            assert!(watch.stands(), "{from} to {ty:?}");
        }
    });
}

#[test]
fn the_audit_finds_frames_that_are_free_and_not_counted() {
    assert!(finds(|e| zone(e).free.add(FrameDelta::between(1, 0))));
}

#[test]
fn the_audit_finds_a_pageblock_that_changed_behind_the_index() {
    assert!(finds(|e| {
        zone(e).frames.update(WHOLE, |s| Some(s.with_type(Migratetype::Reclaimable)));
    }));
}

#[test]
fn the_audit_finds_a_live_block_that_nobody_allocated() {
    for frame in [PARTLY.frame(40), WHOLE.first_frame()] {
        assert!(finds(|e| zone(e).frames.set_tag(frame, Tag::Allocated(Order::ZERO))), "{frame:?}");
    }
}

#[test]
fn the_audit_finds_a_lost_block() {
    assert!(finds(|e| zone(e).frames.set_tag(PARTLY.frame(9), Tag::Free)));
}

#[test]
fn the_audit_finds_a_huge_pageblock_that_no_block_names() {
    assert!(finds(|e| {
        zone(e).transit(WHOLE, |s| s.claim_whole());
    }));
}

#[test]
fn the_audit_finds_a_frame_that_two_lists_hold() {
    assert!(finds(|e| {
        let list = e.main.lists.get(CpuId(0), ListIdx::of_head(0));
        let mut items = [0; 1];
        assert_eq!(list.pop_many(&mut items), 1);
        assert_eq!(list.extend(&items), 1);
        assert_eq!(e.main.lists.get(CpuId(1), ListIdx::of_head(0)).extend(&items), 1);
    }));
}

#[test]
fn the_audit_finds_a_list_that_holds_another_frame_than_was_freed() {
    assert!(finds(|e| {
        let list = e.main.lists.get(CpuId(0), ListIdx::of_head(0));
        let mut items = [0; 1];
        assert_eq!(list.pop_many(&mut items), 1);
        assert_eq!(list.extend(&[items[0] ^ 256]), 1);
    }));
}

#[test]
fn the_audit_finds_a_wrong_count_of_reserved_frames() {
    for ty in [Migratetype::HighAtomic, Migratetype::Cma] {
        assert!(
            finds(|e| {
                // The type, and nothing of what follows from it.
                let z = zone(e);
                let change = z.frames.update(WHOLE, |s| Some(s.with_type(ty))).unwrap();
                z.index.moved(&z.frames, WHOLE, change.old, change.new);
            }),
            "{ty}"
        );
    }
}

#[test]
fn an_engine_without_a_fault_passes_before_and_after_it_is_drained() {
    with_engine(|engine| {
        assert!(zone(engine).frames.state(WORKED_ON).is_current());
        assert_eq!(worked_on(zone(engine)), WORKED_ON);
        assert!(zone(engine).current.iter().any(|slot| slot.load(SeqCst) == WORKED_ON.get() as u64 + 1));
        engine.drain(CpuSet::All);
        engine.audit().unwrap();
    });
}

#[test]
fn a_claim_that_meets_a_frame_in_use_gives_back_what_it_reserved() {
    with_engine(|engine| {
        let free = || zone(engine).frames.state(PARTLY).free();
        let before = free();
        let place = ZoneRange { zone: engine.main, first: PARTLY.frame(5), end: PARTLY.frame(10) };
        let isolated = IsolatedRange::of(place).unwrap();
        assert_eq!(ClaimedRange::claim(place).err(), Some(PARTLY.frame(9)));
        assert_eq!(free(), before);
        drop(isolated);
        engine.audit().unwrap();
    });
}
