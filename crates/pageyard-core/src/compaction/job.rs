//! What one compaction is asked to do and under which knobs, and the policy decisions that follow from these alone.

use super::knobs::{Knobs, Skip};
use super::migrate::Mode;
use super::plan::Plan;
use super::state::{ZoneState, ends};
use super::view::{CompactionView, PageblockInfo};
use super::work::Work;
use crate::allocator::Cx;
use crate::memmap::ZoneSpan;
use crate::migratetype::Migratetype;
use crate::units::{Frames, Order, PageblockId, Pfn};

/// Everything about a compaction that does not change while it runs.
pub(super) struct Job<'a, M> {
    pub(super) map: &'a M,
    pub(super) cx: Cx,
    pub(super) plan: Plan,
    pub(super) knobs: Knobs,
    pub(super) state: &'a ZoneState,
    pub(super) span: ZoneSpan,
    /// The zone's low watermark when the compaction was prepared.
    pub(super) low: Frames,
}

impl<M> Clone for Job<'_, M> {
    fn clone(&self) -> Self {
        Job { ..*self }
    }
}

impl<'a, M: CompactionView> Job<'a, M> {
    /// Looks up what a plan needs; `None` where there is no such zone.
    pub(super) fn new(map: &'a M, cx: &Cx, plan: Plan) -> Option<Job<'a, M>> {
        let view = map.zone(plan.zone).filter(|z| z.span.spanned.0 > 0)?;
        let knobs = *map.knobs();
        Some(Job {
            map,
            cx: *cx,
            plan: effective(plan, &knobs),
            knobs,
            state: map.zone_state(plan.zone),
            span: view.span,
            low: view.marks.low,
        })
    }
}

impl<M> Job<'_, M> {
    /// Returns the order of the blocks that the techniques work by.
    pub(super) fn block_order(&self) -> Order {
        self.plan.block_order(&self.knobs)
    }

    /// Returns where the migrate and the free scanner begin.
    pub(super) fn first_positions(&self) -> (Pfn, Pfn) {
        match self.plan.thorough {
            true => ends(&self.span),
            false => self.state.positions(self.plan.mode, &self.span),
        }
    }

    /// Says whether the migrate scanner ignores the free scanner's position.
    pub(super) fn passes_free_scanner(&self) -> bool {
        self.knobs.migrate_ignores_free_scanner && self.plan.uses(self.knobs.direct_free)
    }

    /// Says whether the scanners have met, or the migrate scanner is at the end of the zone.
    pub(super) fn have_met(&self, migrate: Pfn, free: Pfn) -> bool {
        let behind = !self.passes_free_scanner() && free.pageblock() <= migrate.pageblock();
        behind || migrate >= self.span.end()
    }

    /// Says whether the rest of a block is passed over once a frame of it could not be isolated or moved.
    pub(super) fn skips_on_failure(&self) -> bool {
        self.plan.uses(self.knobs.skip_on_failure)
    }

    /// Says whether free frames come straight from the zone's lists.
    pub(super) fn takes_directly(&self) -> bool {
        self.plan.uses(self.knobs.direct_free)
    }

    /// Says whether hints are left for later scans.
    pub(super) fn leaves_hints(&self) -> bool {
        !self.plan.ignore_hints && self.knobs.skip == Skip::Hints
    }

    /// Says whether the compaction with this number passes a pageblock over.
    pub(super) fn passes_over(&self, seed: u64, block: PageblockId, hint: bool) -> bool {
        match self.knobs.skip {
            _ if self.plan.ignore_hints => false,
            Skip::Hints => hint,
            Skip::Nothing => false,
            Skip::Random(share) => chance(seed, block) < share,
        }
    }

    /// Says whether the mode empties pageblocks of this type.
    pub(super) fn may_empty(&self, info: &PageblockInfo) -> bool {
        if self.plan.thorough || self.plan.mode != Mode::Async || !self.knobs.async_movable_only {
            return true;
        }
        matches!(info.migratetype, Migratetype::Movable | Migratetype::Cma)
    }

    /// Says whether frames may be moved into a pageblock.
    ///
    /// # Linux
    /// `suitable_migration_target`.
    pub(super) fn may_fill(&self, info: &PageblockInfo) -> bool {
        if self.plan.thorough {
            return true;
        }
        !info.free_whole && matches!(info.migratetype, Migratetype::Movable | Migratetype::Cma)
    }

    /// Says whether an asynchronous compaction has used up its budget.
    pub(super) fn is_over_budget(&self, work: &Work) -> bool {
        let budget = self.knobs.async_budget;
        let used = work.migrate_scanned + work.free_scanned;
        self.plan.mode == Mode::Async && budget > 0 && used >= budget
    }
}

/// Returns the plan with the knobs applied: a thorough compaction ignores skip hints.
fn effective(plan: Plan, knobs: &Knobs) -> Plan {
    let thorough = plan.thorough || (knobs.thorough && plan.mode != Mode::Async);
    Plan { thorough, ignore_hints: plan.ignore_hints || thorough, ..plan }
}

