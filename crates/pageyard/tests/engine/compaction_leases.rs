//! Leases of pageblocks: who may end one.

use pageyard::compaction::{CompactionView, Holder, Lease, Role};
use pageyard::{
    CompactorId, Config, Frames, MemoryMap, NodeId, OwnedPageyard, PageblockId, Pageyard, Pfn, Region,
    TryLock, ZoneKind,
};

const BLOCK: PageblockId = PageblockId(1);

fn machine() -> OwnedPageyard<TryLock> {
    let regions = [Region::managed(Pfn(0), Frames(4 * 512), NodeId(0), ZoneKind::Normal)];
    Pageyard::owned(&MemoryMap::new(&regions).unwrap(), Config::new(1), TryLock).unwrap()
}

fn lease(engine: &OwnedPageyard<TryLock>, by: u16, role: Role) -> Result<Lease<'_>, Holder> {
    engine.lease(BLOCK, role, CompactorId(by))
}

#[test]
fn a_lease_that_was_ended_early_does_not_end_the_next_holders() {
    let engine = machine();
    for (by, role) in [(2, Role::Source), (1, Role::Target)] {
        let stale = lease(&engine, 1, Role::Source).ok().unwrap();
        assert!(engine.unlease_pageblock(BLOCK), "somebody else ends it");
        let next = lease(&engine, by, role).ok().unwrap();
        drop(stale);
        assert_eq!(lease(&engine, 3, Role::Source).err(), Some(Holder { by: CompactorId(by), role }));
        drop(next);
    }
    assert!(lease(&engine, 3, Role::Source).is_ok(), "the last holder has ended its own");
}
