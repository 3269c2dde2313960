//! Ranges of frames: freed in any pieces, and allocated in counts that are no power of two.

use pageyard::{AllocError, BadRequest, watermark::WatermarkKnobs};
use pageyard::{
    Config, CpuId, CpuSet, Cx, FrameRange, Frames, FreeError, MemoryMap, Migratetype, NodeId, Order,
    OwnedPageyard, Pageyard, Pfn, RangeError, RangeFault, Region, Request, RequestFlags, TryLock, ZoneId,
    ZoneKind,
};

const CX: Cx = Cx::on(CpuId(0));
const PAGEBLOCKS: u64 = 8;
const ALL: u64 = PAGEBLOCKS * 512;

fn config(pcp: bool) -> Config {
    let watermark =
        WatermarkKnobs { min_free_kbytes: Some(0), watermark_scale_factor: 0, ..WatermarkKnobs::default() };
    Config { pcp, watermark, ..Config::new(4) }
}

/// A zone that keeps nothing back.
pub fn machine(pcp: bool) -> OwnedPageyard<TryLock> {
    let regions = [Region::managed(Pfn(0), Frames(ALL), NodeId(0), ZoneKind::Normal)];
    Pageyard::owned(&MemoryMap::new(&regions).unwrap(), config(pcp), TryLock).unwrap()
}

fn movable(order: u8) -> Request {
    Request::new(Order::of(order), Migratetype::Movable).with(RequestFlags::MEMALLOC)
}

fn claim(yard: &OwnedPageyard<TryLock>, pfn: u64, order: u8) {
    yard.claim_exact(&CX, Pfn(pfn), Order::of(order), Migratetype::Movable).unwrap();
}

fn free(yard: &OwnedPageyard<TryLock>, first: u64, frames: u64) -> Result<(), RangeError> {
    yard.free_range(&CX, Pfn(first), Frames(frames))
}

fn refused(at: u64, freed: u64, why: FreeError) -> Result<(), RangeError> {
    Err(RangeError { at: Pfn(at), freed: Frames(freed), why: RangeFault::Free(why) })
}

/// Live blocks of a stretch, each a first frame and an order.
fn live(yard: &OwnedPageyard<TryLock>, frames: std::ops::Range<u64>) -> Vec<(u64, u8)> {
    frames.filter_map(|pfn| Some((pfn, yard.order_of(Pfn(pfn))?.get()))).collect()
}

/// Checks the books, and that nothing is live but this many frames.
fn allocated(yard: &OwnedPageyard<TryLock>, frames: u64) {
    let census = yard.audit().unwrap();
    assert!(census.is_conserved(), "{census:?}");
    assert_eq!(census.allocated, Frames(frames));
}

/// Everything was given back: all pageblocks are whole.
fn whole(yard: &OwnedPageyard<TryLock>) {
    allocated(yard, 0);
    yard.drain(CpuSet::All);
    allocated(yard, 0);
    let blocks = yard.zone_stats(ZoneId(0)).unwrap().blocks_by_order();
    let n: u64 = (9..blocks.len()).map(|order| blocks[order] << (order - 9)).sum();
    assert_eq!(n, PAGEBLOCKS);
}

#[test]
fn blocks_of_any_orders_come_back_as_one_range() {
    for pcp in [true, false] {
        let yard = machine(pcp);
        for (pfn, order) in [(0, 9), (512, 0), (513, 0), (514, 1), (516, 2), (520, 3), (528, 4), (544, 5)] {
            claim(&yard, pfn, order);
        }
        for (pfn, order) in [(576, 6), (640, 7), (768, 8), (1024, 10), (2048, 9), (2560, 9)] {
            claim(&yard, pfn, order);
        }
        allocated(&yard, 3072);
        assert_eq!(free(&yard, 0, 3072), Ok(()));
        whole(&yard);
    }
}

