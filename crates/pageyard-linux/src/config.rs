//! Which Linux the reference behaves like: its settings, and the table of its knobs. Layer: settings.

pub use crate::choices::{
    BoostRule, CmaUse, CompactorWake, FallbackPolicy, FirstCompaction, FragFree, FreeHigh, HighatomicGrowth,
    HighatomicLimit, PcpPolicy, Portions, Reclaimer, Rest, Retries, Unreclaimable, ZonelistIterator,
};
pub use crate::protection::PcpProtection;

use crate::compaction;
use crate::irq::Interrupts;
use pageyard_core::knob::Place::{Code, Ours, Sysctl};
use pageyard_core::knob::Releases::{Between, Every, Never, Since, Until};
use pageyard_core::knob::Values::{Names, Number, ZeroOr};
use pageyard_core::knob::{ANY, Version};
use pageyard_core::knobs;
use pageyard_core::watermark::{ReserveRule, WatermarkKnobs, Watermarks};
use pageyard_core::{Migratetype, NodeId, Order, PAGEBLOCK_ORDER, ZoneKind};

/// The watermarks of a zone, without boost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneMarks {
    /// The zone's node.
    pub node: NodeId,
    /// The zone's kind.
    pub kind: ZoneKind,
    /// The watermarks.
    pub marks: Watermarks,
}

