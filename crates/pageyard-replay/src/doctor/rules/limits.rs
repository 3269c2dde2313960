//! The request may not go where memory is.

use std::collections::BTreeSet;

use pageyard::Gfp;
use pageyard_trace::grouped;
use pageyard_trace::kernel_log::HostZone;

use super::super::answer::{Answer, Otherwise, of_zone, served, usable};
use super::super::cause::{Cause, Finding, Setting};
use super::super::facts::Zone;
use super::case::{Case, share};

/// A request that keeps to its node (`__GFP_THISNODE`), or whose cpuset or policy has some nodes only.
pub(super) fn node(case: &Case<'_>) -> Option<Finding> {
    let (facts, asked) = (case.facts, case.asked);
    let all = Otherwise { any_node: true, ..Otherwise::default() };
    let said = |z: &Zone| format!("{} has {} free", z.title(), case.size(z.free));
    let (evidence, setting) = if let Some(nodes) = &asked.nodes {
        let names = nodes.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
        if case.is_served() {
            return None;
        }
        if !served(facts, asked, all) {
            return elsewhere(case, &names);
        }
        let other = usable(facts, asked, all)
            .filter(|z| !nodes.contains(&z.node) && of_zone(facts, z, asked, all) == Answer::Served)
            .max_by_key(|z| z.free)?;
        let evidence = format!(
            "It was limited to node {names}, whose zones had {} free for it; {}, and would have served it.",
            case.size(case.sum(|z| z.free)),
            said(other)
        );
        (evidence, "cpuset.mems")
    } else if asked.gfp.contains(Gfp::THISNODE) {
        // Which node is not said. If some nodes would serve it, it was another.
        let would = |node: u8| case.zones.iter().any(|(z, a)| z.node == node && *a == Answer::Served);
        let short = case.zones.iter().filter(|(z, _)| !would(z.node)).max_by_key(|(z, _)| z.managed)?;
        let other = case.zones.iter().filter(|(_, a)| *a == Answer::Served).max_by_key(|(z, _)| z.free)?;
        let evidence = format!(
            "It keeps to its node (__GFP_THISNODE): {} of a min watermark of {}, while {}, and would have served it.",
            said(short.0),
            case.size(short.0.min),
            said(other.0)
        );
        (evidence, "numactl --membind")
    } else {
        return None;
    };
    Some(Finding { cause: Cause::NodeLimit, weight: 0.97, evidence, setting: Some(of_nodes(setting)) })
}

/// A request that is limited to nodes, where a log does not show the others: their zones, or that it may use none.
fn elsewhere(case: &Case<'_>, nodes: &str) -> Option<Finding> {
    let facts = case.facts;
    let shown: u64 = facts.zones.iter().map(|z| z.free).sum();
    let rest = facts.free_anywhere.unwrap_or(0).saturating_sub(shown);
    let of_node: u64 = case.sum(|z| z.free);
    let evidence = match case.zones.is_empty() {
        true if !facts.zones.is_empty() => format!(
            "It was limited to node {nodes}, which has no zone that it may use: {} are free there for others.",
            case.size(shown)
        ),
        false if rest > 4 * of_node.max(case.asked.frames()) => format!(
            "It was limited to node {nodes}, whose zones had {} free for it; the other nodes have {} free.",
            case.size(of_node),
            case.size(rest)
        ),
        _ => return None,
    };
    Some(Finding { cause: Cause::NodeLimit, weight: 0.97, evidence, setting: Some(of_nodes("cpuset.mems")) })
}

fn of_nodes(name: &'static str) -> Setting {
    Setting {
        name,
        now: None,
        to: None,
        note: "give it another node, or move what fills this one; memory of other nodes is slower",
        knob: None,
    }
}

