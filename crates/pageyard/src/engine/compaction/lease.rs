//! Leases of pageblocks: while one is held no other compactor gets the pageblock, so two compactors never use it for
//! opposite ends.

use crate::engine::pcp::percpu::PerCpu;
use crate::engine::yard::Pageyard;
use pageyard_core::clear::Clear;
use pageyard_core::observer::Observer;
use pageyard_core::units::{CompactorId, PageblockId};

/// How many compactors a descriptor can tell apart, each with its two ends.
const COMPACTORS: u16 = 127;

/// Which end of a migration a pageblock serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// Its contents move away.
    Source = 0,
    /// Contents move into its free frames.
    Target = 1,
}

/// A pageblock in a compactor's use, given back when dropped.
pub(super) struct Lease<'y, 'm, P: PerCpu, O: Observer, C: Clear> {
    yard: &'y Pageyard<'m, P, O, C>,
    /// The pageblock.
    pub(super) block: PageblockId,
    number: CompactorId,
}

impl<'y, 'm, P: PerCpu, O: Observer, C: Clear> Lease<'y, 'm, P, O, C> {
    /// Leases a pageblock, unless a compactor has it.
    pub(super) fn of(
        yard: &'y Pageyard<'m, P, O, C>,
        block: PageblockId,
        role: Role,
        by: CompactorId,
    ) -> Option<Self> {
        let number = CompactorId(by.0 % COMPACTORS * 2 + role as u16);
        // Not `then_some`: a lease that was not granted must not be dropped, it would end another's.
        yard.lease_pageblock(block, number).then(|| Lease { yard, block, number })
    }
}

impl<P: PerCpu, O: Observer, C: Clear> Drop for Lease<'_, '_, P, O, C> {
    /// Ends it if it is still this compactor's: one that was ended early may have been followed by another's.
    fn drop(&mut self) {
        self.yard.end_lease(self.block, self.number);
    }
}