knobs! {
    /// Which Linux the reference behaves like.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Config {
        /// The preset's name.
        pub name: &'static str = "",
        /// CPUs, each with its own lists.
        pub cpus: u32 = 2,
        /// Watermarks and reserves.
        pub watermark: WatermarkKnobs = WatermarkKnobs::defaults(),
        /// Watermarks of zones that do not follow from `watermark` and the frames that are managed now. A kernel
        /// computes them when it starts and when a setting is written; frames that come to be managed in between count
        /// only then.
        pub zone_marks: Vec<ZoneMarks> = Vec::new(),
        /// Which requests can go below a watermark, and how far.
        pub reserve_rule: ReserveRule = ReserveRule::HighHarder,
        /// How much is set aside for high-order requests that cannot wait.
        pub highatomic_limit: HighatomicLimit = HighatomicLimit::PercentPlusOne,
        /// Compaction.
        pub compaction: compaction::Knobs = compaction::Knobs::defaults(),
        /// The parts of its kernel that the preset leaves out.
        pub leaves_out: &'static str = "",
    }
    prefix "", behind watermark, before compaction;

    percpu_pagelist_high_fraction: u64 {
        about: "the share of a zone that per-CPU lists may hold; 0 computes their limit",
        values: ZeroOr(8),
        place: Sysctl("vm.percpu_pagelist_high_fraction"),
        releases: &[("0", Every), (ANY, Since(5, 14))],
        note: "Until 5.13 vm.percpu_pagelist_fraction gives each CPU that share, and a batch of a quarter of it.",
    }
    pcp_protection: PcpProtection {
        about: "who may use a CPU's lists, and what is turned off meanwhile",
        place: Code("rmqueue_pcplist, free_unref_page"),
        releases: &[
            ("irqsave", Until(5, 19)),
            ("preempt_only", Never),
            ("soft_irq_off", Never),
            ("soft_irq_allowed", Never),
            ("trylock", Since(6, 0)),
        ],
        note: "preempt_only is commit 374ad05ab64d, which was reverted before 4.11 was released; soft_irq_off and \
            soft_irq_allowed are readings of the variant that it mentions.",
    }
    interrupts: Interrupts {
        about: "what turning interrupts off costs: nothing, or an instruction or system call of that kind",
        place: Ours("a process cannot turn interrupts off, so this says what stands in for local_irq_save"),
    }
    frag_free: FragFree {
        about: "where the frames of page fragments are freed to",
        place: Code("page_frag_free"),
        releases: &[("buddy", Until(4, 20)), ("pcp", Since(5, 0))],
        note: "A. Lu's patch of November 2018.",
    }
    zonelist_iterator: ZonelistIterator {
        about: "how a request steps from zone to zone",
        place: Code("next_zones_zonelist"),
        releases: &[("called", Until(4, 6)), ("inlined", Since(4, 7))],
        note: "M. Gorman's patch of April 2016.",
    }
    pcp_policy: PcpPolicy {
        about: "how long per-CPU lists become and how they shrink",
        place: Code("zone_batchsize, zone_highsize, nr_pcp_free"),
        releases: &[("classic", Until(5, 13)), ("free_factor", Between((5, 14), (6, 6))), ("auto", Since(6, 7))],
    }
    pcp_batch_from: u64 {
        about: "the most of a thousandth of a zone that a batch is a quarter of",
        values: Number { from: 4, to: 1 << 20, unit: "KiB" },
        place: Code("zone_batchsize"),
        releases: &[("512", Until(4, 18)), ("1024", Since(4, 19))],
    }
    exact_rest_to_lists: bool {
        about: "whether the frames behind an exact request go to per-CPU lists, and not to the end of their zone's",
        place: Code("make_alloc_exact"),
        releases: &[("true", Until(5, 10)), ("false", Since(6, 1))],
        note: "The change came between those releases.",
    }
    pcp_high_orders: bool {
        about: "whether per-CPU lists hold orders 1 to 3 and 9 as well",
        place: Code("order_to_pindex"),
        releases: &[("false", Until(5, 13)), ("true", Since(5, 14))],
    }
    /// A refill first takes back the parts of its CPU's own pageblocks that went to the zone, then claims whole
    /// pageblocks while the lists have room for them below their limit, then takes the largest blocks that it still
    /// needs. Lists split what they hold. A CPU owns a pageblock until all of it is back in the zone; before its lists
    /// give back, largest blocks first, buddies merge in them.
    pcp_owners: bool {
        about: "whether CPUs fill their lists with whole pageblocks, to whose owner's lists every CPU frees",
        place: Code("rmqueue_bulk, free_frozen_page_commit, free_pcppages_bulk"),
        releases: &[("false", Every), ("true", Never)],
        note: "\"mm: page_alloc: per-cpu pageblock buddy allocator\" (J. Weiner, April 2026, \
            20260403194526.477775-1-hannes@cmpxchg.org). Its pages carry a mark by which they merge; here all do that \
            lie in a list of their pageblock's owner. The limit up to which whole pageblocks are claimed, and that the \
            largest blocks go back first, are readings of it. A CPU whose lists are drained keeps its pageblocks. \
            Lists without a lock own none. Merging allocates, so signal handlers must not call the allocator.",
    }
    pcp_free_high: FreeHigh {
        about: "how many frames freed in a row let a block of order 1 to 3 empty a CPU's lists",
        place: Code("free_unref_page_commit"),
        releases: &[("batch", Until(6, 15)), ("batch_and_half", Since(6, 16))],
        note: "It decides something from 6.7 on.",
    }
    pcp_free_high_batch: bool {
        about: "whether lists that are emptied that way keep a batch",
        place: Code("PCPF_FREE_HIGH_BATCH"),
        releases: &[("true", Every), ("false", Never)],
        note: "It decides something from 6.7 on, where it is true on processors whose slice of the caches holds more \
            than three batches.",
    }
    pcp_decay: Portions {
        about: "how lists that are too long shrink once a second",
        place: Code("decay_pcp_high"),
        releases: &[("at_once", Until(6, 18)), ("by_batch", Since(6, 19))],
        branches: &[(Version(6, 12), "by_batch"), (Version(6, 18), "by_batch")],
        note: "It decides something from 6.7 on. The presets linux-6.12 and linux-6.18 are 6.12.117 and 6.18.15, \
            which have the later one.",
    }
    pcp_spill: Portions {
        about: "how lists that a free finds too long give back",
        place: Code("free_frozen_page_commit"),
        releases: &[("at_once", Until(6, 18)), ("by_batch", Since(7, 0))],
        note: "The change came between those releases. It decides something where lists hold blocks.",
    }
    boost_rule: BoostRule {
        about: "who is spared a boost of the watermarks, and who wakes the background reclaimer for it",
        place: Code("zone_watermark_fast, rmqueue"),
        releases: &[("atomic", Until(6, 2)), ("high", Since(6, 5))],
        note: "Watermarks are boosted from 5.0 on. Who is spared changed in 6.3, who wakes in 6.5.",
    }
    /// Each time by a thousandth of the zone's frames, and once a second at most.
    boost_atomic: bool {
        about: "whether an atomic request for a single frame that fails its first attempt on the slow path raises the \
            boost of every zone that it may use",
        place: Code("__alloc_pages_slowpath"),
        releases: &[("false", Every), ("true", Never)],
        note: "\"mm/page_alloc: boost watermarks on atomic allocation failure\" (Q. Yuan, v10, 14 February 2026), as its \
            text has it: the amount, the second and the zones. Where on the slow path it does so is that of v4. That zones \
            of less than four pageblocks have no boost, and that there is no limit, is assumed.",
    }
    /// They do so once the nodes that they may use have nothing above the low watermark. Those of tasks that are being
    /// killed are among them.
    privileged_take_any_node: bool {
        about: "whether urgent requests and those without watermarks take from nodes that they did not ask for",
        place: Code("__alloc_pages_slowpath"),
        releases: &[("true", Every), ("false", Never)],
        note: "There it also sets a cpuset aside.",
    }
    /// After compaction there did not help. Requests for huge pages ask one node first.
    this_node_reclaims: bool {
        about: "whether a costly request that gives up early reclaims where it may use one node only",
        place: Code("__alloc_pages_slowpath"),
        releases: &[("true", Until(6, 18)), ("false", Since(7, 2))],
        branches: &[(Version(5, 10), "false"), (Version(6, 1), "false"), (Version(6, 12), "false")],
        note: "The change came between those releases. The presets linux-5.10, linux-6.1 and linux-6.12 are long-term \
            branches, which have the later one; 6.18.15 has it not. It decides something where first_compaction is apart.",
    }
    /// When a request asks whether to try again.
    reclaimable_counts_free: bool {
        about: "whether a zone with nothing to reclaim counts its free frames as reclaimable",
        place: Code("zone_reclaimable_pages"),
        releases: &[("false", Until(6, 12)), ("true", Between((6, 13), (6, 13))), ("false", Since(6, 18))],
        branches: &[(Version(6, 1), "true"), (Version(6, 12), "true")],
        note: "The presets linux-6.1 and linux-6.12 are long-term branches, which have it too. When it ended, between \
            6.13 and 6.18, was not looked up.",
    }
    /// It always bounds the zones that serve a request and those that are reclaimed for it.
    cpuset_bounds_help: bool {
        about: "whether a cpuset bounds compaction for a request, and its hopes for reclaim, as well",
        place: Code("should_reclaim_retry, try_to_compact_pages"),
        releases: &[("false", Until(6, 1)), ("true", Since(6, 12))],
        note: "The change came between those releases. It decides something where there are cpusets.",
    }
    dirty_ratio: u64 = 20 {
        about: "how much of a node's memory for files may be dirty before requests for more go elsewhere",
        values: Number { from: 0, to: 100, unit: "percent" },
        place: Sysctl("vm.dirty_ratio"),
        releases: &[(ANY, Every)],
        note: "20 unless it is set. The node's limit, since 4.8; before, a zone had one of its own. It decides \
            something for requests with __GFP_WRITE, once the allocator was told what nodes hold of files.",
    }
    cma: CmaUse {
        about: "when movable requests use areas that their owners lend: after their own free blocks, or before while \
            half of what is free is there",
        place: Code("__rmqueue"),
        releases: &[("last", Until(4, 10)), ("half", Since(5, 10))],
        note: "The change came between those releases. It decides something where pageblocks are CMA.",
    }
    fallback: FallbackPolicy {
        about: "how a request takes from pageblocks of another type",
        place: Code("__rmqueue_fallback; since 6.15 __rmqueue_claim and __rmqueue_steal"),
        releases: &[
            ("half_free", Until(4, 11)),
            ("alike", Between((4, 12), (6, 9))),
            ("claim_or_steal", Since(6, 10)),
            ("classes", Never),
        ],
        note: "Since 6.10 a pageblock's type and the lists of its free blocks agree. classes is the allocator LLFree's \
            policy for movable and unmovable frames.",
    }
    /// A superpageblock is tainted while it holds a pageblock that is unmovable, reclaimable or of the high-order
    /// reserve. A request of those types that claims a pageblock of another type takes the first block in a tainted
    /// one among the first eight of the list where it found one, or else the first of all.
    superpageblock: u64 {
        about: "how many pageblocks a superpageblock has, within which what cannot be moved is kept together; 0 for none",
        values: Number { from: 0, to: 1 << 20, unit: "pageblocks" },
        place: Code("__rmqueue_claim"),
        releases: &[("0", Every), (ANY, Never)],
        note: "\"mm: page_alloc: steer pageblock stealing to tainted superpageblocks\" (R. van Riel, May 2026, \
            20260520150018.2491267-1-riel@surriel.com), where it is 512: 1 GiB. Left out is the rest of that series: \
            free lists of their own, what movable requests prefer, smaller blocks in tainted ones, reclaim before a \
            clean one is tainted, and the work that empties tainted ones in the background. It decides something where \
            fallback is claim_or_steal.",
    }
    nofragment: bool {
        about: "whether a first attempt avoids mixing types, even at the cost of a lower zone",
        place: Code("ALLOC_NOFRAGMENT"),
        releases: &[("false", Until(4, 20)), ("true", Since(5, 0))],
        note: "Since 6.15 vm.defrag_mode makes it last for every request: see defrag_mode.",
    }
    /// A request that cannot wait fails instead.
    defrag_mode: bool {
        about: "whether no request mixes types before reclaim and compaction have failed it",
        values: Names(&["0", "1"]),
        place: Sysctl("vm.defrag_mode"),
        releases: &[("0", Every), (ANY, Since(6, 15))],
        note: "0 unless it is set. The background reclaimer and compactor work in whole pageblocks then.",
    }
    /// Only if it wakes the background reclaimer.
    defrag_falls_back: bool {
        about: "whether a request that cannot wait mixes types in the end, with defrag_mode, instead of failing",
        place: Code("__alloc_pages_slowpath"),
        releases: &[("false", Until(7, 1)), ("true", Since(7, 2))],
        note: "\"mm/page_alloc: fix defrag_mode for non-reclaimable allocations\" (D. Ilvokhin, May 2026).",
    }
    /// As long as it mixes no types: it can convert the pageblock. It goes with `compaction.whole_empties_movable`.
    defrag_promotes: bool {
        about: "whether a request for what cannot be moved reclaims and compacts for a whole pageblock, with \
            defrag_mode",
        place: Code("__alloc_pages_direct_compact, __alloc_pages_direct_reclaim"),
        releases: &[("false", Until(7, 1)), ("true", Since(7, 2))],
        note: "\"mm: fix reclaim storms in defrag_mode\" (J. Weiner, June 2026), with \
            compaction.whole_empties_movable.",
    }
    /// Such a request then begins its retries anew, and mixes types.
    defrag_gives_up: bool {
        about: "whether a request that would get a whole pageblock that way goes by what was done for it: it is tried \
            again after compaction whatever its order, and neither where that lacked room nor because reclaim went on",
        place: Code("should_compact_retry, should_reclaim_retry, __alloc_pages_slowpath"),
        releases: &[("false", Until(7, 2)), ("true", Since(7, 3))],
        note: "It decides something with defrag_promotes.",
    }
    spares_reclaiming_nodes: bool {
        about: "whether a request tries the nodes whose background reclaimer is awake last",
        place: Code("get_page_from_freelist"),
        releases: &[("false", Until(6, 12)), ("true", Since(6, 18))],
        note: "The change came between those releases. It decides something where there are several nodes.",
    }
    highatomic_counts_free: bool {
        about: "whether only free frames of the high-order reserve are withheld from others",
        place: Code("nr_free_highatomic in __zone_watermark_unusable_free"),
        releases: &[("false", Until(6, 12)), ("true", Since(6, 13))],
        branches: &[(Version(6, 12), "true")],
    }
    highatomic_growth: HighatomicGrowth {
        about: "which atomic requests for several frames let their reserve grow",
        place: Code("get_page_from_freelist; since 7.1 rmqueue_buddy, __rmqueue_pcplist"),
        releases: &[("served", Until(7, 0)), ("unlisted", Since(7, 1)), ("costly", Never)],
    }
    highatomic_before_oom: bool {
        about: "whether a request for which nothing is left to reclaim gets what is free of that reserve at once, and not \
            only after 16 runs in vain",
        place: Code("should_reclaim_retry"),
        releases: &[("false", Until(6, 6)), ("true", Since(6, 7))],
        branches: &[(Version(6, 1), "true")],
        note: "The preset linux-6.1 is a long-term branch, which has it too.",
    }
    merges_reserved: bool {
        about: "whether free pageblocks of that reserve merge with those of other types",
        place: Code("__free_one_page"),
        releases: &[("true", Until(5, 17)), ("false", Since(5, 18))],
    }
    highatomic_last: bool {
        about: "whether a request that cannot wait, or whose task is being killed, uses that reserve where nothing else \
            is left",
        place: Code("rmqueue_buddy"),
        releases: &[("false", Until(5, 10)), ("true", Since(6, 1))],
        note: "The change came between those releases, or to 6.1's long-term branch.",
    }
    highatomic_first: bool {
        about: "whether an atomic request for several frames may use their reserve at its first attempt already",
        place: Code("__alloc_frozen_pages"),
        releases: &[("false", Until(7, 2)), ("true", Since(7, 3))],
    }
    first_compaction: FirstCompaction {
        about: "where the compaction stands that costly requests, and those for what cannot be moved, begin with",
        place: Code("__alloc_pages_slowpath"),
        releases: &[("apart", Until(6, 18)), ("first_round", Since(7, 0))],
        note: "The change came between those releases. Since then a request tries no second time before it reclaims, \
            unless the second attempt may use more.",
    }
    retries: Retries {
        about: "how often a request that waits tries again",
        place: Code("should_reclaim_retry, should_compact_retry"),
        releases: &[("progress", Until(4, 6)), ("bounded", Since(4, 7))],
    }
    reclaimer: Reclaimer {
        about: "what reclaim takes together: a zone, or a node up to the highest zone that a request may use",
        place: Code("balance_pgdat, shrink_zone, shrink_node"),
        releases: &[("by_zone", Until(4, 7)), ("by_node", Since(4, 8))],
    }
    unreclaimable: Unreclaimable {
        about: "how it is known that reclaim is in vain: by what was looked at, or by failed runs of the background",
        place: Code("zone_reclaimable, pgdat_reclaimable, kswapd_failures"),
        releases: &[("scanned", Until(4, 11)), ("failures", Since(4, 12))],
    }
    kswapd_rest: Rest {
        about: "when the background reclaimer of a node may sleep",
        place: Code("prepare_kswapd_sleep"),
        releases: &[("all_balanced", Until(4, 11)), ("one_balanced", Since(4, 12))],
        note: "Of no account where reclaimer is by_zone: then all zones must be balanced, and for blocks a quarter of \
            the frames.",
    }
    /// With `defrag_mode` it never does: there whole free pageblocks count.
    balanced_without_block: bool {
        about: "whether a zone without a free block of the order counts as balanced, where so much is free above the \
            high watermark that the background reclaimer would give the order up",
        place: Code("pgdat_balanced"),
        releases: &[("false", Every), ("true", Never)],
        note: "\"mm: Improve pgdat_balanced() to avoid over-reclamation for higher-order allocation\" (B. Song, RFC v2, \
            22 April 2026). Its text says that there is plenty of free memory; how much that is, compact_gap, is assumed. \
            It decides something where reclaimer is by_node and compaction is on.",
    }
    compactor_wake: CompactorWake {
        about: "whether requests that cannot wait wake the background compactor too",
        place: Code("wakeup_kswapd"),
        releases: &[("after_reclaim", Until(4, 16)), ("instead", Since(4, 17))],
        note: "There is a background compactor since 4.6.",
    }
}

