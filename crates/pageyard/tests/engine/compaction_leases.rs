//! Leases of pageblocks: who may end one.

use pageyard::compaction::{Busy, Migrate, MigrateError, Mode};
use pageyard::engine::Internals;
use pageyard::reclaim::{Reclaimed, Shortage};
use pageyard::{
    CompactorId, Config, CpuId, CpuSet, Cx, Frames, MemoryMap, NodeId, OwnedPageyard, PageAllocator,
    PageblockId, Pageyard, Pfn, PressureAllocator, Reclaim, Region, TryLock, ZoneId, ZoneKind,
};
use pageyard_testkit::owner::{Fault, Owner, Use};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const CX: Cx = Cx::on(CpuId(0));
const OTHER: CompactorId = CompactorId(250);

/// An owner that ends the lease of the first pageblock that is emptied, and has another compactor lease it.
struct Takes<'e> {
    owner: Owner<'e, OwnedPageyard<TryLock>>,
    engine: &'e OwnedPageyard<TryLock>,
    done: AtomicBool,
}

impl Reclaim for Takes<'_> {
    fn reclaim(&self, cx: &Cx, shortage: &Shortage) -> Reclaimed {
        self.owner.reclaim(cx, shortage)
    }

    fn reclaimable(&self, zone: ZoneId) -> Frames {
        self.owner.reclaimable(zone)
    }
}

// SAFETY: it does what the owner does.
unsafe impl Migrate for Takes<'_> {
    type Isolated = Pfn;

    fn isolate(&self, pfn: Pfn, mode: Mode) -> Result<Pfn, Busy> {
        self.owner.isolate(pfn, mode)
    }

    fn migrate(&self, from: &mut Pfn, to: Pfn, mode: Mode) -> Result<(), MigrateError> {
        let block = from.pageblock();
        if !self.done.swap(true, SeqCst) {
            assert!(!self.engine.lease_pageblock(block, OTHER), "it is in the compaction's use");
            assert!(self.engine.unlease_pageblock(block), "somebody else ends it");
            assert!(self.engine.lease_pageblock(block, OTHER));
        }
        self.owner.migrate(from, to, mode)
    }

    fn putback(&self, from: Pfn) {
        self.owner.putback(from);
    }
}

#[test]
fn a_lease_that_was_ended_early_does_not_end_the_next_holders() {
    let regions = [Region::managed(Pfn(0), Frames(8 * 512), NodeId(0), ZoneKind::Normal)];
    let engine = Pageyard::owned(&MemoryMap::new(&regions).unwrap(), Config::new(1), TryLock).unwrap();
    let owner = Owner::new(&engine, Fault::None);
    owner.fill(&CX, |_| Use::Movable);
    owner.free_if(&CX, |pfn| pfn.0 % 2 == 0);
    engine.drain(CpuSet::All);
    let helper = Takes { owner, engine: &engine, done: AtomicBool::new(false) };
    assert!(engine.compact_zone_with(&CX, ZoneId(0), &helper).unwrap().1.moved > 0);
    let leased = |block| !engine.lease_pageblock(block, CompactorId(3));
    let still: Vec<_> = (0..8).map(PageblockId).filter(|block| leased(*block)).collect();
    assert_eq!(still.len(), 1, "the other compactor's lease, and no other: {still:?}");
    helper.owner.check(&[]);
}

#[test]
fn a_compaction_that_is_refused_a_lease_leaves_it_to_its_holder() {
    // The lower zone, which is not compacted, has the lease of the pageblock that both share.
    let border = 4 * 512 + 200;
    let regions = [
        Region::managed(Pfn(0), Frames(border), NodeId(0), ZoneKind::Dma32),
        Region::managed(Pfn(border), Frames(8 * 512 - border), NodeId(0), ZoneKind::Normal),
    ];
    let engine = Pageyard::owned(&MemoryMap::new(&regions).unwrap(), Config::new(1), TryLock).unwrap();
    let owner = Owner::new(&engine, Fault::None);
    owner.fill(&CX, |_| Use::Movable);
    owner.free_if(&CX, |pfn| pfn.0 % 2 == 0);
    engine.drain(CpuSet::All);
    let shared = PageblockId(4);
    // One of the numbers is the compaction's own.
    for holder in (0..255).map(CompactorId) {
        assert!(engine.lease_pageblock(shared, holder));
        engine.compact_zone_with(&CX, ZoneId(1), &owner).unwrap();
        assert!(engine.unlease_pageblock(shared), "{holder:?} still has it");
    }
    owner.check(&[]);
}
