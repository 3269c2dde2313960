//! The reference's free lists as compaction uses them: seen in their order, turned, and taken whole.

use crate::common::{bare, blocks, give, normal, pageblocks, sound, take};
use pageyard_core::{
    BlockId, CpuId, CpuSet, Cx, Frames, Migratetype, Order, PageAllocator, Pfn, PressureAllocator, Request,
    Stats, ZoneId,
};
use pageyard_linux::compaction::{CompactionView, HeldFrees, ListEnd, TargetOrder};
use pageyard_linux::{Config, LinuxAllocator};
use pageyard_testkit::owner::{Fault, Owner, Use};

const ZONE: ZoneId = ZoneId(0);
const M: Migratetype = Migratetype::Movable;

fn seen(a: &LinuxAllocator, order: u8, from: ListEnd, most: usize) -> Vec<u64> {
    let mut seen = Vec::new();
    assert!(a.see_list(ZONE, Order::of(order), from, |pfn| {
        seen.push(pfn.0);
        seen.len() < most
    }));
    seen
}

/// A zone of four pageblocks, all in use but these blocks of order 4, freed in this order.
fn with_free(free: &[u64]) -> LinuxAllocator {
    let a = normal(2048, &bare(Config::linux_6_18()));
    while a.alloc(&Cx::on(CpuId(0)), &Request::new(Order::of(4), M)).is_ok() {}
    for pfn in free {
        give(&a, Pfn(*pfn), 4);
    }
    a
}

/// Returns the reference's store of free frames that others are moved to.
fn stock() -> HeldFrees {
    HeldFrees::new(TargetOrder::LastFirst)
}

#[test]
fn a_list_is_seen_from_either_end_as_far_as_is_asked_for() {
    let a = with_free(&[32, 96, 160]);
    assert_eq!(seen(&a, 4, ListEnd::Head, 9), [160, 96, 32], "the last one freed is the next one taken");
    assert_eq!(seen(&a, 4, ListEnd::Tail, 9), [32, 96, 160]);
    assert_eq!(seen(&a, 4, ListEnd::Tail, 2), [32, 96]);
    assert_eq!(seen(&a, 5, ListEnd::Tail, 2), [0u64; 0]);
    assert!(a.see_list(ZONE, Order::MAX, ListEnd::Head, |_| panic!("there is no such list")));
}

#[test]
fn a_turned_list_begins_with_what_was_not_seen() {
    let a = with_free(&[32, 96, 160, 224]);
    let block = |pfn| BlockId { pfn: Pfn(pfn), order: Order::of(4) };
    // From the tail 32 and 96 were seen, and 96 last.
    a.turn_list(ZONE, block(96), ListEnd::Tail);
    assert_eq!(seen(&a, 4, ListEnd::Tail, 9), [160, 224, 32, 96]);
    // From the head 96 and 32.
    a.turn_list(ZONE, block(32), ListEnd::Head);
    assert_eq!(seen(&a, 4, ListEnd::Head, 9), [224, 160, 96, 32]);
    // A block that has gone, one of another order, and one in use turn nothing.
    for gone in [block(64), BlockId { pfn: Pfn(32), order: Order::of(3) }, block(0)] {
        a.turn_list(ZONE, gone, ListEnd::Head);
    }
    assert_eq!(seen(&a, 4, ListEnd::Head, 9), [224, 160, 96, 32]);
    assert_eq!(take(&a, 4, M), Pfn(224), "allocation goes on from the new head");
}

#[test]
fn a_block_is_taken_whole_unless_the_floor_or_another_user_is_in_the_way() {
    let a = with_free(&[32, 96]);
    let mut stock = stock();
    let block = BlockId { pfn: Pfn(96), order: Order::of(4) };
    assert!(
        !a.isolate_block(ZONE, block, Frames(16), &mut stock),
        "more than the floor and the block must be free"
    );
    assert!(!a.isolate_block(ZONE, BlockId { order: Order::of(3), ..block }, Frames(0), &mut stock));
    assert!(a.isolate_block(ZONE, block, Frames(15), &mut stock));
    assert!(!a.isolate_block(ZONE, block, Frames(0), &mut stock), "it is gone");
    assert_eq!((stock.len(), blocks(&a, 4, M)), (16, 1));
    while let Some(pfn) = stock.take() {
        a.give_back(BlockId { pfn, order: Order::ZERO });
    }
    assert_eq!(blocks(&a, 4, M), 2, "its frames merge again");
    sound(&a);
}

