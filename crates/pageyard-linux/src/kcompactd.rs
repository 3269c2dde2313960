//! The background compactor of a node. Layer: requests, above `compaction_view`.

use crate::allocator::LinuxAllocator;
use crate::compaction::{CompactionView, compact_ahead, compact_for_order, is_worth_compacting};
use crate::node::Node;
use pageyard_core::compaction::{Work, fragmentation_score};
use pageyard_core::reclaim::Helpers;
use pageyard_core::{Counter, Cx, Order, ZoneKind};

impl LinuxAllocator {
    /// Asks the compactor of a node for a block of this order, and wakes it if that is worth it in any zone up to the
    /// highest.
    ///
    /// # Linux
    /// `wakeup_kcompactd`.
    pub(crate) fn wake_compactor(&self, node: &Node, order: Order, highest: ZoneKind) {
        if order == Order::ZERO {
            return;
        }
        node.ask_compactor(order, highest);
        let (order, highest) = node.compactor_asked();
        if self.zones_up_to(node, highest).any(|z| is_worth_compacting(self, z.id, order, highest)) {
            node.wake_compactor();
        }
    }

    /// Lets the background compactors run where they were woken, and ahead of need where that is due; on a CPU that
    /// does not exist nothing runs.
    ///
    /// # Linux
    /// `kcompactd`: a turn is either work that was asked for or work ahead of need.
    pub(crate) fn kcompactd<H: Helpers>(&self, cx: &Cx, help: &H) -> Work {
        let mut work = Work::default();
        if !self.has_cpu(cx.cpu) || !self.config.compaction.enabled {
            return work;
        }
        let by_itself = self.config.compaction.proactiveness > 0;
        for node in &self.nodes {
            match node.compactor_begins(by_itself) {
                Some((order, highest)) => work += self.compact_node(cx, help, node, order, highest),
                // While the reclaimer is at work, compaction ahead of need waits.
                None if !node.awake.get() => {
                    let zones = node.zones().map(|place| self.zones[place].id);
                    let score = || self.fragmentation_score(node);
                    work += compact_ahead(self, help, cx, zones, &node.ahead, score);
                }
                None => {}
            }
        }
        work
    }

    /// # Linux
    /// `kcompactd_do_work`.
    fn compact_node<H: Helpers>(
        &self,
        cx: &Cx,
        help: &H,
        node: &Node,
        order: Order,
        highest: ZoneKind,
    ) -> Work {
        self.counts.pressure.add(Counter::CompactDaemonWake, 1);
        let mut work = Work::default();
        for zone in self.zones_up_to(node, highest) {
            work += compact_for_order(self, help, cx, zone.id, order).unwrap_or_default();
        }
        node.compactor_ends(order, highest);
        work
    }

    /// Returns how fragmented a node is, in percent: each zone counts by its size.
    ///
    /// # Linux
    /// `fragmentation_score_node`, `fragmentation_score_zone_weighted`.
    fn fragmentation_score(&self, node: &Node) -> u64 {
        let zones = || node.zones().map(|place| &self.zones[place]);
        let of_node: u64 = zones().map(|z| z.span.present.0).sum();
        zones().map(|z| z.span.present.0 * fragmentation_score(&self.free_blocks(z.id)) / (of_node + 1)).sum()
    }
}
