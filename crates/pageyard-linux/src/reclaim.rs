//! Reclaim, for a request and in the background, and compaction in the background. Layer: requests, above
//! `compaction_view`.

use crate::allocator::LinuxAllocator;
use crate::effort::Mark;
use crate::zone::Zone;
use pageyard_core::compaction::{Work, compact_in_background, forget_hints_if_asked};
use pageyard_core::reclaim::{Helpers, Priority, Reclaim, Reclaimed, Shortage};
use pageyard_core::{Counter, Cx, Frames, Order};

/// Frames that reclaim aims at. `SWAP_CLUSTER_MAX`.
pub(crate) const CLUSTER: u64 = 32;
impl Zone {
    /// Wakes the background reclaimer for a block of this order.
    pub(crate) fn wake_kswapd(&self, order: Order) {
        self.kswapd_order.set(self.kswapd_order.get().max(u64::from(order.get())));
        self.kswapd_woken.set(true);
    }
}

impl LinuxAllocator {
    /// Asks for reclaim in a zone; returns what it says, and by how much the zone's free memory grew meanwhile.
    pub(crate) fn ask<R: Reclaim>(&self, cx: &Cx, help: &R, zone: &Zone, ask: &Shortage) -> (Reclaimed, u64) {
        let before = zone.available();
        let said = help.reclaim(cx, ask);
        let grew = zone.available().saturating_sub(before);
        let (scanned, freed) = match ask.background {
            true => (Counter::PgscanKswapd, Counter::PgstealKswapd),
            false => (Counter::PgscanDirect, Counter::PgstealDirect),
        };
        self.counts.pressure.add(scanned, said.scanned.0);
        self.counts.pressure.add(freed, said.freed.0);
        (said, grew)
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
            let (said, _) = self.ask(cx, help, zone, &ask);
            sum.scanned += said.scanned;
            sum.freed += said.freed;
            priority.0 -= 1;
        }
        zone.end_boost();
        if order > Order::ZERO {
            zone.compaction.wake(order);
        }
        forget_hints_if_asked(self, zone.id);
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
