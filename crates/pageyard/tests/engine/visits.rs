//! Passes over free blocks, for balloons and free page reporting.

use crate::ranges::machine;
use pageyard::engine::Internals;
use pageyard::engine::{Visit, Visited};
use pageyard::{
    BadRequest, BlockId, Config, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype, NodeId, Order,
    OwnedPageyard, PageblockId, Pageyard, Pfn, Region, Request, RequestFlags, TryLock, ZoneId, ZoneKind,
};
use pageyard_testkit::child::in_child;

const CX: Cx = Cx::on(CpuId(0));
const ALL: u64 = 8 * 512;

fn visit(
    yard: &OwnedPageyard<TryLock>,
    least: u8,
    from: u64,
    most: u64,
    with: impl FnMut(BlockId) -> Visit,
) -> Visited {
    yard.visit_free_blocks(&CX, Order::of(least), Pfn(from), Frames(most), with).unwrap()
}

/// All blocks of a pass, in steps.
fn seen(yard: &OwnedPageyard<TryLock>, least: u8, most: u64, answer: Visit) -> Vec<(u64, u8)> {
    let (mut from, mut blocks) = (Some(Pfn(0)), Vec::new());
    while let Some(at) = from {
        let did = visit(yard, least, at.0, most, |block| {
            blocks.push((block.pfn.0, block.order.get()));
            answer
        });
        assert!(did.next.is_none_or(|next| next > at), "a call goes on");
        from = did.next;
    }
    blocks
}

fn claim(yard: &OwnedPageyard<TryLock>, pfn: u64, order: u8) {
    yard.claim_exact(&CX, Pfn(pfn), Order::of(order), Migratetype::Movable).unwrap();
}

fn free_frames(yard: &OwnedPageyard<TryLock>) -> u64 {
    let census = yard.audit().unwrap();
    assert!(census.is_conserved());
    census.free.0
}

#[test]
fn a_pass_visits_what_is_free_and_large_enough_and_leaves_it_free() {
    let yard = machine(true);
    claim(&yard, 0, 10);
    claim(&yard, 1024 + 128, 0);
    claim(&yard, 1536 + 3, 0);
    for most in [1, 512, 5000] {
        let sevens = [(1024, 7), (1280, 8), (1664, 7), (1792, 8), (2048, 9), (2560, 9), (3072, 9), (3584, 9)];
        assert_eq!(seen(&yard, 7, most, Visit::Return), sevens);
        assert_eq!(seen(&yard, 9, most, Visit::Return), sevens[4..]);
        assert_eq!(seen(&yard, 11, most, Visit::Return), [(2048, 11)]);
        assert_eq!(seen(&yard, 12, most, Visit::Return), []);
    }
    let frames: u64 = seen(&yard, 0, 100, Visit::Return).iter().map(|(_, order)| 1 << order).sum();
    assert_eq!(frames, ALL - 1026);
    assert_eq!(free_frames(&yard), ALL - 1026);
}

#[test]
fn a_visited_block_cannot_be_allocated_and_a_kept_one_is_the_callers() {
    let yard = machine(false);
    let any = Request::new(Order::of(9), Migratetype::Movable).with(RequestFlags::MEMALLOC);
    let did = visit(&yard, 9, 0, ALL, |block| {
        let mut others = Vec::new();
        while let Ok(pfn) = yard.alloc(&CX, &any) {
            assert_ne!(pfn, block.pfn);
            others.push(pfn);
        }
        others.iter().for_each(|pfn| yard.free(&CX, *pfn, any.order).unwrap());
        assert!(yard.free_range(&CX, block.pfn, Frames(1)).is_err(), "it has no owner that could free it");
        if block.pfn.0 < 1024 { Visit::Keep } else { Visit::Return }
    });
    assert_eq!(did, Visited { next: None, blocks: 8, kept: Frames(1024), below_low: false });
    assert_eq!(free_frames(&yard), ALL - 1024);
    yard.free_range(&CX, Pfn(0), Frames(1024)).unwrap();
    assert_eq!(free_frames(&yard), ALL);
}