impl Config {
    /// Returns which per-CPU list holds blocks of this order and type, if one does.
    ///
    /// # Linux
    /// `order_to_pindex`: a list for each of orders 0 to 3 and each type, and two for huge pages. With `pcp_owners`
    /// each order has its lists up to a pageblock's; the same requests go through lists.
    #[must_use]
    #[inline]
    pub(crate) fn pcp_list(&self, order: Order, m: Migratetype) -> Option<usize> {
        match order.get() {
            0 => Some(m.index()),
            1..=3 if self.pcp_high_orders => Some(order.index() * 3 + m.index()),
            9 if self.pcp_high_orders && self.pcp_owners => Some(order.index() * 3 + m.index()),
            9 if self.pcp_high_orders => Some(12 + usize::from(m == Migratetype::Movable)),
            _ => None,
        }
    }

    /// Returns the order of the blocks in a per-CPU list.
    ///
    /// # Linux
    /// `pindex_to_order`.
    #[must_use]
    pub(crate) fn pcp_order(&self, list: usize) -> Order {
        if list < 12 || self.pcp_owners { Order::of((list / 3) as u8) } else { PAGEBLOCK_ORDER }
    }

    /// Returns whether a request for cold frames gets them (4.x).
    #[must_use]
    pub(crate) fn heeds_cold(&self) -> bool {
        self.pcp_policy == PcpPolicy::Classic
    }

    /// Returns whether a free block is always on the list of its pageblock's type (6.10 and later).
    #[must_use]
    pub(crate) fn keeps_lists_pure(&self) -> bool {
        matches!(self.fallback, FallbackPolicy::ClaimOrSteal | FallbackPolicy::Classes)
    }

    /// Returns how many per-CPU lists there are.
    #[must_use]
    pub(crate) fn pcp_lists(&self) -> usize {
        match (self.pcp_owners, self.pcp_high_orders) {
            (true, _) => 3 * (PAGEBLOCK_ORDER.index() + 1),
            (false, true) => 14,
            (false, false) => 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_numbered_without_gaps() {
        let c = Config::linux_6_18();
        let mut seen: Vec<usize> = Order::ZERO
            .up_to(Order::of(10))
            .flat_map(|o| Migratetype::REQUESTED.map(|m| (o, m)))
            .filter_map(|(o, m)| c.pcp_list(o, m))
            .collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, (0..c.pcp_lists()).collect::<Vec<_>>());
    }
}
