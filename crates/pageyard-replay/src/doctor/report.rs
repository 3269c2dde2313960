//! Kinds of reports, and the causes that a kind names by itself.

use super::cause::{Cause, Finding, Setting};
use super::facts::{Asked, Facts};
use pageyard_trace::grouped;
use pageyard_trace::kernel_log::{LoggedKind, LoggedRequest};
use pageyard_trace::text::{shown, size_of_kib};
use serde::Serialize;

/// The kind of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Report {
    /// A request was refused.
    AllocationFailure,
    /// A process was killed, since the host had no memory.
    OomKiller,
    /// A process was killed, since its memory control group was at its limit.
    MemoryControlGroup,
    /// Virtually contiguous memory was refused.
    Vmalloc,
    /// A cache of kernel objects could not grow.
    Slub,
    /// A contiguous area could not give a range.
    Cma,
    /// A pool of huge pages could not be filled.
    HugetlbPool,
    /// A request waited for long.
    Stall,
}

impl Report {
    /// Returns the kind of what a kernel logged.
    pub(super) fn of(kind: &LoggedKind) -> Report {
        match kind {
            LoggedKind::Stalled { .. } => Report::Stall,
            LoggedKind::Killed => Report::OomKiller,
            LoggedKind::Group { .. } => Report::MemoryControlGroup,
            LoggedKind::Vmalloc { .. } => Report::Vmalloc,
            LoggedKind::Slab { .. } => Report::Slub,
            LoggedKind::Contiguous { .. } => Report::Cma,
            LoggedKind::HugePool { .. } => Report::HugetlbPool,
            _ => Report::AllocationFailure,
        }
    }

    /// Returns the words that follow the request in a sentence.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Report::AllocationFailure => "",
            Report::OomKiller => ", and a process was killed for it",
            Report::MemoryControlGroup => {
                ", beyond the limit of a memory control group: a process of it was killed"
            }
            Report::Vmalloc => ", for virtually contiguous memory (vmalloc)",
            Report::Slub => ", for a cache of kernel objects",
            Report::Cma => ", for a range of a contiguous area (CMA)",
            Report::HugetlbPool => ", for a pool of huge pages",
            Report::Stall => ", which waited for long",
        }
    }
}

/// The cause that a kind of report names by itself.
pub(super) struct Named {
    pub finding: Option<Finding>,
    /// Whether the state of the zones explains it, too.
    pub with_zones: bool,
}