/// A request for memory below 16 MiB or 4 GiB, where higher zones have plenty.
pub(super) fn low_zone(case: &Case<'_>) -> Option<Finding> {
    let (facts, asked) = (case.facts, case.asked);
    // What processes and page cache alone use is above the kernel's own memory on 32-bit kernels.
    let highest = asked.highest();
    let is_low = highest <= HostZone::Dma32 || highest == HostZone::Normal && facts.has_high;
    if !is_low || case.is_served() || case.zones.is_empty() {
        return None;
    }
    let low = case.sum(|z| z.free);
    // A log shows the zones below alone, and the sum of all.
    let shown: u64 = facts.zones.iter().map(|z| z.free).sum();
    let above = facts.zones.iter().filter(|z| z.kind > highest).map(|z| z.free).sum::<u64>()
        + facts.free_anywhere.unwrap_or(0).saturating_sub(shown);
    // A log of such a request need not show what is above.
    let is_shown = facts.free_anywhere.is_some() || facts.zones.iter().any(|z| z.kind > highest);
    if is_shown && (above < 4 * asked.frames() || above <= low) {
        return None;
    }
    let managed = case.sum(|z| z.managed);
    let ratio = facts.settings.get("vm/lowmem_reserve_ratio").map(|s| words(s));
    Some(Finding {
        cause: Cause::LowZone,
        weight: if is_shown { 0.96 } else { 0.8 },
        evidence: format!(
            "It asks for {} memory: those zones have {} in all and {} free, while {} above them, which it cannot use.",
            highest.name(),
            case.size(managed),
            case.size(low),
            if is_shown {
                format!("{} are free", case.size(above))
            } else {
                "what is free is not shown".to_owned()
            }
        ),
        setting: Some(Setting {
            name: "vm.lowmem_reserve_ratio",
            to: ratio.as_deref().and_then(|r| protected_more(r, facts.zones.iter().map(|z| z.kind), highest)),
            now: ratio,
            note: "a smaller number for the zone keeps more of it from requests that can use higher ones; those have less then",
            knob: None,
        }),
    })
}

/// Zones that would serve it, but for what they keep from requests that can use higher ones.
pub(super) fn protection(case: &Case<'_>) -> Option<Finding> {
    let open = Otherwise { no_protection: true, ..Otherwise::default() };
    if case.is_served() {
        return None;
    }
    let kept: Vec<_> = case
        .zones
        .iter()
        .filter(|(z, _)| of_zone(case.facts, z, case.asked, open) == Answer::Served)
        .collect();
    let (zone, _) = kept.iter().max_by_key(|(z, _)| z.free)?;
    let free: u64 = kept.iter().map(|(z, _)| z.free).sum();
    let reserve = case.facts.kept_from(zone, case.asked.highest());
    let ratio = case.facts.settings.get("vm/lowmem_reserve_ratio").map(|s| words(s));
    Some(Finding {
        cause: Cause::LowmemReserve,
        // A tenth of memory behind it is a cause; the few MiB of DMA that every host keeps are not.
        weight: (10.0 * share(free, case.sum(|z| z.managed).max(case.facts.managed()))).min(0.85),
        evidence: format!(
            "{} has {} free and keeps {} ({} frames) from requests that can use higher zones.",
            zone.title(),
            case.size(zone.free),
            case.size(reserve),
            grouped(reserve)
        ),
        setting: Some(Setting {
            name: "vm.lowmem_reserve_ratio",
            now: ratio,
            to: None,
            note: "a larger number for the zone keeps less of it; devices that need low memory have less then",
            knob: None,
        }),
    })
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Quarters the ratio of a zone. The setting has a number for each kind of zone that the kernel was built with.
fn protected_more(ratios: &str, kinds: impl Iterator<Item = HostZone>, zone: HostZone) -> Option<String> {
    let mut all: Vec<u64> = ratios.split(' ').map(|n| n.parse().ok()).collect::<Option<_>>()?;
    let lower: BTreeSet<HostZone> = kinds.filter(|kind| *kind < zone).collect();
    let ratio = all.get_mut(lower.len()).filter(|ratio| **ratio > 1)?;
    *ratio = (*ratio / 4).max(1);
    Some(all.iter().map(u64::to_string).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_that_of_the_zones_place_among_those_of_the_kernel() {
        let dma32 =
            |ratios, kinds: &[HostZone]| protected_more(ratios, kinds.iter().copied(), HostZone::Dma32);
        let all = [HostZone::Dma, HostZone::Dma32, HostZone::Normal, HostZone::Dma32];
        assert_eq!(dma32("256 128 32 0 0", &all).as_deref(), Some("256 32 32 0 0"));
        // A kernel without a zone for old devices.
        let newer = [HostZone::Dma32, HostZone::Normal];
        assert_eq!(dma32("256 32 0 0", &newer).as_deref(), Some("64 32 0 0"));
        assert_eq!(dma32("256 1 32 0 0", &all), None);
        assert_eq!(dma32("", &newer), None);
    }
}