/// Returns a number below 1000 for a pageblock in one compaction.
fn chance(seed: u64, block: PageblockId) -> u16 {
    let x = (seed << 32 ^ block.0).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((x ^ x >> 31) % 1000) as u16
}

#[cfg(test)]
mod tests {
    use super::super::knobs::Scope;
    use super::super::plan::Goal;
    use super::*;
    use crate::memmap::ZoneKind;
    use crate::units::{CompactorId, NodeId, ZoneId};

    static STATE: ZoneState = ZoneState::new();

    /// An asynchronous direct compaction of four pageblocks.
    fn job(knobs: Knobs, mode: Mode) -> Job<'static, ()> {
        let plan = Plan {
            zone: ZoneId(0),
            goal: Goal::Block(Order::of(4), Migratetype::Movable),
            mode,
            direct: true,
            by: CompactorId(0),
            highest: ZoneKind::Normal,
            ignore_hints: false,
            thorough: false,
        };
        let all = Frames(2048);
        let span = ZoneSpan {
            node: NodeId(0),
            kind: ZoneKind::Normal,
            start: Pfn(0),
            spanned: all,
            present: all,
            managed: all,
        };
        let plan = effective(plan, &knobs);
        Job { map: &(), cx: Cx::default(), plan, knobs, state: &STATE, span, low: Frames::ZERO }
    }

    #[test]
    fn a_synchronous_compaction_is_thorough_where_the_knob_says_so_and_then_ignores_hints() {
        let knobs = Knobs { thorough: true, ..Knobs::linux_4_6() };
        let plan = |mode| job(knobs, mode).plan;
        assert_eq!((plan(Mode::Async).thorough, plan(Mode::Async).ignore_hints), (false, false));
        assert_eq!((plan(Mode::Sync).thorough, plan(Mode::Sync).ignore_hints), (true, true));
        assert!(!job(knobs, Mode::Sync).leaves_hints() && job(knobs, Mode::Async).leaves_hints());
    }

    #[test]
    fn scanners_meet_in_a_pageblock_unless_the_migrate_scanner_ignores_the_other() {
        let plain = job(Knobs::linux_4_6(), Mode::Async);
        assert!(!plain.have_met(Pfn(1023), Pfn(1024)));
        assert!(plain.have_met(Pfn(1024), Pfn(1535)));
        let past = Knobs {
            migrate_ignores_free_scanner: true,
            direct_free: Scope::DirectAsync,
            ..Knobs::linux_4_6()
        };
        assert!(!job(past, Mode::Async).have_met(Pfn(2047), Pfn(0)));
        assert!(job(past, Mode::Async).have_met(Pfn(2048), Pfn(0)));
        assert!(job(past, Mode::Sync).have_met(Pfn(2047), Pfn(0)), "direct frames are not used there");
    }

    #[test]
    fn a_budget_binds_asynchronous_compaction_only() {
        let knobs = Knobs { async_budget: 100, ..Knobs::linux_4_6() };
        let work = |n| Work { migrate_scanned: n, free_scanned: 50, direct_alloc: 1000, ..Work::default() };
        assert!(!job(knobs, Mode::Async).is_over_budget(&work(49)));
        assert!(job(knobs, Mode::Async).is_over_budget(&work(50)));
        assert!(!job(knobs, Mode::Sync).is_over_budget(&work(50)));
        assert!(!job(Knobs::linux_4_6(), Mode::Async).is_over_budget(&work(50)), "0 is no limit");
    }

    #[test]
    fn pageblocks_that_may_be_emptied_and_filled() {
        let info =
            |migratetype, free_whole| PageblockInfo { populated: true, migratetype, free_whole, skip: false };
        let plain = job(Knobs::linux_4_6(), Mode::Async);
        let (movable, unmovable) = (info(Migratetype::Movable, false), info(Migratetype::Unmovable, false));
        assert!(plain.may_empty(&movable) && !plain.may_empty(&unmovable));
        assert!(job(Knobs::linux_4_6(), Mode::SyncLight).may_empty(&unmovable));
        assert!(plain.may_fill(&movable) && !plain.may_fill(&unmovable));
        assert!(!plain.may_fill(&info(Migratetype::Movable, true)), "a whole free pageblock stays whole");
        let thorough = job(Knobs { thorough: true, ..Knobs::linux_4_6() }, Mode::Sync);
        assert!(thorough.may_fill(&unmovable));
    }

    #[test]
    fn chance_passes_over_the_share_that_is_named_and_other_pageblocks_each_time() {
        let job = job(Knobs { skip: Skip::Random(250), ..Knobs::linux_4_6() }, Mode::Async);
        let passed = |seed: u64| (0..4000).filter(move |b| job.passes_over(seed, PageblockId(*b), true));
        let (first, second) = (passed.clone()(1).count(), passed.clone()(2).count());
        assert!((900..1100).contains(&first) && (900..1100).contains(&second), "{first}, {second}");
        assert!(!passed.clone()(1).eq(passed(2)));
    }
}
