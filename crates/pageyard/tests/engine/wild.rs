//! The public calls of compaction accept any number: a zone, pageblock or frame that does not exist yields a value, not
//! a panic.

use pageyard::compaction::{self, Mode};
use pageyard::reclaim::{NoHelp, Reclaimed, Shortage};
use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    BadRequest, Config, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, OwnedPageyard,
    Pageyard, Pfn, PressureAllocator, Region, Request, TryLock, ZoneId, ZoneKind,
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

#[test]
fn a_zone_that_there_is_not_has_nothing_to_compact() {
    let engine = machine();
    for zone in [1, 63, 64, 1 << 15, u16::MAX].map(ZoneId) {
        assert_eq!(engine.compact_zone_with(&CX, zone, &NoHelp), Err(BadRequest::NoZone));
    }
    conserved(&engine);
}

#[test]
fn a_frame_that_there_is_not_is_a_hole() {
    let engine = machine();
    for pfn in [0, 511, END, u64::MAX].map(Pfn) {
        assert_eq!(engine.frame(pfn), compaction::FrameState::Hole, "{pfn}");
    }
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
