//! Where the scanners of a zone begin.

use super::plan::pageblock_end_pfn;
use super::round::Round;
use pageyard_core::compaction::Mode;
use pageyard_core::memmap::ZoneSpan;
use pageyard_core::units::{PageblockId, Pfn};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

// ORDER: Relaxed throughout this file: positions steer policy and order nothing. A stale value only makes a scan begin
// elsewhere.

/// No position is remembered.
const NOWHERE: u64 = u64::MAX;

/// Where the scanners of a zone begin.
#[derive(Debug)]
pub(super) struct Positions {
    /// The migrate scanner: asynchronous, and other modes.
    migrate: [AtomicU64; 2],
    /// The free scanner.
    free: AtomicU64,
    /// The lowest and the highest frame where the last reset of the hints found something to do; a scan that begins
    /// outside of these covers the whole zone.
    init: [AtomicU64; 2],
    /// Where both scanners set out from, if not from the zone's ends.
    pivot: AtomicU64,
    /// Where they met last.
    met: AtomicU64,
}

fn index(mode: Mode) -> usize {
    usize::from(mode != Mode::Async)
}

impl Positions {
    /// Remembers nothing yet.
    pub(super) const fn new() -> Positions {
        Positions {
            migrate: [const { AtomicU64::new(NOWHERE) }; 2],
            free: AtomicU64::new(NOWHERE),
            init: [const { AtomicU64::new(0) }; 2],
            pivot: AtomicU64::new(NOWHERE),
            met: AtomicU64::new(NOWHERE),
        }
    }

    /// Returns the scanners' way from the pivot on.
    pub(super) fn round(&self, span: ZoneSpan) -> Round {
        Round::from_pivot(span, Pfn(self.pivot.load(Relaxed)))
    }

    /// Lets both scanners set out from where they met last.
    pub(super) fn turn_to_meeting(&self) {
        self.pivot.store(self.met.load(Relaxed), Relaxed);
    }

    /// Returns where the migrate and the free scanner begin.
    ///
    /// # Linux
    /// The beginning of `compact_zone`: cached positions outside the zone are replaced by its ends.
    pub(super) fn begin(&self, mode: Mode, round: &Round) -> (Pfn, Pfn) {
        let (low, high) = round.begin();
        let span = round.span();
        let keep = |cached: u64, end: Pfn| {
            if cached >= span.start.0 && cached < span.end().0 { Pfn(cached) } else { end }
        };
        (keep(self.migrate[index(mode)].load(Relaxed), low), keep(self.free.load(Relaxed), high))
    }

    /// Sends both scanners back to where they set out.
    ///
    /// # Linux
    /// `reset_cached_positions`.
    pub(super) fn reset(&self, round: &Round) {
        let (low, high) = round.begin();
        self.start_migrate_at(low);
        self.start_free_at(high);
    }

    /// The scanners met here: the next compaction starts over.
    pub(super) fn met(&self, at: Pfn, round: &Round) {
        self.met.store(round.next(at).0, Relaxed);
        self.reset(round);
    }

    /// Notes a pageblock in which the migrate scanner found nothing: the next scan begins after it.
    pub(super) fn passed_migrate(&self, mode: Mode, block: PageblockId, round: &Round) {
        for m in [Mode::Async, Mode::SyncLight] {
            if m == Mode::Async || mode != Mode::Async {
                let (now, _) = self.begin(m, round);
                self.migrate[index(m)].store(round.later(now, block.start()).0, Relaxed);
            }
        }
    }

    /// Notes a pageblock in which the free scanner found nothing.
    pub(super) fn passed_free(&self, block: PageblockId, round: &Round) {
        let (_, now) = self.begin(Mode::Async, round);
        self.free.store(round.sooner(now, block.start().max(round.span().start)).0, Relaxed);
    }

    /// Notes that free frames were given back that the free scanner had passed.
    pub(super) fn returned_free(&self, to: Pfn, round: &Round) {
        let (_, now) = self.begin(Mode::Async, round);
        self.free.store(round.later(now, to).0, Relaxed);
    }

    /// Replaces remembered positions that lie outside the zone by the zone's ends.
    ///
    /// # Linux
    /// The beginning of `compact_zone`.
    pub(super) fn mend(&self, mode: Mode, span: &ZoneSpan) {
        let outside = |cached: &AtomicU64| {
            let at = cached.load(Relaxed);
            at < span.start.0 || at >= span.end().0
        };
        if outside(&self.free) {
            self.free.store(Round::from_ends(*span).begin().1.0, Relaxed);
        }
        if outside(&self.migrate[index(mode)]) {
            self.start_migrate_at(span.start);
        }
    }

    /// Notes that the migrate scanner is done with everything below a frame.
    ///
    /// # Linux
    /// `update_cached_migrate`, which is told where a pageblock ends and goes on to the end of the one that begins
    /// there: the next scan begins a pageblock later than it could.
    pub(super) fn scanned_to(&self, mode: Mode, end: Pfn) {
        let next = pageblock_end_pfn(end).0;
        for (i, position) in self.migrate.iter().enumerate() {
            let now = position.load(Relaxed);
            if (i == 0 || mode != Mode::Async) && (now == NOWHERE || now < next) {
                position.store(next, Relaxed);
            }
        }
    }

    /// Returns whether asynchronous and other scans begin at the same place.
    pub(super) fn modes_agree(&self) -> bool {
        self.migrate[0].load(Relaxed) == self.migrate[1].load(Relaxed)
    }

    /// Lets other scans begin where asynchronous ones do.
    pub(super) fn agree(&self) {
        self.migrate[1].store(self.migrate[0].load(Relaxed), Relaxed);
    }

    /// Notes that the free scanner is done with everything from a frame on.
    pub(super) fn freed_down_to(&self, pfn: Pfn) {
        // Where nothing is remembered, Linux has a position below every frame.
        let now = self.free.load(Relaxed);
        if now != NOWHERE && pfn.0 < now {
            self.start_free_at(pfn);
        }
    }

    /// Returns where the free scanner begins, as it is remembered; 0 where it is not.
    pub(super) fn cached_free(&self) -> Pfn {
        match self.free.load(Relaxed) {
            NOWHERE => Pfn(0),
            pfn => Pfn(pfn),
        }
    }

    /// Lets the free scanner begin at a frame.
    pub(super) fn start_free_at(&self, pfn: Pfn) {
        self.free.store(pfn.0, Relaxed);
    }

    /// Lets the migrate scanner begin at a frame, in every mode.
    pub(super) fn start_migrate_at(&self, pfn: Pfn) {
        self.migrate.iter().for_each(|m| m.store(pfn.0, Relaxed));
    }

    /// Returns the lowest and the highest frame where the last reset of the hints found something to do.
    ///
    /// # Linux
    /// `compact_init_migrate_pfn`, `compact_init_free_pfn`: both 0 before the first reset.
    pub(super) fn init(&self) -> (Pfn, Pfn) {
        (Pfn(self.init[0].load(Relaxed)), Pfn(self.init[1].load(Relaxed)))
    }

    /// Notes where a reset of the hints found the first frame to move, or the first to move to.
    pub(super) fn set_init(&self, migrate: Option<Pfn>, free: Option<Pfn>) {
        for (init, pfn) in self.init.iter().zip([migrate, free]) {
            if let Some(pfn) = pfn {
                init.store(pfn.0, Relaxed);
            }
        }
    }
}
