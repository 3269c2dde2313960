//! Memory is short: who has it.

use pageyard_trace::text::percent;

use super::super::answer::{Answer, Otherwise, served};
use super::super::cause::{Cause, Finding, Setting};
use super::super::settings;
use super::case::{Case, share};

/// Finds free memory in the lists of CPUs, where a request on another CPU cannot use it.
pub(super) fn lists(case: &Case<'_>) -> Option<Finding> {
    let (free, listed) = (case.sum(|z| z.free), case.sum(|z| z.pcp));
    let empty = Otherwise { lists_empty: true, ..Otherwise::default() };
    // Lists hold blocks of up to order 3, and huge pages, which a request for several frames does not find there.
    if case.is_served() || case.asked.order > 3 || listed < case.asked.frames() || listed * 4 < free {
        return None;
    }
    // What blocks the frames in lists would make is not known, so only for single frames it is certain that they would
    // do.
    let would = case.asked.order == 0 && served(case.facts, case.asked, empty);
    let of_free = share(listed, listed + free);
    let weight = match would {
        // Where lists have less than what is free, emptying them would have helped this once.
        true if of_free >= 0.5 => 0.95,
        true => 0.5 * of_free,
        false => 0.3 * of_free,
    };
    const OLDER: &str = "vm.percpu_pagelist_fraction";
    let older = settings::has(case.facts, OLDER);
    let name = if older { OLDER } else { "vm.percpu_pagelist_high_fraction" };
    Some(Finding {
        cause: Cause::PerCpuLists,
        weight,
        evidence: format!(
            "{} lie in per-CPU lists and {} on the free lists{}.",
            case.size(listed),
            case.size(free),
            if would { "; with the lists empty it would have been served" } else { "" }
        ),
        setting: Some(Setting {
            name,
            now: case.facts.setting(&name.replacen('.', "/", 1)).map(|n| n.to_string()),
            // 0 is the older setting's default.
            to: (!older).then(|| "1000".to_owned()),
            note: "shorter lists give back sooner; more requests take the zone's lock then",
            knob: (!older).then_some("percpu_pagelist_high_fraction"),
        }),
    })
}

/// With less than this share free, a request for which a process was killed had nothing, whatever the marks say.
const SERVED: f64 = 0.05;

/// With so much of memory reclaimable it is not used up.
const RECLAIMABLE: f64 = 0.15;

/// Returns whether a request was refused for lack of memory, rather than for its shape.
fn is_short(case: &Case<'_>) -> bool {
    // What the killer describes is what it was called for, with a little freed since.
    let is_served = case.is_served() && !(case.asked.killed && case.free_share() < SERVED);
    let is_unknown = case.zones.iter().any(|(_, answer)| *answer == Answer::Unknown);
    !is_served && !is_unknown && case.is_hardly_scattered()
}

/// From this share of memory on, a balloon is why memory is short.
const LARGE_BALLOON: f64 = 0.25;

/// A balloon holds memory that the request could have had.
pub(super) fn ballooned(case: &Case<'_>) -> Option<Finding> {
    let facts = case.facts;
    let ballooned = facts.ballooned.filter(|frames| *frames > 0 && is_short(case))?;
    let managed = facts.managed();
    // Frames that the zones lack up to their high watermarks.
    let lacks: u64 = facts.zones.iter().map(|z| z.high.saturating_sub(z.free)).sum();
    let would = ballooned >= lacks.saturating_add(case.asked.frames());
    let of_all = share(ballooned, managed.saturating_add(ballooned));
    Some(Finding {
        cause: Cause::Ballooned,
        // A small balloon would have helped this once.
        weight: if would && of_all >= LARGE_BALLOON { 0.95 } else { 0.5 * of_all },
        evidence: format!(
            "The balloon holds {}; the zones hand out {}{}.",
            case.size(ballooned),
            case.size(managed),
            if would { "; given back, every zone would be above its high watermark" } else { "" }
        ),
        setting: None,
    })
}

/// Everything is in use, and little of it can be reclaimed.
pub(super) fn used_up(case: &Case<'_>) -> Option<Finding> {
    let facts = case.facts;
    let managed = facts.managed();
    if !is_short(case) || managed == 0 {
        return None;
    }
    let reclaimable = facts.reclaimable()?;
    let swappable = facts.anon().unwrap_or(0).min(facts.swap_free.unwrap_or(0));
    // Where much can be reclaimed or swapped, memory is not used up.
    if share(reclaimable.saturating_add(swappable), managed) > RECLAIMABLE {
        return None;
    }
    let free: u64 = facts.zones.iter().map(|z| z.free + z.pcp).sum();
    // What is above the zones that a request may use is not in these sums, nor what lies there.
    let held = managed.saturating_sub(free).saturating_sub(reclaimable).saturating_sub(facts.pooled());
    let swap = match facts.swap_free {
        Some(0) => ", and no swap is free",
        Some(_) => ", and swap is free",
        None => "",
    };
    // With free swap, a request that waits has somewhere to go.
    let swapless = if facts.swap_free.is_some_and(|free| free > 0) && case.asked.waits() { 0.5 } else { 1.0 };
    let weight = 0.9 * share(held, managed) * swapless;
    (weight > 0.25).then(|| Finding {
        cause: Cause::OutOfMemory,
        weight,
        evidence: format!(
            "{} of {} are held by processes and the kernel, {} free; {} could be reclaimed{swap}.",
            case.size(held),
            case.size(managed),
            percent(share(free, managed)),
            case.size(reclaimable)
        ),
        setting: None,
    })
}
