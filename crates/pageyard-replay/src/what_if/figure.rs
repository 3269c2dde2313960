//! The figures that are predicted and measured: counts that a kernel and the reference both have.

use crate::replay::EngineReport;
use pageyard::Counter;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A count over one run of a load, or a state at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Blocks that went from per-CPU lists to zones: events `mm_page_pcpu_drain`; in a replay, frames.
    Drained,
    /// Frames in per-CPU lists at the end: `zoneinfo`.
    Listed,
    /// Blocks taken from a pageblock of another type: events `mm_page_alloc_extfrag`.
    Fallbacks,
    /// Times that the background reclaimer was woken: events `mm_vmscan_wakeup_kswapd`; in a replay, requests that did.
    Wakes,
    /// Requests that got nothing: events `mm_page_alloc` without a frame.
    Failures,
    /// Requests that compacted or waited for reclaim: `compact_stall` and `allocstall`.
    Stalls,
    /// Free pageblocks at the end: `buddyinfo`, orders 9 and 10.
    FreeHuge,
    /// Pageblocks set aside for atomic requests, less those given back: `pagetypeinfo`, at the end less at the
    /// beginning.
    SetAside,
    /// Frames that the background reclaimer looked at: `pgscan_kswapd`.
    Scanned,
    /// Huge pages that a fault asked for and did not get: `thp_fault_fallback`; in a replay, refused requests of
    /// order 9.
    HugeRefused,
    /// The share of requests that waited for compaction which it helped, in percent: `compact_success` of
    /// `compact_stall`.
    Compacted,
    /// Requests for 8 frames that got nothing: events `mm_page_alloc` of order 3 without a frame.
    EightRefused,
}

impl Figure {
    /// Every figure.
    pub const ALL: [Figure; 12] = [
        Figure::Drained,
        Figure::Listed,
        Figure::Fallbacks,
        Figure::Wakes,
        Figure::Failures,
        Figure::Stalls,
        Figure::FreeHuge,
        Figure::SetAside,
        Figure::Scanned,
        Figure::HugeRefused,
        Figure::Compacted,
        Figure::EightRefused,
    ];

    /// Returns its name in rows.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Figure::Drained => "drained",
            Figure::Listed => "listed",
            Figure::Fallbacks => "fallbacks",
            Figure::Wakes => "wakes",
            Figure::Failures => "failures",
            Figure::Stalls => "stalls",
            Figure::FreeHuge => "free_huge",
            Figure::SetAside => "set_aside",
            Figure::Scanned => "scanned",
            Figure::HugeRefused => "huge_refused",
            Figure::Compacted => "compacted",
            Figure::EightRefused => "eight_refused",
        }
    }

    /// Says what it counts.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Figure::Drained => "frames drained from per-CPU lists",
            Figure::Listed => "frames in per-CPU lists at the end",
            Figure::Fallbacks => "fallbacks to another type",
            Figure::Wakes => "wakes of the background reclaimer",
            Figure::Failures => "refused requests",
            Figure::Stalls => "stalls in compaction and reclaim",
            Figure::FreeHuge => "free pageblocks at the end",
            Figure::SetAside => "pageblocks set aside for atomic requests",
            Figure::Scanned => "frames looked at by the background reclaimer",
            Figure::HugeRefused => "huge pages not given",
            Figure::Compacted => "requests that compaction helped",
            Figure::EightRefused => "refused requests for 8 frames",
        }
    }

    /// Returns its unit.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Figure::Drained => "blocks",
            Figure::Listed | Figure::Scanned => "frames",
            Figure::Fallbacks | Figure::Failures | Figure::Stalls | Figure::EightRefused => "requests",
            Figure::HugeRefused => "huge pages",
            Figure::Compacted => "%",
            Figure::Wakes => "times",
            Figure::FreeHuge | Figure::SetAside => "pageblocks",
        }
    }

    /// Returns the least difference that counts as one, however small the baseline is.
    #[must_use]
    pub fn floor(self) -> f64 {
        match self {
            Figure::Drained | Figure::Listed | Figure::Scanned => 256.0,
            Figure::Fallbacks | Figure::FreeHuge | Figure::HugeRefused => 4.0,
            Figure::Wakes | Figure::Failures | Figure::Stalls | Figure::EightRefused => 2.0,
            Figure::Compacted => 2.0,
            // A zone of a small guest sets three aside at most.
            Figure::SetAside => 0.5,
        }
    }

    /// Returns what a replay has for it.
    fn of_replay(self, report: &EngineReport) -> f64 {
        let n = |counter: Counter| report.stats[counter] as f64;
        match self {
            Figure::Drained => n(Counter::PcpDrainPages),
            Figure::Listed => report.samples.last().map_or(0.0, |s| s.cached as f64),
            Figure::Fallbacks => n(Counter::Extfrag),
            Figure::Wakes => n(Counter::KswapdWake),
            Figure::Failures => report.failures.allocs as f64,
            Figure::Stalls => n(Counter::CompactStall) + n(Counter::Allocstall),
            Figure::FreeHuge => {
                report.buddyinfo.iter().map(|(_, blocks)| (blocks[9] + 2 * blocks[10]) as f64).sum()
            }
            Figure::SetAside => n(Counter::HighatomicReserve) - n(Counter::HighatomicUnreserve),
            Figure::Scanned => n(Counter::PgscanKswapd),
            Figure::HugeRefused => report.failures.by_order[9] as f64,
            Figure::Compacted => share(n(Counter::CompactSuccess), n(Counter::CompactStall)),
            Figure::EightRefused => report.failures.by_order[3] as f64,
        }
    }
}

/// Returns a share in percent: 0 of nothing.
#[must_use]
pub fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

/// A value for each figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Figures(pub BTreeMap<Figure, f64>);

impl Figures {
    /// Takes them from a replay.
    #[must_use]
    pub fn of_replay(report: &EngineReport) -> Figures {
        Figures(Figure::ALL.into_iter().map(|figure| (figure, figure.of_replay(report))).collect())
    }

    /// Returns one.
    #[must_use]
    pub fn get(&self, figure: Figure) -> f64 {
        self.0.get(&figure).copied().unwrap_or(0.0)
    }
}
