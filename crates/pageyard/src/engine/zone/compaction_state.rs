//! A zone's compaction state: how often compaction failed, and the order it was asked for. Losing any of it costs only
//! time.

use super::hints::OrderWake;
use pageyard_core::compaction::Mode;
use pageyard_core::units::Order;
// Not `sync`'s atomics: nothing here is part of a protocol, and a model checker need not try its orders.
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};

/// The largest shift of a deferral: at most one compaction in 64 is tried.
///
/// # Linux
/// `COMPACT_MAX_DEFER_SHIFT`.
const MAX_SHIFT: u8 = 6;

/// Nothing has failed: an order above all.
const NEVER: u8 = u8::MAX;

// ORDER: Relaxed, everywhere in this file: what is remembered steers policy and orders nothing.

/// How often compactions of one kind of mode failed, and how many are left out.
#[derive(Debug)]
struct Deferral {
    considered: AtomicU32,
    shift: AtomicU8,
    order_failed: AtomicU8,
}

impl Deferral {
    const fn new() -> Deferral {
        let (considered, shift) = (AtomicU32::new(0), AtomicU8::new(0));
        Deferral { considered, shift, order_failed: AtomicU8::new(NEVER) }
    }

    fn has_failed(&self, order: Order) -> bool {
        order.get() >= self.order_failed.load(Relaxed)
    }
}

/// Compaction's memory of one zone.
#[derive(Debug)]
pub(crate) struct CompactionState {
    /// By mode: asynchronous compactions, and others. The first give up soon, and their failures say little of the
    /// second.
    deferred: [Deferral; 2],
    /// The order that the background compactor was woken for.
    pub(crate) wake: OrderWake,
    /// Whether to forget which pageblocks are stuck when the background reclaimer goes to sleep.
    doubts: AtomicBool,
    /// Turns of proactive compaction that are left out.
    left_out: AtomicU32,
}

impl CompactionState {
    /// Remembers nothing yet.
    pub(crate) const fn new() -> CompactionState {
        CompactionState {
            deferred: [Deferral::new(), Deferral::new()],
            wake: OrderWake::new(),
            doubts: AtomicBool::new(false),
            left_out: AtomicU32::new(0),
        }
    }

    fn deferral(&self, mode: Mode) -> &Deferral {
        &self.deferred[usize::from(mode == Mode::Async)]
    }

    /// Returns whether to leave a compaction out because of earlier failures, and counts that it was considered.
    ///
    /// # Linux
    /// `compaction_deferred`.
    pub(crate) fn is_deferred(&self, order: Order, mode: Mode) -> bool {
        let d = self.deferral(mode);
        if !d.has_failed(order) {
            return false;
        }
        let limit = 1u32 << d.shift.load(Relaxed);
        let considered = (d.considered.load(Relaxed) + 1).min(limit);
        d.considered.store(considered, Relaxed);
        considered < limit
    }

    /// Notes that a compaction looked at all it could and did not help: the next ones are left out.
    ///
    /// # Linux
    /// `defer_compaction`.
    pub(crate) fn defer(&self, order: Order, mode: Mode) {
        let d = self.deferral(mode);
        d.considered.store(0, Relaxed);
        d.shift.store((d.shift.load(Relaxed) + 1).min(MAX_SHIFT), Relaxed);
        d.order_failed.fetch_min(order.get(), Relaxed);
    }

    /// Notes a success: of a compaction, after which it is tried for this order again, or of the allocation, which also
    /// ends the deferral.
    ///
    /// # Linux
    /// `compaction_defer_reset`.
    pub(crate) fn succeeded(&self, order: Order, mode: Mode, allocated: bool) {
        let d = self.deferral(mode);
        if allocated {
            d.considered.store(0, Relaxed);
            d.shift.store(0, Relaxed);
            self.doubts.store(false, Relaxed);
        }
        if d.has_failed(order) {
            d.order_failed.store(order.get() + 1, Relaxed);
        }
    }

    /// Returns whether a compaction starts over after the longest deferral: then no pageblock counts as stuck.
    ///
    /// # Linux
    /// `compaction_restarting`.
    pub(crate) fn is_restarting(&self, order: Order, mode: Mode) -> bool {
        let d = self.deferral(mode);
        d.has_failed(order)
            && d.shift.load(Relaxed) == MAX_SHIFT
            && d.considered.load(Relaxed) >= 1 << MAX_SHIFT
    }

    /// Notes that a request's compaction failed: pageblocks that count as stuck may not be by now.
    pub(crate) fn doubt(&self) {
        self.doubts.store(true, Relaxed);
    }

    /// Returns whether one did, once.
    pub(crate) fn take_doubts(&self) -> bool {
        self.doubts.swap(false, Relaxed)
    }

    /// Returns whether proactive compaction is due, and counts a turn that is left out.
    pub(crate) fn is_due(&self) -> bool {
        let left = self.left_out.load(Relaxed);
        self.left_out.store(left.saturating_sub(1), Relaxed);
        left == 0
    }

    /// Leaves turns out after one that did not help.
    ///
    /// # Linux
    /// `kcompactd`: `1 << COMPACT_MAX_DEFER_SHIFT` turns.
    pub(crate) fn leave_turns_out(&self) {
        self.left_out.store(1 << MAX_SHIFT, Relaxed);
    }
}

#[cfg(all(test, not(any(pageyard_loom, pageyard_shuttle))))]
mod tests {
    use super::*;

    const O4: Order = Order::of(4);

    #[test]
    fn each_failure_doubles_the_attempts_left_out_up_to_64() {
        let z = CompactionState::new();
        assert!(!z.is_deferred(O4, Mode::SyncLight));
        for shift in 1..=8 {
            z.defer(O4, Mode::SyncLight);
            let left_out = (0..1000).take_while(|_| z.is_deferred(O4, Mode::SyncLight)).count();
            assert_eq!(left_out, (1 << shift.min(6)) - 1);
        }
        assert!(z.is_restarting(O4, Mode::SyncLight));
    }

    #[test]
    fn a_failure_defers_neither_smaller_orders_nor_the_other_mode() {
        let z = CompactionState::new();
        z.defer(O4, Mode::SyncLight);
        assert!(!z.is_deferred(Order::of(3), Mode::SyncLight) && !z.is_deferred(O4, Mode::Async));
        assert!(z.is_deferred(Order::of(5), Mode::SyncLight));
    }

    #[test]
    fn success_of_compaction_raises_the_order_and_that_of_the_allocation_ends_the_deferral() {
        let z = CompactionState::new();
        z.defer(O4, Mode::SyncLight);
        z.defer(O4, Mode::SyncLight);
        z.succeeded(O4, Mode::SyncLight, false);
        assert!(!z.is_deferred(O4, Mode::SyncLight));
        z.doubt();
        assert!(z.is_deferred(Order::of(5), Mode::SyncLight), "the shift stays");
        z.succeeded(Order::of(5), Mode::SyncLight, true);
        assert!(!z.take_doubts(), "what it could not move does not matter any more");
        z.defer(O4, Mode::SyncLight);
        assert_eq!(
            (0..9).take_while(|_| z.is_deferred(O4, Mode::SyncLight)).count(),
            1,
            "as after the first"
        );
    }

    #[test]
    fn turns_are_left_out_after_one_that_did_not_help() {
        let z = CompactionState::new();
        assert!(z.is_due() && z.is_due());
        z.leave_turns_out();
        assert_eq!((0..100).take_while(|_| !z.is_due()).count(), 64);
    }
}
