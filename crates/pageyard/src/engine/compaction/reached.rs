//! Whether a compaction is worth beginning, and whether its goal is reached: the plan compared with the zone.

use crate::engine::geometry::{BlockIdx, LARGEST, PAGEBLOCK};
use crate::engine::map::index::Bins;
use crate::engine::map::tree::SearchEffort;
use crate::engine::report::blocks_of;
use crate::engine::zone::Zone;
use crate::engine::zone::choose::{Goal, Plan};
use pageyard_core::compaction::{Outcome, fragmentation_score};
use pageyard_core::memmap::ZoneKind;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::units::{Frames, Order};

impl Zone<'_> {
    /// Returns why a compaction need not begin, or `None` where it should: there is room to move things to, and no
    /// block yet.
    ///
    /// # Linux
    /// `compaction_suitable` until 4.8. Difference: memory that is short is not told apart from memory that is
    /// fragmented, since choosing costs little.
    pub(super) fn need_not_begin(&self, plan: &Plan) -> Option<Outcome> {
        let Goal::Block(order, _) = plan.goal else { return None };
        if order == Order::ZERO {
            return Some(Outcome::Skipped);
        }
        let low = self.online.low();
        if self.can_serve(order, low, plan.highest) {
            return Some(Outcome::Success);
        }
        let room = Frames(low.0 + 2 * order.frames().0);
        (!self.can_serve(Order::ZERO, room, plan.highest)).then_some(Outcome::Skipped)
    }

    /// Returns whether the goal is reached.
    ///
    /// # Linux
    /// `__compact_finished`.
    pub(super) fn has_reached(&self, plan: &Plan) -> bool {
        match plan.goal {
            Goal::Everything => false,
            Goal::Score(low) => self.fragmentation() <= low,
            Goal::Block(order, m) => {
                self.can_serve(order, self.online.low(), plan.highest) && self.has_suitable(order, m)
            }
        }
    }

    /// Returns whether a movable block of this order is free, and a mark of free frames is met without it.
    ///
    /// # Linux
    /// `zone_watermark_ok`.
    pub(super) fn can_serve(&self, order: Order, mark: Frames, highest: ZoneKind) -> bool {
        let pageblocks = &self.pageblocks;
        let reserve = self.protection[highest.index()].0 + pageblocks.highatomic_free();
        let kept = mark.0.saturating_add(reserve);
        pageblocks.free().checked_sub(order.frames().0).is_some_and(|left| left >= kept)
            && (order == Order::ZERO || self.has_suitable(order, Migratetype::Movable))
    }

    /// Returns whether a free block could be given to a request of this order and type.
    fn has_suitable(&self, order: Order, m: Migratetype) -> bool {
        let index = &self.pageblocks.index;
        let (first, mut effort) = (BlockIdx::new(0), SearchEffort::default());
        if order > PAGEBLOCK {
            return order <= LARGEST && index.find_run(order, first, &mut effort).is_some();
        }
        let mut types = core::iter::once(&m).chain(m.fallbacks());
        types.any(|m| {
            index.find(*m, Bins::fitting(order), first, &mut effort).is_some()
                || self.pageblocks.has_emptied(*m)
        })
    }

    /// Returns how fragmented it is, in percent.
    pub(super) fn fragmentation(&self) -> u64 {
        fragmentation_score(&blocks_of(&self.pageblocks))
    }
}
