//! Compaction in the background: for orders at which requests failed, and ahead of need.

use super::driver::Compactor;
use super::forget::{Forget, forget_hints};
use super::knobs::{Hints, Knobs, Marks};
use super::plan::{Goal, Plan};
use super::state::AheadTurns;
use super::suitability::suitability;
use super::view::CompactionView;
use pageyard_core::allocator::Cx;
use pageyard_core::compaction::{Migrate, Mode};
use pageyard_core::compaction::{Outcome, Work};
use pageyard_core::compaction::{fragmentation_score, score_marks};
use pageyard_core::memmap::ZoneKind;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::request::RequestFlags;
use pageyard_core::stats::Counter;
use pageyard_core::units::{CompactorId, Order, ZoneId};

/// Background compactors are numbered from here, above the compactors of CPUs' requests.
const FIRST_BACKGROUND: u16 = 1 << 15;

fn plan(zone: ZoneId, goal: Goal) -> Plan {
    Plan {
        zone,
        goal,
        mode: Mode::SyncLight,
        request: None,
        by: CompactorId(FIRST_BACKGROUND.wrapping_add(zone.0)),
        highest: ZoneKind::Movable,
        flags: RequestFlags::empty(),
        ignore_hints: true,
        thorough: false,
    }
}

/// Returns the plan for an order that requests failed at.
///
/// # Linux
/// `kcompactd_do_work`, which in 6.x obeys skip hints. It has no request of its own, and so looks for a block that an
/// unmovable request could have, and keeps nothing back for higher zones' requests.
fn plan_for<M: CompactionView>(map: &M, knobs: &Knobs, zone: ZoneId, order: Order) -> Plan {
    let plan = plan(zone, Goal::Block(order, Migratetype::Movable));
    let Some(view) = map.zone(zone).filter(|_| knobs.background_hints) else { return plan };
    let goal = Goal::Block(order, Migratetype::Unmovable);
    Plan { goal, highest: view.span.kind, ignore_hints: false, ..plan }
}

/// Returns whether a compaction for an order is worth beginning in a zone, for requests that may use zones up to
/// `highest`.
///
/// # Linux
/// `kcompactd_node_suitable`, its part of one zone.
pub fn is_worth_compacting<M: CompactionView>(
    map: &M,
    zone: ZoneId,
    order: Order,
    highest: ZoneKind,
) -> bool {
    let knobs = *map.knobs();
    knobs.enabled && suitability(map, &Plan { highest, ..plan_for(map, &knobs, zone, order) }).is_none()
}

/// Compacts one zone for an order that requests failed at; `None` where nothing was begun.
///
/// # Linux
/// `kcompactd_do_work`, its part of one zone. It defers as synchronous direct compaction does.
pub fn compact_for_order<M: CompactionView, O: Migrate>(
    map: &M,
    owner: &O,
    cx: &Cx,
    zone: ZoneId,
    order: Order,
) -> Option<Work> {
    let knobs = *map.knobs();
    let state = map.zone_state(zone).filter(|_| knobs.enabled)?;
    let plan = plan_for(map, &knobs, zone, order);
    let mode = plan.mode;
    if state.is_deferred(order, mode, knobs.deferral) || suitability(map, &plan).is_some() {
        return None;
    }
    let mut compactor = Compactor::new(map, owner, cx, plan)?;
    let outcome = compactor.run();
    let work = compactor.work();
    let low = map.zone(zone).map(|z| z.marks.low).unwrap_or_default();
    let helped = match knobs.marks {
        Marks::Min => outcome == Outcome::Success,
        Marks::Low => map.watermark_ok(zone, order, low, plan.highest, plan.flags, plan.takes_lent()),
    };
    if helped {
        state.succeeded(order, mode, knobs.deferral, false);
    } else if matches!(outcome, Outcome::Complete | Outcome::PartialSkipped) {
        if knobs.background_hints {
            // Frames in lists may be what keeps blocks from merging.
            map.drain_zone(cx, zone);
        }
        state.defer(order, mode, knobs.deferral);
    }
    Some(work)
}

/// Compacts zones ahead of need if their score together is above what proactiveness allows and their turn has come.
///
/// # Linux
/// `should_proactive_compact_node`, `proactive_compact_node`: each zone ends by its own score.
pub fn compact_ahead<M: CompactionView, O: Migrate>(
    map: &M,
    owner: &O,
    cx: &Cx,
    zones: impl Iterator<Item = ZoneId>,
    turns: &AheadTurns,
    score: impl Fn() -> u64,
) -> Work {
    let knobs = *map.knobs();
    let (low, high) = score_marks(knobs.proactiveness);
    let mut work = Work::default();
    if !knobs.enabled || knobs.proactiveness == 0 || !turns.due() {
        return work;
    }
    let before = score();
    if before <= high {
        return work;
    }
    let mut begun = false;
    for zone in zones {
        if let Some(mut compactor) = Compactor::new(map, owner, cx, plan(zone, Goal::Score(low))) {
            compactor.run();
            work += compactor.work();
            begun = true;
        }
    }
    if begun {
        map.tally(cx, Counter::CompactDaemonWake, 1);
        if score() >= before {
            turns.defer();
        }
    }
    work
}

/// Lets a background compactor that goes by zone run in one, if it was woken there or proactive compaction is due.
pub fn compact_in_background<M: CompactionView, O: Migrate>(
    map: &M,
    owner: &O,
    cx: &Cx,
    zone: ZoneId,
) -> Work {
    let mut work = Work::default();
    let Some(state) = map.zone_state(zone).filter(|_| map.knobs().enabled) else { return work };
    if let Some(order) = state.take_wanted()
        && let Some(did) = compact_for_order(map, owner, cx, zone, order)
    {
        map.tally(cx, Counter::CompactDaemonWake, 1);
        work += did;
    }
    let score = || fragmentation_score(&map.free_blocks(zone));
    work += compact_ahead(map, owner, cx, std::iter::once(zone), &state.ahead, score);
    work
}

/// Compacts all of a zone as far as possible; `None` where there is no such zone.
///
/// # Linux
/// `compact_node`, behind `/proc/sys/vm/compact_memory`. It forgets all skip hints in 4.x; later it ignores them and
/// leaves them where they are.
pub fn compact_everything<M: CompactionView, O: Migrate>(
    map: &M,
    owner: &O,
    cx: &Cx,
    zone: ZoneId,
) -> Option<(Outcome, Work)> {
    let plan = Plan { mode: Mode::Sync, ..plan(zone, Goal::Everything) };
    if map.knobs().hints == Hints::NothingFound {
        forget_hints(map, owner, zone, &map.zone(zone)?.span, Forget::Asked);
    }
    let mut compactor = Compactor::new(map, owner, cx, plan)?;
    let outcome = compactor.run();
    Some((outcome, compactor.work()))
}

/// Forgets a zone's skip hints where a direct compaction asked for it: when the background reclaimer goes to sleep.
///
/// # Linux
/// `reset_isolation_suitable`, called by kswapd.
pub fn forget_hints_if_asked<M: CompactionView, O: Migrate>(map: &M, owner: &O, zone: ZoneId) {
    if let Some(view) = map.zone(zone)
        && let Some(state) = map.zone_state(zone)
        && (map.knobs().hints != Hints::NothingFound || state.take_flush())
    {
        forget_hints(map, owner, zone, &view.span, Forget::Asked);
    }
}
