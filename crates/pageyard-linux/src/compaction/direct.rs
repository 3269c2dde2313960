//! Compaction on behalf of a request that waits: zone by zone, skipping zones where it failed lately.

use super::driver::Compactor;
use super::knobs::{Deferral, Marks};
use super::plan::Plan;
use super::view::CompactionView;
use pageyard_core::allocator::Cx;
use pageyard_core::compaction::Step;
use pageyard_core::compaction::{Migrate, Mode};
use pageyard_core::compaction::{Outcome, Work};
use pageyard_core::request::RequestFlags;
use pageyard_core::stats::Counter;
use pageyard_core::units::{Pfn, ZoneId};

/// The result of compaction on behalf of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tried {
    /// The best outcome of any zone; `None` where there was no zone.
    pub outcome: Option<Outcome>,
    /// The zone where it probably helped.
    pub zone: Option<ZoneId>,
    /// Zones that were left alone because it failed there lately.
    pub deferred: u32,
    /// The work done.
    pub work: Work,
    /// The block that was captured for the request: it is the caller's.
    pub captured: Option<Pfn>,
}

/// Compacts for a request, in the zones that may serve it, best first. In each the plan is the same.
///
/// # Linux
/// `try_to_compact_pages`. In 6.x a zone has helped if its compaction says so, whatever its watermark. Asynchronous
/// compaction never defers, unless deferral is kept by mode.
pub fn compact_for_request<M: CompactionView, O: Migrate>(
    map: &M,
    owner: &O,
    cx: &Cx,
    plan: Plan,
    zones: impl Iterator<Item = ZoneId>,
) -> Tried {
    let knobs = *map.knobs();
    let kept = knobs.deferral;
    let Plan { mode, thorough, .. } = plan;
    let order = plan.order().unwrap_or_default();
    let mut tried = Tried::default();
    for zone in zones {
        let Some(state) = map.zone_state(zone) else { continue };
        let start = map.zone(zone).map(|z| z.span.start).unwrap_or_default();
        if !thorough && state.is_deferred(order, mode, kept) {
            owner.step(Step::Deferred(start, order));
            tried.deferred += 1;
            tried.outcome = tried.outcome.max(Some(Outcome::Deferred));
            map.tally(cx, Counter::CompactDeferred, 1);
            continue;
        }
        let plan = Plan { zone, ..plan };
        let Some(mut compactor) = Compactor::new(map, owner, cx, plan) else { continue };
        let outcome = compactor.run();
        tried.work += compactor.work();
        tried.outcome = tried.outcome.max(Some(outcome));
        let helped = match knobs.marks {
            Marks::Min => outcome == Outcome::Success,
            Marks::Low => {
                let low = map.zone(zone).map(|z| z.marks.low).unwrap_or_default();
                let none = RequestFlags::empty();
                map.watermark_ok(zone, order, low, plan.highest, none, plan.takes_lent())
            }
        };
        if compactor.has_captured() || helped {
            state.succeeded(order, mode, kept, false);
            owner.step(Step::Helped(start, order));
            // Taken last: the compactor gives it back if the owner panics.
            tried.captured = compactor.take_captured();
            tried.zone = Some(zone);
            break;
        }
        let looked_everywhere = matches!(outcome, Outcome::Complete | Outcome::PartialSkipped);
        let by_mode = kept == Deferral::ByMode;
        if looked_everywhere && (mode != Mode::Async || by_mode) {
            state.defer(order, mode, kept);
            owner.step(Step::Failed(start, order));
        }
        if mode == Mode::Async && owner.must_yield() {
            break;
        }
    }
    tried
}