/// Finds the cause that a kind of report names.
pub(super) fn named(request: &LoggedRequest, asked: &Asked, facts: &Facts) -> Named {
    let (kind, is_limited) = (&request.kind, request.is_limited);
    let only = |finding| Named { finding: Some(finding), with_zones: false };
    match kind {
        LoggedKind::Group { name, usage_kib, limit_kib } => only(group(facts, name, *usage_kib, *limit_kib)),
        LoggedKind::Slab { cache } if cache.contains('(') => only(Finding {
            cause: Cause::GroupLimit,
            weight: 0.8,
            evidence: format!(
                "The cache {} is that of a memory control group, whose kernel memory is limited.",
                shown(cache)
            ),
            setting: Some(limit_of_group(facts)),
        }),
        LoggedKind::Vmalloc { bytes, lacks_addresses: true } => only(Finding {
            cause: Cause::VmallocSpace,
            weight: 0.95,
            evidence: match bytes {
                Some(bytes) => format!(
                    "{} of virtual addresses were asked for, and the range for such requests has no such gap; frames are not what is lacking.",
                    size_of_kib(bytes / 1024)
                ),
                None => "Virtual addresses were lacking, not frames.".to_owned(),
            },
            setting: facts.has_high.then_some(Setting {
                name: "vmalloc=",
                now: None,
                to: None,
                note: "the kernel's command line, on 32-bit kernels: a larger range leaves less low memory",
                knob: None,
            }),
        }),
        LoggedKind::Contiguous { frames, error } => only(Finding {
            cause: if *error == EBUSY { Cause::AreaBusy } else { Cause::Scattered },
            weight: 0.9,
            evidence: match *error {
                EBUSY => format!(
                    "{} frames in a row were asked of the area, and something in every such range could not be moved away (error 16).",
                    grouped(*frames)
                ),
                error => format!(
                    "{} frames in a row were asked of the area, and it has no such range (error {error}).",
                    grouped(*frames)
                ),
            },
            setting: None,
        }),
        LoggedKind::HugePool { asked, got } => only(Finding {
            cause: Cause::PoolShort,
            weight: 0.9,
            evidence: format!(
                "{} huge pages were asked for and {} were had: memory was in use, or scattered.",
                grouped(*asked),
                grouped(*got)
            ),
            setting: Some(Setting {
                name: "vm.nr_hugepages",
                now: Some(got.to_string()),
                to: Some(asked.to_string()),
                note: "once more, when memory was compacted; at boot, before memory is in use, `hugepages=` gets most",
                knob: None,
            }),
        }),
        LoggedKind::Killed if is_limited && facts.zones.is_empty() => Named {
            finding: asked.nodes.as_ref().map(|nodes| Finding {
                cause: Cause::NodeLimit,
                weight: 0.8,
                evidence: format!(
                    "By the killer's own words it was limited to node {}; the zones are not in the log.",
                    nodes.iter().map(u8::to_string).collect::<Vec<_>>().join(", ")
                ),
                setting: None,
            }),
            with_zones: true,
        },
        LoggedKind::Stalled { ms } => Named { finding: Some(slow(asked, facts, *ms)), with_zones: true },
        _ => Named { finding: None, with_zones: true },
    }
}

/// `EBUSY`
const EBUSY: u32 = 16;

fn group(facts: &Facts, name: &str, usage_kib: Option<u64>, limit_kib: Option<u64>) -> Finding {
    let group = if name.is_empty() { "The group".to_owned() } else { format!("The group {}", shown(name)) };
    let of = |kib: Option<u64>| kib.map_or_else(|| "an amount that is not shown".to_owned(), size_of_kib);
    let free: u64 = facts.zones.iter().map(|z| z.free).sum();
    let host = match facts.zones.is_empty() {
        true => String::new(),
        false => format!("; the host itself has {} free", facts.size(free)),
    };
    Finding {
        cause: Cause::GroupLimit,
        weight: 0.98,
        evidence: format!("{group} uses {} of a limit of {}{host}.", of(usage_kib), of(limit_kib)),
        setting: Some(limit_of_group(facts)),
    }
}

fn limit_of_group(facts: &Facts) -> Setting {
    // The second version of control groups came with 4.5, and hosts chose it years later.
    let second = facts.release().is_some_and(|release| release >= (4, 5));
    Setting {
        name: if second { "memory.max" } else { "memory.limit_in_bytes" },
        now: None,
        to: None,
        note: "the group's own limit (memory.limit_in_bytes under the first version of control groups); the host's settings do not matter here",
        knob: None,
    }
}

/// A request that waited for reclaim.
fn slow(asked: &Asked, facts: &Facts, ms: Option<u64>) -> Finding {
    let waited = ms.map_or_else(
        || "It has waited for long".to_owned(),
        |ms| format!("It waited for {} ms", grouped(ms)),
    );
    let had = match (facts.reclaimable(), facts.swap_free) {
        (Some(frames), Some(swap)) => format!(
            ": {} of page cache and caches could be reclaimed, and {} of swap are free",
            facts.size(frames),
            facts.size(swap)
        ),
        (Some(frames), None) => {
            format!(": {} of page cache and caches could be reclaimed", facts.size(frames))
        }
        _ => format!(", for {} frames", asked.frames()),
    };
    Finding {
        cause: Cause::SlowReclaim,
        weight: 0.75,
        evidence: format!("{waited}{had}; what is reclaimed comes no faster than storage takes it."),
        setting: None,
    }
}
