//! Memory that is free and kept for others, and a reserve that is too small.

use pageyard_trace::text::{percent, size};

use super::super::answer::{Otherwise, served};
use super::super::cause::{Cause, Finding, Setting};
use super::{Case, SCARCE, share};

/// Free memory that is set aside for urgent requests of several frames.
pub(super) fn highatomic(case: &Case<'_>) -> Option<Finding> {
    let open = Otherwise { no_highatomic: true, ..Otherwise::default() };
    if case.is_served() || !served(case.facts, case.asked, open) {
        return None;
    }
    let kept = case.sum(|z| z.highatomic);
    Some(Finding {
        cause: Cause::HighatomicReserve,
        weight: 0.85,
        evidence: format!(
            "{} of the {} that are free are set aside for urgent requests of several frames; without that it would have been served.",
            size(kept.min(case.sum(|z| z.free))),
            size(case.sum(|z| z.free))
        ),
        setting: None,
    })
}

/// Free memory of contiguous areas, which only movable requests may use.
pub(super) fn contiguous(case: &Case<'_>) -> Option<Finding> {
    let open = Otherwise { any_cma: true, ..Otherwise::default() };
    if case.is_served() || !served(case.facts, case.asked, open) {
        return None;
    }
    Some(Finding {
        cause: Cause::ContiguousAreas,
        weight: 0.9,
        evidence: format!(
            "{} of the {} that are free belong to contiguous areas, which only movable requests may use.",
            size(case.sum(|z| z.cma)),
            size(case.sum(|z| z.free))
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
    if asked.waits() || case.is_served() || case.zones.is_empty() {
        return None;
    }
    let (free, managed, high) = (case.sum(|z| z.free), case.sum(|z| z.managed), case.sum(|z| z.high));
    // The reserve is what is kept for good; a boost lasts until the background reclaimer has caught up.
    let reserve = case.sum(|z| z.min.saturating_sub(z.boost));
    let reclaimable = facts.reclaimable()?;
    // Where the reserve is unharmed, it is not too small; where nothing can be reclaimed, a larger one would only be refused
    // to others.
    let low_now = free <= 2 * high.max(asked.frames()) || share(free, managed) < SCARCE;
    if !low_now || share(reclaimable, facts.managed()) < 0.05 {
        return None;
    }
    let usual = usual_kib(managed * KIB_A_FRAME);
    let is_small = reserve * KIB_A_FRAME < usual * 3 / 4;
    let now = facts.setting("vm/min_free_kbytes");
    let beside = match is_small {
        true => format!("; the kernel itself would set {}", size(usual / KIB_A_FRAME)),
        false => String::new(),
    };
    Some(Finding {
        cause: Cause::LowReserve,
        weight: if is_small { 0.94 } else { 0.7 },
        evidence: format!(
            "It cannot wait, and its zones had {} free of a reserve of {}{beside}; {} of memory could be reclaimed, but not in time.",
            size(free),
            size(reserve),
            percent(share(reclaimable, facts.managed()))
        ),
        setting: Some(Setting {
            name: "vm.min_free_kbytes",
            now: now.map(|kib| kib.to_string()),
            to: Some(four_times(case).max(usual).to_string()),
            note: "a larger reserve is free when such requests come; that memory is never used for anything else",
            knob: Some("min_free_kbytes"),
        }),
    })
}

/// Returns four times the reserve, in KiB.
pub(super) fn four_times(case: &Case<'_>) -> u64 {
    let reserve: u64 = case.facts.zones.iter().map(|z| z.min.saturating_sub(z.boost)).sum();
    let kib = case.facts.setting("vm/min_free_kbytes").unwrap_or(reserve.saturating_mul(KIB_A_FRAME));
    kib.saturating_mul(4)
}

const KIB_A_FRAME: u64 = pageyard::PAGE_SIZE / 1024;

/// Returns the reserve that a kernel gives itself.
///
/// # Linux
/// `calculate_min_free_kbytes`
fn usual_kib(managed_kib: u64) -> u64 {
    managed_kib.saturating_mul(16).isqrt().clamp(128, 262_144)
}

#[cfg(test)]
mod tests {
    use super::usual_kib;

    #[test]
    fn the_usual_reserve_is_the_kernels() {
        assert_eq!(usual_kib(475_008), 2756);
        assert_eq!(usual_kib(1 << 40), 262_144);
        assert_eq!(usual_kib(16), 128);
    }
}
