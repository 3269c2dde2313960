//! Memory that is free and kept for others, and a reserve that is too small.

use pageyard_trace::grouped;
use pageyard_trace::kernel_log::HostZone;
use pageyard_trace::text::percent;

use super::super::answer::{Otherwise, opened_by};
use super::super::cause::{Cause, Finding, Setting};
use super::super::facts::{Facts, Zone};
use super::case::{Case, SCARCE, share};

/// Free memory that is set aside for urgent requests of several frames.
pub(super) fn highatomic(case: &Case<'_>) -> Option<Finding> {
    let open = Otherwise { no_highatomic: true, ..Otherwise::default() };
    if case.is_served() || !opened_by(case.facts, case.asked, open) {
        return None;
    }
    let kept = case.sum(|z| z.highatomic);
    Some(Finding {
        cause: Cause::HighatomicReserve,
        weight: weight_of_reserve(case, 0.85),
        evidence: format!(
            "{} of the {} that are free are set aside for urgent requests of several frames; without that it would have been served.",
            case.size(kept.min(case.sum(|z| z.free))),
            case.size(case.sum(|z| z.free))
        ),
        setting: None,
    })
}

/// Returns how much a reserve's blocks speak for it: where enough is free outside of it, in blocks that are too small,
/// that is the cause, and the reserve's blocks a way out.
fn weight_of_reserve(case: &Case<'_>, weight: f64) -> f64 {
    if case.asked.order > 0 && !case.is_hardly_scattered() { weight / 3.0 } else { weight }
}

/// Free memory of contiguous areas, which only movable requests may use.
pub(super) fn contiguous(case: &Case<'_>) -> Option<Finding> {
    let open = Otherwise { any_cma: true, ..Otherwise::default() };
    // A movable request may use them, and does when the kernel finds it time to; one for which a process was killed did
    // not.
    let is_unused = case.asked.killed
        && case.zones.iter().all(|(z, _)| z.free.saturating_sub(z.cma) <= z.min)
        && case.zones.iter().any(|(z, _)| z.cma > z.min);
    if !is_unused && (case.is_served() || !opened_by(case.facts, case.asked, open)) {
        return None;
    }
    Some(Finding {
        cause: Cause::ContiguousAreas,
        weight: weight_of_reserve(case, 0.9),
        evidence: format!(
            "{} of the {} that are free belong to contiguous areas, which only movable requests may use.",
            case.size(case.sum(|z| z.cma)),
            case.size(case.sum(|z| z.free))
        ),
        setting: Some(Setting {
            name: "cma=",
            now: None,
            to: None,
            note: "the kernel's command line: a smaller area leaves more for the kernel; what needs the area may fail",
            knob: None,
        }),
    })
}

/// A request that cannot wait, in memory that the background reclaimer could have made room in.
pub(super) fn low(case: &Case<'_>) -> Option<Finding> {
    let (facts, asked) = (case.facts, case.asked);
    // Where enough is free and no block is there, a larger reserve is a remedy, and not the cause.
    if asked.waits() || case.zones.is_empty() || !case.is_hardly_scattered() {
        return None;
    }
    // Memory is described after the refusal. A zone below its min served it by a hair, or has been filled since.
    let is_near = case.has_failed && asked.is_urgent() && case.zones.iter().all(|(z, _)| z.free < z.min);
    if case.is_served() && !is_near {
        return None;
    }
    let (free, managed, high) = (case.sum(|z| z.free), case.sum(|z| z.managed), case.sum(|z| z.high));
    let reserve = case.sum(|z| z.min.saturating_sub(z.boost));
    let small = Small::of(case);
    let reclaimable = facts.reclaimable()?;
    // Where the reserve is unharmed, it is not too small; where nothing can be reclaimed, a larger one would only be
    // refused to others.
    let low_now = free <= 2 * high.max(asked.frames()) || share(free, managed) < SCARCE;
    if !low_now || share(reclaimable, facts.managed()) < 0.05 {
        return None;
    }
    let beside = small.map_or_else(String::new, |small| format!("; {}", small.words(case)));
    let usual = usual_of(facts);
    Some(Finding {
        cause: Cause::LowReserve,
        weight: if small.is_some() { 0.94 } else { 0.7 },
        evidence: format!(
            "It cannot wait, and its zones had {} free, and their reserve is {}{beside}; {} of memory could be reclaimed, but not in time.",
            case.size(free),
            case.size(reserve),
            percent(share(reclaimable, facts.managed()))
        ),
        setting: Some(larger_reserve(case, usual)),
    })
}

/// A reserve that is small for the host, when memory is free for such requests right now: a burst of them comes to its
/// end.
pub(super) fn at_risk(case: &Case<'_>) -> Option<Finding> {
    let small = Small::of(case)?;
    if case.asked.waits() || !case.is_served() {
        return None;
    }
    Some(Finding {
        cause: Cause::LowReserve,
        weight: 0.5 * (1.0 - share(small.reserve, small.usual)),
        evidence: format!(
            "It cannot wait, and is served now. But {}: after {} such requests in a row one is refused, unless memory is reclaimed meanwhile.",
            small.words(case),
            grouped(case.in_a_row())
        ),
        setting: Some(larger_reserve(case, small.usual * case.facts.frame_kib)),
    })
}

/// A host's reserve, where it is clearly smaller than what the kernel itself would set, in frames.
#[derive(Clone, Copy)]
struct Small {
    reserve: u64,
    usual: u64,
}

