//! Whether a compaction is worth starting, and whether it is done: the plan compared with the zone's state.

use super::plan::{Goal, Plan};
use super::view::CompactionView;
use super::work::Outcome;
use crate::metrics::{extfrag_index, unusable_index};
use crate::units::{Frames, Order, PAGEBLOCK_ORDER, ZoneId};

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
/// `__compact_finished`, after its check whether the scanners have met.
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
    fn proactive_marks_are_ten_apart_and_never_below_five() {
        assert_eq!(score_marks(20), (80, 90));
        assert_eq!(score_marks(0), (100, 100));
        assert_eq!(score_marks(100), (5, 15));
    }
}
