//! What each knob is in Linux: its name there, and which versions have which of its values.
//!
//! A version is given where it is certain. Releases count, not distributions, which carry patches back.

use std::fmt;

/// A release of Linux: `4.10` is `Version(4, 10)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u8, pub u8);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Which releases have something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Releases {
    /// All.
    Every,
    /// None: a patch that was not merged, or an idea of ours.
    None,
    /// All to this one, which has it.
    Until(Version),
    /// This one and later ones.
    Since(Version),
    /// From the first to the second, which both have it.
    Between(Version, Version),
}

impl Releases {
    /// Says whether a release is one of them.
    #[must_use]
    pub fn contain(self, version: Version) -> bool {
        match self {
            Releases::Every => true,
            Releases::None => false,
            Releases::Until(last) => version <= last,
            Releases::Since(first) => version >= first,
            Releases::Between(first, last) => (first..=last).contains(&version),
        }
    }
}

impl fmt::Display for Releases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Releases::Every => f.write_str("every version"),
            Releases::None => f.write_str("no version"),
            Releases::Until(last) => write!(f, "until {last}"),
            Releases::Since(first) => write!(f, "since {first}"),
            Releases::Between(first, last) => write!(f, "{first} to {last}"),
        }
    }
}

/// How Linux decides what a knob decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A file of `/proc/sys`, by its name for `sysctl`.
    Sysctl(&'static str),
    /// An option of the kernel's build.
    BuildOption(&'static str),
    /// Code that has no setting: its function or type.
    Code(&'static str),
    /// Nowhere: the knob is ours, and this is why it is there.
    Ours(&'static str),
}

/// A knob's counterpart in Linux.
#[derive(Clone, Copy, Debug)]
pub struct InLinux {
    /// The knob.
    pub knob: &'static str,
    /// Where Linux decides it.
    pub place: Place,
    /// The knob's values with the releases that have each; the value `ANY` stands for all of them.
    pub values: &'static [(&'static str, Releases)],
    /// What else is to be known, or empty.
    pub note: &'static str,
}

/// All values of a knob that takes a number.
pub const ANY: &str = "any";

/// Returns a knob's counterpart.
pub(super) fn of(knob: &str) -> Option<&'static InLinux> {
    TABLE.iter().find(|entry| entry.knob == knob)
}

const fn v(major: u8, minor: u8) -> Version {
    Version(major, minor)
}

const fn entry(
    knob: &'static str,
    place: Place,
    values: &'static [(&'static str, Releases)],
    note: &'static str,
) -> InLinux {
    InLinux { knob, place, values, note }
}

use Place::{BuildOption, Code, Ours, Sysctl};
use Releases::{Between, Every, None as Never, Since, Until};

