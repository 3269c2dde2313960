//! Contiguous ranges by their numbers, emptied where they have to be; and contiguous areas.

use crate::panicking::{DROP, ISOLATE, MIGRATE, PUTBACK, at_every_callback};
use crate::ranges::machine;
use pageyard::engine::Internals;
use pageyard::reclaim::NoHelp;
use pageyard::{
    Config, ContigError, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, OwnedPageyard,
    PageblockId, Pageyard, Pfn, Region, Request, RequestFlags, TryLock, ZoneId, ZoneKind,
};
use pageyard_testkit::child::in_child;
use pageyard_testkit::owner::{Fault, Owner, Use};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const CX: Cx = Cx::on(CpuId(0));
const ALL: u64 = 8 * 512;

type Yard = OwnedPageyard<TryLock>;

fn contig(yard: &Yard, first: u64, frames: u64, owner: &Owner<'_, Yard>) -> Result<(), ContigError> {
    yard.alloc_contig_range(&CX, Pfn(first), Frames(frames), Migratetype::Movable, owner)
}

fn free(yard: &Yard, first: u64, frames: u64) {
    yard.free_range(&CX, Pfn(first), Frames(frames)).unwrap();
}

fn request(order: u8, ty: Migratetype) -> Request {
    Request::new(Order::of(order), ty).with(RequestFlags::MEMALLOC)
}

/// Checks the books: this much is allocated, and no pageblock is out of allocation.
fn allocated(yard: &Yard, frames: u64) {
    let census = yard.audit().unwrap();
    assert!(census.is_conserved(), "{census:?}");
    assert_eq!((census.allocated, census.isolated), (Frames(frames), Frames::ZERO));
}

/// All pageblocks are whole again.
fn whole(yard: &Yard) {
    yard.drain(CpuSet::All);
    allocated(yard, 0);
    let blocks = yard.zone_stats(ZoneId(0)).unwrap().blocks_by_order();
    assert_eq!((9..blocks.len()).map(|order| blocks[order] << (order - 9)).sum::<u64>(), 8);
}

/// An owner of single frames, one in `step`.
fn scattered(yard: &Yard, step: usize, fault: Fault) -> Owner<'_, Yard> {
    let owner = Owner::new(yard, fault);
    for pfn in (3..ALL).step_by(step) {
        yard.claim_exact(&CX, Pfn(pfn), Order::ZERO, Migratetype::Movable).unwrap();
        owner.keep(Pfn(pfn), Order::ZERO, Use::Movable);
    }
    owner
}

#[test]
fn a_range_that_is_free_is_handed_out_as_the_fewest_blocks() {
    for pcp in [true, false] {
        let yard = machine(pcp);
        for (first, frames) in [(0, 1), (5, 70), (511, 2), (512, 512), (100, 2000), (0, ALL), (1024, 1024)] {
            yard.alloc_contig_range(&CX, Pfn(first), Frames(frames), Migratetype::Movable, &NoHelp).unwrap();
            allocated(&yard, frames);
            let live = (first..first + frames).filter_map(|pfn| yard.order_of(Pfn(pfn)));
            let fewest =
                pageyard::block::blocks(Pfn(first), Frames(frames), Order::MAX).map(|block| block.order);
            assert!(live.eq(fewest), "{frames} from {first}");
            let cut = frames / 3;
            free(&yard, first + cut, frames - cut);
            if cut > 0 {
                free(&yard, first, cut);
            }
            allocated(&yard, 0);
        }
        whole(&yard);
    }
}

#[test]
fn what_is_in_use_moves_elsewhere_and_keeps_its_contents() {
    for (pcp, fault) in [(true, Fault::None), (false, Fault::None), (true, Fault::FreesUnderUs)] {
        let yard = machine(pcp);
        let owner = scattered(&yard, 9, fault);
        for (first, frames) in [(600, 40), (512, 512), (1300, 900), (0, 2048)] {
            contig(&yard, first, frames, &owner).unwrap();
            assert!(owner.pfns().iter().all(|pfn| !(first..first + frames).contains(&pfn.0)));
            allocated(&yard, frames + owner.frames());
            free(&yard, first, frames);
            owner.check(&[]);
        }
        owner.free_if(&CX, |_| true);
        whole(&yard);
    }
}

