//! Knobs: their names, which engine has them, what they do, and suggestions for one that does not exist.

use super::kernel;
use super::linux::{self, InLinux};
use super::spec::YARDS;
use crate::engine::EngineSpec;
use pageyard::compaction::Knobs;
use pageyard_linux::Config;

/// The knobs of the lock-free engine, those of compaction apart.
const YARD_KNOBS: [&str; 5] = [
    "min_free_kbytes",
    "watermark_scale_factor",
    "watermark_boost_factor",
    "percpu_pagelist_high_fraction",
    "pcp",
];

/// What the names of compaction's knobs begin with.
const COMPACTION: &str = "compaction.";

/// Iterates over the knobs of the lock-free engine. Compaction's have the names that the reference gives them.
pub(super) fn yard_knobs() -> impl Iterator<Item = &'static str> {
    let compaction =
        Config::KNOBS.into_iter().map(|(knob, _)| knob).filter(|knob| knob.starts_with(COMPACTION));
    YARD_KNOBS.into_iter().chain(compaction)
}

/// Sets a knob of the lock-free engine.
pub(super) fn set_yard(config: &mut pageyard::Config, knob: &str, value: &str) -> Result<(), String> {
    if let Some((name, takes)) = knob
        .strip_prefix(COMPACTION)
        .and_then(|name| Knobs::NAMES.into_iter().find(|(known, _)| *known == name))
    {
        let wrong = |_| format!("`{knob}` takes {takes}, not `{value}`");
        return config.compaction.set(name, value).map_err(wrong);
    }
    let number = |range: std::ops::RangeInclusive<u64>| {
        let wrong =
            || format!("`{knob}` takes a number from {} to {}, not `{value}`", range.start(), range.end());
        value.parse::<u64>().ok().filter(|v| range.contains(v)).ok_or_else(wrong)
    };
    match knob {
        "min_free_kbytes" => config.watermark.min_free_kbytes = Some(number(0..=1 << 34)?),
        "watermark_scale_factor" => config.watermark.watermark_scale_factor = number(1..=3000)?,
        "watermark_boost_factor" => config.watermark.watermark_boost_factor = number(0..=100_000)?,
        "percpu_pagelist_high_fraction" => config.percpu_pagelist_high_fraction = number(8..=1 << 40)?,
        "pcp" => {
            config.pcp = value.parse().map_err(|_| format!("`pcp` takes true or false, not `{value}`"))?
        }
        _ => {
            let known = yard_knobs().collect::<Vec<_>>().join(", ");
            return Err(format!("there is no knob `{knob}`; there are {known}"));
        }
    }
    Ok(())
}

/// Says whether an engine has a knob.
pub(super) fn has(engine: &str, knob: &str) -> bool {
    if kernel::is_one(engine) {
        return kernel::SETTINGS.contains(&knob);
    }
    match YARDS.contains(&engine) {
        true => yard_knobs().any(|k| k == knob),
        false => Config::named(engine).is_some() && Config::KNOBS.iter().any(|(k, _)| *k == knob),
    }
}

/// Says that an engine has no such knob: which engine has it, or what may have been meant.
pub(super) fn not_one_of(engine: &str, knob: &str) -> String {
    if kernel::is_one(engine) {
        return format!("a kernel has no knob `{knob}`; it takes {}", kernel::SETTINGS.join(", "));
    }
    let others: Vec<&str> = EngineSpec::names().filter(|name| has(name, knob)).collect();
    if !others.is_empty() {
        return format!("it has no knob `{knob}`; {} have it", others.join(", "));
    }
    let names = || all_knobs().into_iter().map(|k| k.name);
    let meant = did_you_mean(knob, names());
    if !meant.is_empty() {
        return format!("there is no knob `{knob}`;{meant} (`pageyard knobs` lists them)");
    }
    let its: Vec<&str> = names().filter(|k| engine.is_empty() || has(engine, k)).collect();
    format!("there is no knob `{knob}`; there are {}", its.join(", "))
}