/// Every knob's counterpart.
pub(super) const TABLE: &[InLinux] = &[
    entry("min_free_kbytes", Sysctl("vm.min_free_kbytes"), &[(ANY, Every)], ""),
    entry(
        "watermark_scale_factor",
        Sysctl("vm.watermark_scale_factor"),
        &[(ANY, Since(v(4, 6)))],
        "10 unless it is set.",
    ),
    entry(
        "watermark_boost_factor",
        Sysctl("vm.watermark_boost_factor"),
        &[("0", Until(v(4, 20))), (ANY, Since(v(5, 0)))],
        "15000 unless it is set.",
    ),
    entry(
        "percpu_pagelist_high_fraction",
        Sysctl("vm.percpu_pagelist_high_fraction"),
        &[("0", Every), (ANY, Since(v(5, 14)))],
        "Until 5.13 vm.percpu_pagelist_fraction gives each CPU that share, and a batch of a quarter of it.",
    ),
    entry(
        "pcp_protection",
        Code("rmqueue_pcplist, free_unref_page"),
        &[
            ("irqsave", Until(v(5, 19))),
            ("preempt_only", Never),
            ("soft_irq_off", Never),
            ("soft_irq_allowed", Never),
            ("trylock", Since(v(6, 0))),
        ],
        "preempt_only is commit 374ad05ab64d, which was reverted before 4.11 was released; soft_irq_off and soft_irq_allowed are readings of the variant that it \
         mentions.",
    ),
    entry(
        "interrupts",
        Ours("a process cannot turn interrupts off, so this says what stands in for local_irq_save"),
        &[],
        "",
    ),
    entry(
        "frag_free",
        Code("page_frag_free"),
        &[("buddy", Until(v(4, 20))), ("pcp", Since(v(5, 0)))],
        "A. Lu's patch of November 2018.",
    ),
    entry(
        "zonelist_iterator",
        Code("next_zones_zonelist"),
        &[("called", Until(v(4, 6))), ("inlined", Since(v(4, 7)))],
        "M. Gorman's patch of April 2016.",
    ),
    entry(
        "pcp_policy",
        Code("zone_batchsize, zone_highsize, nr_pcp_free"),
        &[
            ("classic", Until(v(5, 13))),
            ("free_factor", Between(v(5, 14), v(6, 6))),
            ("auto", Since(v(6, 7))),
        ],
        "",
    ),
    entry(
        "pcp_high_orders",
        Code("order_to_pindex"),
        &[("false", Until(v(5, 13))), ("true", Since(v(5, 14)))],
        "",
    ),
    entry(
        "pcp_free_high",
        Code("free_unref_page_commit"),
        &[("batch", Until(v(6, 15))), ("batch_and_half", Since(v(6, 16)))],
        "It decides something from 6.7 on.",
    ),
    entry(
        "pcp_free_high_batch",
        Code("PCPF_FREE_HIGH_BATCH"),
        &[("true", Every), ("false", Never)],
        "It decides something from 6.7 on, where it is true on processors whose slice of the caches holds more than three batches.",
    ),
    entry(
        "pcp_decay",
        Code("decay_pcp_high"),
        &[("at_once", Until(v(6, 18))), ("by_batch", Since(v(6, 19)))],
        "It decides something from 6.7 on. The presets linux-6.12 and linux-6.18 are 6.12.117 and 6.18.15, which have the later one.",
    ),
    entry(
        "boost_rule",
        Code("zone_watermark_fast, rmqueue"),
        &[("atomic", Until(v(6, 2))), ("high", Since(v(6, 5)))],
        "Watermarks are boosted from 5.0 on. Who is spared changed in 6.3, who wakes in 6.5.",
    ),
    entry(
        "privileged_take_any_node",
        Code("__alloc_pages_slowpath"),
        &[("true", Every), ("false", Never)],
        "There it also sets a cpuset aside.",
    ),
    entry(
        "this_node_reclaims",
        Code("__alloc_pages_slowpath"),
        &[("true", Until(v(6, 18))), ("false", Since(v(7, 2)))],
        "The change came between those releases. The presets linux-6.1 and linux-6.12 are long-term branches, which have the later one; 6.18.15 \
         has it not.",
    ),
    entry(
        "reclaimable_counts_free",
        Code("zone_reclaimable_pages"),
        &[("false", Until(v(6, 12))), ("true", Between(v(6, 13), v(6, 13))), ("false", Since(v(6, 18)))],
        "The presets linux-6.1 and linux-6.12 are long-term branches, which have it too. When it ended, between 6.13 and 6.18, was not \
         looked up.",
    ),
    entry(
        "cpuset_bounds_help",
        Code("should_reclaim_retry, try_to_compact_pages"),
        &[("false", Until(v(6, 1))), ("true", Since(v(6, 12)))],
        "The change came between those releases. It decides something where there are cpusets.",
    ),
    entry(
        "dirty_ratio",
        Sysctl("vm.dirty_ratio"),
        &[(ANY, Every)],
        "20 unless it is set. The node's limit, since 4.8; before, a zone had one of its own. It decides something for requests with \
         __GFP_WRITE, once the allocator was told what nodes hold of files.",
    ),
    entry(
        "cma",
        Code("__rmqueue"),
        &[("last", Until(v(4, 10))), ("half", Since(v(6, 1)))],
        "The change came between those releases. It decides something where pageblocks are CMA.",
    ),
    entry(
        "fallback",
        Code("__rmqueue_fallback; since 6.15 __rmqueue_claim and __rmqueue_steal"),
        &[
            ("half_free", Until(v(4, 11))),
            ("alike", Between(v(4, 12), v(6, 9))),
            ("claim_or_steal", Since(v(6, 10))),
        ],
        "Since 6.10 a pageblock's type and the lists of its free blocks agree.",
    ),
    entry(
        "nofragment",
        Code("ALLOC_NOFRAGMENT"),
        &[("false", Until(v(4, 20))), ("true", Since(v(5, 0)))],
        "Since 6.15 vm.defrag_mode makes it last for every request: see defrag_mode.",
    ),
    entry(
        "defrag_mode",
        Sysctl("vm.defrag_mode"),
        &[("0", Every), (ANY, Since(v(6, 15)))],
        "0 unless it is set. The background reclaimer and compactor work in whole pageblocks then.",
    ),
    entry(
        "defrag_falls_back",
        Code("__alloc_pages_slowpath"),
        &[("false", Every), ("true", Never)],
        "\"mm/page_alloc: fix defrag_mode for non-reclaimable allocations\" (D. Ilvokhin, May 2026), later than the releases here; 7.2 \
         has it.",
    ),
    entry(
        "defrag_promotes",
        Code("__alloc_pages_direct_compact, __alloc_pages_direct_reclaim"),
        &[("false", Every), ("true", Never)],
        "\"mm: fix reclaim storms in defrag_mode\" (J. Weiner, June 2026), later than the releases here; 7.2 has it, with \
         compaction.whole_empties_movable. Not judged.",
    ),
    entry(
        "spares_reclaiming_nodes",
        Code("get_page_from_freelist"),
        &[("false", Until(v(6, 12))), ("true", Since(v(6, 18)))],
        "The change came between those releases. It decides something where there are several nodes.",
    ),
    entry(
        "highatomic_counts_free",
        Code("nr_free_highatomic in __zone_watermark_unusable_free"),
        &[("false", Until(v(6, 12))), ("true", Since(v(6, 13)))],
        "",
    ),
    entry(
        "retries",
        Code("should_reclaim_retry, should_compact_retry"),
        &[("progress", Until(v(4, 6))), ("bounded", Since(v(4, 7)))],
        "",
    ),
    entry(
        "reclaimer",
        Code("balance_pgdat, shrink_zone, shrink_node"),
        &[("by_zone", Until(v(4, 7))), ("by_node", Since(v(4, 8)))],
        "",
    ),
    entry(
        "unreclaimable",
        Code("zone_reclaimable, pgdat_reclaimable, kswapd_failures"),
        &[("scanned", Until(v(4, 11))), ("failures", Since(v(4, 12)))],
        "",
    ),
    entry(
        "kswapd_rest",
        Code("prepare_kswapd_sleep"),
        &[("all_balanced", Until(v(4, 11))), ("one_balanced", Since(v(4, 12)))],
        "Of no account where reclaimer is by_zone: then all zones must be balanced, and for blocks a quarter of the frames.",
    ),
    entry(
        "compactor_wake",
        Code("wakeup_kswapd"),
        &[("after_reclaim", Until(v(4, 16))), ("instead", Since(v(4, 17)))],
        "There is a background compactor since 4.6.",
    ),
    entry(
        "compaction.enabled",
        BuildOption("CONFIG_COMPACTION"),
        &[("false", Every), ("true", Every)],
        "Since 2.6.35.",
    ),
    entry(
        "compaction.last_migrated_drain",
        Code("last_migrated_pfn in compact_zone"),
        &[("false", Until(v(4, 6))), ("true", Since(v(4, 7)))],
        "",
    ),
    entry(
        "compaction.skip_on_failure",
        Code("skip_on_failure in isolate_migratepages_block"),
        &[("off", Until(v(4, 6))), ("direct_async", Since(v(4, 7))), ("direct", Never), ("all", Never)],
        "",
    ),
    entry(
        "compaction.skip_on_failure_order",
        Ours("Linux's background does not pass blocks over that way"),
        &[],
        "",
    ),
    entry(
        "compaction.direct_free",
        Code("compaction_alloc"),
        &[("off", Every), ("direct_async", Never), ("direct", Never), ("all", Never)],
        "The patch was not merged. Since 5.1 fast_isolate_freepages looks for targets in the free lists in another way: \
         compaction.fast_free.",
    ),
    entry(
        "compaction.release_leftovers",
        Ours("a reviewer's question about the patch behind compaction.direct_free, which was not merged"),
        &[],
        "",
    ),
    entry(
        "compaction.migrate_ignores_free_scanner",
        Ours("what the author of the patch behind compaction.direct_free meant to do"),
        &[],
        "",
    ),
    entry(
        "compaction.deferral",
        Code("defer_compaction, compaction_deferred"),
        &[("off", Never), ("shared", Never), ("by_mode", Never), ("until_success", Every)],
        "Asynchronous compaction never defers. An order that was never tried counts as failed (compact_order_failed begins at \
         0).",
    ),
    entry(
        "compaction.skip",
        Code("PB_migrate_skip"),
        &[("hints", Since(v(3, 7))), ("nothing", Until(v(3, 6))), ("random:500", Never)],
        "",
    ),
    entry(
        "compaction.thorough",
        Code("COMPACT_PRIO_SYNC_FULL"),
        &[("false", Every), ("true", Since(v(4, 8)))],
        "Since 4.8 a request's last attempts are thorough; the first are not.",
    ),
    entry(
        "compaction.async_movable_only",
        Code("suitable_migration_source"),
        &[("true", Every), ("false", Never)],
        "Of no account where compaction.async_same_type is true.",
    ),
    entry("compaction.leases", Ours("in Linux two compactors may meet in one pageblock"), &[], ""),
    entry(
        "compaction.capture",
        Code("compaction_capture"),
        &[("false", Until(v(5, 0))), ("true", Since(v(5, 1)))],
        "",
    ),
    entry(
        "compaction.stop_at_floor",
        Code("isolate_freepages_block"),
        &[("false", Until(v(4, 7))), ("true", Since(v(4, 8)))],
        "",
    ),
    entry(
        "compaction.async_budget",
        Ours("Linux gives up when a lock is contended or another task should run, which no run could repeat"),
        &[],
        "",
    ),
    entry(
        "compaction.extfrag_threshold",
        Sysctl("vm.extfrag_threshold"),
        &[(ANY, Every)],
        "500 unless it is set. Since 2.6.35.",
    ),
    entry(
        "compaction.proactiveness",
        Sysctl("vm.compaction_proactiveness"),
        &[("0", Until(v(5, 8))), (ANY, Since(v(5, 9)))],
        "20 unless it is set.",
    ),
    entry(
        "compaction.marks",
        Code("__compaction_suitable, __compact_finished, __isolate_free_page"),
        &[("low", Until(v(4, 8))), ("min", Since(v(4, 9)))],
        "",
    ),
    entry(
        "compaction.hints",
        Code("test_and_set_skip, update_cached_migrate, update_pageblock_skip, __reset_isolation_suitable"),
        &[
            ("nothing_found", Until(v(5, 0))),
            ("first_frame", Between(v(5, 1), v(6, 1))),
            ("any_frame", Since(v(6, 12))),
        ],
        "Hints changed several times between 6.1 and 6.12.",
    ),
    entry(
        "compaction.background_hints",
        Code("kcompactd_do_work"),
        &[("false", Until(v(4, 10))), ("true", Since(v(6, 1)))],
        "The change came between those releases.",
    ),
    entry(
        "compaction.async_same_type",
        Code("suitable_migration_source"),
        &[("false", Until(v(4, 11))), ("true", Since(v(4, 12)))],
        "",
    ),
    entry(
        "compaction.spare_wanted",
        Code("suitable_migration_target"),
        &[("false", Until(v(6, 8))), ("true", Since(v(6, 9)))],
        "",
    ),
    entry(
        "compaction.whole_blocks",
        Code("isolate_freepages_block"),
        &[("false", Never), ("true", Every)],
        "",
    ),
    entry(
        "compaction.target_order",
        Code("compaction_alloc"),
        &[("last_first", Until(v(6, 8))), ("smallest_first", Since(v(6, 9)))],
        "",
    ),
    entry(
        "compaction.stride",
        Code("isolate_freepages"),
        &[("false", Until(v(5, 0))), ("true", Since(v(5, 1)))],
        "",
    ),
    entry(
        "compaction.fast_free",
        Code("fast_isolate_freepages"),
        &[("false", Until(v(5, 0))), ("true", Since(v(5, 1)))],
        "",
    ),
    entry(
        "compaction.fast_source",
        Code("fast_find_migrateblock"),
        &[("off", Until(v(5, 0))), ("hinted", Between(v(5, 1), v(6, 1))), ("found", Since(v(6, 12)))],
        "6.1 was released with the mended search, which its long-term branch took back; it came again before 6.12.",
    ),
    entry(
        "compaction.finish",
        Code("rescan, later finish_pageblock, in struct compact_control"),
        &[("off", Until(v(5, 0))), ("begun", Between(v(5, 1), v(6, 1))), ("failed", Since(v(6, 12)))],
        "The change from begun to failed came between 6.1 and 6.12. Since 4.12 requests that are not movable end between \
         pageblocks.",
    ),
    entry(
        "compaction.moves",
        Code("migrate_pages"),
        &[("upwards", Never), ("downwards", Until(v(6, 2))), ("batch", Since(v(6, 3)))],
        "Frames are isolated to the head of a list, so the last one is moved first. Until 6.8 targets are looked for as many as were isolated.",
    ),
    entry(
        "compaction.leftovers_listed",
        Code("release_freepages, later release_free_list"),
        &[("false", Never), ("true", Every)],
        "",
    ),
    entry(
        "compaction.spare_next",
        Code("low_pfn in isolate_freepages"),
        &[("false", Never), ("true", Every)],
        "",
    ),
    entry(
        "compaction.attempt_deferred",
        Code("__alloc_pages_direct_compact"),
        &[("false", Until(v(4, 10))), ("true", Since(v(6, 1)))],
        "The change came between 4.10 and 6.1.",
    ),
    entry(
        "compaction.large_folios",
        Code("skip_isolation_on_order, compaction_alloc"),
        &[("false", Until(v(6, 8))), ("true", Since(v(6, 9)))],
        "A block for which no target is large enough is split, if its owner does that.",
    ),
    entry(
        "compaction.isolated_limit",
        Code("too_many_isolated in compaction"),
        &[("off", Never), ("half", Until(v(6, 1))), ("sixteenth", Since(v(6, 12)))],
        "The change came between 6.1 and 6.12. It takes effect where the owner of frames counts them; a request that may not enter a \
         filesystem is held to a half there in every version.",
    ),
    entry(
        "compaction.yields",
        Code("compact_should_abort, try_to_compact_pages"),
        &[("anywhere", Until(v(5, 0))), ("between_zones", Since(v(5, 1)))],
        "It takes effect where the owner of frames says when the CPU is wanted.",
    ),
    entry(
        "compaction.pivot",
        Code("__reset_isolation_suitable"),
        &[("start", Every), ("restarting", Never), ("forgetting", Never)],
        "restarting: \"mm, compaction: set pivot pfn to the pfn when scanners met last time\" (V. Babka, January 2015), not merged. \
         It takes effect with hints of nothing_found, so not from 6.1 on.",
    ),
    entry(
        "compaction.async_resets",
        Code("reset_cached_positions in __compact_finished"),
        &[("false", Never), ("true", Every)],
        "",
    ),
    entry(
        "compaction.whole_empties_movable",
        Code("suitable_migration_source, fast_find_migrateblock"),
        &[("false", Every), ("true", Never)],
        "Of the same series as defrag_promotes. It takes effect where asynchronous compaction keeps to pageblocks of a type, from 5.1 on.",
    ),
    entry("pcp", Ours("every Linux has per-CPU lists"), &[], ""),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{EngineSpec, all_knobs};
    use pageyard_linux::Config;

    #[test]
    fn every_knob_has_one_entry() {
        let knobs: Vec<&str> = all_knobs().iter().map(|k| k.name).collect();
        for knob in &knobs {
            assert_eq!(TABLE.iter().filter(|e| e.knob == *knob).count(), 1, "{knob}");
        }
        assert_eq!(TABLE.len(), knobs.len());
    }

    #[test]
    fn ours_says_why_and_the_rest_names_values_that_can_be_set() {
        for entry in TABLE {
            let (Sysctl(text) | BuildOption(text) | Code(text) | Ours(text)) = entry.place;
            assert!(!text.is_empty(), "{}", entry.knob);
            assert_eq!(matches!(entry.place, Ours(_)), entry.values.is_empty(), "{}", entry.knob);
            for (value, _) in entry.values.iter().filter(|(value, _)| *value != ANY) {
                let set = EngineSpec::parse("linux-6.18", &[(entry.knob.to_owned(), (*value).to_owned())]);
                assert!(set.is_ok(), "{}={value}: {:?}", entry.knob, set.err());
            }
        }
    }

    /// The release that a preset is named after.
    fn release(preset: &str) -> Version {
        let (major, minor) = preset.strip_prefix("linux-").unwrap().split_once('.').unwrap();
        Version(major.parse().unwrap(), minor.parse().unwrap())
    }

    #[test]
    fn a_preset_has_the_values_of_its_release() {
        // Carried back to the long-term branches that the presets are.
        let carried_back = [
            ("reclaimable_counts_free", "linux-6.1"),
            ("reclaimable_counts_free", "linux-6.12"),
            ("highatomic_counts_free", "linux-6.12"),
            ("pcp_decay", "linux-6.12"),
            ("pcp_decay", "linux-6.18"),
            ("this_node_reclaims", "linux-6.1"),
            ("this_node_reclaims", "linux-6.12"),
        ];
        for knob in all_knobs() {
            let entry = of(knob.name).unwrap();
            if entry.values.is_empty() {
                continue;
            }
            for (preset, default) in knob.engines.iter().filter(|(e, _)| Config::PRESETS.contains(e)) {
                let value = |(value, _): &&(&str, Releases)| *value == default || *value == ANY;
                let has = entry.values.iter().filter(value).any(|(_, in_)| in_.contain(release(preset)));
                assert_eq!(
                    has,
                    !carried_back.contains(&(knob.name, preset)),
                    "{} on {preset}: {default}",
                    knob.name
                );
            }
        }
    }

    #[test]
    fn no_release_has_two_values_unless_it_can_be_set_there() {
        for entry in TABLE.iter().filter(|e| matches!(e.place, Code(_))) {
            for preset in Config::PRESETS {
                let having = entry.values.iter().filter(|(_, in_)| in_.contain(release(preset))).count();
                let both = entry.knob == "compaction.thorough" && preset != "linux-4.6";
                let expected = if both { 2 } else { 1 };
                assert_eq!(having, expected, "{} in {preset}", entry.knob);
            }
        }
    }

    #[test]
    fn releases_are_compared_as_numbers() {
        assert!(Since(v(4, 7)).contain(v(4, 10)) && !Until(v(4, 7)).contain(v(4, 10)));
        assert!(Between(v(5, 14), v(6, 6)).contain(v(6, 1)) && !Between(v(5, 14), v(6, 6)).contain(v(6, 7)));
        assert_eq!(Between(v(5, 14), v(6, 6)).to_string(), "5.14 to 6.6");
        assert_eq!(Since(v(4, 10)).to_string(), "since 4.10");
    }
}
