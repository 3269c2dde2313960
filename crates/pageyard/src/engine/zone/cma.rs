//! Pageblocks of contiguous areas: lent to movable requests, because their contents can be moved when the area's owner
//! wants them.

use super::pageblocks::{Got, Pageblocks, Want};
#[cfg(not(pageyard_loom))]
use crate::engine::geometry::BlockIdx;
use crate::engine::map::tree::SearchEffort;
use pageyard_core::migratetype::Migratetype;

const CMA: Migratetype = Migratetype::Cma;

impl Pageblocks<'_> {
    /// Claims blocks for a movable request from contiguous areas.
    ///
    /// # Linux
    /// `__rmqueue_cma_fallback`. Difference: not before other movable pageblocks, however much of what is free is in
    /// areas.
    #[cold]
    pub(crate) fn claim_cma(&self, want: Want, effort: &mut SearchEffort) -> Option<Got> {
        self.wants_cma(want).then(|| self.claim(Want { ty: CMA, ..want }, effort)).flatten()
    }

    /// The same, trusting no index.
    #[cold]
    pub(crate) fn sweep_cma(&self, want: Want, effort: &mut SearchEffort) -> Option<Got> {
        self.wants_cma(want).then(|| self.sweep(Want { ty: CMA, ..want }, &[CMA], effort)).flatten()
    }

    fn wants_cma(&self, want: Want) -> bool {
        want.ty == Migratetype::Movable && self.cma_free() >> want.order.get() > 0
    }

    /// Turns a pageblock that the caller has isolated into one of a contiguous area.
    #[cfg(not(pageyard_loom))]
    pub(crate) fn lend(&self, block: BlockIdx) {
        // A reserve for atomic requests may come or go meanwhile.
        while !self.frames.state(block).has_type(CMA) {
            self.convert_owned(block, CMA);
        }
    }
}
