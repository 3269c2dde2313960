//! Splitting, merging and the order in which blocks are taken, worked by hand.

use crate::common::{CX, bare, blocks, give, normal, sound, take};
use pageyard_core::{
    Counter, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype::Movable, NodeId, Order, PageAllocator, Pfn,
    Region, ZoneId, ZoneKind,
};
use pageyard_linux::{Config, LinuxAllocator, ListedBlocks};

/// Orders 4 to 8 are never in per-CPU lists, so these tests see the buddy system itself.
const O: u8 = 4;

#[test]
fn memory_starts_as_the_largest_blocks_and_the_lowest_is_taken_first() {
    let a = normal(4096, &bare(Config::linux_6_18()));
    assert_eq!(blocks(&a, 10, Movable), 4);
    assert_eq!(take(&a, O, Movable), Pfn(0));
    assert_eq!(blocks(&a, 10, Movable), 3);
    for half in O..10 {
        assert_eq!(blocks(&a, half, Movable), 1, "one upper half of order {half} is left");
    }
    assert_eq!(take(&a, O, Movable), Pfn(16), "the smallest block that fits is split");
    sound(&a);
}

#[test]
fn freed_halves_merge_all_the_way_up() {
    let a = normal(1024, &bare(Config::linux_6_18()));
    let held: Vec<Pfn> = (0..64).map(|_| take(&a, O, Movable)).collect();
    assert_eq!(blocks(&a, 10, Movable), 0);
    for pfn in held.iter().rev() {
        give(&a, *pfn, O);
    }
    assert_eq!(blocks(&a, 10, Movable), 1);
    sound(&a);
}

#[test]
fn a_block_that_may_soon_merge_goes_to_the_tail() {
    let a = normal(1024, &bare(Config::linux_6_18()));
    let held: Vec<Pfn> = (0..64).map(|_| take(&a, O, Movable)).collect();
    give(&a, held[2], O);
    // Blocks 4 and 5 are one pair, 6 and 7 the next: with 6 and 7 free, a free of 4 waits at the tail for 5.
    give(&a, held[6], O);
    give(&a, held[7], O);
    give(&a, held[4], O);
    assert_eq!(take(&a, O, Movable), held[2], "the head");
    assert_eq!(take(&a, O, Movable), held[4], "the tail");
    sound(&a);
}

#[test]
fn a_zone_that_starts_and_ends_unaligned_keeps_its_edges_apart() {
    let regions = [
        Region::managed(Pfn(7), Frames(1000), NodeId(0), ZoneKind::Normal),
        Region::managed(Pfn(1500), Frames(3), NodeId(0), ZoneKind::Normal),
    ];
    let a = LinuxAllocator::new(&MemoryMap::new(&regions).unwrap(), &bare(Config::linux_6_18())).unwrap();
    let before = a.zone_stats(ZoneId(0)).unwrap().free_blocks;
    let held: Vec<Pfn> =
        std::iter::from_fn(|| a.alloc(&CX, &crate::common::request(0, Movable)).ok()).collect();
    assert_eq!(held.len(), 1003);
    sound(&a);
    held.iter().for_each(|p| give(&a, *p, 0));
    a.drain(pageyard_core::CpuSet::All);
    assert_eq!(a.zone_stats(ZoneId(0)).unwrap().free_blocks, before);
    sound(&a);
}

#[test]
fn claiming_a_frame_splits_around_it_and_freeing_it_heals() {
    let a = normal(1024, &bare(Config::linux_4_6()));
    a.claim_exact(&Cx::on(CpuId(0)), Pfn(333), Order::ZERO, Movable).unwrap();
    for order in 0..10 {
        assert_eq!(blocks(&a, order, Movable), 1);
    }
    sound(&a);
    give(&a, Pfn(333), 0);
    a.drain(pageyard_core::CpuSet::All);
    assert_eq!(blocks(&a, 10, Movable), 1);
    sound(&a);
}

#[test]
fn blocks_between_lists_and_zones_are_counted_beside_their_frames() {
    let a = normal(1 << 18, &bare(Config::linux_6_1()));
    take(&a, 3, Movable);
    a.drain(CpuSet::All);
    let frames = [Counter::PcpRefillPages, Counter::PcpDrainPages].map(|c| a.stats()[c]);
    assert_eq!(frames, [56, 48], "seven blocks of eight frames, of which one was handed out");
    assert_eq!(a.listed_blocks(), ListedBlocks { refilled: 7, drained: 6 });
}

#[test]
fn a_refill_takes_a_batch_in_one_go_and_hands_it_out_in_order() {
    let a = normal(1 << 18, &bare(Config::linux_6_1()));
    assert_eq!(take(&a, 0, Movable), Pfn(0));
    let p = a.pcp_stats(ZoneId(0), pageyard_core::CpuId(0)).unwrap();
    assert_eq!((p.batch, p.count), (63, 62));
    for expected in 1..63 {
        assert_eq!(take(&a, 0, Movable), Pfn(expected));
    }
    assert_eq!([Counter::PcpRefill, Counter::PcpRefillPages].map(|c| a.stats()[c]), [1, 63]);
    assert_eq!(a.listed_blocks(), ListedBlocks { refilled: 63, drained: 0 });
    give(&a, Pfn(5), 0);
    assert_eq!(take(&a, 0, Movable), Pfn(5), "what was freed last is hottest");
    a.free_cold(&CX, Pfn(6), Order::ZERO).unwrap();
    give(&a, Pfn(7), 0);
    assert_eq!(take(&a, 0, Movable), Pfn(7), "a cold frame waits at the far end");
    sound(&a);
}

#[test]
fn the_batch_taken_doubles_while_nothing_is_freed_in_6_18() {
    let a = normal(1 << 20, &Config { cpus: 1, ..Config::linux_6_18() });
    let count = || a.pcp_stats(ZoneId(0), pageyard_core::CpuId(0)).unwrap().count;
    let mut refills = Vec::new();
    for _ in 0..1000 {
        let before = count();
        take(&a, 0, Movable);
        if count() > before {
            refills.push(count() + 1 - before);
        }
    }
    assert_eq!(refills[..4], [63, 126, 252, 504]);
    sound(&a);
}

#[test]
fn a_classic_list_spills_one_batch_when_it_reaches_six() {
    let a = normal(1 << 18, &bare(Config::linux_4_6()));
    let held: Vec<Pfn> = (0..1000).map(|_| take(&a, 0, Movable)).collect();
    let count = || a.pcp_stats(ZoneId(0), pageyard_core::CpuId(0)).unwrap().count;
    let mut most = 0;
    for pfn in held {
        give(&a, pfn, 0);
        most = most.max(count());
    }
    assert_eq!(most, 185, "at 186 it gives 31 back");
    sound(&a);
}
