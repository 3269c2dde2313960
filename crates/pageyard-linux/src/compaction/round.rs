//! The way of both scanners round a zone: from one frame on, the pivot, in opposite directions, until they meet.

use pageyard_core::memmap::ZoneSpan;
use pageyard_core::units::{PAGEBLOCK_ORDER, Pfn};

/// Where the scanners begin, and in which order they come to the pageblocks.
///
/// The migrate scanner begins at the pivot and goes up, on from the zone's start where the zone ends. The free scanner
/// begins in the pageblock before the pivot and goes down, on from the zone's last pageblock. With the zone's first
/// frame as pivot, as in every release, neither goes round.
///
/// # Linux
/// Not merged: V. Babka, "mm, compaction: allow scanners to start at any pfn within the zone" (January 2015).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Round {
    span: ZoneSpan,
    /// A pageblock's first frame, or the zone's.
    pivot: Pfn,
    /// Whether each scanner goes through the whole zone, past the other.
    whole: bool,
}

impl Round {
    /// From the zone's ends towards its middle.
    pub(super) fn from_ends(span: ZoneSpan) -> Round {
        Round { span, pivot: span.start, whole: false }
    }

    /// From the pageblock of a frame on; from the zone's ends where the zone does not have that frame.
    pub(super) fn from_pivot(span: ZoneSpan, pivot: Pfn) -> Round {
        let inside = pivot >= span.start && pivot < span.end();
        let pivot = if inside { pivot.align_down(PAGEBLOCK_ORDER).max(span.start) } else { span.start };
        Round { span, pivot, whole: false }
    }

    /// From the zone's ends, each through the whole zone: the free scanner goes on from the zone's last pageblock when
    /// it has come to the first.
    pub(super) fn through_all(span: ZoneSpan) -> Round {
        Round { whole: true, ..Round::from_ends(span) }
    }

    /// Returns the zone.
    pub(super) fn span(&self) -> &ZoneSpan {
        &self.span
    }

    /// Returns where the migrate and the free scanner begin.
    pub(super) fn begin(&self) -> (Pfn, Pfn) {
        let free = if self.goes_round() { self.before(self.pivot) } else { self.last() };
        (self.pivot, free)
    }

    fn goes_round(&self) -> bool {
        self.pivot > self.span.start
    }

    /// Returns the start of the zone's last pageblock.
    fn last(&self) -> Pfn {
        Pfn(self.span.end().0.saturating_sub(1)).align_down(PAGEBLOCK_ORDER).max(self.span.start)
    }

    /// Returns where the migrate scanner goes on: at the zone's start when it has come to the end.
    pub(super) fn next(&self, migrate: Pfn) -> Pfn {
        if self.goes_round() && migrate >= self.span.end() { self.span.start } else { migrate }
    }

    /// Returns where the free scanner goes on when it is done with the pageblock of a frame.
    pub(super) fn before(&self, free: Pfn) -> Pfn {
        let first = free.align_down(PAGEBLOCK_ORDER);
        match (self.goes_round() || self.whole) && first <= self.span.start {
            true => self.last(),
            false => Pfn(first.0.saturating_sub(PAGEBLOCK_ORDER.frames().0)),
        }
    }

    /// Returns how far a frame lies on the migrate scanner's way: pageblocks, and frames into the last one.
    pub(super) fn distance(&self, pfn: Pfn) -> (u64, u64) {
        let first = self.span.start.pageblock().0;
        let all = self.last().pageblock().0 - first + 1;
        let pfn = self.next(pfn);
        let ahead = pfn.pageblock().0.saturating_sub(first);
        let pivot = self.pivot.pageblock().0 - first;
        let blocks = if ahead >= pivot { ahead - pivot } else { ahead + all - pivot };
        (blocks, pfn.0 - pfn.align_down(PAGEBLOCK_ORDER).0)
    }

    /// Returns whether the free scanner stands in the pageblock of a frame, or has passed it.
    pub(super) fn reaches(&self, free: Pfn, at: Pfn) -> bool {
        self.distance(free).0 <= self.distance(at).0
    }

    /// Returns the one of two frames that the migrate scanner comes to later.
    pub(super) fn later(&self, a: Pfn, b: Pfn) -> Pfn {
        if self.distance(b) > self.distance(a) { b } else { a }
    }

    /// Returns the one of two frames that the migrate scanner comes to sooner.
    pub(super) fn sooner(&self, a: Pfn, b: Pfn) -> Pfn {
        if self.distance(b) < self.distance(a) { b } else { a }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard_core::memmap::ZoneKind;
    use pageyard_core::units::{Frames, NodeId};
    use std::vec::Vec;

    /// Frames 100 to 2660: six pageblocks, of which the first and the last are cut off.
    fn zone() -> ZoneSpan {
        let all = Frames(2560);
        ZoneSpan {
            node: NodeId(0),
            kind: ZoneKind::Normal,
            start: Pfn(100),
            spanned: all,
            present: all,
            managed: all,
        }
    }

    #[test]
    fn from_a_pivot_both_scanners_come_to_every_pageblock_once() {
        for (pivot, up, down) in [
            (Pfn(100), [100, 512, 1024, 1536, 2048, 2560], [2560, 2048, 1536, 1024, 512, 0]),
            (Pfn(1030), [1024, 1536, 2048, 2560, 100, 512], [512, 100, 2560, 2048, 1536, 1024]),
            (Pfn(2659), [2560, 100, 512, 1024, 1536, 2048], [2048, 1536, 1024, 512, 100, 2560]),
        ] {
            let round = Round::from_pivot(zone(), pivot);
            let (mut migrate, mut free) = round.begin();
            let (mut ups, mut downs) = (Vec::new(), Vec::new());
            for n in 0..6 {
                assert_eq!(round.distance(migrate).0, n);
                assert_eq!(round.distance(free).0, 5 - n);
                assert_eq!(round.reaches(free, migrate), 5 - n <= n);
                ups.push(migrate.0);
                downs.push(free.0);
                migrate = round.next(Pfn(migrate.align_down(PAGEBLOCK_ORDER).0 + 512).min(zone().end()));
                free = round.before(free);
            }
            let named = |pfns: Vec<u64>| pfns.into_iter().map(|pfn| pfn / 512).collect::<Vec<_>>();
            assert_eq!((named(ups), named(downs)), (named(up.to_vec()), named(down.to_vec())), "{pivot:?}");
        }
    }

    #[test]
    fn a_pivot_outside_of_the_zone_is_its_start_and_nothing_goes_round_then() {
        for pivot in [Pfn(0), Pfn(99), Pfn(2660), Pfn(u64::MAX)] {
            let round = Round::from_pivot(zone(), pivot);
            assert_eq!(round, Round::from_ends(zone()));
            assert_eq!(round.begin(), (Pfn(100), Pfn(2560)));
            assert_eq!(round.next(Pfn(2660)), Pfn(2660));
        }
    }

    #[test]
    fn later_and_sooner_are_said_of_the_way_and_not_of_the_frames_numbers() {
        let round = Round::from_pivot(zone(), Pfn(1536));
        assert_eq!(round.later(Pfn(2048), Pfn(100)), Pfn(100));
        assert_eq!(round.sooner(Pfn(2048), Pfn(100)), Pfn(2048));
        assert_eq!(round.later(Pfn(1540), Pfn(1550)), Pfn(1550));
        assert_eq!(round.later(Pfn(2659), Pfn(2660)), Pfn(2660), "the end of the zone is its start");
    }
}
