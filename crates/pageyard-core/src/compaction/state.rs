//! What is remembered of a zone between compactions: where both scanners were, and how often it failed.

use super::knobs::Deferral;
use super::migrate::Mode;
use crate::memmap::ZoneSpan;
use crate::units::{Order, PAGEBLOCK_ORDER, PageblockId, Pfn};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

// ORDER: Relaxed throughout this file: positions, counts and flags steer policy and order nothing. A stale value only
// makes a scan begin elsewhere, or costs or saves one compaction.

/// The largest shift of the deferral.
///
/// # Linux
/// `COMPACT_MAX_DEFER_SHIFT`.
const MAX_DEFER_SHIFT: u8 = 6;

/// Nothing failed yet: an order above all.
const NEVER: u8 = u8::MAX;

/// No position is remembered.
const NOWHERE: u64 = u64::MAX;

/// How often compaction failed, and how many attempts are skipped.
#[derive(Debug)]
struct Deferred {
    considered: AtomicU32,
    shift: AtomicU8,
    order_failed: AtomicU8,
}

impl Deferred {
    const fn new() -> Deferred {
        Deferred {
            considered: AtomicU32::new(0),
            shift: AtomicU8::new(0),
            order_failed: AtomicU8::new(NEVER),
        }
    }
}

/// What compaction remembers of one zone. The engine keeps one per zone.
#[derive(Debug)]
pub struct ZoneState {
    /// Where the migrate scanner begins: asynchronous, and other modes.
    migrate: [AtomicU64; 2],
    /// Where the free scanner begins.
    free: AtomicU64,
    /// Shared by all modes, or synchronous ones only; and asynchronous ones.
    deferred: [Deferred; 2],
    /// Whether to forget skip hints when the background reclaimer goes to sleep.
    flush: AtomicBool,
    /// The largest order, plus one, that the background compactor was woken for.
    wanted: AtomicU8,
    /// Compactions begun: a seed for skipping by chance.
    begun: AtomicU64,
    /// Runs of proactive compaction to skip after one that did not help.
    proactive_defer: AtomicU32,
}

impl Default for ZoneState {
    fn default() -> Self {
        ZoneState::new()
    }
}

fn index(mode: Mode) -> usize {
    usize::from(mode != Mode::Async)
}

impl ZoneState {
    /// Remembers nothing yet.
    #[must_use]
    pub const fn new() -> ZoneState {
        ZoneState {
            migrate: [AtomicU64::new(NOWHERE), AtomicU64::new(NOWHERE)],
            free: AtomicU64::new(NOWHERE),
            deferred: [Deferred::new(), Deferred::new()],
            flush: AtomicBool::new(false),
            wanted: AtomicU8::new(0),
            begun: AtomicU64::new(0),
            proactive_defer: AtomicU32::new(0),
        }
    }

    fn deferral(&self, mode: Mode, kept: Deferral) -> &Deferred {
        &self.deferred[usize::from(kept == Deferral::ByMode && mode == Mode::Async)]
    }

    /// Says whether to skip a compaction because of earlier failures, and counts that it was considered.
    ///
    /// # Linux
    /// `compaction_deferred`.
    pub fn is_deferred(&self, order: Order, mode: Mode, kept: Deferral) -> bool {
        let d = self.deferral(mode, kept);
        if kept == Deferral::Off || order.get() < d.order_failed.load(Relaxed) {
            return false;
        }
        let limit = 1u32 << d.shift.load(Relaxed);
        let considered = (d.considered.load(Relaxed) + 1).min(limit);
        d.considered.store(considered, Relaxed);
        considered < limit
    }

    /// Notes that a compaction looked at all it could and did not help: the next ones are skipped.
    ///
    /// # Linux
    /// `defer_compaction`.
    pub fn defer(&self, order: Order, mode: Mode, kept: Deferral) {
        let d = self.deferral(mode, kept);
        d.considered.store(0, Relaxed);
        let shift = d.shift.load(Relaxed);
        d.shift.store((shift + 1).min(MAX_DEFER_SHIFT), Relaxed);
        d.order_failed.fetch_min(order.get(), Relaxed);
    }