#[test]
fn a_block_comes_back_in_parts_and_what_is_outside_stays() {
    for pcp in [true, false] {
        let yard = machine(pcp);
        claim(&yard, 1024, 10);
        // A frame in the middle.
        assert_eq!(free(&yard, 1536 + 5, 1), Ok(()));
        assert_eq!(live(&yard, 1024..1536), [(1024, 9)]);
        let halves = [
            (1536, 2),
            (1540, 0),
            (1542, 1),
            (1544, 3),
            (1552, 4),
            (1568, 5),
            (1600, 6),
            (1664, 7),
            (1792, 8),
        ];
        assert_eq!(live(&yard, 1536..2048), halves);
        allocated(&yard, 1023);
        // Across both pageblocks, and both ends inside of blocks.
        assert_eq!(free(&yard, 1030, 510), Ok(()));
        assert_eq!(live(&yard, 1024..1541), [(1024, 2), (1028, 1), (1540, 0)]);
        allocated(&yard, 1023 - 510);
        assert_eq!(free(&yard, 1024, 6), Ok(()));
        assert_eq!(free(&yard, 1540, 1), Ok(()));
        assert_eq!(free(&yard, 1542, 506), Ok(()));
        whole(&yard);
    }
}

#[test]
fn the_largest_block_is_cut_in_the_middle() {
    let regions = [Region::managed(Pfn(0), Frames(1 << 18), NodeId(0), ZoneKind::Normal)];
    let yard = Pageyard::owned(&MemoryMap::new(&regions).unwrap(), config(true), TryLock).unwrap();
    claim(&yard, 0, 18);
    assert_eq!(free(&yard, 100_001, 1), Ok(()));
    allocated(&yard, (1 << 18) - 1);
    assert_eq!(free(&yard, 100_002, (1 << 18) - 100_002), Ok(()));
    assert_eq!(free(&yard, 0, 100_001), Ok(()));
    allocated(&yard, 0);
    assert_eq!(yard.free_range(&CX, Pfn(0), Frames(1 << 18)), refused(0, 0, FreeError::NotAllocated));
}

#[test]
fn a_wrong_range_says_where_and_what_was_freed() {
    let regions = [
        Region::managed(Pfn(512), Frames(1000), NodeId(0), ZoneKind::Normal),
        Region::managed(Pfn(2048), Frames(512), NodeId(0), ZoneKind::Normal),
    ];
    for pcp in [true, false] {
        let yard = Pageyard::owned(&MemoryMap::new(&regions).unwrap(), config(pcp), TryLock).unwrap();
        let fault = |why| Err(RangeError { at: Pfn(512), freed: Frames(0), why });
        assert_eq!(free(&yard, 512, 0), fault(RangeFault::Empty));
        assert_eq!(free(&yard, 512, u64::MAX), fault(RangeFault::Overflow));
        let nowhere = yard.free_range(&Cx::on(CpuId(9)), Pfn(512), Frames(1));
        assert_eq!(nowhere, refused(512, 0, FreeError::NoSuchCpu));
        assert_eq!(free(&yard, 0, 8), refused(0, 0, FreeError::OutsideArena));
        assert_eq!(free(&yard, 1 << 50, 8), refused(1 << 50, 0, FreeError::OutsideArena));
        claim(&yard, 2048, 9);
        assert_eq!(free(&yard, 2048, 513), refused(2560, 0, FreeError::OutsideArena));
        allocated(&yard, 512);
        assert_eq!(free(&yard, 1600, 8), refused(1600, 0, FreeError::OutsideArena), "a hole");
        // Up to a hole inside a pageblock, and to one that is a pageblock.
        claim(&yard, 1504, 3);
        assert_eq!(free(&yard, 1504, 12), refused(1512, 8, FreeError::OutsideArena));
        // A free frame behind live ones; the live block behind it stays.
        claim(&yard, 520, 3);
        claim(&yard, 530, 1);
        assert_eq!(free(&yard, 520, 12), refused(528, 8, FreeError::NotAllocated));
        assert_eq!(yard.order_of(Pfn(530)), Some(Order::of(1)));
        // A second time.
        assert_eq!(free(&yard, 2100, 100), Ok(()));
        assert_eq!(free(&yard, 2098, 4), refused(2100, 2, FreeError::NotAllocated));
        allocated(&yard, 512 - 102 + 2);
    }
}

#[test]
fn a_range_of_a_zone_ends_with_it() {
    let regions = [
        Region::managed(Pfn(0), Frames(700), NodeId(0), ZoneKind::Dma32),
        Region::managed(Pfn(700), Frames(836), NodeId(0), ZoneKind::Normal),
    ];
    let yard = Pageyard::owned(&MemoryMap::new(&regions).unwrap(), config(true), TryLock).unwrap();
    claim(&yard, 696, 2);
    claim(&yard, 700, 2);
    assert_eq!(free(&yard, 696, 8), refused(700, 0, FreeError::OutsideArena));
    assert_eq!(free(&yard, 698, 2), Ok(()));
    assert_eq!(free(&yard, 702, 2), Ok(()));
    assert_eq!(free(&yard, 700, 2), Ok(()));
    allocated(&yard, 2);
}

