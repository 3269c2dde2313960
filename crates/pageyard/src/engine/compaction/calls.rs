//! Which zones are compacted, and when: for a request that waits, in the background, and ahead of need.

use crate::engine::pcp::percpu::PerCpu;
use crate::engine::yard::Pageyard;
use crate::engine::zone::Zone;
use crate::engine::zone::choose::{Goal, Plan};
use pageyard_core::allocator::Cx;
use pageyard_core::clear::Clear;
use pageyard_core::compaction::{Migrate, Mode, Outcome, Work, score_marks};
use pageyard_core::memmap::ZoneKind;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::observer::Observer;
use pageyard_core::request::Request;
use pageyard_core::stats::Counter;
use pageyard_core::units::{CompactorId, Order, Pfn, ZoneId};

/// Background compactors are numbered from here, above the compactors of CPUs' requests.
const FIRST_BACKGROUND: u16 = 1 << 15;

/// The result of compaction on behalf of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::engine) struct Tried {
    /// The best outcome of any zone; `None` where there was no zone.
    pub(in crate::engine) outcome: Option<Outcome>,
    /// Zones that were left alone because it failed there lately.
    pub(in crate::engine) deferred: u32,
    /// Work done.
    pub(in crate::engine) work: Work,
    /// The block that was captured for the request: it is the caller's.
    pub(in crate::engine) captured: Option<Pfn>,
}

fn in_background<M: Migrate>(zone: ZoneId, goal: Goal, mode: Mode, _: &M) -> Plan {
    let by = CompactorId(FIRST_BACKGROUND.wrapping_add(zone.0));
    Plan { goal, mode, direct: false, by, highest: ZoneKind::Movable, moves_blocks: M::MOVES_BLOCKS }
}

impl<'m, P: PerCpu, O: Observer, C: Clear> Pageyard<'m, P, O, C> {
    /// Compacts for a request, in the zones that may serve it, best first.
    ///
    /// # Linux
    /// `try_to_compact_pages`.
    pub(in crate::engine) fn compact_for_request<M: Migrate>(
        &self,
        cx: &Cx,
        request: &Request,
        owner: &M,
        mode: Mode,
    ) -> Tried {
        let (order, mut tried) = (request.order, Tried::default());
        let goal = Goal::Block(order, request.migratetype);
        let (by, highest) = (CompactorId(cx.cpu.0 as u16), request.highest_zone);
        for zone in self.walk(cx.cpu, request) {
            let state = &zone.compaction;
            if state.is_deferred(order, mode) {
                tried.deferred += 1;
                tried.outcome = tried.outcome.max(Some(Outcome::Deferred));
                self.count(cx.cpu, Counter::CompactDeferred, 1);
                continue;
            }
            let plan = Plan { goal, mode, direct: true, by, highest, moves_blocks: M::MOVES_BLOCKS };
            let ended = self.compact_as_planned(cx, zone, owner, plan);
            tried.work += ended.work;
            tried.outcome = tried.outcome.max(Some(ended.outcome));
            if ended.captured.is_some() || zone.can_serve(order, zone.online.low(), highest) {
                state.succeeded(order, mode, false);
                tried.captured = ended.captured;
                break;
            }
            if ended.outcome == Outcome::Complete {
                state.defer(order, mode);
            }
            if mode == Mode::Async && owner.must_yield() {
                break;
            }
        }
        tried
    }

    /// Lets the background compactor run in a zone, if it was woken there or is due ahead of need.
    ///
    /// # Linux
    /// `kcompactd`. Difference: by zone, not by node.
    pub(in crate::engine) fn compact_in_background<M: Migrate>(
        &self,
        cx: &Cx,
        zone: &Zone<'m>,
        owner: &M,
    ) -> Work {
        let mut work = Work::default();
        if !self.config.compaction {
            return work;
        }
        if let Some(order) = zone.compaction.wake.take()
            && let Some(did) = self.compact_for_order(cx, zone, order, owner)
        {
            self.count(cx.cpu, Counter::CompactDaemonWake, 1);
            work += did;
        }
        work += self.compact_ahead(cx, zone, owner);
        work
    }

    /// Compacts a zone for an order that requests failed at; `None` where nothing was begun.
    ///
    /// # Linux
    /// `kcompactd_do_work`, its part of one zone.
    fn compact_for_order<M: Migrate>(
        &self,
        cx: &Cx,
        zone: &Zone<'m>,
        order: Order,
        owner: &M,
    ) -> Option<Work> {
        let goal = Goal::Block(order, Migratetype::Movable);
        let plan = in_background(zone.pageblocks.id, goal, Mode::SyncLight, owner);
        let (state, mode) = (&zone.compaction, plan.mode);
        if state.is_deferred(order, mode) || zone.need_not_begin(&plan).is_some() {
            return None;
        }
        let ended = self.compact_as_planned(cx, zone, owner, plan);
        if zone.can_serve(order, zone.online.low(), plan.highest) {
            state.succeeded(order, mode, false);
        } else if ended.outcome == Outcome::Complete {
            state.defer(order, mode);
        }
        Some(ended.work)
    }

    /// Compacts a zone ahead of need, if it is more fragmented than the setting allows and its turn has come.
    ///
    /// # Linux
    /// `proactive_compact_node`. Difference: a zone begins by its own score, not by that of its node.
    fn compact_ahead<M: Migrate>(&self, cx: &Cx, zone: &Zone<'m>, owner: &M) -> Work {
        let proactiveness = self.config.compaction_proactiveness;
        let (low, high) = score_marks(proactiveness);
        if proactiveness == 0 || !zone.compaction.is_due() {
            return Work::default();
        }
        let before = zone.fragmentation();
        if before <= high {
            return Work::default();
        }
        let plan = in_background(zone.pageblocks.id, Goal::Score(low), Mode::SyncLight, owner);
        let ended = self.compact_as_planned(cx, zone, owner, plan);
        self.count(cx.cpu, Counter::CompactDaemonWake, 1);
        if zone.fragmentation() >= before {
            zone.compaction.leave_turns_out();
        }
        ended.work
    }

    /// Compacts all of a zone as far as possible.
    ///
    /// # Linux
    /// `compact_node`, behind `/proc/sys/vm/compact_memory`.
    pub(in crate::engine) fn compact_everything<M: Migrate>(
        &self,
        cx: &Cx,
        zone: &Zone<'m>,
        owner: &M,
    ) -> (Outcome, Work) {
        zone.pageblocks.forget_stuck();
        let plan = in_background(zone.pageblocks.id, Goal::Everything, Mode::Sync, owner);
        let ended = self.compact_as_planned(cx, zone, owner, plan);
        (ended.outcome, ended.work)
    }
}