#[test]
fn what_lies_in_lists_is_drained() {
    let yard = machine(true);
    let blocks: Vec<_> = (0..300)
        .map(|n| yard.alloc(&Cx::on(CpuId(n % 4)), &request(0, Migratetype::Movable)).unwrap())
        .collect();
    for (n, pfn) in blocks.iter().enumerate() {
        yard.free(&Cx::on(CpuId(n as u32 % 4)), *pfn, Order::ZERO).unwrap();
    }
    assert!(yard.audit().unwrap().cached > Frames::ZERO);
    yard.alloc_contig_range(&CX, Pfn(0), Frames(ALL), Migratetype::Movable, &NoHelp).unwrap();
    free(&yard, 0, ALL);
    whole(&yard);
}

#[test]
fn a_frame_in_the_way_is_named_and_everything_is_as_before() {
    let yard = machine(true);
    let owner = scattered(&yard, 100, Fault::None);
    let claim = |pfn, order| yard.claim_exact(&CX, Pfn(pfn), Order::of(order), Migratetype::Movable).unwrap();
    // A larger block does not move, nor one that begins in front of the range; nothing is moved for nothing.
    claim(1536 + 16, 4);
    let before = owner.pfns().len();
    assert_eq!(contig(&yard, 1024, 1024, &owner), Err(ContigError::Busy { at: Pfn(1552) }));
    assert_eq!(contig(&yard, 1560, 20, &owner), Err(ContigError::Busy { at: Pfn(1560) }));
    // A frame that the owner does not move, or does not know.
    claim(2048 + 40, 0);
    assert_eq!(contig(&yard, 2048, 100, &owner), Err(ContigError::Busy { at: Pfn(2088) }));
    owner.keep(Pfn(2088), Order::ZERO, Use::Pinned);
    assert_eq!(contig(&yard, 2048, 100, &owner), Err(ContigError::Busy { at: Pfn(2088) }));
    assert_eq!(owner.pfns().len(), before + 1);
    allocated(&yard, owner.frames() + 16);
    free(&yard, 1552, 16);
    owner.free_if(&CX, |_| true);
    whole(&yard);
}

#[test]
fn an_owner_that_refuses_keeps_its_frames() {
    for fault in [Fault::Refuses, Fault::Again, Fault::FailsHalfway] {
        let yard = machine(true);
        let owner = scattered(&yard, 50, fault);
        let got = contig(&yard, 512, 1024, &owner);
        assert!(matches!(got, Err(ContigError::Busy { .. })), "{fault:?}: {got:?}");
        owner.check(&[]);
        allocated(&yard, owner.frames());
        owner.free_if(&CX, |_| true);
        whole(&yard);
    }
}

#[test]
fn wrong_ranges_are_refused() {
    let regions = [
        Region::managed(Pfn(512), Frames(1000), NodeId(0), ZoneKind::Normal),
        Region::managed(Pfn(2048), Frames(512), NodeId(0), ZoneKind::Normal),
        Region::managed(Pfn(2560), Frames(512), NodeId(1), ZoneKind::Normal),
    ];
    let yard = Pageyard::owned(&MemoryMap::new(&regions).unwrap(), Config::new(2), TryLock).unwrap();
    let get = |cpu, first, frames| {
        yard.alloc_contig_range(
            &Cx::on(CpuId(cpu)),
            Pfn(first),
            Frames(frames),
            Migratetype::Movable,
            &NoHelp,
        )
    };
    assert_eq!(get(0, 600, 0), Err(ContigError::BadRange));
    assert_eq!(get(0, 600, u64::MAX), Err(ContigError::BadRange));
    assert_eq!(get(7, 600, 1), Err(ContigError::NoSuchCpu));
    for (first, frames, at) in
        [(0, 600, 0), (1500, 100, 1512), (1600, 1, 1600), (2500, 100, 2560), (1 << 40, 1, 1 << 40)]
    {
        assert_eq!(
            get(0, first, frames),
            Err(ContigError::OutsideArena { at: Pfn(at) }),
            "{first}, {frames}"
        );
    }
    assert!(yard.isolate(&CX, PageblockId(2)));
    assert_eq!(get(0, 1000, 100), Err(ContigError::Isolated { at: Pfn(1024) }));
    assert!(yard.restore(&CX, PageblockId(2)), "it is still out, and the other one is not");
    assert!(!yard.restore(&CX, PageblockId(1)));
    assert_eq!(get(0, 1000, 100), Ok(()));
    assert_eq!(yard.audit().unwrap().allocated, Frames(100));
}

