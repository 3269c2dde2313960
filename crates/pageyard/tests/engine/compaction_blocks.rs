//! Blocks of several frames that their owner moves as a whole.

use crate::ranges::machine;
use pageyard::compaction::{Busy, Migrate, MigrateError, Mode};
use pageyard::reclaim::{Reclaim, Reclaimed, Shortage};
use pageyard::{
    AllocError, BlockId, ContigError, CpuId, CpuSet, Cx, Frames, Migratetype, Order, OwnedPageyard,
    PageAllocator, Pfn, PressureAllocator, Request, RequestFlags, TryLock, ZoneId,
};
use pageyard_testkit::owner::{Fault, Owner, Use};
use std::panic::{AssertUnwindSafe, catch_unwind};

const CX: Cx = Cx::on(CpuId(0));
const ALL: u64 = 8 * 512;

type Yard = OwnedPageyard<TryLock>;

/// An owner that is asked about blocks of several frames, too.
struct Blocks<'e>(Owner<'e, Yard>);

impl Reclaim for Blocks<'_> {
    fn reclaim(&self, cx: &Cx, shortage: &Shortage) -> Reclaimed {
        self.0.reclaim(cx, shortage)
    }

    fn reclaimable(&self, zone: ZoneId) -> Frames {
        self.0.reclaimable(zone)
    }
}

// SAFETY: it does what the owner does.
unsafe impl Migrate for Blocks<'_> {
    type Isolated = Pfn;

    const MOVES_BLOCKS: bool = true;

    fn isolate(&self, pfn: Pfn, mode: Mode) -> Result<Pfn, Busy> {
        self.0.isolate(pfn, mode)
    }

    fn isolate_block(&self, block: BlockId, mode: Mode) -> Result<Pfn, Busy> {
        self.0.isolate_block(block, mode)
    }

    fn migrate(&self, from: &mut Pfn, to: Pfn, mode: Mode) -> Result<(), MigrateError> {
        self.0.migrate(from, to, mode)
    }

    fn putback(&self, from: Pfn) {
        self.0.putback(from);
    }
}

/// Fills a machine with blocks of some orders in turn, and frees all but one in `step`.
fn fragmented<'e>(yard: &'e Yard, orders: &[u8], step: usize, fault: Fault) -> Blocks<'e> {
    let owner = Owner::new(yard, fault);
    let mut all = Vec::new();
    for order in orders.iter().cycle().map(|order| Order::of(*order)) {
        let request = Request::new(order, Migratetype::Movable).with(RequestFlags::MEMALLOC);
        match yard.alloc(&CX, &request) {
            Ok(pfn) => all.push((pfn, order)),
            Err(_) => break,
        }
    }
    for (nth, (pfn, order)) in all.into_iter().enumerate() {
        if nth % step == 0 {
            owner.keep(pfn, order, Use::Movable);
        } else {
            yard.free(&CX, pfn, order).unwrap();
        }
    }
    yard.drain(CpuSet::All);
    Blocks(owner)
}

fn free_pageblocks(yard: &Yard) -> u64 {
    let blocks = yard.zone_stats(ZoneId(0)).unwrap().blocks_by_order();
    (9..blocks.len()).map(|order| blocks[order] << (order - 9)).sum()
}

#[test]
fn blocks_move_as_a_whole_and_keep_what_they_hold() {
    for orders in [&[1_u8][..], &[4], &[6], &[7, 0], &[8], &[0, 3, 1, 5, 2]] {
        let yard = machine(true);
        let owner = fragmented(&yard, orders, 4, Fault::None);
        let before = free_pageblocks(&yard);
        let (_, work) = yard.compact_zone_with(&CX, ZoneId(0), &owner).unwrap();
        assert!(owner.0.moved_blocks() > 0, "{orders:?}: {work:?}");
        owner.0.check(&[]);
        let used = owner.0.frames().div_ceil(512);
        assert!(free_pageblocks(&yard) > before, "{orders:?}");
        assert!(free_pageblocks(&yard) + used + 2 >= 8, "{orders:?}: {} are free", free_pageblocks(&yard));
        owner.0.free_if(&CX, |_| true);
    }
}

