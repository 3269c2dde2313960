//! Whether a compaction is worth starting, and whether it is done: the plan compared with the zone's state.

use super::knobs::{Knobs, Marks};
use super::plan::{Goal, Plan};
use super::view::CompactionView;
use pageyard_core::compaction::Mode;
use pageyard_core::compaction::Outcome;
use pageyard_core::compaction::fragmentation_score;
use pageyard_core::metrics::extfrag_index;
use pageyard_core::request::RequestFlags;
use pageyard_core::units::{Frames, Order};
use pageyard_core::watermark::Watermarks;

/// Orders above this one are costly: for them memory that is short is told apart from memory that is fragmented.
///
/// # Linux
/// `PAGE_ALLOC_COSTLY_ORDER`.
pub(crate) const COSTLY: Order = Order::of(3);

/// Says why a compaction need not begin, or `None` where it should.
///
/// # Linux
/// `compaction_suit_allocation_order`, `compaction_suitable`: enough free frames to move things to, and fragmentation
/// rather than a lack of memory.
#[must_use]
pub fn suitability<M: CompactionView>(map: &M, plan: &Plan) -> Option<Outcome> {
    let Some(view) = map.zone(plan.zone) else { return Some(Outcome::Skipped) };
    let order = match plan.goal {
        Goal::Block(order, _) if order > Order::ZERO => order,
        Goal::Block(..) => return Some(Outcome::Skipped),
        Goal::Everything | Goal::Score(_) => return None,
    };
    let knobs = map.knobs();
    let enough = match knobs.marks {
        Marks::Low => view.marks.low,
        Marks::Min => view.marks.min,
    };
    let flags = match knobs.marks {
        Marks::Low => RequestFlags::empty(),
        Marks::Min => plan.flags,
    };
    let in_pageblocks = passes_in_pageblocks(map, plan, order, view.marks.high);
    if in_pageblocks
        .unwrap_or_else(|| map.watermark_ok(plan.zone, order, enough, plan.highest, flags, plan.takes_lent()))
    {
        return Some(Outcome::Success);
    }
    let mut room = room_to_begin(knobs, &view.marks, order);
    if in_pageblocks.is_some() {
        room += view.marks.high - view.marks.min;
    }
    let has = |frames, lent| {
        map.watermark_ok(plan.zone, Order::ZERO, frames, plan.highest, RequestFlags::empty(), lent)
    };
    // Without room beside lent frames, the block might be made of these.
    let own = knobs.async_needs_own && plan.mode == Mode::Async && order > COSTLY && !plan.takes_lent();
    if (own && !has(enough + Frames(knobs.gap_for(order)), false)) || !has(room, true) {
        return Some(Outcome::Skipped);
    }
    let threshold = f64::from(knobs.extfrag_threshold) / 1000.0;
    if threshold == 0.0 || (knobs.marks == Marks::Min && order <= COSTLY) {
        return None;
    }
    let index = extfrag_index(&map.free_blocks(plan.zone), order.index());
    index.is_some_and(|i| (0.0..=threshold).contains(&i)).then_some(Outcome::Skipped)
}

/// Returns whether the high watermark is met in whole free pageblocks, where that is what a compaction in the
/// background is for.
///
/// # Linux
/// `kcompactd_do_work` with `defrag_mode`: `ALLOC_WMARK_HIGH`, and `NR_FREE_PAGES_BLOCKS`.
fn passes_in_pageblocks<M: CompactionView>(map: &M, plan: &Plan, order: Order, high: Frames) -> Option<bool> {
    let in_background = !plan.is_direct();
    in_background.then(|| map.passes_in_pageblocks(plan.zone, order, high, plan.highest)).flatten()
}

/// Returns how many frames must be free for a compaction to begin, beside what is kept back from the request.
///
/// # Linux
/// `__compaction_suitable`: until 4.8 the low watermark, since 4.9 the min one up to order 3; and `compact_gap`.
#[must_use]
pub fn room_to_begin(knobs: &Knobs, marks: &Watermarks, order: Order) -> Frames {
    let mark = if knobs.marks == Marks::Low || order > COSTLY { marks.low } else { marks.min };
    Frames(mark.0 + knobs.gap_for(order))
}

/// Returns whether the goal is reached.
///
/// # Linux
/// `__compact_finished`, after its check whether the scanners have met. In 6.x the watermark is not looked at again.
pub(super) fn is_reached<M: CompactionView>(map: &M, plan: &Plan) -> bool {
    match plan.goal {
        Goal::Everything => false,
        Goal::Score(low) => fragmentation_score(&map.free_blocks(plan.zone)) <= low,
        Goal::Block(order, m) => {
            let marks = map.zone(plan.zone).map(|z| z.marks).unwrap_or_default();
            if let Some(passes) = passes_in_pageblocks(map, plan, order, marks.high) {
                return passes;
            }
            let (low, none) = (marks.low, RequestFlags::empty());
            let met = map.knobs().marks == Marks::Min
                || map.watermark_ok(plan.zone, order, low, plan.highest, none, plan.takes_lent());
            met && map.has_suitable(plan.zone, order, m)
        }
    }
}
