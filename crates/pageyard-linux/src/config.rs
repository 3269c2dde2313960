//! Presets: which Linux the reference behaves like. Layer: settings.

pub use crate::protection::PcpProtection;

use crate::irq::Interrupts;
use pageyard_core::compaction;
use pageyard_core::watermark::{ReserveRule, WatermarkKnobs, Watermarks};
use pageyard_core::{Migratetype, NodeId, Order, PAGEBLOCK_ORDER, ZoneKind};

/// Where a page fragment's frame goes when its last reference is given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FragFree {
    /// To the zone.
    Buddy,
    /// To the per-CPU list, where lists take blocks of its order: of single frames (A. Lu's patch of November 2018), or, with
    /// `pcp_high_orders`, of larger blocks too.
    Pcp,
}

/// How a walk steps from one entry of a zonelist to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZonelistIterator {
    /// By a call.
    Called,
    /// Inline where no mask is in force (M. Gorman's patch of April 2016).
    Inlined,
}

/// How large the per-CPU lists grow, and how they shrink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PcpPolicy {
    /// `high` is six batches; a full list gives one batch back (4.x).
    Classic,
    /// `high` comes from the low watermark; the batch given back doubles with each free (6.1).
    FreeFactor,
    /// `high` moves between `high_min` and `high_max` with demand (6.7 and later).
    Auto,
}

/// When a CPU that frees one block of order 1 to 3 after another gives up all that its lists hold, under
/// [`PcpPolicy::Auto`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FreeHigh {
    /// After a batch of frames without an allocation (6.7 to 6.15).
    Batch,
    /// After a batch and half of `high_min` (6.16 and later).
    BatchAndHalf,
}

/// How the vmstat worker gives back what a CPU's lists hold above `high`, under [`PcpPolicy::Auto`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decay {
    /// In one go.
    AtOnce,
    /// A batch at a time, each starting at the first list (6.12.117): blocks that are larger than what is left of a batch make it
    /// give more.
    ByBatch,
}

/// Who is spared the boost that fragmentation gives to the watermarks, and who wakes the background reclaimer for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BoostRule {
    /// `GFP_ATOMIC` is spared; any request wakes (6.1).
    Atomic,
    /// Every high-priority request is spared; those wake that may (6.12 and later).
    High,
}

/// When a movable request uses areas that their owners lend (`MIGRATE_CMA`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CmaUse {
    /// When it has no free block of its own type left.
    Last,
    /// The same, and first of all while more than half of what is free is there.
    Half,
}

/// How a request takes from pageblocks of another type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FallbackPolicy {
    /// Largest block first, whatever the request; a pageblock is converted when half of it is free (4.x).
    HalfFree,
    /// Movable requests split the smallest block; alike frames count towards the half (4.12 to 6.9).
    Alike,
    /// A block is either claimed as a whole or one block is taken from it; free lists never mix types (6.10 and later).
    ClaimOrSteal,
}

/// How many pageblocks may be set aside for high-order requests that cannot wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HighatomicLimit {
    /// One percent of the zone and one pageblock more.
    PercentPlusOne,
    /// One percent of the zone rounded up to a pageblock; none where one percent is less than one.
    PercentRounded,
}

/// How often a request that waits for reclaim and compaction tries again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retries {
    /// While reclaim makes progress, up to order 3; once above (4.6).
    Progress,
    /// While the frames that could be reclaimed would be enough, and compaction 16 times, 4 above order 3 (4.7 and
    /// later).
    Bounded,
}

/// What reclaim, and the background reclaimer, take together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reclaimer {
    /// A zone: each has its own lists of pages by age (until 4.7).
    ByZone,
    /// A node, up to the highest zone that a request may use (4.8 and later).
    ByNode,
}

/// How it is known that reclaim is in vain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreclaimable {
    /// All that is reclaimable was looked at six times since a frame came back: only the softest look is still made (until 4.11).
    Scanned,
    /// The background reclaimer has freed nothing in 16 runs: it is not woken until a request frees something (4.12 and later).
    /// With [`Reclaimer::ByZone`] nothing counts as unreclaimable.
    Failures,
}

/// When the background reclaimer of a node may sleep, with [`Reclaimer::ByNode`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// Every zone that it reclaims from is above its high watermark (4.8 to 4.11).
    AllBalanced,
    /// One of them is (4.12 and later).
    OneBalanced,
}