    /// Notes a success: of compaction, after which it is tried for this order again, or of the allocation, which also
    /// ends the deferral.
    ///
    /// # Linux
    /// `compaction_defer_reset`.
    pub fn succeeded(&self, order: Order, mode: Mode, kept: Deferral, allocated: bool) {
        let d = self.deferral(mode, kept);
        if allocated {
            d.considered.store(0, Relaxed);
            d.shift.store(0, Relaxed);
            self.flush.store(false, Relaxed);
        }
        if order.get() >= d.order_failed.load(Relaxed) {
            d.order_failed.store(order.get() + 1, Relaxed);
        }
    }

    /// Says whether a compaction starts over after the longest deferral: then skip hints are forgotten.
    ///
    /// # Linux
    /// `compaction_restarting`.
    pub(super) fn is_restarting(&self, order: Order, mode: Mode, kept: Deferral) -> bool {
        let d = self.deferral(mode, kept);
        order.get() >= d.order_failed.load(Relaxed)
            && d.shift.load(Relaxed) == MAX_DEFER_SHIFT
            && d.considered.load(Relaxed) >= 1 << MAX_DEFER_SHIFT
    }

    /// Returns how often compactions of this mode are skipped now: one in `2^shift` is tried.
    #[must_use]
    pub fn defer_shift(&self, mode: Mode, kept: Deferral) -> u8 {
        self.deferral(mode, kept).shift.load(Relaxed)
    }

    /// Returns where the migrate and the free scanner begin.
    ///
    /// # Linux
    /// The beginning of `compact_zone`: cached positions outside the zone are replaced by its ends.
    pub(super) fn positions(&self, mode: Mode, span: &ZoneSpan) -> (Pfn, Pfn) {
        let (low, high) = ends(span);
        let keep = |cached: u64, end: Pfn| {
            if cached >= span.start.0 && cached < span.end().0 { Pfn(cached) } else { end }
        };
        (keep(self.migrate[index(mode)].load(Relaxed), low), keep(self.free.load(Relaxed), high))
    }

    /// Sends both scanners back to the zone's ends.
    ///
    /// # Linux
    /// `reset_cached_positions`.
    pub(super) fn reset_positions(&self) {
        self.migrate.iter().for_each(|m| m.store(NOWHERE, Relaxed));
        self.free.store(NOWHERE, Relaxed);
    }

    /// Notes a pageblock in which the migrate scanner found nothing: the next scan begins after it.
    pub(super) fn passed_migrate(&self, mode: Mode, block: PageblockId, span: &ZoneSpan) {
        for m in [Mode::Async, Mode::SyncLight] {
            if m == Mode::Async || mode != Mode::Async {
                let (now, _) = self.positions(m, span);
                self.migrate[index(m)].store(now.max(block.start()).0, Relaxed);
            }
        }
    }

    /// Notes a pageblock in which the free scanner found nothing.
    pub(super) fn passed_free(&self, block: PageblockId, span: &ZoneSpan) {
        let (_, now) = self.positions(Mode::Async, span);
        self.free.store(now.min(block.start().max(span.start)).0, Relaxed);
    }

    /// Notes that free frames were given back above the free scanner's position.
    pub(super) fn returned_free(&self, to: Pfn, span: &ZoneSpan) {
        let (_, now) = self.positions(Mode::Async, span);
        self.free.store(now.max(to).0, Relaxed);
    }

    /// Asks for skip hints to be forgotten when the background reclaimer goes to sleep.
    pub(super) fn ask_flush(&self) {
        self.flush.store(true, Relaxed);
    }

    /// Says whether skip hints must be forgotten, and clears that note.
    pub(super) fn take_flush(&self) -> bool {
        self.flush.swap(false, Relaxed)
    }

