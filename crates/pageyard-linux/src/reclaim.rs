//! Reclaim, for a request and in the background, and compaction in the background. Layer: requests, above
//! `compaction_view`.

use crate::allocator::LinuxAllocator;
use crate::effort::Mark;
use crate::zone::Zone;
use pageyard_core::compaction::{Work, compact_in_background, forget_hints_if_asked};
use pageyard_core::reclaim::{Helpers, Priority, Reclaim, Reclaimed, Shortage};
use pageyard_core::{Counter, Cx, Frames, NodeId, Order, ZoneKind};

/// Frames that reclaim aims at. `SWAP_CLUSTER_MAX`.
pub(crate) const CLUSTER: u64 = 32;
impl LinuxAllocator {
    /// Wakes the background reclaimer of a node for a block of this order: it begins at once, in every zone up to the highest
    /// that the request may use.
    ///
    /// # Linux
    /// `wakeup_kswapd`, and the beginning of `balance_pgdat` (`update_reclaim_active`).
    pub(crate) fn reclaim_begins(&self, node: NodeId, highest: ZoneKind, order: Order) {
        for zone in self.zones.iter().filter(|z| z.span.node == node && z.span.kind <= highest) {
            zone.kswapd_order.set(zone.kswapd_order.get().max(u64::from(order.get())));
            zone.kswapd_woken.set(true);
        }
    }

    /// Asks for reclaim in a zone, and counts what it says.
    pub(crate) fn ask<R: Reclaim>(&self, cx: &Cx, help: &R, ask: &Shortage) -> Reclaimed {
        let said = help.reclaim(cx, ask);
        let (scanned, freed) = match ask.background {
            true => (Counter::PgscanKswapd, Counter::PgstealKswapd),
            false => (Counter::PgscanDirect, Counter::PgstealDirect),
        };
        self.counts.pressure.add(scanned, said.scanned.0);
        self.counts.pressure.add(freed, said.freed.0);
        said
    }

    /// One zone's part of the background reclaimer's run.
    fn balance<H: Helpers>(&self, cx: &Cx, help: &H, zone: &Zone) -> Reclaimed {
        let order = Order::new(zone.kswapd_order.get() as u8).unwrap_or(Order::ZERO);
        zone.kswapd_order.set(0);
        // For a block, compaction needs room to move things to.
        let gap = if order > Order::ZERO { 2 * order.frames().0 } else { 0 };
        let target = zone.mark(Mark::High) + gap;
        let mut sum = Reclaimed::default();
        let mut priority = Priority::START;
        while priority > Priority::HARDEST {
            // Read once: others free frames meanwhile, and the wanted count must not go below zero.
            let free = zone.free.get();
            if free > target {
                break;
            }
            let want = Frames((target + 1 - free).max(CLUSTER));
            let ask = Shortage { zone: zone.id, want, order, priority, background: true };
            let said = self.ask(cx, help, &ask);
            sum.scanned += said.scanned;
            sum.freed += said.freed;
            priority.0 -= 1;
        }
        zone.end_boost();
        if order > Order::ZERO {
            zone.compaction.wake(order);
        }
        forget_hints_if_asked(self, help, zone.id);
        sum
    }

    /// Lets the background reclaimer run where it was woken; on a CPU that does not exist nothing runs.
    pub(crate) fn kswapd<H: Helpers>(&self, cx: &Cx, helpers: &H) -> Reclaimed {
        let mut sum = Reclaimed::default();
        if !self.has_cpu(cx.cpu) {
            return sum;
        }
        for zone in self.zones.iter().filter(|z| z.kswapd_woken.take()) {
            let did = self.balance(cx, helpers, zone);
            sum.scanned += did.scanned;
            sum.freed += did.freed;
        }
        sum
    }

    /// Lets the background compactor run where it was woken; on a CPU that does not exist nothing runs.
    pub(crate) fn kcompactd<H: Helpers>(&self, cx: &Cx, helpers: &H) -> Work {
        let mut work = Work::default();
        if self.has_cpu(cx.cpu) {
            for zone in &self.zones {
                work += compact_in_background(self, helpers, cx, zone.id);
            }
        }
        work
    }
}
