//! Leases of pageblocks: who may end one.

use crate::common::normal;
use pageyard_core::{CompactorId, PageblockId};
use pageyard_linux::Config;
use pageyard_linux::compaction::{CompactionView, Holder, Leases, Role};

const BLOCK: PageblockId = PageblockId(1);

#[test]
fn a_lease_is_ended_in_its_holders_name_only() {
    let a = normal(4 * 512, &Config::preset("linux-6.1").unwrap());
    let holder = Holder { by: CompactorId(1), role: Role::Source };
    let held = a.lease(BLOCK, holder.role, holder.by).ok().unwrap();
    for stranger in [Holder { by: CompactorId(2), ..holder }, Holder { role: Role::Target, ..holder }] {
        a.release(BLOCK, stranger);
        assert_eq!(a.lease(BLOCK, Role::Target, CompactorId(3)).err(), Some(holder));
    }
    drop(held);
    assert!(a.lease(BLOCK, Role::Target, CompactorId(3)).is_ok());
}