#[test]
fn without_a_free_frame_elsewhere_nothing_moves() {
    let yard = machine(true);
    let owner = Owner::new(&yard, Fault::None);
    owner.fill(&CX, |_| Use::Movable);
    assert_eq!(contig(&yard, 512, 512, &owner), Err(ContigError::NoTarget));
    owner.check(&[]);
    // Frames of the range itself are no place to go.
    owner.free_if(&CX, |pfn| pfn.0 / 512 == 1 && pfn.0 % 2 == 0);
    assert_eq!(contig(&yard, 512, 512, &owner), Err(ContigError::NoTarget));
    owner.check(&[]);
    owner.free_if(&CX, |pfn| pfn.0 / 512 > 2 && pfn.0 % 2 == 0);
    assert_eq!(contig(&yard, 512, 512, &owner), Ok(()));
    free(&yard, 512, 512);
    owner.check(&[]);
    owner.free_if(&CX, |_| true);
    whole(&yard);
}

#[test]
fn what_is_known_of_contents_is_forgotten() {
    let mut region = Region::managed(Pfn(0), Frames(ALL), NodeId(0), ZoneKind::Normal);
    region.zeroed = true;
    let yard = Pageyard::owned(&MemoryMap::new(&[region]).unwrap(), Config::new(1), TryLock).unwrap();
    for (first, frames) in [(7, 300), (512, 1024), (2000, 100)] {
        yard.alloc_contig_range(&CX, Pfn(first), Frames(frames), Migratetype::Movable, &NoHelp).unwrap();
        free(&yard, first, frames);
        yard.drain(CpuSet::All);
        yard.audit().unwrap();
        yard.claim_exact(&CX, Pfn(first), Order::ZERO, Migratetype::Movable).unwrap();
        assert!(!yard.was_zeroed(Pfn(first)), "the owner has written to it");
        free(&yard, first, 1);
    }
}

#[test]
fn a_panic_of_the_owner_leaves_nothing_out_of_allocation() {
    in_child("contig::a_panic_of_the_owner_leaves_nothing_out_of_allocation", || {
        at_every_callback("contig", &[ISOLATE, DROP, MIGRATE, PUTBACK], |yard, keeper| {
            for (first, frames) in [(0, 512), (100, 600), (1024, 512)] {
                let (first, frames) = (Pfn(first), Frames(frames));
                if yard.alloc_contig_range(&CX, first, frames, Migratetype::Movable, keeper).is_ok() {
                    yard.free_range(&CX, first, frames).unwrap();
                }
            }
        });
    });
}

#[test]
fn only_movable_requests_are_served_from_an_area() {
    for pcp in [true, false] {
        let yard = machine(pcp);
        let area = yard.declare_cma(&CX, Pfn(1024), Frames(1024)).unwrap();
        assert_eq!(area.range().first, Pfn(1024));
        allocated(&yard, 0);
        let inside = |pfn: Pfn| (1024..2048).contains(&pfn.0);
        for ty in [Migratetype::Unmovable, Migratetype::Reclaimable] {
            let mut held = Vec::new();
            for order in [10, 9, 5, 0] {
                while let Ok(pfn) = yard.alloc(&CX, &request(order, ty)) {
                    assert!(!inside(pfn), "{ty:?}, order {order}: {pfn}");
                    held.push((pfn, Order::of(order)));
                }
            }
            allocated(&yard, ALL - 1024);
            held.iter().for_each(|(pfn, order)| yard.free(&CX, *pfn, *order).unwrap());
            yard.drain(CpuSet::All);
        }
        // Movable ones last, in every order up to a pageblock's.
        let owner = Owner::new(&yard, Fault::None);
        let n = owner.fill(&CX, |_| Use::Movable);
        assert_eq!(n, ALL);
        owner.free_if(&CX, |pfn| pfn.0 % 3 == 0);
        yard.drain(CpuSet::All);
        owner.check(&[]);

        let ring = yard.alloc_cma(&CX, area, Frames(300), Order::of(4), &owner).unwrap();
        assert!(inside(ring) && ring.is_aligned(Order::of(4)));
        allocated(&yard, owner.frames() + 300);
        let second = yard.alloc_cma(&CX, area, Frames(700), Order::ZERO, &owner).unwrap();
        assert!(inside(second) && second.0 >= ring.0 + 300);
        let third = yard.alloc_cma(&CX, area, Frames(100), Order::ZERO, &owner);
        assert!(matches!(third, Err(ContigError::Busy { .. })), "{third:?}");
        for frames in [0, 1025] {
            let wrong = yard.alloc_cma(&CX, area, Frames(frames), Order::ZERO, &owner);
            assert_eq!(wrong, Err(ContigError::BadRange));
        }
        free(&yard, ring.0, 300);
        free(&yard, second.0, 700);
        owner.check(&[]);
        let all = yard.alloc_cma(&CX, area, Frames(1024), Order::of(10), &owner).unwrap();
        assert_eq!(all, Pfn(1024));
        free(&yard, 1024, 1024);
        owner.free_if(&CX, |_| true);
        whole(&yard);
    }
}

