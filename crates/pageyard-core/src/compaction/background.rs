//! Compaction in the background: for orders at which requests failed, and ahead of need.

use super::driver::Compactor;
use super::migrate::{Migrate, Mode};
use super::pass::forget_hints;
use super::plan::{Goal, Plan};
use super::suitability::{fragmentation_score, score_marks, suitability};
use super::view::CompactionView;
use super::work::{Outcome, Work};
use crate::allocator::Cx;
use crate::memmap::ZoneKind;
use crate::migratetype::Migratetype;
use crate::stats::Counter;
use crate::units::{CompactorId, ZoneId};

/// Background compactors are numbered from here, above the compactors of CPUs' requests.
const FIRST_BACKGROUND: u16 = 1 << 15;

fn plan(zone: ZoneId, goal: Goal) -> Plan {
    Plan {
        zone,
        goal,
        mode: Mode::SyncLight,
        direct: false,
        by: CompactorId(FIRST_BACKGROUND + zone.0),
        highest: ZoneKind::Movable,
        ignore_hints: true,
        thorough: false,
    }
}

/// Lets the background compactor run in one zone, if it was woken there or proactive compaction is due.
///
/// # Linux
/// `kcompactd_do_work`, which defers as synchronous direct compaction does, and `proactive_compact_node`.
pub fn compact_in_background<M: CompactionView, O: Migrate>(
    map: &M,
    owner: &O,
    cx: &Cx,
    zone: ZoneId,
) -> Work {
    let knobs = *map.knobs();
    let mut work = Work::default();
    if !knobs.enabled || map.zone(zone).is_none() {
        return work;
    }
    let state = map.zone_state(zone);
    if let Some(order) = state.take_wanted() {
        let plan = plan(zone, Goal::Block(order, Migratetype::Movable));
        let mode = plan.mode;
        if !state.is_deferred(order, mode, knobs.deferral) && suitability(map, &plan).is_none() {
            map.tally(cx, Counter::CompactDaemonWake, 1);
            if let Some(mut compactor) = Compactor::new(map, owner, cx, plan) {
                let outcome = compactor.run();
                work += compactor.work();
                let low = map.zone(zone).map(|z| z.marks.low).unwrap_or_default();
                if map.watermark_ok(zone, order, low, plan.highest) {
                    state.succeeded(order, mode, knobs.deferral, false);
                } else if matches!(outcome, Outcome::Complete | Outcome::PartialSkipped) {
                    state.defer(order, mode, knobs.deferral);
                }
            }
        }
    }
    let (low, high) = score_marks(knobs.proactiveness);
    if knobs.proactiveness > 0 && state.proactive_due() {
        let before = fragmentation_score(map, zone);
        if before > high
            && let Some(mut compactor) = Compactor::new(map, owner, cx, plan(zone, Goal::Score(low)))
        {
            map.tally(cx, Counter::CompactDaemonWake, 1);
            compactor.run();
            work += compactor.work();
            if fragmentation_score(map, zone) >= before {
                state.defer_proactive();
            }
        }
    }
    work
}

/// Compacts all of a zone as far as possible; `None` where there is no such zone.
///
/// # Linux
/// `compact_node`, behind `/proc/sys/vm/compact_memory`.
pub fn compact_everything<M: CompactionView, O: Migrate>(
    map: &M,
    owner: &O,
    cx: &Cx,
    zone: ZoneId,
) -> Option<(Outcome, Work)> {
    let plan = Plan { mode: Mode::Sync, ..plan(zone, Goal::Everything) };
    forget_hints(map, zone, &map.zone(zone)?.span);
    let mut compactor = Compactor::new(map, owner, cx, plan)?;
    let outcome = compactor.run();
    Some((outcome, compactor.work()))
}

/// Forgets a zone's skip hints where a direct compaction asked for it: when the background reclaimer goes to sleep.
///
/// # Linux
/// `reset_isolation_suitable`, called by kswapd.
pub fn forget_hints_if_asked<M: CompactionView>(map: &M, zone: ZoneId) {
    if let Some(view) = map.zone(zone)
        && map.zone_state(zone).take_flush()
    {
        forget_hints(map, zone, &view.span);
    }
}
