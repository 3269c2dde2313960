//! What compaction may call on an engine is public: numbers of zones, pageblocks and frames that there are not are
//! values.

use pageyard::compaction::{
    self, Chooser, CompactionView, Direct, FreeStock, Goal, Mode, PageblockInfo, Plan, Stock, TargetOrder,
};
use pageyard::reclaim::{NoHelp, Reclaimed, Shortage};
use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    BadRequest, BlockId, CompactorId, Config, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype, NodeId,
    Order, OwnedPageyard, PageblockId, Pageyard, Pfn, PressureAllocator, Region, Request, RequestFlags,
    TryLock, ZoneId, ZoneKind,
};
use pageyard_testkit::owner::{Fault, Owner, Use};

const CX: Cx = Cx::on(CpuId(0));
const END: u64 = 8 * 512;

fn machine() -> OwnedPageyard<TryLock> {
    let regions = [Region::managed(Pfn(512), Frames(END - 512), NodeId(0), ZoneKind::Normal)];
    let watermark =
        WatermarkKnobs { min_free_kbytes: Some(0), watermark_scale_factor: 0, ..WatermarkKnobs::default() };
    let config = Config { watermark, pcp: false, ..Config::new(1) };
    Pageyard::owned(&MemoryMap::new(&regions).unwrap(), config, TryLock).unwrap()
}

fn conserved(engine: &OwnedPageyard<TryLock>) {
    engine.drain(CpuSet::All);
    assert!(engine.audit().unwrap().is_conserved());
}

fn plan(zone: ZoneId) -> Plan {
    Plan {
        zone,
        goal: Goal::Block(Order::of(9), Migratetype::Movable),
        mode: Mode::Sync,
        direct: true,
        by: CompactorId(1),
        highest: ZoneKind::Movable,
        flags: RequestFlags::empty(),
        ignore_hints: true,
        thorough: true,
    }
}

#[test]
fn a_zone_that_there_is_not_has_nothing_to_compact() {
    let engine = machine();
    let yard: &Pageyard<'_, TryLock> = &engine;
    for zone in [1, 63, 64, 1 << 15, u16::MAX].map(ZoneId) {
        assert!(yard.zone(zone).is_none() && yard.zone_state(zone).is_none());
        assert!(!yard.watermark_ok(zone, Order::ZERO, Frames(0), ZoneKind::Normal, RequestFlags::empty()));
        assert!(!yard.has_suitable(zone, Order::ZERO, Migratetype::Movable));
        assert!(yard.free_blocks(zone).iter().all(|n| *n == 0));
        assert!(!yard.pageblock(zone, PageblockId(1)).populated);
        yard.set_skip(zone, PageblockId(1), true);
        let mut stock = FreeStock::new(TargetOrder::LastFirst);
        let scan = yard.isolate_free(zone, Pfn(512)..Pfn(1024), 10, Frames(0), true, &mut stock);
        assert_eq!((scan.scanned, scan.next, stock.len()), (0, Pfn(1024), 0));
        assert_eq!(yard.take_direct(&CX, zone, Frames(0), true, 9, |_| panic!("a frame")), Direct::Done);
        let mut notes = Chooser::default();
        assert_eq!(yard.choose(&plan(zone), Order::of(9), &mut notes), compaction::Choice::Nothing);
        let request = Request::new(Order::of(9), Migratetype::Movable);
        let zones = std::iter::once(zone);
        let tried = compaction::compact_for_request(yard, &NoHelp, &CX, &request, zones, Mode::Sync, true);
        assert_eq!(tried, compaction::Tried::default());
        assert_eq!(compaction::compact_for_order(yard, &NoHelp, &CX, zone, Order::of(9)), None);
        assert_eq!(compaction::compact_everything(yard, &NoHelp, &CX, zone), None);
        assert_eq!(engine.compact_zone_with(&CX, zone, &NoHelp), Err(BadRequest::NoZone));
    }
    conserved(&engine);
}

