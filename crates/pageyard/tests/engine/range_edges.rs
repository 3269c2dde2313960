//! Ranges where they meet something else: other CPUs' lists, isolated pageblocks, zones that lie side by side.

use pageyard::engine::Internals;
use pageyard::reclaim::NoHelp;
use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    Config, ContigError, CpuId, CpuSet, Cx, Exclusive, FrameRange, Frames, MemoryMap, Migratetype, NodeId,
    Order, OwnedPageyard, PageblockId, Pageyard, PerCpu, Pfn, Region, Request, RequestFlags, TryLock, ZoneId,
    ZoneKind,
};

const CX: Cx = Cx::on(CpuId(0));

fn built<P: PerCpu>(regions: &[Region], percpu: P) -> OwnedPageyard<P> {
    let watermark =
        WatermarkKnobs { min_free_kbytes: Some(0), watermark_scale_factor: 0, ..WatermarkKnobs::default() };
    // Lists that may hold all of it, pageblocks too.
    let config = Config { watermark, percpu_pagelist_high_fraction: 1, ..Config::new(2) };
    Pageyard::owned(&MemoryMap::new(regions).unwrap(), config, percpu).unwrap()
}

fn zone(kind: ZoneKind, first: u64, pageblocks: u64) -> Region {
    Region::managed(Pfn(first), Frames(pageblocks * 512), NodeId(0), kind)
}

fn request(order: u8, ty: Migratetype) -> Request {
    Request::new(Order::of(order), ty).with(RequestFlags::MEMALLOC)
}

#[test]
fn lists_that_only_their_own_cpu_may_use_are_left_alone() {
    // SAFETY: this test is one thread.
    let yard = built(&[zone(ZoneKind::Normal, 0, 8)], unsafe { Exclusive::by_cpu() });
    let other = Cx::on(CpuId(1));
    let frame = yard.alloc(&other, &request(0, Migratetype::Movable)).unwrap();
    yard.free(&other, frame, Order::ZERO).unwrap();
    let held = |cpu| yard.pcp_stats(ZoneId(0), CpuId(cpu)).unwrap();
    let before = held(1);
    assert!(yard.zone_stats(ZoneId(0)).unwrap().cached > Frames::ZERO);
    let range = (Pfn(frame.0 & !511), Frames(512));
    let contig = yard.alloc_contig_range(&CX, range.0, range.1, Migratetype::Movable, &NoHelp);
    assert!(matches!(contig, Err(ContigError::Busy { .. })), "{contig:?}");
    assert!(matches!(yard.declare_cma(&CX, range.0, range.1), Err(ContigError::Busy { .. })));
    assert!(matches!(yard.offline_range(&CX, range.0, range.1, &NoHelp), Err(ContigError::Busy { .. })));
    assert_eq!(held(1), before);
    // Once that CPU has emptied its own, the range is free.
    yard.drain(CpuSet::One(CpuId(1)));
    yard.alloc_contig_range(&CX, range.0, range.1, Migratetype::Movable, &NoHelp).unwrap();
    yard.free_range(&CX, range.0, range.1).unwrap();
    yard.audit().unwrap();
}

#[test]
fn an_isolated_pageblock_among_those_of_a_range_goes_into_no_list() {
    for pageblocks in 2..=6 {
        let yard = built(&[zone(ZoneKind::Normal, 0, 32)], TryLock);
        for block in 0..pageblocks {
            yard.claim_exact(&CX, Pfn(block * 512), Order::of(9), Migratetype::Movable).unwrap();
        }
        assert!(yard.isolate(&CX, PageblockId(1)) && yard.drain(CpuSet::All).is_complete());
        yard.free_range(&CX, Pfn(0), Frames(pageblocks * 512)).unwrap();
        let huge = request(9, Migratetype::Movable);
        let served: Vec<Pfn> = std::iter::from_fn(|| yard.alloc(&CX, &huge).ok()).collect();
        assert_eq!(served.len(), 31);
        assert!(!served.contains(&Pfn(512)), "it is out of allocation");
        assert!(yard.restore(&CX, PageblockId(1)));
        yard.audit().unwrap();
    }
}

#[test]
fn pageblocks_of_several_types_in_one_range_keep_theirs() {
    let yard = built(&[zone(ZoneKind::Normal, 0, 32)], TryLock);
    let area = yard.declare_cma(&CX, Pfn(512), Frames(512)).unwrap();
    yard.claim_exact(&CX, Pfn(0), Order::of(9), Migratetype::Unmovable).unwrap();
    yard.alloc_contig_range(&CX, Pfn(512), Frames(512), Migratetype::Cma, &NoHelp).unwrap();
    yard.claim_exact(&CX, Pfn(1024), Order::of(9), Migratetype::Movable).unwrap();
    yard.free_range(&CX, Pfn(0), Frames(3 * 512)).unwrap();
    let unmovable = request(9, Migratetype::Unmovable);
    let served: Vec<Pfn> = std::iter::from_fn(|| yard.alloc(&CX, &unmovable).ok()).collect();
    assert!(served.len() == 31 && !served.contains(&Pfn(512)), "an area serves movable requests only");
    assert_eq!(yard.alloc_cma(&CX, area, Frames(512), Order::ZERO, &NoHelp), Ok(Pfn(512)));
    yard.audit().unwrap();
}

#[test]
fn pieces_of_two_zones_that_lie_side_by_side_are_two_ranges() {
    // The request takes the upper zone first, then the top of the lower one.
    let regions = [zone(ZoneKind::Dma32, 0, 4), zone(ZoneKind::Normal, 2048, 4)];
    for order in [9, 10, 11] {
        let yard = built(&regions, TryLock);
        let mut pieces = [FrameRange::new(Pfn(0), Frames(0)); 16];
        let all = request(0, Migratetype::Movable);
        let n = yard.alloc_frames(&CX, Frames(8 * 512), Order::of(order), &all, &mut pieces).unwrap();
        assert_eq!(pieces[..n].iter().map(|piece| piece.frames.0).sum::<u64>(), 8 * 512);
        for piece in &pieces[..n] {
            assert_eq!(yard.free_range(&CX, piece.first, piece.frames), Ok(()), "{piece:?}");
        }
        assert_eq!(yard.audit().unwrap().allocated, Frames::ZERO);
        // Where there is not enough, nothing stays allocated.
        yard.alloc_frames(&CX, Frames(9 * 512), Order::of(order), &all, &mut pieces).unwrap_err();
        assert_eq!(yard.audit().unwrap().allocated, Frames::ZERO);
    }
}

#[test]
fn a_pageblock_that_two_zones_share_is_isolated_as_a_whole_or_not_at_all() {
    let part = |kind, first, frames| Region::managed(Pfn(first), Frames(frames), NodeId(0), kind);
    let yard = built(&[part(ZoneKind::Dma32, 0, 700), part(ZoneKind::Normal, 700, 1348)], TryLock);
    assert!(yard.isolate(&CX, PageblockId(1)));
    assert!(!yard.isolate(&CX, PageblockId(1)), "it is already");
    assert!(yard.restore(&CX, PageblockId(1)));
    // One zone's part is another call's: that one restores it, and this one takes nothing.
    let census = yard.audit().unwrap();
    assert_eq!(census.isolated, Frames::ZERO);
}
