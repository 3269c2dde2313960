//! Hints that a zone keeps between calls: where compaction looks next, and the order that a background thread was woken
//! for. Losing any of it costs only time.

use crate::engine::geometry::BlockIdx;
use pageyard_core::units::Order;
// Not `pageyard-sync`'s atomics: nothing here is part of a protocol, and a model checker need not try its orders.
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// The purpose of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(crate) enum Cursor {
    /// Pageblocks to fill.
    Target = 0,
    /// Pageblocks to empty.
    Source = 1,
}

/// Where compaction looks next in a zone.
// ORDER: Relaxed, everywhere in this file: hints order nothing.
#[derive(Debug, Default)]
pub(crate) struct ChoiceHints {
    cursors: [AtomicU64; 2],
    /// The pageblock that was last emptied in part, plus one, and the word in it where to go on.
    source: AtomicU64,
}

impl ChoiceHints {
    /// Returns where a search looks next, out of `of` positions, and moves on by `step`.
    pub(crate) fn next(&self, cursor: Cursor, of: usize, step: usize) -> usize {
        self.cursors[cursor as usize].fetch_add(step as u64, Relaxed) as usize % of.max(1)
    }

    /// Returns the pageblock that was last emptied in part, and the word of its bits where to go on.
    pub(crate) fn source(&self) -> Option<(BlockIdx, u32)> {
        let at = self.source.load(Relaxed);
        (at >> 8).checked_sub(1).map(|block| (BlockIdx::new(block as usize), at as u32 & 0xff))
    }

    /// Notes that.
    pub(crate) fn set_source(&self, block: BlockIdx, word: u32) {
        self.source.store((block.get() as u64 + 1) << 8 | u64::from(word), Relaxed);
    }
}

/// The largest order that a background thread of a zone was woken for: its reclaimer, or its compactor.
///
/// # Linux
/// `pgdat->kswapd_order`, `pgdat->kcompactd_max_order`.
#[derive(Debug)]
pub(crate) struct OrderWake(AtomicU8);

impl OrderWake {
    /// Not woken yet.
    pub(crate) const fn new() -> OrderWake {
        OrderWake(AtomicU8::new(0))
    }

    /// Wakes it for an order.
    pub(crate) fn wake(&self, order: Order) {
        if self.0.load(Relaxed) < order.get() + 1 {
            self.0.fetch_max(order.get() + 1, Relaxed);
        }
    }

    /// Returns the order, once.
    pub(crate) fn take(&self) -> Option<Order> {
        self.0.swap(0, Relaxed).checked_sub(1).and_then(Order::new)
    }
}
