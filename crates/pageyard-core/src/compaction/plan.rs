//! What a compaction is to achieve, whether it is worth beginning, and whether it is done.

use super::knobs::{Knobs, Scope};
use super::migrate::Mode;
use super::view::CompactionView;
use super::work::Outcome;
use crate::memmap::ZoneKind;
use crate::metrics::{extfrag_index, unusable_index};
use crate::migratetype::Migratetype;
use crate::units::{CompactorId, Frames, Order, PAGEBLOCK_ORDER, Pfn, ZoneId};

/// Returns the first frame of the aligned block of `order` that holds `pfn`.
///
/// # Linux
/// `block_start_pfn`, from document 002.
#[must_use]
pub const fn block_start_pfn(pfn: Pfn, order: Order) -> Pfn {
    pfn.align_down(order)
}

/// Returns the first frame behind the aligned block of `order` that holds `pfn`.
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

/// Returns the first frame behind the pageblock that holds `pfn`.
#[must_use]
pub const fn pageblock_end_pfn(pfn: Pfn) -> Pfn {
    block_end_pfn(pfn, PAGEBLOCK_ORDER)
}

/// What a compaction is to achieve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Goal {
    /// A free block for a request of this order and type.
    Block(Order, Migratetype),
    /// As many large blocks as there can be.
    Everything,
    /// A fragmentation score of at most this many percent. See [`fragmentation_score`].
    Score(u64),
}

/// What to compact, why, and how hard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The zone.
    pub zone: ZoneId,
    /// What to achieve.
    pub goal: Goal,
    /// How much it may cost.
    pub mode: Mode,
    /// Whether a request waits for it.
    pub direct: bool,
    /// Who it is, among those that compact at the same time.
    pub by: CompactorId,
    /// The highest kind of zone that the request may use: what the zone keeps back depends on it.
    pub highest: ZoneKind,
    /// Whether skip hints are neither obeyed nor left.
    pub ignore_hints: bool,
    /// Whether pageblocks of every type are looked at, from the zone's ends.
    pub thorough: bool,
}

impl Plan {
    /// Returns the order that is wanted, if it is a block.
    #[must_use]
    pub fn order(&self) -> Option<Order> {
        match self.goal {
            Goal::Block(order, _) => Some(order),
            Goal::Everything | Goal::Score(_) => None,
        }
    }

    /// Says whether a technique is used.
    pub(super) fn uses(&self, scope: Scope) -> bool {
        match scope {
            Scope::Off => false,
            Scope::DirectAsync => self.direct && self.mode == Mode::Async,
            Scope::Direct => self.direct,
            Scope::All => true,
        }
    }

    /// Returns the order of the blocks that the techniques work by.
    pub(super) fn block_order(&self, knobs: &Knobs) -> Order {
        match self.order() {
            Some(order) if self.direct => order,
            Some(order) => order.min(knobs.skip_on_failure_order),
            None => knobs.skip_on_failure_order,
        }
    }
}

/// Says why a compaction need not begin, or `None` where it should.
///
/// # Linux
/// `compaction_suitable`: enough free frames to move things to, and fragmentation rather than a lack of memory.
#[must_use]
pub fn suitability<M: CompactionView>(map: &M, plan: &Plan) -> Option<Outcome> {
    let Some(view) = map.zone(plan.zone) else { return Some(Outcome::Skipped) };
    let order = match plan.goal {
        Goal::Block(order, _) if order > Order::ZERO => order,
        Goal::Block(..) => return Some(Outcome::Skipped),
        Goal::Everything | Goal::Score(_) => return None,
    };
    let low = view.marks.low;
    if map.watermark_ok(plan.zone, order, low, plan.highest) {
        return Some(Outcome::Success);
    }
    let room = Frames(low.0 + 2 * order.frames().0);
    if !map.watermark_ok(plan.zone, Order::ZERO, room, plan.highest) {
        return Some(Outcome::Skipped);
    }
    let threshold = f64::from(map.knobs().extfrag_threshold) / 1000.0;
    if threshold == 0.0 {
        return None;
    }
    let index = extfrag_index(&map.free_blocks(plan.zone), order.index());
    index.is_some_and(|i| (0.0..=threshold).contains(&i)).then_some(Outcome::Skipped)
}

/// Returns how fragmented a zone is, in percent: the share of its free memory that cannot serve a huge page.
///
/// # Linux
/// `fragmentation_score_zone` (`extfrag_for_order`).
#[must_use]
pub fn fragmentation_score<M: CompactionView>(map: &M, zone: ZoneId) -> u64 {
    let unusable = unusable_index(&map.free_blocks(zone), PAGEBLOCK_ORDER.index());
    unusable.map_or(0, |u| (u * 100.0) as u64)
}

/// Returns the score at which proactive compaction stops, and the one above which it begins.
///
/// # Linux
/// `fragmentation_score_wmark`.
#[must_use]
pub fn score_marks(proactiveness: u8) -> (u64, u64) {
    let low = (100u64.saturating_sub(u64::from(proactiveness))).max(5);
    (low, (low + 10).min(100))
}

/// Says whether the goal is reached.
///
/// # Linux
/// `__compact_finished`, behind the question whether the scanners have met.
pub(super) fn is_reached<M: CompactionView>(map: &M, plan: &Plan) -> bool {
    match plan.goal {
        Goal::Everything => false,
        Goal::Score(low) => fragmentation_score(map, plan.zone) <= low,
        Goal::Block(order, m) => {
            let low = map.zone(plan.zone).map_or(Frames::ZERO, |z| z.marks.low);
            map.watermark_ok(plan.zone, order, low, plan.highest) && map.has_suitable(plan.zone, order, m)
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

    #[test]
    fn proactive_marks_are_ten_apart_and_never_below_five() {
        assert_eq!(score_marks(20), (80, 90));
        assert_eq!(score_marks(0), (100, 100));
        assert_eq!(score_marks(100), (5, 15));
    }
}
