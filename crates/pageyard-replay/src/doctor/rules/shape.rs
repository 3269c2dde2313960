//! Enough is free, in the wrong shape: who is in the way.

use pageyard_trace::grouped;
use pageyard_trace::text::percent;

use super::super::answer::Answer;
use super::super::cause::{Cause, Finding, Setting};
use super::super::facts::Pool;
use super::super::settings;
use super::case::{Case, SCARCE, share};
use super::reserve::larger;

/// With so many times the high watermark free, a single frame is refused for no lack of memory.
const AMPLE: u64 = 4;

/// A block is free, but none of the request's own type, and the kernel does not mix them for a request that cannot
/// wait.
pub(super) fn defrag_mode(case: &Case<'_>) -> Option<Finding> {
    let (facts, asked) = (case.facts, case.asked);
    let set = facts.setting("vm/defrag_mode");
    // Without the setting, a log shows it only in that nothing else explains the failure.
    let possible = set.map_or_else(|| settings::has(facts, "vm.defrag_mode"), |on| on > 0);
    // Of a request that was not refused, only the setting itself says that it would be.
    if asked.waits() || !possible || !case.is_served() || !case.has_failed && set.is_none() {
        return None;
    }
    let mut own = vec![asked.letter()];
    if asked.order > 0 && asked.gfp.contains(pageyard::Gfp::HIGH) {
        own.push('H');
    }
    let served: Vec<_> =
        case.zones.iter().filter(|(_, answer)| *answer == Answer::Served).map(|(z, _)| *z).collect();
    let of_own: Vec<_> = served.iter().map(|z| z.has_of_type(asked.order, &own)).collect();
    // Where the types of free blocks are not known, that the setting is on says enough: a block was free, and the
    // request refused.
    let unknown = of_own.contains(&None);
    if unknown && (set.is_none() || !case.has_failed) {
        return None;
    }
    let none_left = of_own.iter().all(|has| *has == Some(false));
    // Memory is described milliseconds after the refusal: by then the background may have made blocks of the type. A
    // frame that was refused with so much free was hardly refused by a watermark.
    let ample = case.has_failed && asked.order == 0 && served.iter().all(|z| z.free >= AMPLE * z.high);
    if !none_left && !ample && !unknown {
        return None;
    }
    let free: u64 = served.iter().map(|z| z.free).sum();
    let name = match asked.letter() {
        'M' => "movable",
        'E' => "reclaimable",
        _ => "unmovable",
    };
    let where_it_is = match (none_left, ample && !unknown) {
        (true, _) => format!("none of it in {name} pageblocks"),
        (false, false) => "of which types is not known".to_owned(),
        (false, true) => format!(
            "{AMPLE} times the high watermark or more; when it was described, {name} blocks were among it again"
        ),
    };
    let known = if set.is_some() { "which is set here" } else { "which kernels since 6.15 have" };
    Some(Finding {
        cause: Cause::DefragMode,
        weight: match (none_left, set.is_some()) {
            (true, true) => 0.97,
            (true, false) => 0.9,
            (false, true) if unknown => 0.85,
            (false, true) => 0.8,
            (false, false) => 0.6,
        },
        evidence: format!(
            "{} are free, more than the watermarks ask for, {where_it_is}; under vm.defrag_mode, {known}, a request that cannot wait does not take from others.",
            case.size(free)
        ),
        setting: Some(Setting {
            name: "vm.defrag_mode",
            now: set.map(|n| n.to_string()),
            to: Some("0".to_owned()),
            note: "requests mix types again when their own has nothing; more pageblocks are lost to huge pages then",
            knob: Some("defrag_mode"),
        }),
    })
}

/// KiB of the largest usual huge page, and the setting of its pool.
const GIB_KIB: u64 = 1 << 20;
const GIB_POOL: &str = "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages";