#[test]
fn a_pageblock_of_which_half_is_taken_at_once_becomes_movable() {
    for preset in ["linux-6.1", "linux-6.18"] {
        // A hole after frame 999 keeps the pageblock from merging with another.
        let a = normal(1000, &bare(Config::preset(preset).unwrap()));
        let pfn = take(&a, 9, Migratetype::Reclaimable);
        give(&a, pfn, 9);
        a.drain(CpuSet::All);
        assert_eq!(pageblocks(&a, Migratetype::Reclaimable), 1, "{preset}");
        let mut stock = stock();
        let range = pfn..Pfn(pfn.0 + 512);
        let scan = a.isolate_free_blocks(ZONE, range, 1, Frames(0), 1, &mut stock);
        assert_eq!((scan.scanned, stock.len()), (1, 512), "{preset}");
        assert_eq!(pageblocks(&a, Migratetype::Reclaimable), 0, "{preset}");
    }
}

#[test]
fn the_free_scanner_takes_whole_blocks_and_strides_over_the_rest() {
    let a = with_free(&[512, 544, 640]);
    let mut stock = stock();
    let scan = a.isolate_free_blocks(ZONE, Pfn(512)..Pfn(1024), 20, Frames(0), 1, &mut stock);
    assert_eq!((stock.len(), scan.next), (32, Pfn(560)), "what it has after the second block is enough");
    let scan = a.isolate_free_blocks(ZONE, Pfn(560)..Pfn(1024), 64, Frames(0), 32, &mut stock);
    // 560 to 575 is in use as one block: the stride leads from its last frame to 607, inside the next one, and on by 32
    // past the block at 640.
    assert_eq!((stock.len(), scan.next), (32, Pfn(1024)));
    assert_eq!(scan.scanned, 1 + (1024u64 - 607).div_ceil(32));
}

/// Requests for blocks of orders 5 and 9 in memory of which two fifths are free, without a pattern.
fn run(knobs: &[(&str, &str)]) -> Stats {
    let mut config = Config { cpus: 1, ..Config::linux_6_18() };
    config.set("compaction.extfrag_threshold", "0").unwrap();
    for (knob, value) in knobs {
        config.set(knob, value).unwrap();
    }
    let cx = Cx::on(CpuId(0));
    let engine = normal(64 * 512, &config);
    let owner = Owner::new(&engine, Fault::FailsHalfway);
    let chance = |n: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 1000;
    owner.fill(&cx, |pfn| if chance(pfn.0) < 2 { Use::Pinned } else { Use::Movable });
    owner.free_if(&cx, |pfn| chance(pfn.0) >= 2 && chance(pfn.0 / 4 + 77) < 400);
    engine.drain(CpuSet::All);
    for i in 0..40 {
        let m = if i % 4 == 0 { Migratetype::Unmovable } else { M };
        let order = Order::of(if i % 3 == 0 { 5 } else { 9 });
        if let Ok(pfn) = engine.alloc_with(&cx, &Request::new(order, m), &owner) {
            owner.keep(pfn, order, Use::Pinned);
        }
        engine.kswapd_with(&cx, &owner).unwrap();
        engine.kcompactd_with(&cx, &owner).unwrap();
    }
    owner.check(&[]);
    sound(&engine);
    engine.stats()
}

#[test]
fn runs_repeat_and_knobs_of_6_18_change_them_and_lose_nothing() {
    let all = run(&[]);
    assert!(all.iter().eq(run(&[]).iter()));
    for knob in [
        ("compaction.hints", "nothing_found"),
        ("compaction.hints", "first_frame"),
        ("compaction.async_same_type", "false"),
        ("compaction.whole_blocks", "false"),
        ("compaction.stride", "false"),
        ("compaction.fast_free", "false"),
        ("compaction.fast_source", "off"),
        ("compaction.fast_source", "hinted"),
        ("compaction.finish", "off"),
        ("compaction.finish", "begun"),
    ] {
        assert!(all.iter().ne(run(&[knob]).iter()), "{knob:?}");
    }
}
