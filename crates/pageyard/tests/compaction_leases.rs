//! Leases of pageblocks: who may end one.
#![cfg(not(loom))]

mod engine_common;

use engine_common::Owned;
use pageyard::compaction::{CompactionView, Holder, Lease, Role};
use pageyard::{CompactorId, Config, Frames, MemoryMap, NodeId, PageblockId, Pfn, Region, TryLock, ZoneKind};

const BLOCK: PageblockId = PageblockId(1);

fn machine() -> Owned<TryLock> {
    let regions = [Region::managed(Pfn(0), Frames(4 * 512), NodeId(0), ZoneKind::Normal)];
    Owned::new(&MemoryMap::new(&regions).unwrap(), Config::new(1), TryLock).unwrap()
}

fn lease(engine: &Owned<TryLock>, by: u16, role: Role) -> Result<Lease<'_>, Holder> {
    engine.yard.lease(BLOCK, role, CompactorId(by))
}

#[test]
fn a_lease_that_was_ended_early_does_not_end_the_next_holders() {
    let engine = machine();
    for (by, role) in [(2, Role::Source), (1, Role::Target)] {
        let stale = lease(&engine, 1, Role::Source).ok().unwrap();
        assert!(engine.yard.unlease_pageblock(BLOCK), "somebody else ends it");
        let next = lease(&engine, by, role).ok().unwrap();
        drop(stale);
        assert_eq!(lease(&engine, 3, Role::Source).err(), Some(Holder { by: CompactorId(by), role }));
        drop(next);
    }
    assert!(lease(&engine, 3, Role::Source).is_ok(), "the last holder has ended its own");
}