#[test]
fn random_pieces_match_a_plain_table() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let yard = machine(seed % 2 == 0);
        let mut owned = vec![false; ALL as usize];
        for _ in 0..600 {
            if random.u32(..3) == 0 {
                let order = random.u8(..12);
                let pfn = random.u64(..ALL) & !((1 << order) - 1);
                let frames = pfn as usize..(pfn + (1 << order)) as usize;
                if yard.claim_exact(&CX, Pfn(pfn), Order::of(order), Migratetype::Movable).is_ok() {
                    assert!(owned[frames.clone()].iter().all(|owned| !owned));
                    owned[frames].fill(true);
                }
                continue;
            }
            let most = 1 << random.u32(..12);
            let (first, frames) = (random.u64(..ALL), 1 + random.u64(..most));
            let got = yard.free_range(&Cx::on(CpuId(random.u32(..4))), Pfn(first), Frames(frames));
            if first + frames > ALL {
                assert_eq!(got, refused(ALL, 0, FreeError::OutsideArena), "seed {seed}");
                continue;
            }
            let range = first as usize..(first + frames) as usize;
            let freed = owned[range.clone()].iter().take_while(|owned| **owned).count() as u64;
            match freed == frames {
                true => assert_eq!(got, Ok(()), "seed {seed}, {first}, {frames}"),
                false => {
                    assert_eq!(got, refused(first + freed, freed, FreeError::NotAllocated), "seed {seed}")
                }
            }
            owned[range].iter_mut().take(freed as usize).for_each(|owned| *owned = false);
        }
        allocated(&yard, owned.iter().filter(|owned| **owned).count() as u64);
        for pfn in (0..ALL).filter(|pfn| owned[*pfn as usize]) {
            assert_eq!(free(&yard, pfn, 1), Ok(()), "seed {seed}");
        }
        whole(&yard);
    }
}

#[test]
fn frees_by_range_are_counted() {
    let yard = machine(true);
    let freed = || {
        yard.drain(CpuSet::All);
        yard.stats()[pageyard::Counter::Pgfree]
    };
    let before = freed();
    claim(&yard, 0, 10);
    claim(&yard, 1024, 3);
    free(&yard, 3, 2).unwrap();
    free(&yard, 5, 1027).unwrap();
    free(&yard, 0, 3).unwrap();
    assert_eq!(freed() - before, 1032);
    whole(&yard);
}

#[test]
fn exact_counts_are_aligned_and_the_rest_is_free() {
    for pcp in [true, false] {
        let yard = machine(pcp);
        let mut random = fastrand::Rng::with_seed(5);
        for frames in (1..140).chain([511, 512, 513, 600, 1025, 2048, 2049, 4096]) {
            let align = Order::of(random.u8(..11));
            let first = yard.alloc_exact(&CX, Frames(frames), align, &movable(0)).unwrap();
            assert!(first.is_aligned(align), "{frames} frames at {first}, {align:?}");
            allocated(&yard, frames);
            let orders: Vec<u8> = live(&yard, 0..ALL).into_iter().map(|(_, order)| order).collect();
            let bits: Vec<u8> = (0..13).rev().filter(|bit| frames >> bit & 1 != 0).collect();
            assert_eq!(orders, bits, "the fewest aligned blocks");
            let cut = random.u64(..frames);
            if cut > 0 {
                assert_eq!(free(&yard, first.0, cut), Ok(()));
            }
            assert_eq!(free(&yard, first.0 + cut, frames - cut), Ok(()));
            allocated(&yard, 0);
        }
        whole(&yard);
    }
}

