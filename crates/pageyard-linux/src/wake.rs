//! Whether a node has enough free memory, and waking its background reclaimer where it has not. Layer: taking and
//! giving.

use crate::allocator::LinuxAllocator;
use crate::config::Reclaimer;
use crate::effort::{Effort, Mark};
use crate::node::Node;
use crate::zone::Zone;
use pageyard_core::{NodeId, Order, ZoneKind};

/// The result of waking a background reclaimer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Woken {
    /// It begins.
    Begins,
    /// It is awake already, and will do what was asked for next.
    Awake,
    /// Its node has enough for such a request, or is hopeless.
    NotNeeded,
}

impl LinuxAllocator {
    /// Returns a node. Every zone's node is there.
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        let place = self.nodes.binary_search_by_key(&id, |node| node.id);
        &self.nodes[place.unwrap_or(0)]
    }

    /// Sees to it that requests take from a node last while its background reclaimer is awake, where they do.
    pub(crate) fn spare(&self, node: &Node) {
        let under_reclaim = self.config.spares_reclaiming_nodes && self.nodes.len() > 1 && node.awake.get();
        node.zones().for_each(|place| self.zones[place].under_reclaim.set(under_reclaim));
    }

    /// Returns the zones of a node up to a kind, the lowest first.
    pub(crate) fn zones_up_to(
        &self,
        node: &Node,
        highest: ZoneKind,
    ) -> impl DoubleEndedIterator<Item = &Zone> + Clone {
        node.zones_up_to(highest).map(|place| &self.zones[place])
    }

    /// Returns whether a zone is above its high watermark, for requests of this order that may use zones up to
    /// `highest`.
    ///
    /// # Linux
    /// `pgdat_balanced`, its part of one zone. With `defrag_mode` whole free pageblocks count, for orders above 0 (6.15
    /// and later).
    pub(crate) fn is_zone_balanced(&self, zone: &Zone, order: Order, highest: ZoneKind) -> bool {
        let (mark, effort) = (zone.mark(Mark::High), Effort::plain(Mark::High));
        match self.config.defrag_mode && order > Order::ZERO {
            true => zone.enough_in_pageblocks(order, highest, mark, effort, &self.config),
            false => {
                zone.enough(order, highest, mark, effort, &self.config)
                    || self.is_left_to_the_compactor(zone, order, highest)
            }
        }
    }

    /// Returns whether a block of this order is left to compaction, because reclaim for it would end at once: it gives
    /// the order up when it has freed [`gap_for`](crate::compaction::Knobs::gap_for) frames, and so many are free above
    /// the high watermark already.
    ///
    /// # Linux
    /// "mm: Improve pgdat_balanced() to avoid over-reclamation for higher-order allocation" (B. Song, RFC v2, April
    /// 2026).
    fn is_left_to_the_compactor(&self, zone: &Zone, order: Order, highest: ZoneKind) -> bool {
        let compaction = &self.config.compaction;
        self.config.balanced_without_block && order > Order::ZERO && compaction.enabled && {
            let mark = zone.mark(Mark::High) + compaction.gap_for(order);
            zone.enough(Order::ZERO, highest, mark, Effort::plain(Mark::High), &self.config)
        }
    }

    /// Returns whether any zone of a node up to `highest` is above its high watermark, or none of them is there.
    ///
    /// # Linux
    /// `pgdat_balanced`, since 4.8.
    pub(crate) fn is_balanced(&self, node: &Node, order: Order, highest: ZoneKind) -> bool {
        let mut zones = self.zones_up_to(node, highest).peekable();
        zones.peek().is_none() || zones.any(|z| self.is_zone_balanced(z, order, highest))
    }

    /// Returns whether a request that finds too little in a zone need not wake the background reclaimer.
    fn needs_no_reclaim(&self, zone: &Zone, node: &Node, order: Order, highest: ZoneKind) -> bool {
        if self.config.reclaimer == Reclaimer::ByZone {
            // `zone_balanced` as `wakeup_kswapd` calls it: of the order itself, for any zone's requests.
            return zone.enough(
                order,
                ZoneKind::Dma,
                zone.mark(Mark::High),
                Effort::plain(Mark::High),
                &self.config,
            );
        }
        let boosted = || self.zones_up_to(node, highest).any(|z| z.boost.get() > 0);
        node.is_hopeless() || (self.is_balanced(node, order, highest) && !boosted())
    }

    /// Wakes the background reclaimer of a zone's node for a block of this order, unless that is not needed: it begins
    /// at once.
    ///
    /// # Linux
    /// `wakeup_kswapd`, without its last part: waking the compactor instead.
    #[cold]
    pub(crate) fn wake_reclaimer(&self, zone: &Zone, highest: ZoneKind, order: Order) -> Woken {
        let node = self.node(zone.span.node);
        node.ask(order, highest, self.config.reclaimer);
        if node.awake.get() {
            return Woken::Awake;
        }
        if self.needs_no_reclaim(zone, node, order, highest) {
            return Woken::NotNeeded;
        }
        self.reclaim_begins(node);
        Woken::Begins
    }

    /// Lets the background reclaimer of a node begin what it was asked for: from now on its zones' lists keep little.
    ///
    /// # Linux
    /// The beginning of `balance_pgdat` (`set_reclaim_active`).
    pub(crate) fn reclaim_begins(&self, node: &Node) {
        let highest = node.begin(self.config.reclaimer);
        self.spare(node);
        self.zones_up_to(node, highest).for_each(|zone| zone.reclaiming.set(true));
    }

    /// Lets the background reclaimer of a node go to sleep, whatever it was asked for meanwhile: its zones' lists may
    /// grow again, and of those that were being reclaimed none has a boost.
    ///
    /// # Linux
    /// The end of `balance_pgdat`, as if it had reclaimed enough.
    pub(crate) fn reclaim_is_done(&self, node: &Node) {
        node.awake.set(false);
        self.spare(node);
        for zone in node.zones().map(|place| &self.zones[place]) {
            if zone.reclaiming.take() {
                zone.end_boost();
            }
        }
    }
}
