//! The task and the knobs of one compaction, and the policy decisions that follow from these alone.

use super::knobs::{Hints, Knobs, Marks, Pivot, Skip, TargetOrder};
use super::plan::{Goal, Plan};
use super::round::Round;
use super::state::ZoneState;
use super::view::{CompactionView, PageblockInfo};
use pageyard_core::allocator::Cx;
use pageyard_core::compaction::FrameState;
use pageyard_core::compaction::Mode;
use pageyard_core::compaction::Work;
use pageyard_core::memmap::ZoneSpan;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::units::{Frames, Order, PAGEBLOCK_ORDER, PageblockId, Pfn};

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
    /// Frames that must stay free in the zone when free frames are taken by scanning.
    pub(super) floor: Frames,
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
            state: map.zone_state(plan.zone)?,
            span: view.span,
            low: view.marks.low,
            // `__isolate_free_page`: a boost asks for reclaim, and keeps no frame back.
            floor: match knobs.marks {
                Marks::Low => view.marks.low - view.boost,
                Marks::Min => view.marks.min - view.boost,
            },
        })
    }

    /// Returns whether frames may be moved into a pageblock.
    ///
    /// # Linux
    /// `suitable_migration_target`. A pageblock that begins with a free block as large as itself is spared, since 6.9
    /// with one of the wanted order; the second half of a larger block is not. In 4.x a thorough compaction spares
    /// nothing, in 6.x large free blocks.
    pub(super) fn may_fill(&self, block: PageblockId, info: &PageblockInfo) -> bool {
        if self.plan.thorough && self.knobs.hints == Hints::NothingFound {
            return true;
        }
        let skipped = match self.knobs.hints {
            Hints::NothingFound => info.free_whole,
            _ => {
                let wanted = self.plan.order().filter(|_| self.knobs.spare_wanted).unwrap_or(PAGEBLOCK_ORDER);
                let first = block.start().max(self.span.start);
                matches!(self.map.frame(first), FrameState::Free(o) if o >= wanted)
            }
        };
        !skipped
            && (self.plan.thorough || matches!(info.migratetype, Migratetype::Movable | Migratetype::Cma))
    }

    /// Returns whether the owner of an allocated block of this order is asked to move it.
    ///
    /// # Linux
    /// `skip_isolation_on_order`, since 6.9: a block of the wanted order cannot help, and no block of a pageblock's
    /// order is made.
    pub(super) fn moves(&self, order: Order) -> bool {
        let small = order < PAGEBLOCK_ORDER && self.plan.order().is_none_or(|wanted| order < wanted);
        order == Order::ZERO || (small && !self.takes_directly() && moves_blocks(self.map))
    }

    /// Returns whether a request gets whole pageblocks, and may empty movable ones for them.
    pub(super) fn makes_whole(&self, order: Order) -> bool {
        self.knobs.whole_empties_movable && order >= PAGEBLOCK_ORDER
    }

    /// Returns whether pageblocks are looked for frames to move in.
    ///
    /// # Linux
    /// `suitable_migration_source`. Since 4.12 a direct asynchronous compaction keeps to pageblocks of the request's
    /// own type; in 6.x none begins a pageblock that one block in use fills.
    pub(super) fn may_empty(&self, block: PageblockId, info: &PageblockInfo) -> bool {
        if !self.knobs.async_same_type {
            return self.plan.thorough
                || self.plan.mode != Mode::Async
                || !self.knobs.async_movable_only
                || is_movable(info.migratetype);
        }
        if is_filled(self.map, block.start().max(self.span.start)) {
            return false;
        }
        match self.plan.goal {
            Goal::Block(..)
                if self.plan.is_direct()
                    && !self.knobs.empties_lent
                    && info.migratetype == Migratetype::Cma
                    && !self.plan.takes_lent() =>
            {
                false
            }
            Goal::Block(order, m) if self.plan.is_direct() && self.plan.mode == Mode::Async => {
                if m == Migratetype::Movable || self.makes_whole(order) {
                    is_movable(info.migratetype)
                } else {
                    info.migratetype == m
                }
            }
            _ => true,
        }
    }
}

/// Returns whether the pageblock that begins with a frame is part of one block in use.
///
/// # Linux
/// `pageblock_skip_persistent`.
pub(super) fn is_filled<M: CompactionView>(map: &M, first: Pfn) -> bool {
    match map.frame(first) {
        FrameState::Allocated(order) => order >= PAGEBLOCK_ORDER,
        FrameState::Tail => true,
        _ => false,
    }
}

/// Returns whether blocks of several frames move as a whole. They need free blocks that are taken whole and kept by
/// order.
pub(super) fn moves_blocks<M: CompactionView>(map: &M) -> bool {
    let knobs = map.knobs();
    let kept_whole = knobs.whole_blocks && knobs.target_order == TargetOrder::SmallestFirst;
    M::MOVES_BLOCKS && knobs.large_folios && kept_whole
}

fn is_movable(m: Migratetype) -> bool {
    matches!(m, Migratetype::Movable | Migratetype::Cma)
}

