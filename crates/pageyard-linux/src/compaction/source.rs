//! Where frames are moved from: the pageblock that the migrate scanner works in.

use super::view::Lease;
use pageyard_core::units::PageblockId;

/// The pageblock that is being emptied, with its lease. There is no lease where leases are not obeyed and another
/// compactor has it.
pub(super) struct Source<'a> {
    pub(super) block: PageblockId,
    _lease: Option<Lease<'a>>,
}

impl<'a> Source<'a> {
    pub(super) fn new(block: PageblockId, lease: Option<Lease<'a>>) -> Source<'a> {
        Source { block, _lease: lease }
    }
}