#[test]
fn wrong_counts_are_refused() {
    let yard = machine(true);
    let exact = |frames, align| yard.alloc_exact(&CX, Frames(frames), Order::of(align), &movable(0));
    let size = |frames| {
        Err(AllocError::BadRequest(BadRequest::Size { frames: Frames(frames), most: Frames(1 << 18) }))
    };
    assert_eq!(exact(0, 0), size(0));
    assert_eq!(exact((1 << 18) + 1, 0), size((1 << 18) + 1));
    assert!(matches!(exact(ALL + 1, 0), Err(AllocError::OutOfMemory)));
    assert!(matches!(exact(1, 13), Err(AllocError::OutOfMemory)));
    let none = yard.alloc_frames(&CX, Frames(0), Order::ZERO, &movable(0), &mut [FrameRange::default()]);
    assert!(matches!(none, Err(AllocError::BadRequest(BadRequest::Size { .. }))));
    let mut out = [FrameRange::default(); 4];
    let much = yard.alloc_frames(&CX, Frames(u64::MAX), Order::ZERO, &movable(0), &mut out);
    assert!(much.is_err());
    let no_room = yard.alloc_frames(&CX, Frames(3), Order::ZERO, &movable(0), &mut []);
    assert!(matches!(no_room, Err(AllocError::Fragmented { .. })));
    let nowhere = yard.alloc_frames(&Cx::on(CpuId(9)), Frames(3), Order::ZERO, &movable(0), &mut out);
    assert_eq!(nowhere, Err(AllocError::BadRequest(BadRequest::NoSuchCpu)));
    whole(&yard);
}

#[test]
fn frames_come_in_one_piece_or_the_largest_ones() {
    for pcp in [true, false] {
        let yard = machine(pcp);
        let mut out = [FrameRange::default(); 8];
        assert_eq!(yard.alloc_frames(&CX, Frames(1000), Order::ZERO, &movable(0), &mut out), Ok(1));
        assert_eq!(out[0].frames, Frames(1000));
        assert_eq!(free(&yard, out[0].first.0, 1000), Ok(()));
        yard.drain(CpuSet::All);

        // One frame in the middle of each pageblock is used: no block is larger than order 8.
        (0..PAGEBLOCKS).for_each(|block| claim(&yard, block * 512 + 256, 0));
        let n = yard.alloc_frames(&CX, Frames(1000), Order::of(6), &movable(0), &mut out).unwrap();
        let sum: u64 = out[..n].iter().map(|piece| piece.frames.0).sum();
        assert_eq!(sum, 1000);
        assert!(n <= 5, "{:?}", &out[..n]);
        assert!(out[..n].iter().all(|piece| piece.first.is_aligned(Order::of(6))));
        allocated(&yard, 1000 + PAGEBLOCKS);
        out[..n].iter().for_each(|piece| assert_eq!(free(&yard, piece.first.0, piece.frames.0), Ok(())));

        // Too few places, or none that large: all of it is free again.
        let few = yard.alloc_frames(&CX, Frames(2000), Order::ZERO, &movable(0), &mut out[..2]);
        assert!(matches!(few, Err(AllocError::Fragmented { .. })), "{few:?}");
        let large = yard.alloc_frames(&CX, Frames(2000), Order::of(9), &movable(0), &mut out);
        assert!(matches!(large, Err(AllocError::Fragmented { .. })), "{large:?}");
        let all = yard.alloc_frames(&CX, Frames(ALL), Order::ZERO, &movable(0), &mut out);
        assert!(all.is_err());
        allocated(&yard, PAGEBLOCKS);
        (0..PAGEBLOCKS).for_each(|block| assert_eq!(free(&yard, block * 512 + 256, 1), Ok(())));
        whole(&yard);
    }
}

#[test]
fn an_engine_of_one_caller_frees_ranges_too() {
    // SAFETY: one thread makes all calls.
    let percpu = unsafe { pageyard::Alone::by_instance() };
    let regions = [Region::managed(Pfn(0), Frames(ALL), NodeId(0), ZoneKind::Normal)];
    let yard = Pageyard::owned(&MemoryMap::new(&regions).unwrap(), config(true), percpu).unwrap();
    let first = yard.alloc_exact(&CX, Frames(1000), Order::ZERO, &movable(0)).unwrap();
    yard.free_range(&CX, Pfn(first.0 + 300), Frames(300)).unwrap();
    yard.alloc_contig_range(
        &CX,
        Pfn(first.0 + 300),
        Frames(300),
        Migratetype::Movable,
        &pageyard::reclaim::NoHelp,
    )
    .unwrap();
    yard.free_range(&CX, first, Frames(1000)).unwrap();
    let census = yard.audit().unwrap();
    assert_eq!((census.allocated, census.is_conserved()), (Frames::ZERO, true));
}
