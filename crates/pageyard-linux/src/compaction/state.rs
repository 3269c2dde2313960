//! A zone's state between compactions: how often compaction failed, and where both scanners were.

use super::knobs::Deferral;
use super::positions::Positions;
use pageyard_core::compaction::Mode;
use pageyard_core::units::Order;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

// ORDER: Relaxed throughout this file: positions, counts and flags steer policy and order nothing. A stale value only
// makes a scan begin elsewhere, or costs or saves one compaction.

/// The largest shift of the deferral.
///
/// # Linux
/// `COMPACT_MAX_DEFER_SHIFT`.
const MAX_DEFER_SHIFT: u8 = 6;

/// Nothing failed yet: an order above all.
const NEVER: u8 = u8::MAX;

/// How often compaction failed, and how many attempts are skipped.
#[derive(Debug)]
struct Deferred {
    considered: AtomicU32,
    shift: AtomicU8,
    order_failed: AtomicU8,
}

/// Returns whether an order counts as failed.
fn has_failed(d: &Deferred, order: Order, kept: Deferral) -> bool {
    match d.order_failed.load(Relaxed) {
        NEVER => kept == Deferral::UntilSuccess,
        failed => order.get() >= failed,
    }
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

/// When proactive compaction has its turn, of what it is judged by together: a zone, or a node.
#[derive(Debug, Default)]
pub struct AheadTurns {
    /// Turns to leave out after one that did not help.
    left_out: AtomicU32,
}

impl AheadTurns {
    /// All of them, from the first one on.
    #[must_use]
    pub const fn new() -> AheadTurns {
        AheadTurns { left_out: AtomicU32::new(0) }
    }

    /// Returns whether it is due, and counts a turn that is left out.
    pub(super) fn due(&self) -> bool {
        let left = self.left_out.load(Relaxed);
        self.left_out.store(left.saturating_sub(1), Relaxed);
        left == 0
    }

    /// Leaves turns out after one that did not help.
    ///
    /// # Linux
    /// `kcompactd`: `1 << COMPACT_MAX_DEFER_SHIFT` turns.
    pub(super) fn defer(&self) {
        self.left_out.store(1 << MAX_DEFER_SHIFT, Relaxed);
    }
}

/// Compaction's state of one zone. The engine keeps one per zone.
#[derive(Debug)]
pub struct ZoneState {
    /// Where the scanners begin.
    pub(super) at: Positions,
    /// Shared by all modes, or synchronous ones only; and asynchronous ones.
    deferred: [Deferred; 2],
    /// Whether to forget skip hints when the background reclaimer goes to sleep.
    flush: AtomicBool,
    /// The largest order, plus one, that the background compactor was woken for.
    wanted: AtomicU8,
    /// Compactions begun: a seed for skipping by chance.
    begun: AtomicU64,
    /// When proactive compaction has its turn, where it goes by zone.
    pub(super) ahead: AheadTurns,
}

impl Default for ZoneState {
    fn default() -> Self {
        ZoneState::new()
    }
}

impl ZoneState {
    /// Remembers nothing yet.
    #[must_use]
    pub const fn new() -> ZoneState {
        ZoneState {
            at: Positions::new(),
            deferred: [Deferred::new(), Deferred::new()],
            flush: AtomicBool::new(false),
            wanted: AtomicU8::new(0),
            begun: AtomicU64::new(0),
            ahead: AheadTurns::new(),
        }
    }

    fn deferral(&self, mode: Mode, kept: Deferral) -> &Deferred {
        &self.deferred[usize::from(kept == Deferral::ByMode && mode == Mode::Async)]
    }

    /// Returns whether to skip a compaction because of earlier failures, and counts that it was considered.
    ///
    /// # Linux
    /// `compaction_deferred`.
    pub fn is_deferred(&self, order: Order, mode: Mode, kept: Deferral) -> bool {
        let d = self.deferral(mode, kept);
        if kept == Deferral::Off || !has_failed(d, order, kept) {
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
        let least = if kept == Deferral::UntilSuccess && d.order_failed.load(Relaxed) == NEVER {
            0
        } else {
            order.get()
        };
        d.order_failed.fetch_min(least, Relaxed);
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
        if has_failed(d, order, kept) {
            d.order_failed.store(order.get() + 1, Relaxed);
        }
    }

    /// Returns whether a compaction starts over after the longest deferral: then skip hints are forgotten.
    ///
    /// # Linux
    /// `compaction_restarting`.
    pub(super) fn is_restarting(&self, order: Order, mode: Mode, kept: Deferral) -> bool {
        let d = self.deferral(mode, kept);
        has_failed(d, order, kept)
            && d.shift.load(Relaxed) == MAX_DEFER_SHIFT
            && d.considered.load(Relaxed) >= 1 << MAX_DEFER_SHIFT
    }

    /// Returns how often compactions of this mode are skipped now: one in `2^shift` is tried.
    #[must_use]
    pub fn defer_shift(&self, mode: Mode, kept: Deferral) -> u8 {
        self.deferral(mode, kept).shift.load(Relaxed)
    }

    /// Asks for skip hints to be forgotten when the background reclaimer goes to sleep.
    pub(super) fn ask_flush(&self) {
        self.flush.store(true, Relaxed);
    }

    /// Returns whether skip hints must be forgotten, and clears that note.
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
