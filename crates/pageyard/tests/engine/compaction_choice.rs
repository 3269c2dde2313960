//! Which pageblock, and which block in it, a compaction for a request empties.

use crate::ranges::machine;
use pageyard::{
    Config, Counter, CpuId, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, OwnedPageyard, PageAllocator,
    Pageyard, Pfn, PressureAllocator, Region, Request, TryLock, ZoneKind,
};
use pageyard_testkit::owner::{Fault, Owner, Use};

const CX: Cx = Cx::on(CpuId(0));

type Yard = OwnedPageyard<TryLock>;

/// Takes a block, and gives it to an owner.
fn hold(owner: &Owner<'_, Yard>, yard: &Yard, pfn: u64, order: u8, of: Use) {
    yard.claim_exact(&CX, Pfn(pfn), Order::of(order), Migratetype::Movable).unwrap();
    owner.keep(Pfn(pfn), Order::of(order), of);
}

/// A machine of 8 pageblocks of which the first `open` are free, and the others held for good.
fn with_open<'e>(yard: &'e Yard, open: u64) -> Owner<'e, Yard> {
    let owner = Owner::new(yard, Fault::None);
    (open..8).for_each(|block| hold(&owner, yard, block * 512, 9, Use::Pinned));
    owner
}

/// A pageblock to move frames to: every second frame of its first 400 is free, the others are held for good.
fn room(owner: &Owner<'_, Yard>, yard: &Yard, block: u64) {
    let held = (0..512).filter(|at| at % 2 == 1 || *at >= 400);
    held.for_each(|at| hold(owner, yard, block * 512 + at, 0, Use::Pinned));
}

/// Takes a movable block, with compaction if it has to be.
fn take(yard: &Yard, owner: &Owner<'_, Yard>, order: u8) -> Option<Pfn> {
    let got = yard.alloc_with(&CX, &Request::new(Order::of(order), Migratetype::Movable), owner).ok()?;
    owner.keep(got, Order::of(order), Use::Pinned);
    Some(got)
}

#[test]
fn what_holds_larger_blocks_is_passed_over_for_what_costs_more_and_can_be_emptied() {
    let yard = machine(false);
    let owner = with_open(&yard, 2);
    room(&owner, &yard, 1);
    // Of every 16 frames the first 8 have a block of two, which this owner does not move, and the others five frames.
    for pair in (0..512).step_by(16) {
        hold(&owner, &yard, pair, 1, Use::Movable);
        (pair + 8..pair + 13).for_each(|pfn| hold(&owner, &yard, pfn, 0, Use::Movable));
    }
    let got = take(&yard, &owner, 3).expect("five frames can be moved");
    assert_eq!(got.0 % 16, 8);
    owner.check(&[]);
}

#[test]
fn half_a_pageblock_and_a_quarter_are_emptied() {
    for order in [7, 8] {
        let yard = machine(false);
        let owner = with_open(&yard, 2);
        room(&owner, &yard, 1);
        let size = 1 << order;
        // One frame in the last part, ten in the others.
        for first in (0..512).step_by(size as usize) {
            let used = if first + size == 512 { 1 } else { 10 };
            (first..first + used).for_each(|pfn| hold(&owner, &yard, pfn, 0, Use::Movable));
        }
        assert_eq!(take(&yard, &owner, order), Some(Pfn(512 - size)), "order {order}");
        owner.check(&[]);
    }
}

#[test]
fn the_pageblock_that_was_chosen_last_goes_first_while_it_has_enough() {
    let yard = machine(false);
    let owner = with_open(&yard, 2);
    // Of every 8 frames one is held; the second pageblock has two frames less.
    (0..1024).step_by(8).for_each(|pfn| hold(&owner, &yard, pfn, 0, Use::Movable));
    (513..515).for_each(|pfn| hold(&owner, &yard, pfn, 0, Use::Movable));
    let blocks: Vec<u64> = (0..4).map(|_| take(&yard, &owner, 3).unwrap().0 / 512).collect();
    // From the first request on the second pageblock has more free frames.
    assert_eq!(blocks, [0; 4]);
    owner.check(&[]);
}

#[test]
fn a_pageblock_of_which_half_a_block_is_free_goes_before_one_that_has_more_free_frames() {
    let yard = machine(false);
    let owner = with_open(&yard, 2);
    // Of the first pageblock seven in eight frames are free, in blocks of four at most; of the second one half is, in
    // blocks of 16.
    (0..512).step_by(8).for_each(|pfn| hold(&owner, &yard, pfn, 0, Use::Movable));
    (512..1024).filter(|pfn| pfn % 32 >= 16).for_each(|pfn| hold(&owner, &yard, pfn, 0, Use::Movable));
    assert_eq!(take(&yard, &owner, 5).unwrap().0 / 512, 1);
    owner.check(&[]);
}

#[test]
fn a_compaction_counts_the_words_that_it_reads_and_the_frames_that_it_looks_at() {
    let yard = machine(false);
    let owner = with_open(&yard, 2);
    (0..1024).step_by(8).for_each(|pfn| hold(&owner, &yard, pfn, 0, Use::Movable));
    take(&yard, &owner, 3).unwrap();
    // A word of 64 frames, the frame in use to see whether it can be moved, and when it is isolated that frame and the
    // three free blocks behind it.
    assert_eq!(yard.stats()[Counter::CompactMigrateScanned], 64 + 1 + 4);
    owner.check(&[]);
}

#[test]
fn a_cpu_begins_in_its_own_part_of_the_zone() {
    let regions = [Region::managed(Pfn(0), Frames(32 * 512), NodeId(0), ZoneKind::Normal)];
    let config = Config { pcp: false, ..Config::new(2) };
    let yard = Pageyard::owned(&MemoryMap::new(&regions).unwrap(), config, TryLock).unwrap();
    // Half of a pageblock in the part of the other CPU: pageblocks that are partly used come first in one part.
    yard.claim_exact(&CX, Pfn(20 * 512), Order::of(8), Migratetype::Movable).unwrap();
    let request = Request::new(Order::ZERO, Migratetype::Movable);
    let [mine, others] = [0, 1].map(|cpu| yard.alloc(&Cx::on(CpuId(cpu)), &request).unwrap().0 / 512);
    assert!(mine < 16, "{mine}");
    assert_eq!(others, 20);
}
