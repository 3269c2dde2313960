//! A pageblock to empty from the free lists: one that has large free blocks already needs the fewest moves.

use super::knobs::{FastSource, Finish, Hints, Skip};
use super::pass::Pass;
use super::plan::{Goal, pageblock_start_pfn};
use super::suitability::COSTLY;
use super::view::{CompactionView, ListEnd};
use pageyard_core::compaction::Migrate;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::units::{BlockId, Order, Pfn};

impl<M: CompactionView, O: Migrate> Pass<'_, M, O> {
    /// Returns the first frame of a pageblock that a free list names.
    ///
    /// Only for orders above 3, and not for a request that would spoil a movable pageblock. Without skip hints it would
    /// find the same pageblock again and again, so it is left out there.
    ///
    /// # Linux
    /// `fast_find_migrateblock`, since 5.1. Where nothing is found the scanner returns, once, to the lowest frame that
    /// earlier searches found. In 6.1 the search leaves a hint; in 6.12 the scan that follows may, so a pageblock can
    /// be found again.
    pub(super) fn search_for_source(&mut self) -> Option<Pfn> {
        let wanted = self.searches_for_source()?;
        let (span, from) = (self.job.span, self.migrate_pfn);
        // The first half of what is left, so that it does not become a target later; an eighth once there was a search.
        let space = self.free_pfn.0.saturating_sub(from.0) / if from == span.start { 2 } else { 8 };
        let high = pageblock_start_pfn(Pfn(from.0 + space));
        let (limit, mut seen) = (self.fast.limit(), 0);
        let mut found = None;
        for order in (COSTLY.get()..wanted.get()).rev().map(Order::of) {
            if found.is_some() || seen >= limit {
                break;
            }
            let (zone, map) = (self.job.plan.zone, self.job.map);
            let mut stopped = None;
            self.fast.offered = map.see_list(zone, order, ListEnd::Head, |pfn| {
                seen += 1;
                let good = seen <= limit && pfn < high && !map.pageblock(zone, pfn.pageblock()).skip;
                if good {
                    found = Some(pfn);
                }
                stopped = (good || seen > limit).then_some(pfn);
                stopped.is_none()
            });
            if let Some(pfn) = stopped {
                map.turn_list(zone, BlockId { pfn, order }, ListEnd::Head);
            }
        }
        if !self.fast.offered {
            return None;
        }
        self.work.migrate_scanned += seen as u64;
        let Some(pfn) = found else {
            self.fast.fail();
            if let Some(back) = self.fast.go_back() {
                self.migrate_pfn = back;
            }
            return None;
        };
        self.fast.found(pfn);
        self.fast.succeed();
        // Without a hint of the scan's own, the same pageblock would be found again and again.
        let hints = self.job.knobs.hints;
        if self.job.knobs.fast_source == FastSource::Hinted || hints != Hints::AnyFrame {
            self.job.map.set_skip(self.job.plan.zone, pfn.pageblock(), true);
        }
        Some(pageblock_start_pfn(pfn).max(span.start))
    }

    /// Returns the wanted order if free lists are searched for a pageblock now.
    fn searches_for_source(&self) -> Option<Order> {
        let (plan, knobs, at) = (&self.job.plan, &self.job.knobs, self.migrate_pfn);
        let Goal::Block(wanted, m) = plan.goal else { return None };
        // Inside a pageblock the scan goes on where the last cluster ended.
        let between = at == self.job.span.start || at == pageblock_start_pfn(at);
        let spoils = plan.is_direct() && m != Migratetype::Movable && !self.job.makes_whole(wanted);
        let finishing = self.finishing && knobs.finish == Finish::Failed;
        let searches = knobs.fast_source != FastSource::Off
            && !finishing
            && !self.fast.goes_in_circles()
            && knobs.skip == Skip::Hints
            && !plan.ignore_hints
            && self.fast.offered
            && between
            && wanted > COSTLY
            && !spoils;
        searches.then_some(wanted)
    }
}