#[test]
fn an_owner_of_single_frames_is_not_asked_about_blocks() {
    let yard = machine(true);
    let owner = fragmented(&yard, &[2], 4, Fault::None).0;
    let places = owner.pfns().len();
    let (_, work) = yard.compact_zone_with(&CX, ZoneId(0), &owner).unwrap();
    assert_eq!((owner.moved_blocks(), work.moved, owner.pfns().len()), (0, 0, places));
    owner.check(&[]);
}

#[test]
fn a_move_that_fails_loses_nothing() {
    for fault in [Fault::Refuses, Fault::Again, Fault::FailsHalfway, Fault::FreesUnderUs, Fault::Panics] {
        let yard = machine(true);
        let owner = fragmented(&yard, &[3, 0], 4, fault);
        let compacted = catch_unwind(AssertUnwindSafe(|| yard.compact_zone_with(&CX, ZoneId(0), &owner)));
        assert_eq!(compacted.is_err(), fault == Fault::Panics, "{fault:?}");
        owner.0.check(&[]);
    }
}

#[test]
fn a_range_is_emptied_of_the_blocks_that_lie_in_it() {
    let yard = machine(true);
    let owner = Blocks(Owner::new(&yard, Fault::None));
    for (pfn, order) in [(600, 3), (640, 0), (704, 6), (1008, 4)] {
        yard.claim_exact(&CX, Pfn(pfn), Order::of(order), Migratetype::Movable).unwrap();
        owner.0.keep(Pfn(pfn), Order::of(order), Use::Movable);
    }
    let contig = |first: u64, frames: u64| {
        yard.alloc_contig_range(&CX, Pfn(first), Frames(frames), Migratetype::Movable, &owner)
    };
    // One reaches out of the range: nothing is moved.
    assert_eq!(contig(512, 500), Err(ContigError::Busy { at: Pfn(1008) }));
    assert_eq!(contig(604, 100), Err(ContigError::Busy { at: Pfn(604) }), "it begins inside one");
    assert_eq!(owner.0.moved_blocks(), 0);
    contig(512, 512).unwrap();
    assert_eq!(owner.0.moved_blocks(), 3);
    assert!(owner.0.pfns().iter().all(|pfn| !(512..1024).contains(&pfn.0)));
    yard.free_range(&CX, Pfn(512), Frames(512)).unwrap();
    owner.0.check(&[]);
}

#[test]
fn a_block_for_which_there_is_no_room_stays() {
    let yard = machine(false);
    let owner = Blocks(Owner::new(&yard, Fault::None));
    // A block of 16 in the first pageblock; elsewhere every other frame is in use.
    yard.claim_exact(&CX, Pfn(64), Order::of(4), Migratetype::Movable).unwrap();
    owner.0.keep(Pfn(64), Order::of(4), Use::Movable);
    for pfn in (512..ALL).step_by(2).map(Pfn) {
        yard.claim_exact(&CX, pfn, Order::ZERO, Migratetype::Movable).unwrap();
        owner.0.keep(pfn, Order::ZERO, Use::Pinned);
    }
    let range = yard.alloc_contig_range(&CX, Pfn(0), Frames(512), Migratetype::Movable, &owner);
    assert_eq!(range, Err(ContigError::Busy { at: Pfn(64) }));
    owner.0.check(&[Pfn(64)]);
    let whole = yard.alloc(&CX, &Request::new(Order::of(9), Migratetype::Movable));
    assert!(
        matches!(whole, Err(AllocError::Fragmented { .. } | AllocError::BelowWatermark { .. })),
        "{whole:?}"
    );
}
