//! Lists whose CPU owns the pageblocks that it claimed, worked by hand: a zone of 32 pageblocks and two CPUs.

use crate::common::{CX, blocks, normal, request, sound, take};
use pageyard_core::Migratetype::{Movable, Unmovable};
use pageyard_core::{
    Counter, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype, Order, PageAllocator, Pfn, ZoneId,
};
use pageyard_core::{NodeId, Region, ZoneKind};
use pageyard_linux::{Config, LinuxAllocator};

const FRAMES: u64 = 32 * 512;
const OTHER: Cx = Cx::on(CpuId(1));

/// Lists that hold up to 12 frames and learn to hold up to 1024, and move three at a time.
fn learning(owners: &str) -> Config {
    let mut config = Config { cpus: 2, ..Config::linux_7_2() };
    for (knob, value) in [("min_free_kbytes", "0"), ("pcp_decay", "at_once"), ("pcp_owners", owners)] {
        config.set(knob, value).unwrap();
    }
    config
}

/// Lists that hold up to 1024 frames each.
fn machine(owners: &str) -> LinuxAllocator {
    let mut config = learning(owners);
    config.set("percpu_pagelist_high_fraction", "8").unwrap();
    normal(FRAMES, &config)
}

fn held(a: &LinuxAllocator, cpu: u32) -> u64 {
    a.pcp_stats(ZoneId(0), CpuId(cpu)).unwrap().count
}

fn free(a: &LinuxAllocator) -> u64 {
    a.zone_stats(ZoneId(0)).unwrap().free.0
}

/// Takes a pageblock frame by frame.
fn pageblock(a: &LinuxAllocator) -> Vec<Pfn> {
    (0..512).map(|_| take(a, 0, Movable)).collect()
}

fn give_by(a: &LinuxAllocator, cx: &Cx, pfns: impl IntoIterator<Item = Pfn>) {
    pfns.into_iter().for_each(|pfn| a.free(cx, pfn, Order::ZERO).unwrap());
}

#[test]
fn a_refill_claims_a_pageblock_and_the_lists_split_it() {
    let a = machine("true");
    let first = pageblock(&a);
    assert_eq!(first, (0..512).map(Pfn).collect::<Vec<_>>(), "the lower half is taken first");
    let stats = a.stats();
    assert_eq!((stats[Counter::PcpRefill], stats[Counter::PcpRefillPages]), (1, 512));
    assert_eq!((free(&a), held(&a, 0)), (FRAMES - 512, 0));
    // A block of order 3 comes from the same pageblock as a frame, without the zone.
    assert_eq!(take(&a, 0, Movable), Pfn(512));
    assert_eq!(take(&a, 3, Movable), Pfn(520));
    assert_eq!(a.stats()[Counter::PcpRefill], 2);
    sound(&a);
    let without = machine("false");
    pageblock(&without);
    assert!(without.stats()[Counter::PcpRefill] > 8);
}

#[test]
fn every_cpu_frees_to_the_lists_of_the_owner() {
    for (owners, to) in [("true", [512, 0]), ("false", [0, 512])] {
        let a = machine(owners);
        let pfns = pageblock(&a);
        a.drain(CpuSet::All);
        give_by(&a, &OTHER, pfns.iter().copied());
        assert_eq!([held(&a, 0), held(&a, 1)], to, "{owners}");
        sound(&a);
    }
    let a = machine("true");
    let (mine, its) = (pageblock(&a), a.alloc(&OTHER, &request(0, Movable)).unwrap());
    let before = held(&a, 1);
    // Of many that are freed at once, each goes to its owner.
    let mixed: Vec<Pfn> = [mine[0], its, mine[1], mine[2]].into();
    a.free_bulk(&OTHER, &mixed, Order::ZERO, &mut |pfn, why| panic!("{pfn:?}: {why:?}"));
    a.free_nolock(&OTHER, mine[3], Order::ZERO).unwrap();
    assert_eq!([held(&a, 0), held(&a, 1) - before], [4, 1]);
    sound(&a);
}

#[test]
fn what_is_back_in_the_zone_whole_has_no_owner() {
    let a = machine("true");
    let pfn = take(&a, 0, Movable);
    give_by(&a, &CX, [pfn]);
    a.drain(CpuSet::All);
    assert_eq!(free(&a), FRAMES);
    sound(&a);
    // Pieces that come back past the lists end it as well.
    let pfns = pageblock(&a);
    let pageblock_of = pfns[0].pageblock();
    a.set_pageblock_migratetype(pageblock_of, Migratetype::Isolate);
    give_by(&a, &OTHER, pfns);
    assert_eq!([held(&a, 0), held(&a, 1)], [0, 0]);
    sound(&a);
    a.set_pageblock_migratetype(pageblock_of, Movable);
    let again = a.alloc(&OTHER, &request(0, Movable)).unwrap();
    give_by(&a, &CX, [again]);
    assert_eq!([held(&a, 0), held(&a, 1)], [0, 512], "the CPU that claimed it last owns it");
    sound(&a);
}

/// Takes a pageblock, and gives every other frame of it back to the zone.
fn in_fragments() -> (LinuxAllocator, Vec<Pfn>) {
    let a = machine("true");
    let pfns = pageblock(&a);
    give_by(&a, &OTHER, pfns.iter().copied().step_by(2));
    a.drain(CpuSet::One(CpuId(0)));
    assert_eq!((held(&a, 0), blocks(&a, 0, Movable)), (0, 256));
    (a, pfns)
}