    /// Wakes the background compactor for an order.
    ///
    /// # Linux
    /// `wakeup_kcompactd`.
    pub fn wake(&self, order: Order) {
        self.wanted.fetch_max(order.get() + 1, Relaxed);
    }

    /// Returns the largest order that the background compactor was woken for, once.
    pub(super) fn take_wanted(&self) -> Option<Order> {
        self.wanted.swap(0, Relaxed).checked_sub(1).and_then(Order::new)
    }

    /// Counts a compaction; returns how many there were before.
    pub(super) fn begin(&self) -> u64 {
        self.begun.fetch_add(1, Relaxed)
    }

    /// Says whether proactive compaction is due, and counts a skipped turn.
    pub(super) fn proactive_due(&self) -> bool {
        let left = self.proactive_defer.load(Relaxed);
        self.proactive_defer.store(left.saturating_sub(1), Relaxed);
        left == 0
    }

    /// Skips proactive compaction for a while after it did not help.
    ///
    /// # Linux
    /// `kcompactd`: `1 << COMPACT_MAX_DEFER_SHIFT` turns.
    pub(super) fn defer_proactive(&self) {
        self.proactive_defer.store(1 << MAX_DEFER_SHIFT, Relaxed);
    }
}

/// Returns the first frame that the migrate scanner looks at and the start of the last pageblock, where the free
/// scanner begins.
pub(super) fn ends(span: &ZoneSpan) -> (Pfn, Pfn) {
    let last = Pfn(span.end().0.saturating_sub(1)).align_down(PAGEBLOCK_ORDER);
    (span.start, last.max(span.start))
}

#[cfg(test)]
mod tests {
    use super::*;

    const O4: Order = Order::of(4);
    const SHARED: Deferral = Deferral::Shared;

    #[test]
    fn each_failure_doubles_the_attempts_left_out_up_to_64() {
        let z = ZoneState::new();
        assert!(!z.is_deferred(O4, Mode::SyncLight, SHARED));
        for shift in 1..=8 {
            z.defer(O4, Mode::SyncLight, SHARED);
            let left_out = (0..1000).take_while(|_| z.is_deferred(O4, Mode::SyncLight, SHARED)).count();
            assert_eq!(left_out, (1 << shift.min(6)) - 1);
        }
        assert!(z.is_restarting(O4, Mode::SyncLight, SHARED));
    }

    #[test]
    fn smaller_orders_than_the_one_that_failed_are_not_deferred() {
        let z = ZoneState::new();
        z.defer(O4, Mode::SyncLight, SHARED);
        assert!(!z.is_deferred(Order::of(3), Mode::SyncLight, SHARED));
        assert!(z.is_deferred(Order::of(5), Mode::SyncLight, SHARED));
    }

    #[test]
    fn success_of_compaction_raises_the_order_and_that_of_the_allocation_ends_the_deferral() {
        let z = ZoneState::new();
        z.defer(O4, Mode::SyncLight, SHARED);
        z.defer(O4, Mode::SyncLight, SHARED);
        z.succeeded(O4, Mode::Async, SHARED, false);
        assert!(!z.is_deferred(O4, Mode::SyncLight, SHARED));
        assert_eq!(z.defer_shift(Mode::SyncLight, SHARED), 2, "the shift stays");
        assert!(z.is_deferred(Order::of(5), Mode::SyncLight, SHARED));
        z.succeeded(O4, Mode::Async, SHARED, true);
        assert_eq!(z.defer_shift(Mode::SyncLight, SHARED), 0);
    }

    #[test]
    fn kept_by_mode_a_failure_of_one_does_not_defer_the_other() {
        let z = ZoneState::new();
        z.defer(O4, Mode::SyncLight, Deferral::ByMode);
        assert!(!z.is_deferred(O4, Mode::Async, Deferral::ByMode));
        assert!(z.is_deferred(O4, Mode::SyncLight, Deferral::ByMode));
    }
}
