//! The background reclaimer of a node: runs until its zones are balanced, and sleeps. Layer: requests, above `reclaim`
//! and `kcompactd`.

use crate::allocator::LinuxAllocator;
use crate::compaction::forget_hints_if_asked;
use crate::config::{CompactorWake, Reclaimer, Rest, Unreclaimable};
use crate::effort::{Effort, Mark, Reach};
use crate::node::Node;
use crate::reclaim::CLUSTER;
use crate::wake::Woken;
use crate::zone::Zone;
use pageyard_core::reclaim::{Helpers, Priority, Reclaimed, Shortage, ZoneMask};
use pageyard_core::{Cx, Frames, Order, PAGEBLOCK_ORDER, Request, RequestFlags, ZoneKind};

/// Looks after which a run ends, whatever owners say that they freed: one that frees frames and takes them again would
/// keep it going for ever. Linux has no such limit. Where that was not enough, the reclaimer stays awake, and goes on
/// with its next run.
const MAX_LOOKS: u32 = 64;

/// A zone is balanced at this part of its frames above the high watermark, while lower zones are reclaimed for a higher
/// one. `KSWAPD_ZONE_BALANCE_GAP_RATIO` (until 4.7).
const BALANCE_GAP_RATIO: u64 = 100;

/// Priorities below the first at which reclaim for a boost stops: above it, it would have to write.
const BOOST_PRIORITIES: u8 = 2;

/// The result of a run for a node.
struct Run {
    did: Reclaimed,
    /// The order for which it reclaimed at the end.
    order: Order,
}

/// How the zones' boosts were when a run began.
struct Boosts<'a>(Vec<(&'a Zone, u64)>);

impl<'a> Boosts<'a> {
    fn of(zones: impl Iterator<Item = &'a Zone>) -> Boosts<'a> {
        Boosts(zones.map(|z| (z, z.boost.get())).filter(|(_, boost)| *boost > 0).collect())
    }

    fn sum(&self) -> u64 {
        self.0.iter().map(|(_, boost)| boost).sum()
    }
}

impl LinuxAllocator {
    /// Lets the background reclaimers run that are awake; on a CPU that does not exist nothing runs.
    pub(crate) fn kswapd<H: Helpers>(&self, cx: &Cx, helpers: &H) -> Reclaimed {
        let mut sum = Reclaimed::default();
        if !self.has_cpu(cx.cpu) {
            return sum;
        }
        for node in self.nodes.iter().filter(|node| node.awake.get()) {
            let did = self.run_reclaimer(cx, helpers, node);
            sum.scanned += did.scanned;
            sum.freed += did.freed;
        }
        sum
    }

    /// Wakes the background reclaimers of the nodes that a request may use, or, where one cannot help it, the
    /// compactor.
    ///
    /// # Linux
    /// `wake_all_kswapds`, and the end of `wakeup_kswapd`. Until 4.7 each zone's call counts, with the kind of the
    /// preferred zone.
    pub(crate) fn wake_all(&self, cx: &Cx, request: &Request, reach: Reach) {
        let order = match self.config.defrag_mode {
            true => request.order.max(PAGEBLOCK_ORDER),
            false => request.order,
        };
        let instead = self.config.compactor_wake == CompactorWake::Instead
            && request.flags.contains(RequestFlags::NON_BLOCKING);
        let by_zone = self.config.reclaimer == Reclaimer::ByZone;
        let (mut highest, mut last) = (request.highest_zone, None);
        for (n, zone) in self.zones_for(cx, request, reach).enumerate() {
            if by_zone && n == 0 {
                highest = zone.span.kind;
            }
            let same_node = last.replace(zone.span.node) == Some(zone.span.node);
            if same_node && !by_zone {
                continue;
            }
            if self.wake_reclaimer(zone, highest, order) == Woken::NotNeeded && instead {
                self.wake_compactor(self.node(zone.span.node), order, highest);
            }
        }
    }

    /// One run, and whether it sleeps then. Awake, it goes on with what was asked for meanwhile.
    ///
    /// # Linux
    /// The loop of `kswapd`.
    fn run_reclaimer<H: Helpers>(&self, cx: &Cx, help: &H, node: &Node) -> Reclaimed {
        let (order, highest) = node.run();
        let boosts = Boosts::of(self.zones_up_to(node, highest));
        let (did, rest) = match self.config.reclaimer {
            Reclaimer::ByZone => {
                let (did, top) = self.balance_zones(cx, help, node, order, highest);
                self.end_run(node, highest, &boosts);
                (did, self.rest_by_zone(help, node, order, highest, top))
            }
            Reclaimer::ByNode => {
                let run = self.balance_node(cx, help, node, order, highest, &boosts);
                // Whether it may rest is seen without the boosts.
                self.end_run(node, highest, &boosts);
                (run.did, self.rest_by_node(node, order, run.order, highest))
            }
        };
        match rest {
            Some((order, highest)) => self.sleep(help, node, order, highest),
            None => self.reclaim_begins(node),
        }
        did
    }

