//! Construction and the public calls of compaction accept any number: CPUs, a zone, pageblock or frame that cannot be
//! yields a value, not a panic.

use pageyard::compaction::{self, Mode};
use pageyard::engine::Internals;
use pageyard::reclaim::{NoHelp, Reclaimed, Shortage};
use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    BadRequest, Config, CpuId, CpuSet, Cx, Frames, MAX_CPUS, MapError, MemoryMap, Metadata, Migratetype,
    NodeId, Order, OwnedPageyard, Pageyard, Pfn, PressureAllocator, Region, Request, TryLock, ZoneId,
    ZoneKind,
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
fn no_cpu_and_more_than_there_can_be_are_refused_at_once() {
    let regions = [Region::managed(Pfn(0), Frames(END), NodeId(0), ZoneKind::Normal)];
    let map = MemoryMap::new(&regions).unwrap();
    for cpus in [0, MAX_CPUS + 1, u32::MAX] {
        let refused = MapError::Cpus { cpus, most: MAX_CPUS };
        assert_eq!(Pageyard::<TryLock>::layout(&map, &Config::new(cpus)), Err(refused));
        assert_eq!(Pageyard::owned(&map, Config::new(cpus), TryLock).err(), Some(refused));
    }
    assert!(Pageyard::<TryLock>::layout(&map, &Config::new(MAX_CPUS)).is_ok());
}

#[test]
fn a_zone_that_is_too_large_is_told_its_own_limit() {
    let most = Frames(1 << 32);
    let normal = |start| Region::managed(Pfn(start), Frames(512), NodeId(0), ZoneKind::Normal);
    let dma = Region::managed(Pfn(0), Frames(512), NodeId(0), ZoneKind::Dma);
    let map = |regions| MemoryMap::new(regions).unwrap();
    let layout = |map| Pageyard::<TryLock>::layout(&map, &Config::new(1)).map(|_| ());
    let fits = [normal(512), normal(most.0 - 512)];
    assert_eq!(layout(map(&fits)), Ok(()));
    let spans = [dma, normal(512), normal(most.0)];
    assert_eq!(layout(map(&spans)), Err(MapError::ZoneTooLarge { zone: ZoneId(1), most }));
}

#[test]
fn too_little_metadata_is_told_how_much_it_was() {
    let regions = [Region::managed(Pfn(0), Frames(END), NodeId(0), ZoneKind::Normal)];
    let map = MemoryMap::new(&regions).unwrap();
    let needed = Pageyard::<TryLock>::layout(&map, &Config::new(1)).unwrap().layout.size();
    let mut memory = vec![0; 100];
    let refused = Pageyard::new(&map, Config::new(1), TryLock, Metadata::zeroed(&mut memory)).err();
    assert_eq!(refused, Some(MapError::MetadataTooSmall { needed, given: 100 }));
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