#[test]
fn a_balloon_stops_at_the_low_watermark() {
    let regions = [Region::managed(Pfn(0), Frames(1 << 16), NodeId(0), ZoneKind::Normal)];
    let yard = Pageyard::owned(&MemoryMap::new(&regions).unwrap(), Config::new(1), TryLock).unwrap();
    let low = yard.zone_stats(ZoneId(0)).unwrap().watermarks.low.0;
    assert!(low > 0);
    let (mut from, mut kept) = (Pfn(0), Vec::new());
    let last = loop {
        let did = visit(&yard, 0, from.0, 700, |block| {
            kept.push(block);
            Visit::Keep
        });
        match did.next {
            Some(next) if !did.below_low => from = next,
            _ => break did,
        }
    };
    assert!(last.below_low && last.next.is_some());
    let free = free_frames(&yard);
    assert!(free >= low && free < low + 512, "{free} of {low}");
    kept.iter().for_each(|block| yard.free(&CX, block.pfn, block.order).unwrap());
    yard.drain(CpuSet::All);
    assert_eq!(free_frames(&yard), 1 << 16);
}

#[test]
fn isolated_and_leased_pageblocks_are_left_out_and_wrong_calls_refused() {
    let yard = machine(true);
    yard.isolate(&CX, PageblockId(2));
    yard.lease_pageblock(PageblockId(3), pageyard::CompactorId(1));
    let starts: Vec<u64> = seen(&yard, 9, 1, Visit::Return).iter().map(|(pfn, _)| pfn / 512).collect();
    assert_eq!(starts, [0, 1, 4, 5, 6, 7]);
    yard.restore(&CX, PageblockId(2));
    yard.unlease_pageblock(PageblockId(3));
    let nowhere = yard.visit_free_blocks(&Cx::on(CpuId(77)), Order::ZERO, Pfn(0), Frames(1), |_| Visit::Keep);
    assert_eq!(nowhere, Err(BadRequest::NoSuchCpu));
    assert_eq!(visit(&yard, 0, u64::MAX, 1, |_| Visit::Keep), Visited::default());
}

#[test]
fn what_is_known_to_be_zero_stays_known() {
    let mut region = Region::managed(Pfn(0), Frames(ALL), NodeId(0), ZoneKind::Normal);
    region.zeroed = true;
    let yard = Pageyard::owned(&MemoryMap::new(&[region]).unwrap(), Config::new(1), TryLock).unwrap();
    claim(&yard, 5, 0);
    assert!(seen(&yard, 0, ALL, Visit::Return).len() > 8);
    for (pfn, order) in [(512, 9), (8, 3), (4, 0), (64, 6)] {
        claim(&yard, pfn, order);
        assert!(yard.was_zeroed(Pfn(pfn)), "frame {pfn}");
    }
    free_frames(&yard);
}

#[test]
fn what_a_visit_clears_is_known_to_be_zero() {
    let yard = machine(true);
    claim(&yard, 5, 0);
    // All but what lies in the pageblock of the frame in use above offset 16, and the last pageblock.
    let cleared = |block: &pageyard::BlockId| block.pfn.0 < 16 || (512..ALL - 512).contains(&block.pfn.0);
    visit(&yard, 0, 0, ALL, |block| if cleared(&block) { Visit::Zeroed } else { Visit::Return });
    for (pfn, order, zero) in
        [(8, 3, true), (4, 0, true), (64, 6, false), (512, 9, true), (1024, 4, true), (ALL - 512, 9, false)]
    {
        claim(&yard, pfn, order);
        assert_eq!(yard.was_zeroed(Pfn(pfn)), zero, "frame {pfn}");
    }
    // A second visit keeps what is known, and frees forget it.
    yard.free(&CX, Pfn(512), Order::of(9)).unwrap();
    yard.drain(CpuSet::All);
    seen(&yard, 0, ALL, Visit::Return);
    for (pfn, order, zero) in [(512, 9, false), (1040, 4, true)] {
        claim(&yard, pfn, order);
        assert_eq!(yard.was_zeroed(Pfn(pfn)), zero, "frame {pfn}");
    }
    assert!(yard.audit().unwrap().is_conserved());
}

#[test]
fn a_visit_that_panics_gives_the_block_back() {
    in_child("visits::a_visit_that_panics_gives_the_block_back", || {
        let yard = machine(true);
        claim(&yard, 7, 0);
        for least in [0, 6, 9, 11] {
            let visit =
                || yard.visit_free_blocks(&CX, Order::of(least), Pfn(0), Frames(ALL), |_| panic!("asked"));
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(visit)).is_err());
            assert_eq!(free_frames(&yard), ALL - 1);
        }
    });
}