    /// If the reclaimer may sleep after a run, returns the order and zone for which it then wakes the compactor.
    ///
    /// # Linux
    /// The loop of `kswapd` in 4.6.
    fn rest_by_zone<H: Helpers>(
        &self,
        help: &H,
        node: &Node,
        order: Order,
        highest: ZoneKind,
        top: ZoneKind,
    ) -> Option<(Order, ZoneKind)> {
        let (asked, kind) = node.next();
        let more = asked > order || kind.is_some_and(|kind| kind < highest);
        (!more && self.is_balanced_by_zone(help, node, order, top)).then_some((order, highest))
    }

    /// The same by node. If reclaim gave the order up, the order it ended with decides whether it sleeps, and the
    /// compactor is woken for the original one; otherwise the newest request decides both.
    ///
    /// # Linux
    /// The loop of `kswapd` since 4.8.
    fn rest_by_node(
        &self,
        node: &Node,
        order: Order,
        reclaimed: Order,
        highest: ZoneKind,
    ) -> Option<(Order, ZoneKind)> {
        let (asked, kind) = node.next();
        let (compact, rest, highest) = match reclaimed < order {
            true => (order, reclaimed, highest),
            false => (asked, asked, kind.unwrap_or(highest)),
        };
        self.may_rest(node, rest, highest).then_some((compact, highest))
    }

    /// # Linux
    /// The end of `balance_pgdat`: the boosts that it began with are gone, and the compactor makes use of what was
    /// freed for them.
    fn end_run(&self, node: &Node, highest: ZoneKind, boosts: &Boosts<'_>) {
        self.zones_up_to(node, highest).for_each(|zone| zone.reclaiming.set(false));
        for (zone, boost) in &boosts.0 {
            zone.lower_boost(*boost);
        }
        if boosts.sum() > 0 {
            self.wake_compactor(node, PAGEBLOCK_ORDER, highest);
        }
    }

    /// # Linux
    /// `kswapd_try_to_sleep`, once `prepare_kswapd_sleep` has agreed. Its first sleep of a tenth of a second, after
    /// which Linux looks once more whether the node is balanced, is none here: it sleeps until it is woken.
    fn sleep<H: Helpers>(&self, help: &H, node: &Node, order: Order, highest: ZoneKind) {
        node.awake.set(false);
        self.spare(node);
        node.zones().for_each(|place| forget_hints_if_asked(self, help, self.zones[place].id));
        self.wake_compactor(node, order, highest);
    }

    /// # Linux
    /// `prepare_kswapd_sleep`, since 4.8.
    pub(crate) fn may_rest(&self, node: &Node, order: Order, highest: ZoneKind) -> bool {
        node.is_hopeless()
            || match self.config.kswapd_rest {
                Rest::AllBalanced => {
                    self.zones_up_to(node, highest).all(|z| self.is_zone_balanced(z, order, highest))
                }
                Rest::OneBalanced => self.is_balanced(node, order, highest),
            }
    }

    /// Asks the owners once.
    #[expect(clippy::too_many_arguments, reason = "the fields of a shortage")]
    fn look<H: Helpers>(
        &self,
        cx: &Cx,
        help: &H,
        zone: &Zone,
        highest: ZoneKind,
        want: u64,
        order: Order,
        priority: Priority,
    ) -> Reclaimed {
        let zones: ZoneMask = self.together(zone, highest).map(|z| z.id).collect();
        let ask = Shortage { zones, want: Frames(want), order, priority, background: true };
        self.ask(cx, help, zone, &ask)
    }

