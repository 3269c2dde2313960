//! Where frames are moved from: pageblocks that the migrate scanner reaches, or blocks that the engine chooses.

use super::view::{Chooser, Lease};
use crate::units::{BlockId, Order, PAGEBLOCK_ORDER, PageblockId};

/// What is being emptied, with the lease of its pageblock. There is no lease where leases are not obeyed and another
/// compactor has it.
pub(super) struct Emptied<'a, B> {
    pub(super) block: B,
    _lease: Option<Lease<'a>>,
}

impl<'a, B> Emptied<'a, B> {
    pub(super) fn new(block: B, lease: Option<Lease<'a>>) -> Emptied<'a, B> {
        Emptied { block, _lease: lease }
    }
}

/// What chooses the blocks to empty, and what it has chosen.
pub(super) enum Source<'a> {
    /// The engine has not been asked yet whether it chooses.
    Unasked,
    /// The migrate scanner: the pageblock that it works in, once it is leased.
    Scanned(Option<Emptied<'a, PageblockId>>),
    /// The engine: its notes between choices, and the block that it chose last, until that is done.
    Chosen(Chooser, Option<Emptied<'a, BlockId>>),
    /// The engine, which has nothing left to choose.
    Exhausted,
}

impl Source<'_> {
    /// Begins, for blocks of an order. No engine is asked to choose several pageblocks at once.
    pub(super) fn new(order: Order) -> Self {
        if order > PAGEBLOCK_ORDER { Source::Scanned(None) } else { Source::Unasked }
    }

    /// Returns the pageblock that is being emptied.
    pub(super) fn pageblock(&self) -> Option<PageblockId> {
        match self {
            Source::Scanned(at) => at.as_ref().map(|e| e.block),
            Source::Chosen(_, at) => at.as_ref().map(|e| e.block.pfn.pageblock()),
            Source::Unasked | Source::Exhausted => None,
        }
    }

    /// Returns the block that is being emptied because the engine chose it.
    pub(super) fn chosen(&self) -> Option<BlockId> {
        match self {
            Source::Chosen(_, at) => at.as_ref().map(|e| e.block),
            Source::Unasked | Source::Scanned(_) | Source::Exhausted => None,
        }
    }

    /// Lets go of what is being emptied; its lease ends.
    pub(super) fn leave(&mut self) {
        match self {
            Source::Scanned(at) => *at = None,
            Source::Chosen(_, at) => *at = None,
            Source::Unasked | Source::Exhausted => {}
        }
    }
}