#[test]
fn an_area_is_of_whole_pageblocks_and_declared_once() {
    let yard = machine(true);
    let declare = |first, frames| yard.declare_cma(&CX, Pfn(first), Frames(frames));
    assert_eq!(declare(1000, 24), Err(ContigError::Misaligned));
    assert_eq!(declare(1024, 100), Err(ContigError::Misaligned));
    assert_eq!(declare(1024, 0), Err(ContigError::BadRange));
    assert_eq!(declare(ALL - 512, 1024), Err(ContigError::OutsideArena { at: Pfn(ALL) }));
    // Frames of a pageblock of another type, some of them in lists.
    let kept = yard.alloc(&CX, &request(0, Migratetype::Unmovable)).unwrap();
    let start = kept.pageblock().start();
    let area = yard.declare_cma(&CX, start, Frames(512)).unwrap();
    assert_eq!(yard.declare_cma(&CX, start, Frames(512)), Err(ContigError::Busy { at: start }));
    while let Ok(pfn) = yard.alloc(&CX, &request(0, Migratetype::Unmovable)) {
        assert_ne!(pfn.pageblock(), kept.pageblock());
    }
    let refused = yard.alloc_cma(&CX, area, Frames(512), Order::ZERO, &NoHelp);
    assert_eq!(refused, Err(ContigError::Busy { at: kept }));
    yard.audit().unwrap();
}

#[test]
fn ranges_beside_allocations_frees_and_each_other() {
    for pcp in [true, false] {
        let yard = &machine(pcp);
        let owner = &scattered(yard, 40, Fault::None);
        let area = yard.declare_cma(&CX, Pfn(0), Frames(1024)).unwrap();
        let got = &AtomicU64::new(0);
        std::thread::scope(|s| {
            for cpu in 0..4u32 {
                s.spawn(move || {
                    let (cx, mut random) = (Cx::on(CpuId(cpu)), fastrand::Rng::with_seed(cpu.into()));
                    for _ in 0..1500 {
                        if cpu < 2 {
                            let frames = Frames(1 + random.u64(..700));
                            let first = match random.bool() {
                                true => yard.alloc_cma(&cx, area, frames, Order::ZERO, owner),
                                false => {
                                    let first = Pfn(random.u64(1024..ALL - 700));
                                    let ty = Migratetype::Unmovable;
                                    yard.alloc_contig_range(&cx, first, frames, ty, owner).map(|()| first)
                                }
                            };
                            if let Ok(first) = first {
                                got.fetch_add(1, Relaxed);
                                let cut = Frames(frames.0 / 2);
                                yard.free_range(&cx, first + cut, frames - cut).unwrap();
                                if cut > Frames::ZERO {
                                    yard.free_range(&cx, first, cut).unwrap();
                                }
                            }
                        } else if random.bool() && owner.frames() < ALL / 4 {
                            if let Ok(pfn) = yard.alloc(&cx, &request(0, Migratetype::Movable)) {
                                owner.keep(pfn, Order::ZERO, Use::Movable);
                            }
                        } else if let Some(pfn) = owner.any(random.usize(..1000)) {
                            owner.free(&cx, pfn);
                        }
                    }
                });
            }
        });
        owner.check(&[]);
        assert!(got.load(Relaxed) > 100, "{got:?} ranges were had");
        owner.free_if(&CX, |_| true);
        whole(yard);
    }
}
