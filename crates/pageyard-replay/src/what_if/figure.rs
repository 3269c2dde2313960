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
}

impl Figure {
    /// Every figure.
    pub const ALL: [Figure; 7] = [
        Figure::Drained,
        Figure::Listed,
        Figure::Fallbacks,
        Figure::Wakes,
        Figure::Failures,
        Figure::Stalls,
        Figure::FreeHuge,
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
        }
    }

    /// Returns its unit.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Figure::Drained => "blocks",
            Figure::Listed => "frames",
            Figure::Fallbacks | Figure::Failures | Figure::Stalls => "requests",
            Figure::Wakes => "times",
            Figure::FreeHuge => "pageblocks",
        }
    }

    /// Returns the least difference that counts as one, however small the baseline is.
    #[must_use]
    pub fn floor(self) -> f64 {
        match self {
            Figure::Drained | Figure::Listed => 256.0,
            Figure::Fallbacks | Figure::FreeHuge => 4.0,
            Figure::Wakes | Figure::Failures | Figure::Stalls => 2.0,
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
        }
    }
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
