//! Compaction of one zone leaves the others alone, even where two of them share a pageblock.

use pageyard::compaction::{Busy, Migrate, MigrateError, Mode};
use pageyard::engine::Internals;
use pageyard::reclaim::{Reclaim, Reclaimed, Shortage};
use pageyard::{
    CompactorId, Config, Counter, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype, NodeId, Order,
    OwnedPageyard, PageAllocator, PageblockId, Pageyard, Pfn, PressureAllocator, Region, Request, TryLock,
    ZoneId, ZoneKind,
};
use pageyard_testkit::owner::{Fault, Owner, Use};
use std::sync::Mutex;

const CX: Cx = Cx::on(CpuId(0));
/// Where the second zone begins: inside a pageblock.
const BORDER: u64 = 4 * 512 + 200;
const END: u64 = 10 * 512;

/// An owner that writes down what is asked of it.
struct Recorded<'e> {
    owner: Owner<'e, OwnedPageyard<TryLock>>,
    isolated: Mutex<Vec<Pfn>>,
    moves: Mutex<Vec<(Pfn, Pfn)>>,
}

impl Reclaim for Recorded<'_> {
    fn reclaim(&self, cx: &Cx, shortage: &Shortage) -> Reclaimed {
        self.owner.reclaim(cx, shortage)
    }

    fn reclaimable(&self, zone: ZoneId) -> Frames {
        self.owner.reclaimable(zone)
    }
}

// SAFETY: it does what the owner does.
unsafe impl Migrate for Recorded<'_> {
    type Isolated = Pfn;

    fn isolate(&self, pfn: Pfn, mode: Mode) -> Result<Pfn, Busy> {
        self.isolated.lock().unwrap().push(pfn);
        self.owner.isolate(pfn, mode)
    }

    fn migrate(&self, from: &mut Pfn, to: Pfn, mode: Mode) -> Result<(), MigrateError> {
        self.moves.lock().unwrap().push((*from, to));
        self.owner.migrate(from, to, mode)
    }

    fn putback(&self, from: Pfn) {
        self.owner.putback(from);
    }
}

fn machine() -> OwnedPageyard<TryLock> {
    machine_with(Config::new(1))
}

fn machine_with(config: Config) -> OwnedPageyard<TryLock> {
    let regions = [
        Region::managed(Pfn(0), Frames(BORDER), NodeId(0), ZoneKind::Dma32),
        Region::managed(Pfn(BORDER), Frames(END - BORDER), NodeId(0), ZoneKind::Normal),
    ];
    Pageyard::owned(&MemoryMap::new(&regions).unwrap(), config, TryLock).unwrap()
}

/// Fills both zones and frees most of the pageblock that they share, and some of the others.
fn recorded(engine: &OwnedPageyard<TryLock>) -> Recorded<'_> {
    let owner = Owner::new(engine, Fault::None);
    owner.fill(&CX, |_| Use::Movable);
    let shared = 4 * 512..5 * 512;
    owner.free_if(&CX, |pfn| if shared.contains(&pfn.0) { pfn.0 % 12 != 0 } else { pfn.0 % 2 == 0 });
    engine.drain(CpuSet::All);
    Recorded { owner, isolated: Mutex::default(), moves: Mutex::default() }
}

fn zone_of(pfn: Pfn) -> ZoneId {
    ZoneId(u16::from(pfn.0 >= BORDER))
}

fn check(engine: &OwnedPageyard<TryLock>, helper: &Recorded<'_>, zone: ZoneId, what: &str) {
    let strangers = helper.isolated.lock().unwrap().iter().filter(|pfn| zone_of(**pfn) != zone).count();
    let moves = helper.moves.lock().unwrap();
    let crossing = moves.iter().filter(|(from, to)| zone_of(*from) != zone || zone_of(*to) != zone);
    assert_eq!(
        (strangers, crossing.count()),
        (0, 0),
        "{what}: frames of the other zone asked for, and moved"
    );
    helper.owner.check(&[]);
    for block in (0..END / 512).map(PageblockId) {
        assert!(engine.lease_pageblock(block, CompactorId(3)), "{what}: {block:?} is not leased");
        assert!(engine.unlease_pageblock(block));
    }
}

#[test]
fn compaction_of_a_zone_moves_nothing_of_the_zone_it_shares_a_pageblock_with() {
    for zone in [ZoneId(0), ZoneId(1)] {
        let engine = machine();
        let helper = recorded(&engine);
        let (_, work) = engine.compact_zone_with(&CX, zone, &helper).unwrap();
        assert!(work.moved > 0, "there was something to do in {zone:?}");
        check(&engine, &helper, zone, &format!("all of {zone:?}"));
    }
}

#[test]
fn a_request_for_the_lower_zone_moves_nothing_of_the_upper_one() {
    for order in [3, 5, 9] {
        let engine = machine();
        let helper = recorded(&engine);
        let mut request = Request::new(Order::of(order), Migratetype::Movable);
        request.highest_zone = ZoneKind::Dma32;
        let got = engine.alloc_with(&CX, &request, &helper);
        if let Ok(pfn) = got {
            assert_eq!(zone_of(pfn), ZoneId(0));
            helper.owner.keep(pfn, Order::of(order), Use::Pinned);
        }
        check(&engine, &helper, ZoneId(0), &format!("a request of order {order}"));
    }
}

#[test]
fn zones_are_compacted_ahead_of_need_as_far_as_the_setting_asks() {
    // Frames in free blocks of at least a pageblock.
    let huge = |engine: &OwnedPageyard<TryLock>| {
        let blocks = [0, 1].map(|zone| engine.zone_stats(ZoneId(zone)).unwrap().blocks_by_order());
        blocks.iter().map(|blocks| blocks[9] * 512 + blocks[10] * 1024).sum::<u64>()
    };
    let mut made = Vec::new();
    for compaction_proactiveness in [0, 20, 100] {
        let engine = machine_with(Config { compaction_proactiveness, ..Config::new(1) });
        let helper = recorded(&engine);
        assert_eq!(huge(&engine), 0, "every pageblock has frames that are used");
        // Nobody woke the background compactor.
        let work = engine.kcompactd_with(&CX, &helper).unwrap();
        assert_eq!(
            (work.moved > 0, huge(&engine) > 0),
            (compaction_proactiveness > 0, compaction_proactiveness > 0)
        );
        made.push(huge(&engine));
        helper.owner.check(&[]);
        // What the setting asks for is reached: another turn does nothing.
        let again = engine.kcompactd_with(&CX, &helper).unwrap();
        assert_eq!(again.moved, 0, "{compaction_proactiveness}");
    }
    assert!(made.is_sorted(), "{made:?}");
}

#[test]
fn compaction_ahead_of_need_that_does_not_help_pauses() {
    let engine = machine_with(Config { compaction_proactiveness: 100, ..Config::new(1) });
    let owner = Owner::new(&engine, Fault::None);
    owner.fill(&CX, |_| Use::Pinned);
    owner.free_if(&CX, |pfn| pfn.0 % 2 == 0);
    engine.drain(CpuSet::All);
    let helper = Recorded { owner, isolated: Mutex::default(), moves: Mutex::default() };
    let turns = || {
        engine.kcompactd_with(&CX, &helper).unwrap();
        engine.stats()[Counter::CompactDaemonWake]
    };
    assert_eq!(turns(), 2, "in both zones");
    assert!(!helper.isolated.lock().unwrap().is_empty(), "it looked for what can be moved");
    // 64 turns are left out, as in Linux.
    assert!((0..64).all(|_| turns() == 2));
    assert_eq!(turns(), 4);
}