#[test]
fn what_a_cpu_gave_back_of_its_pageblocks_it_takes_back_first() {
    let (a, pfns) = in_fragments();
    let before = a.stats()[Counter::PcpRefillPages];
    assert_eq!(take(&a, 0, Movable).pageblock(), pfns[0].pageblock());
    assert_eq!(a.stats()[Counter::PcpRefillPages] - before, 256, "all that is there, and no pageblock");
    assert_eq!((held(&a, 0), blocks(&a, 0, Movable)), (255, 0));
    sound(&a);
    // Frames are no help to a request for two; a later one takes them.
    let (a, _) = in_fragments();
    take(&a, 1, Movable);
    assert_eq!((held(&a, 0), blocks(&a, 0, Movable)), (510, 256));
    (0..511).for_each(|_| _ = take(&a, 0, Movable));
    assert_eq!((held(&a, 0), blocks(&a, 0, Movable)), (255, 0));
    sound(&a);
}

#[test]
fn others_take_them_too_and_only_its_own_type_takes_them_back() {
    let (a, _) = in_fragments();
    take(&a, 0, Unmovable);
    assert_eq!(blocks(&a, 0, Movable), 256);
    // They are small blocks like others for a request past the lists.
    a.alloc(&OTHER, &request(4, Movable)).unwrap();
    let claimed = a.claim_exact(&OTHER, Pfn(0), Order::ZERO, Movable);
    assert!(claimed.is_ok());
    let before = a.stats()[Counter::PcpRefillPages];
    take(&a, 0, Movable);
    assert_eq!(a.stats()[Counter::PcpRefillPages] - before, 255);
    assert_eq!(blocks(&a, 0, Movable), 0);
    sound(&a);
}

#[test]
fn buddies_merge_in_the_lists_before_those_give_back_and_the_largest_go_first() {
    let a = normal(FRAMES, &learning("true"));
    a.restore_pcp_high(ZoneId(0), CpuId(0), 1024);
    let (whole, holes) = (pageblock(&a), pageblock(&a));
    assert_eq!(a.stats()[Counter::PcpRefill], 2);
    // The frames of the second pageblock are the last that were freed, and the first that lists would give back.
    give_by(&a, &OTHER, whole.iter().copied().step_by(2));
    give_by(&a, &CX, whole.iter().copied().skip(1).step_by(2));
    give_by(&a, &CX, holes.iter().copied().step_by(2));
    assert_eq!((held(&a, 0), free(&a)), (768, FRAMES - 1024));
    // 96 frames are to go: 768 - 672.
    a.restore_pcp_high(ZoneId(0), CpuId(0), 700);
    a.vmstat_tick_of(CpuId(0));
    assert_eq!((held(&a, 0), free(&a)), (256, FRAMES - 512), "one block, the pageblock that was whole again");
    assert_eq!(blocks(&a, 0, Movable), 0);
    sound(&a);
}

#[test]
fn without_room_for_a_pageblock_a_refill_takes_the_largest_blocks_it_needs_and_owns_nothing() {
    let a = normal(FRAMES, &learning("true"));
    // Three frames: a block of two, then one.
    let got: Vec<u64> = (0..3).map(|_| take(&a, 0, Movable).0).collect();
    assert_eq!(got, [2, 0, 1]);
    let stats = a.stats();
    assert_eq!((stats[Counter::PcpRefill], stats[Counter::PcpRefillPages]), (1, 3));
    give_by(&a, &OTHER, got.into_iter().map(Pfn));
    assert_eq!([held(&a, 0), held(&a, 1)], [0, 3]);
    sound(&a);
    // Frames of pageblocks without an owner do not merge in the lists: of 12 frames 9 go back, three at a time. If they
    // did, they would be one block of four, three of two and two frames, and four, four and three would go back.
    let a = normal(FRAMES, &learning("true"));
    let mut got: Vec<Pfn> = (0..12).map(|_| take(&a, 0, Movable)).collect();
    give_by(&a, &OTHER, got.iter().copied());
    assert_eq!(held(&a, 1), 3);
    got.sort_unstable();
    assert_eq!(got, [0, 1, 2, 4, 5, 6, 7, 8, 9, 12, 13, 14].map(Pfn));
    sound(&a);
}

#[test]
fn a_refill_takes_no_blocks_of_other_types_until_its_own_are_gone() {
    let a = machine("true");
    // Nothing is unmovable: it takes from movable blocks as ever, one frame after another.
    let pfn = take(&a, 0, Unmovable);
    assert_eq!(a.stats()[Counter::Extfrag], 1);
    give_by(&a, &OTHER, [pfn]);
    assert_eq!(held(&a, 1), 1, "and does not own what it got");
    sound(&a);
}

#[test]
fn an_opening_has_no_owners() {
    let a = machine("true");
    let pfns = pageblock(&a);
    let state = a.opening();
    a.open(&state).unwrap();
    give_by(&a, &OTHER, [pfns[0]]);
    assert_eq!([held(&a, 0), held(&a, 1)], [0, 1]);
    sound(&a);
}

#[test]
fn nobody_owns_anything_where_lists_have_no_lock() {
    let mut config = learning("true");
    for (knob, value) in [("percpu_pagelist_high_fraction", "8"), ("pcp_protection", "irqsave")] {
        config.set(knob, value).unwrap();
    }
    let regions = [Region::managed(Pfn(0), Frames(FRAMES), NodeId(0), ZoneKind::Normal)];
    // SAFETY: there is one thread.
    let a = unsafe { LinuxAllocator::by_cpu(&MemoryMap::new(&regions).unwrap(), &config) }.unwrap();
    let pfn = take(&a, 0, Movable);
    give_by(&a, &OTHER, [pfn]);
    assert_eq!(held(&a, 1), 1);
    sound(&a);
}