/// Who wakes the background compactor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompactorWake {
    /// The background reclaimer, when it goes to sleep.
    AfterReclaim,
    /// Also a request that cannot wait, where it finds enough free memory, or a node from which nothing can be reclaimed (4.17 and
    /// later).
    Instead,
}

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

/// Which Linux the reference behaves like.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The preset's name.
    pub name: &'static str,
    /// CPUs, each with its own lists.
    pub cpus: u32,
    /// Watermarks and reserves.
    pub watermark: WatermarkKnobs,
    /// Watermarks of zones that do not follow from `watermark` and the frames that are managed now. A kernel computes them when it
    /// starts and when a setting is written; frames that come to be managed in between count only then.
    pub zone_marks: Vec<ZoneMarks>,
    /// Which requests can go below a watermark, and how far.
    pub reserve_rule: ReserveRule,
    /// Which code can use the per-CPU lists.
    pub pcp_protection: PcpProtection,
    /// How interrupts are turned off.
    pub interrupts: Interrupts,
    /// How large they grow.
    pub pcp_policy: PcpPolicy,
    /// When many freed blocks of order 1 to 3 empty them.
    pub pcp_free_high: FreeHigh,
    /// Whether they keep a batch of such blocks: Linux decides by the size of the processor's caches.
    pub pcp_free_high_batch: bool,
    /// How they shrink once a second.
    pub pcp_decay: Decay,
    /// Whether they hold orders 1 to 3 and 9 as well as order 0.
    pub pcp_high_orders: bool,
    /// `vm.percpu_pagelist_high_fraction`: the share of a zone that all CPUs' lists may hold; 0 computes `high`.
    pub percpu_pagelist_high_fraction: u64,
    /// Where the frames of page fragments go.
    pub frag_free: FragFree,
    /// How a zonelist is walked.
    pub zonelist_iterator: ZonelistIterator,
    /// How types fall back.
    pub fallback: FallbackPolicy,
    /// Who is spared a boost of the watermarks.
    pub boost_rule: BoostRule,
    /// Whether a first attempt avoids mixing types in a pageblock, even at the cost of a lower zone (5.0 and later).
    pub nofragment: bool,
    /// Whether no request mixes types in a pageblock before reclaim and compaction have failed it (6.15 and later). One that
    /// cannot wait fails instead.
    pub defrag_mode: bool,
    /// Whether, with that mode, a request that cannot wait mixes types in the end instead of failing, if it wakes the background
    /// reclaimer (a fix of May 2026).
    pub defrag_falls_back: bool,
    /// Whether, with that mode, a request for what cannot be moved reclaims and compacts for a whole pageblock, which it can convert, as long
    /// as it mixes no types (a series of June 2026, with `compaction.whole_empties_movable`).
    pub defrag_promotes: bool,
    /// Whether a request passes over the nodes whose background reclaimer is awake, and comes back to them only where the others have
    /// nothing (6.18).
    pub spares_reclaiming_nodes: bool,
    /// Whether requests that ignore the watermarks, those of tasks that are being killed and urgent ones that cannot wait take from
    /// any node, whatever they ask for, once the nodes that they may use have nothing above the low watermark.
    pub privileged_take_any_node: bool,
    /// How much is set aside for high-order requests that cannot wait.
    pub highatomic_limit: HighatomicLimit,
    /// Whether only *free* reserved frames are withheld from others (6.13 and later), or all reserved ones.
    pub highatomic_counts_free: bool,
    /// How often a request that waits tries again.
    pub retries: Retries,
    /// What reclaim takes together.
    pub reclaimer: Reclaimer,
    /// How it is known that reclaim is in vain.
    pub unreclaimable: Unreclaimable,
    /// When the background reclaimer may sleep.
    pub kswapd_rest: Rest,
    /// Who wakes the background compactor.
    pub compactor_wake: CompactorWake,
    /// Whether a costly request that gives up early reclaims for one node, too, after compaction there did not help: requests for huge
    /// pages ask one node first (until 6.18; no longer in 6.1.192 and 6.12.117).
    pub this_node_reclaims: bool,
    /// Whether a zone from which nothing can be reclaimed counts its free frames as such when a request asks whether to try again
    /// (6.13, long-term branches since then; no longer in 6.18).
    pub reclaimable_counts_free: bool,
    /// Whether a cpuset also bounds the zones that are compacted for a request and those that it counts on when it tries again (6.12;
    /// not in 6.1), and not only those that serve it and those that are reclaimed.
    pub cpuset_bounds_help: bool,
    /// `vm.dirty_ratio`: the percentage of a node's memory for files that may be dirty before requests for more of it go elsewhere first.
    pub dirty_ratio: u64,
    /// When movable requests use areas that their owners lend.
    pub cma: CmaUse,
    /// Compaction.
    pub compaction: compaction::Knobs,
    /// What the preset leaves out of the kernel it is named after.
    pub leaves_out: &'static str,
}