    /// Reclaims from a node until a zone is balanced. The boosts are reclaimed once more, if that is easily done.
    ///
    /// # Linux
    /// `balance_pgdat` since 4.8, and `kswapd_shrink_node`. `cache_trim_mode`, which begins once more without it in
    /// 6.12, does not exist here; nothing is written or swapped, so that a boost only ends its priorities early.
    fn balance_node<H: Helpers>(
        &self,
        cx: &Cx,
        help: &H,
        node: &Node,
        mut order: Order,
        highest: ZoneKind,
        boosts: &Boosts<'_>,
    ) -> Run {
        let zones = self.zones_up_to(node, highest);
        let mut boost = boosts.sum();
        let mut priority = Priority::START;
        let mut sum = Reclaimed::default();
        for _ in 0..MAX_LOOKS {
            let balanced = self.is_balanced(node, order, highest);
            if !balanced && boost > 0 {
                // Too little is free even without the boost: that comes first.
                boost = 0;
                priority = Priority::START;
                continue;
            }
            let top = zones.clone().next_back();
            let Some(top) = top.filter(|_| !balanced || boost > 0) else { return Run { did: sum, order } };
            let want = zones.clone().map(|z| z.mark(Mark::High).max(CLUSTER)).sum();
            let did = self.look(cx, help, top, highest, want, order, priority);
            sum.scanned += did.scanned;
            sum.freed += did.freed;
            // A block may still not be there: with this much freed, compaction and requests can do the rest.
            if order > Order::ZERO && sum.freed.0 >= self.config.compaction.gap_for(order) {
                order = Order::ZERO;
            }
            let stays = boost > 0 && priority.0 == Priority::START.0 - BOOST_PRIORITIES;
            boost = boost.saturating_sub(did.freed.0);
            if boost > 0 && did.freed == Frames::ZERO {
                break;
            }
            if (did.scanned.0 < want && !stays) || did.freed == Frames::ZERO {
                priority.0 -= 1;
                if priority == Priority::HARDEST {
                    break;
                }
            }
        }
        if sum.freed == Frames::ZERO && self.config.unreclaimable == Unreclaimable::Failures {
            node.failed();
        }
        Run { did: sum, order }
    }

    /// Returns whether a zone has enough free frames for its compactor to make a block.
    ///
    /// # Linux
    /// `zone_balanced` of 4.6, with `highorder` false.
    fn has_room(&self, zone: &Zone, order: Order, gap: u64, highest: ZoneKind) -> bool {
        let effort = Effort::plain(Mark::High);
        let mark = zone.mark(Mark::High) + gap;
        match self.config.compaction.enabled {
            true => zone.enough(Order::ZERO, highest, mark + order.frames().0, effort, &self.config),
            false => zone.enough(order, highest, mark, effort, &self.config),
        }
    }

    /// Returns whether enough of a node's zones up to `highest` are balanced: all, or for a block a quarter of their
    /// frames. A zone that cannot be reclaimed counts as balanced.
    ///
    /// # Linux
    /// `pgdat_balanced` of 4.6.
    fn is_balanced_by_zone<H: Helpers>(
        &self,
        help: &H,
        node: &Node,
        order: Order,
        highest: ZoneKind,
    ) -> bool {
        let (mut managed, mut balanced) = (0, 0);
        for zone in self.zones_up_to(node, highest) {
            managed += zone.span.managed.0;
            if self.is_unreclaimable(help, zone) || self.has_room(zone, order, 0, zone.span.kind) {
                balanced += zone.span.managed.0;
            } else if order == Order::ZERO {
                return false;
            }
        }
        order == Order::ZERO || balanced >= managed / 4
    }

    /// Reclaims from each zone that is not balanced, up to the highest of those. Returns which that was.
    ///
    /// # Linux
    /// `balance_pgdat` and `kswapd_shrink_zone` of 4.6. A zone that cannot be reclaimed is looked at once, softly, in
    /// each run.
    fn balance_zones<H: Helpers>(
        &self,
        cx: &Cx,
        help: &H,
        node: &Node,
        order: Order,
        highest: ZoneKind,
    ) -> (Reclaimed, ZoneKind) {
        let mut sum = Reclaimed::default();
        let mut priority = Priority::START;
        let mut top = ZoneKind::Dma;
        for _ in 0..MAX_LOOKS {
            let passed_over = |z: &Zone| priority != Priority::START && self.is_unreclaimable(help, z);
            let mut downwards = node.zones().rev().map(|place| &self.zones[place]);
            let needs = |z: &&Zone| !passed_over(z) && !self.has_room(z, order, 0, ZoneKind::Dma);
            let Some(needy) = downwards.find(needs) else { break };
            top = needy.span.kind;
            let (mut harder, mut freed) = (true, Frames::ZERO);
            for zone in self.zones_up_to(node, top).filter(|z| !passed_over(z)) {
                let gap = zone.marks.of(Mark::Low).min(zone.span.managed.0.div_ceil(BALANCE_GAP_RATIO));
                if self.has_room(zone, order, gap, top) {
                    harder = false;
                    continue;
                }
                let want = zone.mark(Mark::High).max(CLUSTER);
                let did = self.look(cx, help, zone, zone.span.kind, want, order, priority);
                sum.scanned += did.scanned;
                sum.freed += did.freed;
                freed += did.freed;
                harder &= did.scanned.0 < want;
            }
            if harder || freed == Frames::ZERO {
                priority.0 -= 1;
            }
            if priority == Priority::HARDEST || self.is_balanced_by_zone(help, node, order, highest) {
                break;
            }
        }
        (sum, top)
    }
}