impl<M> Job<'_, M> {
    /// Returns the order of the blocks that the techniques work by.
    pub(super) fn block_order(&self) -> Order {
        self.plan.block_order(&self.knobs)
    }

    /// Returns the scanners' way: from the pivot, if there is one and their meeting ends the way round.
    pub(super) fn round(&self) -> Round {
        let old = self.knobs.hints == Hints::NothingFound;
        if self.knobs.whole_zone {
            return Round::through_all(self.span);
        }
        match self.knobs.pivot != Pivot::Start && old && !self.starts_at_ends() && !self.passes_free_scanner()
        {
            true => self.state.at.round(self.span),
            false => Round::from_ends(self.span),
        }
    }

    /// Returns where the migrate and the free scanner begin.
    pub(super) fn first_positions(&self, round: &Round) -> (Pfn, Pfn) {
        match self.starts_at_ends() {
            true => round.begin(),
            false => self.state.at.begin(self.plan.mode, round),
        }
    }

    /// Returns whether a scan that begins at a frame obeys the hint of its pageblock: at the pageblock's first frame,
    /// and, but in 6.1, at the zone's first frame.
    ///
    /// # Linux
    /// `isolate_migratepages`.
    pub(super) fn begins(&self, at: Pfn) -> bool {
        let first = at.pageblock().start();
        at == if self.knobs.hints == Hints::FirstFrame { first } else { first.max(self.span.start) }
    }

    /// Returns whether the scanners begin at the zone's ends, whatever is remembered.
    ///
    /// # Linux
    /// `whole_zone` as the caller of `compact_zone` sets it.
    pub(super) fn starts_at_ends(&self) -> bool {
        self.plan.thorough
            || (self.knobs.hints != Hints::NothingFound && !matches!(self.plan.goal, Goal::Block(..)))
    }

    /// Returns whether the migrate scanner ignores the free scanner's position.
    pub(super) fn passes_free_scanner(&self) -> bool {
        self.knobs.whole_zone
            || (self.knobs.migrate_ignores_free_scanner && self.plan.uses(self.knobs.direct_free))
    }

    /// Returns whether the scanners have met, or the migrate scanner is at the end of the zone.
    pub(super) fn have_met(&self, round: &Round, migrate: Pfn, free: Pfn) -> bool {
        let behind = !self.passes_free_scanner() && round.reaches(free, migrate);
        behind || round.next(migrate) >= self.span.end()
    }

    /// Returns whether the rest of a block is passed over once a frame of it could not be isolated or moved.
    pub(super) fn skips_on_failure(&self) -> bool {
        self.plan.uses(self.knobs.skip_on_failure)
    }

    /// Returns whether free frames come straight from the zone's lists.
    pub(super) fn takes_directly(&self) -> bool {
        self.plan.uses(self.knobs.direct_free)
    }

    /// Returns whether hints are left for later scans.
    pub(super) fn leaves_hints(&self) -> bool {
        !self.plan.ignore_hints && self.knobs.skip == Skip::Hints
    }

    /// Returns whether hints are left even by a compaction that obeys none.
    pub(super) fn leaves_hints_anyway(&self) -> bool {
        self.knobs.skip == Skip::Hints
    }

    /// Returns whether the compaction with this number passes a pageblock over.
    pub(super) fn passes_over(&self, seed: u64, block: PageblockId, hint: bool) -> bool {
        match self.knobs.skip {
            _ if self.plan.ignore_hints => false,
            Skip::Hints => hint,
            Skip::Nothing => false,
            Skip::Random(share) => chance(seed, block) < share,
        }
    }

    /// Returns whether an asynchronous compaction has used up its budget.
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
    use pageyard_core::memmap::ZoneKind;
    use pageyard_core::units::{CompactorId, NodeId, ZoneId};

    static STATE: ZoneState = ZoneState::new();

    /// An asynchronous direct compaction of four pageblocks.
    fn job(knobs: Knobs, mode: Mode) -> Job<'static, ()> {
        let plan = Plan {
            zone: ZoneId(0),
            goal: Goal::Block(Order::of(4), Migratetype::Movable),
            mode,
            request: Some(Order::of(4)),
            by: CompactorId(0),
            highest: ZoneKind::Normal,
            flags: pageyard_core::request::RequestFlags::empty(),
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
        Job {
            map: &(),
            cx: Cx::default(),
            plan,
            knobs,
            state: &STATE,
            span,
            low: Frames::ZERO,
            floor: Frames::ZERO,
        }
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
        let met = |job: &Job<'_, ()>, migrate, free| job.have_met(&job.round(), Pfn(migrate), Pfn(free));
        assert!(!met(&plain, 1023, 1024));
        assert!(met(&plain, 1024, 1535));
        let past = Knobs {
            migrate_ignores_free_scanner: true,
            direct_free: Scope::DirectAsync,
            ..Knobs::linux_4_6()
        };
        assert!(!met(&job(past, Mode::Async), 2047, 0));
        assert!(met(&job(past, Mode::Async), 2048, 0));
        assert!(met(&job(past, Mode::Sync), 2047, 0), "direct frames are not used there");
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
    fn chance_passes_over_the_share_that_is_named_and_other_pageblocks_each_time() {
        let job = job(Knobs { skip: Skip::Random(250), ..Knobs::linux_4_6() }, Mode::Async);
        let passed = |seed: u64| (0..4000).filter(move |b| job.passes_over(seed, PageblockId(*b), true));
        let (first, second) = (passed.clone()(1).count(), passed.clone()(2).count());
        assert!((900..1100).contains(&first) && (900..1100).contains(&second), "{first}, {second}");
        assert!(!passed.clone()(1).eq(passed(2)));
    }
}