impl Small {
    /// Compares the reserves of all zones, which the kernel sets together. A log of a request for low zones shows those
    /// alone: of it, nothing is known.
    fn of(case: &Case<'_>) -> Option<Small> {
        let highest = case.asked.highest();
        let zones = &case.facts.zones;
        if highest < HostZone::Normal && !zones.iter().any(|z| z.kind > highest && z.managed > 0) {
            return None;
        }
        // The reserve is what is kept for good; a boost lasts until the background reclaimer has caught up.
        let reserve = zones.iter().filter(|z| counts(z)).map(|z| z.min.saturating_sub(z.boost)).sum();
        let usual = usual_of(case.facts) / case.facts.frame_kib;
        (reserve < usual * 3 / 4).then_some(Small { reserve, usual })
    }

    fn words(self, case: &Case<'_>) -> String {
        format!(
            "all zones together keep a reserve of {}, where the kernel itself would set {}",
            case.size(self.reserve),
            case.size(self.usual)
        )
    }
}

fn larger_reserve(case: &Case<'_>, kib: u64) -> Setting {
    Setting {
        name: "vm.min_free_kbytes",
        now: case.facts.setting("vm/min_free_kbytes").map(|kib| kib.to_string()),
        to: larger(case, kib),
        note: "a larger reserve is free when such requests come; that memory is never used for anything else",
        knob: Some("min_free_kbytes"),
    }
}

/// Returns a larger reserve to try, in KiB: four times the present one, or `least` if that is more, but not above a
/// twentieth of memory. None where a log shows low zones alone, so that the present one is not known.
pub(super) fn larger(case: &Case<'_>, least: u64) -> Option<String> {
    let facts = case.facts;
    let highest = case.asked.highest();
    let is_part =
        highest < HostZone::Normal && !facts.zones.iter().any(|z| z.kind > highest && z.managed > 0);
    let reserve: u64 = facts.zones.iter().map(|z| z.min.saturating_sub(z.boost)).sum();
    let now = match facts.setting("vm/min_free_kbytes") {
        Some(kib) => kib,
        None if is_part => return None,
        None => reserve.saturating_mul(facts.frame_kib),
    };
    let most = facts.managed().saturating_mul(facts.frame_kib) / 20;
    let to = now.saturating_mul(4).max(least).min(most);
    (to > now).then(|| to.to_string())
}

/// Returns whether the kernel counts a zone when it sets its reserve: a request that cannot wait takes no movable
/// memory.
fn counts(zone: &Zone) -> bool {
    zone.kind <= HostZone::Normal
}

/// Returns the reserve that a kernel would give itself on a host, in KiB.
fn usual_of(facts: &Facts) -> u64 {
    let managed: u64 = facts.zones.iter().filter(|z| counts(z)).map(|z| z.managed).sum();
    usual_kib(managed.saturating_mul(facts.frame_kib))
}

/// Returns the reserve that a kernel gives itself.
///
/// # Linux
/// `calculate_min_free_kbytes`
fn usual_kib(managed_kib: u64) -> u64 {
    managed_kib.saturating_mul(16).isqrt().clamp(128, 262_144)
}

#[cfg(test)]
mod tests {
    use super::super::super::facts::Asked;
    use super::*;
    use pageyard::Gfp;

    fn facts(min: u64) -> Facts {
        let zone = |kind, managed: u64, min| Zone {
            node: 0,
            kind,
            has_marks: true,
            free: 3000,
            boost: 0,
            min,
            high: min * 2,
            highatomic: 0,
            managed,
            pcp: 0,
            cma: 0,
            protection: Vec::new(),
            blocks: vec![600, 400, 200, 100],
            types: Vec::new(),
        };
        let zones =
            vec![zone(HostZone::Dma32, 760_000, min / 8), zone(HostZone::Normal, 5_300_000, min * 7 / 8)];
        Facts { zones, ..Facts::default() }
    }

    #[test]
    fn a_small_reserve_is_said_before_it_is_used_up() {
        let atomic = Gfp::HIGH | Gfp::KSWAPD_RECLAIM;
        // What the kernel sets on 23 GiB: 19.3 MiB, whatever part of it a request may use.
        for asked in [Asked::new(0, atomic), Asked::new(3, atomic), Asked::new(0, atomic | Gfp::DMA32)] {
            let usual = facts(4924);
            assert!(at_risk(&Case::tried(&asked, &usual)).is_none(), "{asked:?}");
            let small = facts(100);
            let found = at_risk(&Case::tried(&asked, &small)).unwrap();
            assert!(found.weight > 0.4 && found.weight <= 0.5, "{found:?}");
            assert!(found.evidence.contains("keep a reserve of"), "{found:?}");
        }
        // 100 blocks of order 3 in each zone, and more than 800 frames above the watermarks.
        let asked = Asked::new(3, atomic);
        let small = facts(100);
        let found = at_risk(&Case::tried(&asked, &small)).unwrap();
        assert!(found.evidence.contains("after 200 such requests in a row"), "{}", found.evidence);
        let waits = Asked::new(3, atomic | Gfp::DIRECT_RECLAIM);
        assert!(at_risk(&Case::tried(&waits, &small)).is_none());
        // A log of a request for low zones has those alone.
        let mut low = facts(100);
        low.zones.pop();
        assert!(at_risk(&Case::tried(&Asked::new(0, atomic | Gfp::DMA32), &low)).is_none());
    }

    #[test]
    fn the_usual_reserve_is_the_kernels() {
        assert_eq!(usual_kib(475_008), 2756);
        assert_eq!(usual_kib(1 << 40), 262_144);
        assert_eq!(usual_kib(16), 128);
    }
}