/// What every preset leaves out, and what this one leaves out besides.
macro_rules! left_out {
    ($($besides:literal)?) => {
        concat!(
            "Reclaim and compaction run only where a workload supplies what to reclaim and to move; memory cgroups do not exist, and \
             owners of CMA areas take nothing back. Requests do not wait for the background reclaimer (allow_direct_reclaim), which sleeps \
             at once, without its first tenth of a second; should_continue_reclaim is left out. Compaction knows no contended lock. Which \
             frames are on LRU lists (too_many_isolated) and when a CPU is wanted (need_resched) it knows from their owner alone.",
            $(" ", $besides)?
        )
    };
}

const LEFT_OUT_4_6: &str =
    left_out!("There is no fair-zone policy, and a node has a dirty limit where a zone had one.");

const LEFT_OUT_4_10: &str = left_out!();

const LEFT_OUT_6_1: &str = left_out!("It captures a block when it is left.");

/// The same for kernels from 6.9 on.
const LEFT_OUT_6_12: &str = left_out!(
    "It captures a block when it is left, and splits a large folio for which no target is free where its owner does that."
);

impl Config {
    /// The names of the releases. What was posted and is in none of them is in [`Posted`].
    pub const PRESETS: [&'static str; 5] =
        ["linux-4.6", "linux-4.10", "linux-6.1", "linux-6.12", "linux-6.18"];

    /// Returns a release by name, with two CPUs.
    #[must_use]
    pub fn preset(name: &str) -> Option<Config> {
        match name {
            "linux-4.6" => Some(Config::linux_4_6()),
            "linux-4.10" => Some(Config::linux_4_10()),
            "linux-6.1" => Some(Config::linux_6_1()),
            "linux-6.12" => Some(Config::linux_6_12()),
            "linux-6.18" => Some(Config::linux_6_18()),
            _ => None,
        }
    }

    /// Linux 4.6.
    #[must_use]
    pub fn linux_4_6() -> Config {
        Config {
            name: "linux-4.6",
            retries: Retries::Progress,
            reclaimer: Reclaimer::ByZone,
            compaction: compaction::Knobs::linux_4_6(),
            leaves_out: LEFT_OUT_4_6,
            zonelist_iterator: ZonelistIterator::Called,
            ..Config::linux_4_10()
        }
    }

    /// Linux 4.10.
    #[must_use]
    pub fn linux_4_10() -> Config {
        Config {
            name: "linux-4.10",
            cpus: 2,
            watermark: WatermarkKnobs { watermark_boost_factor: 0, ..WatermarkKnobs::default() },
            zone_marks: Vec::new(),
            reserve_rule: ReserveRule::HighHarder,
            pcp_protection: PcpProtection::Irqsave,
            interrupts: Interrupts::None,
            pcp_policy: PcpPolicy::Classic,
            pcp_free_high: FreeHigh::Batch,
            pcp_free_high_batch: true,
            pcp_decay: Decay::AtOnce,
            pcp_high_orders: false,
            percpu_pagelist_high_fraction: 0,
            frag_free: FragFree::Buddy,
            zonelist_iterator: ZonelistIterator::Inlined,
            fallback: FallbackPolicy::HalfFree,
            boost_rule: BoostRule::Atomic,
            nofragment: false,
            defrag_mode: false,
            defrag_falls_back: false,
            defrag_promotes: false,
            spares_reclaiming_nodes: false,
            privileged_take_any_node: true,
            highatomic_limit: HighatomicLimit::PercentPlusOne,
            highatomic_counts_free: false,
            retries: Retries::Bounded,
            reclaimer: Reclaimer::ByNode,
            unreclaimable: Unreclaimable::Scanned,
            kswapd_rest: Rest::AllBalanced,
            compactor_wake: CompactorWake::AfterReclaim,
            this_node_reclaims: true,
            reclaimable_counts_free: false,
            cpuset_bounds_help: false,
            dirty_ratio: 20,
            cma: CmaUse::Last,
            compaction: compaction::Knobs::linux_4_10(),
            leaves_out: LEFT_OUT_4_10,
        }
    }

    /// Linux 6.1, as its long-term branch stands (6.1.192).
    #[must_use]
    pub fn linux_6_1() -> Config {
        Config {
            name: "linux-6.1",
            watermark: WatermarkKnobs::default(),
            reserve_rule: ReserveRule::MinReserve,
            pcp_protection: PcpProtection::Trylock,
            pcp_policy: PcpPolicy::FreeFactor,
            pcp_high_orders: true,
            frag_free: FragFree::Pcp,
            fallback: FallbackPolicy::Alike,
            nofragment: true,
            unreclaimable: Unreclaimable::Failures,
            kswapd_rest: Rest::OneBalanced,
            compactor_wake: CompactorWake::Instead,
            this_node_reclaims: false,
            reclaimable_counts_free: true,
            cma: CmaUse::Half,
            compaction: compaction::Knobs::linux_6_1(),
            leaves_out: LEFT_OUT_6_1,
            ..Config::linux_4_10()
        }
    }

    /// Linux 6.12, as its long-term branch stands (6.12.117).
    #[must_use]
    pub fn linux_6_12() -> Config {
        Config {
            name: "linux-6.12",
            pcp_policy: PcpPolicy::Auto,
            pcp_decay: Decay::ByBatch,
            fallback: FallbackPolicy::ClaimOrSteal,
            boost_rule: BoostRule::High,
            highatomic_limit: HighatomicLimit::PercentRounded,
            highatomic_counts_free: true,
            cpuset_bounds_help: true,
            compaction: compaction::Knobs::linux_6_12(),
            leaves_out: LEFT_OUT_6_12,
            ..Config::linux_6_1()
        }
    }

    /// Linux 6.18, as its long-term branch stood in 6.18.15. Most of the recordings that ship are of 6.18.44.
    #[must_use]
    pub fn linux_6_18() -> Config {
        Config {
            name: "linux-6.18",
            pcp_free_high: FreeHigh::BatchAndHalf,
            spares_reclaiming_nodes: true,
            this_node_reclaims: true,
            reclaimable_counts_free: false,
            ..Config::linux_6_12()
        }
    }

    /// Returns which per-CPU list holds blocks of this order and type, if one does.
    ///
    /// # Linux
    /// `order_to_pindex`: a list for each of orders 0 to 3 and each type, and two for huge pages.
    #[must_use]
    #[inline]
    pub(crate) fn pcp_list(&self, order: Order, m: Migratetype) -> Option<usize> {
        match order.get() {
            0 => Some(m.index()),
            1..=3 if self.pcp_high_orders => Some(order.index() * 3 + m.index()),
            9 if self.pcp_high_orders => Some(12 + usize::from(m == Migratetype::Movable)),
            _ => None,
        }
    }

    /// Returns the order of the blocks in a per-CPU list.
    ///
    /// # Linux
    /// `pindex_to_order`.
    #[must_use]
    pub(crate) fn pcp_order(list: usize) -> Order {
        if list < 12 { Order::of((list / 3) as u8) } else { PAGEBLOCK_ORDER }
    }

    /// Says whether a request for cold frames gets them (4.x).
    #[must_use]
    pub(crate) fn heeds_cold(&self) -> bool {
        self.pcp_policy == PcpPolicy::Classic
    }

    /// Says whether a free block is always on the list of its pageblock's type (6.10 and later).
    #[must_use]
    pub(crate) fn keeps_lists_pure(&self) -> bool {
        self.fallback == FallbackPolicy::ClaimOrSteal
    }

    /// Returns how many per-CPU lists there are.
    #[must_use]
    pub(crate) fn pcp_lists(&self) -> usize {
        if self.pcp_high_orders { 14 } else { 3 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_found_by_its_name_and_says_what_it_leaves_out() {
        for name in Config::PRESETS {
            let config = Config::preset(name).unwrap();
            assert_eq!(config.name, name);
            assert!(!config.leaves_out.is_empty());
        }
        assert_eq!(Config::preset("linux-2.4"), None);
    }

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