/// Huge pages that are set aside hold whole pageblocks.
pub(super) fn huge_pages(case: &Case<'_>) -> Option<Finding> {
    let facts = case.facts;
    let pooled = facts.pooled();
    if case.is_served() || pooled == 0 {
        return None;
    }
    let fits: Vec<_> = facts.pools.iter().filter(|p| p.frames >= case.asked.frames()).collect();
    let sum = |of: fn(&Pool) -> u64| facts.pools.iter().map(of).fold(0, u64::saturating_add);
    let unused = fits.iter().map(|p| p.free).fold(0, u64::saturating_add);
    let total = sum(|p| p.total);
    let unused_everywhere = sum(|p| p.free);
    // Of memory, and of what is left for everybody else.
    let of_all = share(pooled, facts.managed());
    let weight = match () {
        // Giving back one of them makes a block.
        () if unused > 0 && case.asked.order > 3 && of_all >= 0.1 => 0.96,
        () if unused > 0 => 0.5 + 0.45 * of_all,
        () => 0.9 * of_all,
    };
    // A log shows every pool; the setting is of the one of the usual size.
    let largest = facts.pools.iter().max_by_key(|p| p.frames.saturating_mul(p.total));
    let is_gib = largest.is_some_and(|p| p.frames.saturating_mul(facts.frame_kib) == GIB_KIB);
    let (name, now, unneeded) = match (facts.setting("vm/nr_hugepages"), largest) {
        (None, Some(pool)) if is_gib => (GIB_POOL, pool.total, pool.free),
        (now, _) => ("vm.nr_hugepages", now.unwrap_or(total), unused_everywhere),
    };
    let to = if unneeded > 0 { now.saturating_sub(unneeded) } else { now - now / 10 };
    Some(Finding {
        cause: Cause::HugePagesReserved,
        weight: if of_all < 0.02 { 0.02 } else { weight },
        evidence: format!(
            "{} huge pages are set aside, {} or {} of memory; {} of them are not used by anybody, and {} is free otherwise.",
            grouped(total),
            case.size(pooled),
            percent(of_all),
            grouped(unused_everywhere),
            case.size(case.sum(|z| z.free))
        ),
        setting: Some(Setting {
            name,
            now: Some(now.to_string()),
            to: Some(to.to_string()),
            note: "gives unused ones back; programs that take huge pages from the pool have fewer",
            knob: None,
        }),
    })
}

/// Frames that cannot be moved lie in pageblocks that are free otherwise.
pub(super) fn unmovable(case: &Case<'_>) -> Option<Finding> {
    let parts = Parts::of(case)?;
    let facts = case.facts;
    let slab = facts.slab_reclaimable.unwrap_or(0) > facts.slab_unreclaimable.unwrap_or(0);
    let setting = if slab {
        Setting {
            name: "vm.vfs_cache_pressure",
            now: facts.setting("vm/vfs_cache_pressure").map(|n| n.to_string()),
            to: Some("200".to_owned()),
            note: "shrinks caches of files' names and inodes sooner; they are read again when needed",
            knob: None,
        }
    } else {
        let now = facts.setting("vm/min_free_kbytes");
        Setting {
            name: "vm.min_free_kbytes",
            to: larger(case, 0),
            now: now.map(|kib| kib.to_string()),
            note: "with more free, fewer unmovable requests take from movable pageblocks; it does not move what lies there now",
            knob: Some("min_free_kbytes"),
        }
    };
    Some(Finding {
        cause: Cause::UnmovableScattered,
        weight: 0.92 * parts.unmovable_share() * parts.scarcity,
        evidence: parts.unmovable_evidence(case),
        setting: Some(setting),
    })
}

/// Movable frames lie there, and were not moved.
pub(super) fn movable(case: &Case<'_>) -> Option<Finding> {
    let parts = Parts::of(case)?;
    let waits = case.asked.waits();
    Some(Finding {
        cause: Cause::MovableScattered,
        weight: 0.8 * (1.0 - parts.unmovable_share()) * parts.scarcity,
        evidence: format!(
            "{} are free, in blocks below order {}, and {}; {}.",
            case.size(case.sum(|z| z.free)),
            case.asked.order,
            parts.movable_evidence(),
            if waits {
                "compaction has not made a block of it"
            } else {
                "the request cannot wait for compaction"
            }
        ),
        setting: Some(compacting(case)),
    })
}

