//! A zone, as Linux means it: a span of frames of one kind and node, its lists, its watermarks. The files below it
//! claim blocks from its pageblocks and release them; none of those knows of lists.
//!
//! From the bottom up: `pageblocks` holds the frame map, the index and the counts; `current` what each CPU works on,
//! `emptied` what it emptied; `claims` is every claim and release up to a pageblock; `wholes` several pageblocks,
//! `high` runs of them, `steal` what other types have; `cma` what contiguous areas lend; `hints` and `choose` what
//! compaction empties and fills, `compaction_state` what it remembers; `isolated` takes pageblocks out of allocation
//! for a range, and claims them; `online` how much of the zone there is, `unaccepted` what is accepted only when it is
//! needed, `marks` how far down a request may go.

#[cfg(not(pageyard_loom))]
pub(super) mod choose;
pub(super) mod claims;
pub(super) mod cma;
#[cfg_attr(pageyard_loom, allow(dead_code, reason = "compaction is not modelled"))]
pub(super) mod compaction_state;
pub(super) mod current;
pub(super) mod emptied;
pub(super) mod high;
#[cfg_attr(pageyard_loom, allow(dead_code, reason = "compaction is not modelled"))]
pub(super) mod hints;
#[cfg(not(pageyard_loom))]
pub(super) mod isolated;
pub(super) mod marks;
pub(super) mod online;
pub(super) mod pageblocks;
pub(super) mod steal;
#[cfg_attr(pageyard_loom, allow(dead_code, reason = "memory that is added later is not modelled"))]
pub(super) mod unaccepted;
pub(super) mod wholes;

use crate::engine::map::type_code::TypeCode;
use crate::engine::pcp::lists::Lists;
use crate::engine::pcp::runs::Runs;
use crate::engine::pcp::tuning::{ListIdx, list_of};
use compaction_state::CompactionState;
use hints::{ChoiceHints, OrderWake};
use online::Online;
use pageblocks::Pageblocks;
use pageyard_core::memmap::NR_ZONE_KINDS;
use pageyard_core::units::{Frames, Order};
use pageyard_core::watermark::ReserveRule;
use unaccepted::Unaccepted;

/// A zone.
pub(crate) struct Zone<'m> {
    /// Its frames.
    pub(crate) pageblocks: Pageblocks<'m>,
    /// Its per-CPU lists.
    pub(crate) lists: Lists<'m>,
    /// The orders of which CPUs have a list that holds any, a bit each.
    pub(crate) listed: u32,
    /// How they missed before.
    pub(crate) runs: Runs<'m>,
    /// How much of it is online, and its watermarks.
    pub(crate) online: Online,
    /// Its pageblocks that are yet to be accepted.
    #[cfg_attr(pageyard_loom, allow(dead_code, reason = "memory that is added later is not modelled"))]
    pub(crate) unaccepted: Unaccepted,
    /// Who may go below them, and how far.
    pub(crate) reserve_rule: ReserveRule,
    /// Frames kept back from requests that a higher kind of zone could have served, by that kind.
    pub(crate) protection: [Frames; NR_ZONE_KINDS],
    /// The most that fragmentation adds to the marks.
    pub(crate) max_boost: Option<Frames>,
    /// The zone's compaction state.
    #[cfg_attr(pageyard_loom, allow(dead_code, reason = "compaction is not modelled"))]
    pub(crate) compaction: CompactionState,
    /// Where compaction looks next.
    #[cfg_attr(pageyard_loom, allow(dead_code, reason = "compaction is not modelled"))]
    pub(crate) choices: ChoiceHints,
    /// The order that the background reclaimer was woken for.
    pub(crate) reclaim_wake: OrderWake,
}

impl Zone<'_> {
    /// Returns the list of blocks of an order and a type, where CPUs have one that holds any.
    #[inline(always)]
    pub(crate) fn list(&self, order: Order, code: TypeCode) -> Option<ListIdx> {
        if self.has_list(order) { list_of(order, code) } else { None }
    }

    /// Returns whether CPUs have lists of blocks of an order.
    #[inline(always)]
    pub(crate) fn has_list(&self, order: Order) -> bool {
        self.listed >> order.get() & 1 != 0
    }
}