#[test]
fn a_pageblock_that_the_zone_has_not_is_empty_and_remembers_nothing() {
    let engine = machine();
    let yard: &Pageyard<'_, TryLock> = &engine;
    for block in [0, 8, 1 << 40, u64::MAX].map(PageblockId) {
        let PageblockInfo { populated, free_whole, .. } = yard.pageblock(ZoneId(0), block);
        assert!(!populated && !free_whole, "{block:?}");
        yard.set_skip(ZoneId(0), block, true);
        let mut notes = Chooser { pageblock: Some(block), part: u32::MAX, ..Chooser::default() };
        let _ = yard.choose(&plan(ZoneId(0)), Order::of(4), &mut notes);
    }
    assert!(!yard.has_suitable(ZoneId(0), Order::ZERO, Migratetype::Isolate));
    conserved(&engine);
}

/// An order-3 block from frame 643 on would lie in two words: its frames would be claimed, and never freed.
#[test]
fn a_block_that_starts_anywhere_or_is_of_no_requested_type_is_not_captured() {
    let engine = machine();
    let yard: &Pageyard<'_, TryLock> = &engine;
    for pfn in [643, 1023, 0, END, u64::MAX].map(Pfn) {
        let block = BlockId { pfn, order: Order::of(3) };
        assert_eq!(yard.capture(&CX, block, Migratetype::Movable), None, "{pfn}");
    }
    let block = BlockId { pfn: Pfn(1024), order: Order::of(9) };
    for m in [Migratetype::HighAtomic, Migratetype::Cma, Migratetype::Isolate] {
        assert_eq!(yard.capture(&CX, block, m), None, "{m:?}");
    }
    conserved(&engine);
    assert_eq!(yard.capture(&CX, block, Migratetype::Movable), Some(Pfn(1024)));
    engine.free(&CX, Pfn(1024), Order::of(9)).unwrap();
    conserved(&engine);
}

/// A frame at a time, 2^64 of them would take centuries.
#[test]
fn of_a_range_that_is_larger_than_memory_only_what_there_is_is_evacuated() {
    let engine = machine();
    let owner = Owner::new(&*engine, Fault::None);
    for range in [Pfn(0)..Pfn(u64::MAX), Pfn(END)..Pfn(u64::MAX), Pfn(1 << 50)..Pfn(u64::MAX), Pfn(9)..Pfn(3)]
    {
        let moved = compaction::evacuate(&*engine, &owner, &CX, range, Mode::Sync, |_| ());
        assert_eq!(moved, Ok(Frames(0)));
    }
    conserved(&engine);
}

/// An owner that says that it gave up more than there is.
struct Boasts;

impl pageyard::Reclaim for Boasts {
    fn reclaim(&self, _: &Cx, _: &Shortage) -> Reclaimed {
        Reclaimed { scanned: Frames(u64::MAX), freed: Frames(u64::MAX) }
    }

    fn reclaimable(&self, _: ZoneId) -> Frames {
        Frames(u64::MAX)
    }
}

// SAFETY: it has nothing, and moves nothing.
unsafe impl compaction::Migrate for Boasts {
    type Isolated = ();

    fn isolate(&self, _: Pfn, _: Mode) -> Result<(), compaction::Busy> {
        Err(compaction::Busy::Pinned)
    }

    fn migrate(&self, (): &mut (), _: Pfn, _: Mode) -> Result<(), compaction::MigrateError> {
        Err(compaction::MigrateError::Refused)
    }

    fn putback(&self, (): ()) {}
}

#[test]
fn what_an_owner_says_of_its_reclaim_ends_at_the_largest_number() {
    let engine = machine();
    let owner = Owner::new(&*engine, Fault::None);
    owner.fill(&CX, |_| Use::Movable);
    let request = Request::new(Order::ZERO, Migratetype::Movable);
    let failure = engine.alloc_with(&CX, &request, &Boasts).unwrap_err();
    assert_eq!(failure.tried.reclaimed.scanned, Frames(u64::MAX));
    assert!(engine.kswapd_with(&CX, &Boasts).unwrap().freed > Frames(0));
    owner.free_if(&CX, |_| true);
    conserved(&engine);
}