/// No block of the order is there, and what is between is not known.
pub(super) fn scattered(case: &Case<'_>) -> Option<Finding> {
    let is_small = case.asked.order == 0 || case.is_served() || !case.is_fragmented();
    if is_small || Parts::of(case).is_some() || case.is_hardly_scattered() {
        return None;
    }
    Some(Finding {
        cause: Cause::Scattered,
        weight: 0.85,
        evidence: format!(
            "{} are free, and {} among them that it may take.",
            case.size(case.sum(|z| z.free)),
            case.lacking()
        ),
        setting: Some(compacting(case)),
    })
}

/// Returns the setting that has memory compacted before a request needs it, as this kernel has it.
fn compacting(case: &Case<'_>) -> Setting {
    let now = case.facts.setting("vm/compaction_proactiveness");
    if !settings::has(case.facts, "vm.compaction_proactiveness") {
        return Setting {
            name: "vm.compact_memory",
            now: None,
            to: Some("1".to_owned()),
            note: "compacts all zones once, when it is written; kernels before 5.9 do not compact ahead of need by themselves",
            knob: None,
        };
    }
    Setting {
        name: "vm.compaction_proactiveness",
        now: now.map(|n| n.to_string()),
        to: Some("100".to_owned()),
        note: "compacts ahead of need; that takes processor time",
        knob: Some("compaction.proactiveness"),
    }
}

/// The obstacles between free frames.
struct Parts {
    unmovable: u64,
    movable: u64,
    /// Pageblocks, or else frames.
    unit: &'static str,
    /// How much the shape matters: less where hardly anything is free.
    scarcity: f64,
}

impl Parts {
    fn of(case: &Case<'_>) -> Option<Parts> {
        if case.asked.order == 0 || case.is_served() || !case.is_fragmented() {
            return None;
        }
        let facts = case.facts;
        // What is free in pieces, beside what the pool has: a small rest is not where a block would have come from.
        let pooled = share(facts.pooled(), facts.managed());
        let scarce = case.free_share() < SCARCE && pooled >= 0.1;
        let scarcity = if scarce || case.is_hardly_scattered() { 0.4 } else { 1.0 };
        if let Some(spoilt) = facts.spoilt {
            let (unmovable, movable) = (spoilt.unmovable, spoilt.movable);
            return Some(Parts { unmovable, movable, unit: "pageblocks", scarcity });
        }
        // A log has no pageblocks, but it counts what could be moved: the rest of what is in use cannot.
        let movable = facts.lru?;
        let free = facts.zones.iter().map(|z| z.free + z.pcp).sum::<u64>();
        let used = facts.managed().saturating_sub(free).saturating_sub(facts.pooled());
        Some(Parts { unmovable: used.saturating_sub(movable), movable, unit: "frames", scarcity })
    }

    fn unmovable_share(&self) -> f64 {
        share(self.unmovable, self.unmovable + self.movable)
    }

    fn unmovable_evidence(&self, case: &Case<'_>) -> String {
        let facts = case.facts;
        let slab = facts.slab_unreclaimable.zip(facts.slab_reclaimable);
        let slab = slab.map_or_else(String::new, |(fixed, shrinks)| {
            format!(
                "; slab has {}, of which {} can be shrunk",
                case.size(fixed.saturating_add(shrinks)),
                case.size(shrinks)
            )
        });
        format!(
            "{} are free, but {}: of {} {} {} {} what cannot be moved{slab}.",
            case.size(case.sum(|z| z.free)),
            case.lacking(),
            grouped(self.unmovable + self.movable),
            if self.unit == "frames" { "frames in use" } else { "pageblocks in use that were looked at" },
            percent(self.unmovable_share()),
            if self.unit == "frames" { "are" } else { "hold" }
        )
    }

    fn movable_evidence(&self) -> String {
        let share = percent(1.0 - self.unmovable_share());
        match self.unit {
            "frames" => format!("{share} of the frames in use can be moved"),
            _ => format!("{share} of the pageblocks in use hold only what can be moved"),
        }
    }
}
