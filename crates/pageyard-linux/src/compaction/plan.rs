//! The goal of a compaction.

use super::knobs::{Knobs, Scope};
use pageyard_core::compaction::Mode;
use pageyard_core::memmap::ZoneKind;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::request::RequestFlags;
use pageyard_core::units::{CompactorId, Order, PAGEBLOCK_ORDER, Pfn, ZoneId};

/// Returns the first frame of the aligned block of `order` that holds `pfn`.
///
/// # Linux
/// `block_start_pfn`, from document 002.
#[must_use]
pub const fn block_start_pfn(pfn: Pfn, order: Order) -> Pfn {
    pfn.align_down(order)
}

/// Returns the first frame after the aligned block of `order` that holds `pfn`.
///
/// # Linux
/// `block_end_pfn`, from document 002.
#[must_use]
pub const fn block_end_pfn(pfn: Pfn, order: Order) -> Pfn {
    Pfn(pfn.align_down(order).0 + order.frames().0)
}

/// Returns the first frame of the pageblock that holds `pfn`.
#[must_use]
pub const fn pageblock_start_pfn(pfn: Pfn) -> Pfn {
    block_start_pfn(pfn, PAGEBLOCK_ORDER)
}

/// Returns the first frame after the pageblock that holds `pfn`.
#[must_use]
pub const fn pageblock_end_pfn(pfn: Pfn) -> Pfn {
    block_end_pfn(pfn, PAGEBLOCK_ORDER)
}

/// The goal of a compaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Goal {
    /// A free block for a request of this order and type.
    Block(Order, Migratetype),
    /// As many large blocks as there can be.
    Everything,
    /// A fragmentation score of at most this many percent. See
    /// [`fragmentation_score`](pageyard_core::compaction::fragmentation_score).
    Score(u64),
}

/// The zone to compact, the goal, and the effort.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The zone.
    pub zone: ZoneId,
    /// The goal.
    pub goal: Goal,
    /// How much it may cost.
    pub mode: Mode,
    /// The order of the request that waits for it, at most that of the goal; `None` in the background.
    pub request: Option<Order>,
    /// Who it is, among those that compact at the same time.
    pub by: CompactorId,
    /// The highest kind of zone that the request may use: what the zone keeps back depends on it.
    pub highest: ZoneKind,
    /// The request's privileges, where there is one.
    pub flags: RequestFlags,
    /// Whether skip hints are neither obeyed nor left.
    pub ignore_hints: bool,
    /// Whether pageblocks of every type are looked at, from the zone's ends.
    pub thorough: bool,
}

impl Plan {
    /// Returns whether a request waits for it.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.request.is_some()
    }

    /// Returns whether frames that their owners lend serve the request.
    ///
    /// # Linux
    /// `ALLOC_CMA`.
    pub(super) fn takes_lent(&self) -> bool {
        self.is_direct() && matches!(self.goal, Goal::Block(_, Migratetype::Movable))
    }

    /// Returns the order that is wanted, if it is a block.
    #[must_use]
    pub fn order(&self) -> Option<Order> {
        match self.goal {
            Goal::Block(order, _) => Some(order),
            Goal::Everything | Goal::Score(_) => None,
        }
    }

    /// Returns whether a technique is used.
    pub(super) fn uses(&self, scope: Scope) -> bool {
        match scope {
            Scope::Off => false,
            Scope::DirectAsync => self.is_direct() && self.mode == Mode::Async,
            Scope::Direct => self.is_direct(),
            Scope::All => true,
        }
    }

    /// Returns the order of the blocks that the techniques work by.
    pub(super) fn block_order(&self, knobs: &Knobs) -> Order {
        match self.order() {
            Some(order) if self.is_direct() => order,
            Some(order) => order.min(knobs.skip_on_failure_order),
            None => knobs.skip_on_failure_order,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_last_frames_of_blocks() {
        let o4 = Order::of(4);
        assert_eq!((block_start_pfn(Pfn(31), o4), block_end_pfn(Pfn(31), o4)), (Pfn(16), Pfn(32)));
        assert_eq!((block_start_pfn(Pfn(32), o4), block_end_pfn(Pfn(32), o4)), (Pfn(32), Pfn(48)));
        assert_eq!((pageblock_start_pfn(Pfn(513)), pageblock_end_pfn(Pfn(513))), (Pfn(512), Pfn(1024)));
        assert_eq!(block_end_pfn(Pfn(0), Order::ZERO), Pfn(1));
    }
}