/// Suggests the nearest of these, if one is near: ` did you mean ..?`
pub fn did_you_mean<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let plain = |text: &str| text.replace(['_', '-', '.'], "").to_lowercase();
    let written = plain(name);
    // A third of the letters may be wrong.
    let most = (written.chars().count() / 3).clamp(1, 4);
    let nearest = known
        .map(|k| {
            // A knob of compaction may be named without its group.
            let group = k.rsplit('.').next().filter(|_| k.starts_with(COMPACTION)).unwrap_or(k);
            let distance = |k: &str| strsim::osa_distance(&written, &plain(k));
            (distance(k).min(distance(group)), k)
        })
        .min_by_key(|(distance, _)| *distance);
    match nearest {
        Some((distance, k)) if distance <= most && !written.is_empty() => format!(" did you mean `{k}`?"),
        _ => String::new(),
    }
}

/// A knob, as `pageyard knobs` lists it.
#[derive(Clone, Debug)]
pub struct Knob {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// The values that it takes.
    pub takes: &'static str,
    /// What it is in Linux.
    pub linux: &'static InLinux,
    /// The engines that have it, with its default on each.
    pub engines: Vec<(&'static str, String)>,
}

/// Returns every knob of every engine.
///
/// # Panics
/// Never: a test checks that each knob has an entry in the table of Linux's names.
#[must_use]
pub fn all_knobs() -> Vec<Knob> {
    let names = Config::KNOBS.into_iter().chain([("pcp", "true or false")]);
    names
        .map(|(name, takes)| {
            let engines = EngineSpec::names().filter(|engine| has(engine, name));
            Knob {
                name,
                about: ABOUT.iter().find(|(k, _)| *k == name).map_or("", |(_, about)| about),
                takes,
                linux: linux::of(name).expect("every knob has an entry in the table of Linux's names"),
                engines: engines.map(|engine| (engine, default_of(engine, name))).collect(),
            }
        })
        .collect()
}

/// What each knob does.
const ABOUT: [(&str, &str); 71] = [
    ("min_free_kbytes", "memory that watermarks keep back; computed from the zones where it is not set"),
    ("watermark_scale_factor", "how far the low and high watermarks lie above the minimum"),
    ("watermark_boost_factor", "how far mixing types in a pageblock raises a zone's watermarks"),
    (
        "percpu_pagelist_high_fraction",
        "the share of a zone that per-CPU lists may hold; 0 computes their limit",
    ),
    ("pcp_protection", "who may use a CPU's lists, and what is turned off meanwhile"),
    (
        "interrupts",
        "what turning interrupts off costs: nothing, or an instruction or system call of that kind",
    ),
    ("frag_free", "where the frames of page fragments are freed to"),
    ("zonelist_iterator", "how a request steps from zone to zone"),
    ("pcp_policy", "how long per-CPU lists become and how they shrink"),
    ("pcp_high_orders", "whether per-CPU lists hold orders 1 to 3 and 9 as well"),
    ("pcp_free_high", "how many frames freed in a row let a block of order 1 to 3 empty a CPU's lists"),
    ("pcp_free_high_batch", "whether lists that are emptied that way keep a batch"),
    ("pcp_decay", "how lists that are too long shrink once a second"),
    ("boost_rule", "who is spared a boost of the watermarks, and who wakes the background reclaimer for it"),
    (
        "privileged_take_any_node",
        "whether urgent requests and those without watermarks take from nodes that they did not ask for",
    ),
    (
        "this_node_reclaims",
        "whether a costly request that gives up early reclaims where it may use one node only",
    ),
    (
        "reclaimable_counts_free",
        "whether a zone with nothing to reclaim counts its free frames as reclaimable",
    ),
    (
        "cpuset_bounds_help",
        "whether a cpuset bounds compaction for a request, and its hopes for reclaim, as well",
    ),
    (
        "dirty_ratio",
        "how much of a node's memory for files may be dirty before requests for more go elsewhere",
    ),
    (
        "cma",
        "when movable requests use areas that their owners lend: after their own free blocks, or before while half of what is free is there",
    ),
    ("fallback", "how a request takes from pageblocks of another type"),
    ("nofragment", "whether a first attempt avoids mixing types, even at the cost of a lower zone"),
    ("defrag_mode", "whether no request mixes types before reclaim and compaction have failed it"),
    (
        "defrag_falls_back",
        "whether a request that cannot wait mixes types in the end, with defrag_mode, instead of failing",
    ),
    (
        "defrag_promotes",
        "whether a request for what cannot be moved reclaims and compacts for a whole pageblock, with defrag_mode",
    ),
    ("spares_reclaiming_nodes", "whether a request tries the nodes whose background reclaimer is awake last"),
    ("highatomic_counts_free", "whether only free frames of the high-order reserve are withheld from others"),
    ("retries", "how often a request that waits tries again"),
    (
        "reclaimer",
        "what reclaim takes together: a zone, or a node up to the highest zone that a request may use",
    ),
    (
        "unreclaimable",
        "how it is known that reclaim is in vain: by what was looked at, or by failed runs of the background",
    ),
    ("kswapd_rest", "when the background reclaimer of a node may sleep"),
    ("compactor_wake", "whether requests that cannot wait wake the background compactor too"),
    ("compaction.enabled", "whether requests and the background compact at all"),
    (
        "compaction.last_migrated_drain",
        "per-CPU lists are emptied only after a block that was really isolated (2016, patch 2)",
    ),
    (
        "compaction.skip_on_failure",
        "where a block is passed over once a frame of it cannot be isolated (2016, patch 3)",
    ),
    ("compaction.skip_on_failure_order", "the largest block that the background passes over that way"),
    (
        "compaction.direct_free",
        "where free frames to move to come straight from the free lists (2016, patch 4)",
    ),
    (
        "compaction.release_leftovers",
        "whether free frames left after a failed migration are given back at once",
    ),
    ("compaction.migrate_ignores_free_scanner", "whether the migrate scanner goes on past the free scanner"),
    ("compaction.deferral", "how failures are remembered"),
    ("compaction.skip", "what makes a scanner pass a pageblock over"),
    ("compaction.thorough", "whether a synchronous compaction looks at every pageblock"),
    ("compaction.async_movable_only", "whether asynchronous compaction empties movable pageblocks only"),
    ("compaction.leases", "whether two compactors keep out of each other's pageblocks"),
    ("compaction.capture", "whether a request takes the block made for it before others can"),
    ("compaction.stop_at_floor", "whether the free scanner stops when the zone is at its floor"),
    ("compaction.async_budget", "frames that an asynchronous compaction may examine"),
    (
        "compaction.extfrag_threshold",
        "the index, in thousandths, at or below which memory is short rather than fragmented",
    ),
    ("compaction.proactiveness", "how much is compacted ahead of need"),
    ("compaction.marks", "which watermarks decide whether a compaction begins and has succeeded"),
    (
        "compaction.hints",
        "when scanners leave skip hints, where the next scan begins, and how hints are forgotten",
    ),
    (
        "compaction.background_hints",
        "whether the background obeys skip hints, and empties all CPUs' lists when it fails",
    ),
    (
        "compaction.async_same_type",
        "whether a request's asynchronous compaction empties its own type's pageblocks only",
    ),
    (
        "compaction.spare_wanted",
        "whether pageblocks that begin with a free block of the wanted order take nothing in",
    ),
    (
        "compaction.whole_blocks",
        "whether the free scanner takes free blocks whole and keeps what is left for later",
    ),
    ("compaction.target_order", "which of the free frames in stock is used first"),
    ("compaction.stride", "whether the free scanner strides through pageblocks while it finds nothing"),
    (
        "compaction.fast_free",
        "whether targets are looked for in the free lists before the free scanner moves",
    ),
    ("compaction.fast_source", "whether a pageblock to empty is looked for in the free lists"),
    ("compaction.finish", "whether a pageblock that was begun is finished"),
    ("compaction.moves", "in which order isolated frames are moved, and when they get their targets"),
    ("compaction.leftovers_listed", "whether free frames that compaction did not need go to the CPU's lists"),
    (
        "compaction.spare_next",
        "whether the free scanner leaves alone the pageblock that the migrate scanner comes to next",
    ),
    (
        "compaction.attempt_deferred",
        "whether a request tries once more where compaction was left out in every zone",
    ),
    ("compaction.large_folios", "whether movable blocks of several frames move as a whole"),
    ("compaction.isolated_limit", "which part of what is on lists for reclaim may be isolated at once"),
    ("compaction.yields", "where asynchronous compaction gives way to another task that wants its CPU"),
    ("compaction.pivot", "where both scanners set out: the zone's ends, or where they met last"),
    ("compaction.async_resets", "whether scanners that met in an asynchronous compaction set out anew"),
    (
        "compaction.whole_empties_movable",
        "whether a request for a whole pageblock empties movable ones while it does not wait, whatever its type",
    ),
    ("pcp", "whether there are per-CPU lists at all"),
];

/// Returns a knob's default on an engine.
fn default_of(engine: &str, knob: &str) -> String {
    let yard = pageyard::Config::new(1);
    let linux = Config::preset(engine);
    let (watermark, fraction, compaction) = match &linux {
        Some(c) => (&c.watermark, c.percpu_pagelist_high_fraction, &c.compaction),
        None => (&yard.watermark, yard.percpu_pagelist_high_fraction, &yard.compaction),
    };
    match (knob, &linux) {
        ("min_free_kbytes", _) => watermark.min_free_kbytes.map_or("computed".to_owned(), |n| n.to_string()),
        ("watermark_scale_factor", _) => watermark.watermark_scale_factor.to_string(),
        ("watermark_boost_factor", _) => watermark.watermark_boost_factor.to_string(),
        ("percpu_pagelist_high_fraction", _) => fraction.to_string(),
        ("pcp", _) => yard.pcp.to_string(),
        ("pcp_protection", Some(c)) => value(&c.pcp_protection),
        ("interrupts", Some(c)) => value(&c.interrupts),
        ("frag_free", Some(c)) => value(&c.frag_free),
        ("zonelist_iterator", Some(c)) => value(&c.zonelist_iterator),
        ("pcp_policy", Some(c)) => value(&c.pcp_policy),
        ("pcp_high_orders", Some(c)) => c.pcp_high_orders.to_string(),
        ("pcp_free_high", Some(c)) => value(&c.pcp_free_high),
        ("pcp_free_high_batch", Some(c)) => c.pcp_free_high_batch.to_string(),
        ("pcp_decay", Some(c)) => value(&c.pcp_decay),
        ("boost_rule", Some(c)) => value(&c.boost_rule),
        ("privileged_take_any_node", Some(c)) => c.privileged_take_any_node.to_string(),
        ("this_node_reclaims", Some(c)) => c.this_node_reclaims.to_string(),
        ("reclaimable_counts_free", Some(c)) => c.reclaimable_counts_free.to_string(),
        ("cpuset_bounds_help", Some(c)) => c.cpuset_bounds_help.to_string(),
        ("dirty_ratio", Some(c)) => c.dirty_ratio.to_string(),
        ("cma", Some(c)) => value(&c.cma),
        ("fallback", Some(c)) => value(&c.fallback),
        ("nofragment", Some(c)) => c.nofragment.to_string(),
        ("defrag_mode", Some(c)) => u8::from(c.defrag_mode).to_string(),
        ("defrag_falls_back", Some(c)) => c.defrag_falls_back.to_string(),
        ("defrag_promotes", Some(c)) => c.defrag_promotes.to_string(),
        ("spares_reclaiming_nodes", Some(c)) => c.spares_reclaiming_nodes.to_string(),
        ("highatomic_counts_free", Some(c)) => c.highatomic_counts_free.to_string(),
        ("retries", Some(c)) => value(&c.retries),
        ("reclaimer", Some(c)) => value(&c.reclaimer),
        ("unreclaimable", Some(c)) => value(&c.unreclaimable),
        ("kswapd_rest", Some(c)) => value(&c.kswapd_rest),
        ("compactor_wake", Some(c)) => value(&c.compactor_wake),
        _ => of_compaction(compaction, knob.trim_start_matches(COMPACTION)),
    }
}

fn of_compaction(knobs: &Knobs, name: &str) -> String {
    match name {
        "enabled" => knobs.enabled.to_string(),
        "last_migrated_drain" => knobs.last_migrated_drain.to_string(),
        "skip_on_failure" => value(&knobs.skip_on_failure),
        "skip_on_failure_order" => knobs.skip_on_failure_order.get().to_string(),
        "direct_free" => value(&knobs.direct_free),
        "release_leftovers" => knobs.release_leftovers.to_string(),
        "migrate_ignores_free_scanner" => knobs.migrate_ignores_free_scanner.to_string(),
        "deferral" => value(&knobs.deferral),
        "skip" => value(&knobs.skip),
        "thorough" => knobs.thorough.to_string(),
        "async_movable_only" => knobs.async_movable_only.to_string(),
        "leases" => knobs.leases.to_string(),
        "capture" => knobs.capture.to_string(),
        "stop_at_floor" => knobs.stop_at_floor.to_string(),
        "async_budget" => knobs.async_budget.to_string(),
        "extfrag_threshold" => knobs.extfrag_threshold.to_string(),
        "proactiveness" => knobs.proactiveness.to_string(),
        "marks" => value(&knobs.marks),
        "hints" => value(&knobs.hints),
        "background_hints" => knobs.background_hints.to_string(),
        "async_same_type" => knobs.async_same_type.to_string(),
        "spare_wanted" => knobs.spare_wanted.to_string(),
        "whole_blocks" => knobs.whole_blocks.to_string(),
        "target_order" => value(&knobs.target_order),
        "stride" => knobs.stride.to_string(),
        "fast_free" => knobs.fast_free.to_string(),
        "fast_source" => value(&knobs.fast_source),
        "finish" => value(&knobs.finish),
        "moves" => value(&knobs.moves),
        "leftovers_listed" => knobs.leftovers_listed.to_string(),
        "spare_next" => knobs.spare_next.to_string(),
        "attempt_deferred" => knobs.attempt_deferred.to_string(),
        "large_folios" => knobs.large_folios.to_string(),
        "isolated_limit" => value(&knobs.isolated_limit),
        "yields" => value(&knobs.yields),
        "pivot" => value(&knobs.pivot),
        "async_resets" => knobs.async_resets.to_string(),
        "whole_empties_movable" => knobs.whole_empties_movable.to_string(),
        _ => String::new(),
    }
}

/// Writes a setting as a knob takes it: `ClaimOrSteal` as `claim_or_steal`.
fn value(setting: &impl std::fmt::Debug) -> String {
    let mut text = String::new();
    for c in format!("{setting:?}").chars() {
        if c.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_knob_says_what_it_does_and_takes_its_own_default() {
        let knobs = all_knobs();
        assert_eq!(knobs.len(), ABOUT.len());
        for knob in knobs {
            assert!(!knob.about.is_empty() && !knob.engines.is_empty(), "{}", knob.name);
            for (engine, default) in &knob.engines {
                if (knob.name, default.as_str()) == ("min_free_kbytes", "computed") {
                    continue;
                }
                // The engine's own fraction 0 means that it is computed, which a user cannot ask for there.
                if knob.name == "percpu_pagelist_high_fraction" && YARDS.contains(engine) {
                    continue;
                }
                let set = EngineSpec::parse(engine, &[(knob.name.to_owned(), default.clone())]);
                assert!(set.is_ok(), "{engine} {}={default}: {:?}", knob.name, set.err());
            }
        }
    }

    #[test]
    fn every_knob_that_an_engine_has_is_listed() {
        let listed: Vec<&str> = all_knobs().iter().map(|k| k.name).collect();
        assert!(yard_knobs().chain(Config::KNOBS.map(|(k, _)| k)).all(|k| listed.contains(&k)));
    }
}
