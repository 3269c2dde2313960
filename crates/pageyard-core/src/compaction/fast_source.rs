//! A pageblock to empty from the free lists: one that has large free blocks already needs the fewest moves.

use super::knobs::{FastSource, Skip};
use super::pass::Pass;
use super::plan::{Goal, pageblock_start_pfn};
use super::suitability::COSTLY;
use super::view::{CompactionView, ListEnd};
use crate::migratetype::Migratetype;
use crate::units::{BlockId, Order, Pfn};

impl<M: CompactionView> Pass<'_, M> {
    /// Lets the migrate scanner jump to a pageblock that a free list names; says whether it did.
    ///
    /// Only for orders above 3, and not for a request that would spoil a movable pageblock. Without skip hints it would
    /// find the same pageblock again and again, so it is left out there.
    ///
    /// # Linux
    /// `fast_find_migrateblock`, since 5.1. Where nothing is found the scanner returns, once, to the lowest frame that
    /// earlier searches found. In 6.1 the search leaves the hint, in 6.12 the scan that follows; where that is refused a pageblock,
    /// Linux finds it again.
    pub(super) fn search_for_source(&mut self) -> bool {
        let Some(wanted) = self.searches_for_source() else { return false };
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
            return false;
        }
        self.work.migrate_scanned += seen as u64;
        let Some(pfn) = found else {
            self.fast.fail();
            if let Some(back) = self.fast.go_back() {
                self.migrate_pfn = back;
            }
            return false;
        };
        self.fast.found(pfn);
        self.fast.succeed();
        self.migrate_pfn = pageblock_start_pfn(pfn).max(span.start);
        // Whatever the scan leaves, no search finds this pageblock again: without that, two could go on forever.
        self.job.map.set_skip(self.job.plan.zone, pfn.pageblock(), true);
        true
    }

    /// Returns the wanted order if free lists are searched for a pageblock now.
    fn searches_for_source(&self) -> Option<Order> {
        let (plan, knobs, at) = (&self.job.plan, &self.job.knobs, self.migrate_pfn);
        let Goal::Block(wanted, m) = plan.goal else { return None };
        // Inside a pageblock the scan goes on where the last cluster ended.
        let between = at == self.job.span.start || at == pageblock_start_pfn(at);
        let spoils = plan.direct && m != Migratetype::Movable;
        let searches = knobs.fast_source != FastSource::Off
            && knobs.skip == Skip::Hints
            && !plan.ignore_hints
            && self.fast.offered
            && between
            && wanted > COSTLY
            && !spoils;
        searches.then_some(wanted)
    }
}
