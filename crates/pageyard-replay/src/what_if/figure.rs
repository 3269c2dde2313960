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
    /// Blocks that went from per-CPU lists to zones: events `mm_page_pcpu_drain`.
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
    /// Blocks that came from zones, into per-CPU lists or to a caller: events `mm_page_alloc_zone_locked`; in a replay,
    /// those that came into lists.
    Refilled,
    /// Times that per-CPU lists gave blocks back while the zone's lock was held: calls of `free_pcppages_bulk`.
    Returns,
    /// Requests that waited for compaction: `compact_stall`.
    CompactStalls,
    /// Of those, the ones that it did not help: `compact_fail`.
    CompactFailed,
    /// Of those, the ones that it did: `compact_success`.
    CompactHelped,
    /// Frames that compaction looked at for something to move: `compact_migrate_scanned`.
    MigrateScanned,
    /// Frames that compaction looked at for something free: `compact_free_scanned`.
    FreeScanned,
    /// Requests that waited for reclaim: `allocstall`.
    ReclaimStalls,
    /// Frames that the background reclaimer freed: `pgsteal_kswapd`.
    Reclaimed,
    /// Frames that reclaim looked at for requests that wait: `pgscan_direct`.
    DirectScanned,
    /// Frames that it freed for them: `pgsteal_direct`.
    DirectReclaimed,
}

impl Figure {
    /// Every figure.
    pub const ALL: [Figure; 23] = [
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
        Figure::Refilled,
        Figure::Returns,
        Figure::CompactStalls,
        Figure::CompactFailed,
        Figure::CompactHelped,
        Figure::MigrateScanned,
        Figure::FreeScanned,
        Figure::ReclaimStalls,
        Figure::Reclaimed,
        Figure::DirectScanned,
        Figure::DirectReclaimed,
    ];

    /// The figures that the study of what-ifs scores: the first of all.
    pub const STUDIED: &'static [Figure] = Figure::ALL.split_at(7).0;

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
            Figure::Refilled => "refilled",
            Figure::Returns => "returns",
            Figure::CompactStalls => "compact_stalls",
            Figure::CompactFailed => "compact_failed",
            Figure::CompactHelped => "compact_helped",
            Figure::MigrateScanned => "migrate_scanned",
            Figure::FreeScanned => "free_scanned",
            Figure::ReclaimStalls => "reclaim_stalls",
            Figure::Reclaimed => "reclaimed",
            Figure::DirectScanned => "direct_scanned",
            Figure::DirectReclaimed => "direct_reclaimed",
        }
    }

    /// Says what it counts.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Figure::Drained => "blocks drained from per-CPU lists",
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
            Figure::Refilled => "blocks taken from zones",
            Figure::Returns => "times that per-CPU lists gave blocks back",
            Figure::CompactStalls => "requests that waited for compaction",
            Figure::CompactFailed => "requests that compaction did not help",
            Figure::CompactHelped => "requests that compaction did help",
            Figure::MigrateScanned => "frames looked at for something to move",
            Figure::FreeScanned => "frames looked at for something free",
            Figure::ReclaimStalls => "requests that waited for reclaim",
            Figure::Reclaimed => "frames freed by the background reclaimer",
            Figure::DirectScanned => "frames looked at by reclaim for a request",
            Figure::DirectReclaimed => "frames freed by reclaim for a request",
        }
    }

    /// Returns its unit.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Figure::Drained | Figure::Refilled => "blocks",
            Figure::Listed
            | Figure::Scanned
            | Figure::Reclaimed
            | Figure::DirectScanned
            | Figure::DirectReclaimed
            | Figure::MigrateScanned
            | Figure::FreeScanned => "frames",
            Figure::Fallbacks
            | Figure::Failures
            | Figure::Stalls
            | Figure::EightRefused
            | Figure::CompactStalls
            | Figure::CompactFailed
            | Figure::CompactHelped
            | Figure::ReclaimStalls => "requests",
            Figure::HugeRefused => "huge pages",
            Figure::Compacted => "%",
            Figure::Wakes | Figure::Returns => "times",
            Figure::FreeHuge | Figure::SetAside => "pageblocks",
        }
    }

    /// Returns the least difference that counts as one, however small the baseline is.
    #[must_use]
    pub fn floor(self) -> f64 {
        match self {
            _ if matches!(self.unit(), "frames" | "blocks") => 256.0,
            Figure::Fallbacks | Figure::FreeHuge | Figure::HugeRefused | Figure::Returns => 4.0,
            // A zone of a small guest sets three aside at most.
            Figure::SetAside => 0.5,
            _ => 2.0,
        }
    }

    /// Returns what a replay has for it.
    fn of_replay(self, report: &EngineReport) -> f64 {
        let n = |counter: Counter| report.stats[counter] as f64;
        // Figures are asked of the reference, which counts blocks.
        let lists = report.listed_blocks.unwrap_or_default();
        match self {
            Figure::Drained => lists.drained as f64,
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
            Figure::Refilled => lists.refilled as f64,
            Figure::Returns => n(Counter::PcpDrain),
            Figure::CompactStalls => n(Counter::CompactStall),
            Figure::CompactFailed => n(Counter::CompactFail),
            Figure::CompactHelped => n(Counter::CompactSuccess),
            Figure::MigrateScanned => n(Counter::CompactMigrateScanned),
            Figure::FreeScanned => n(Counter::CompactFreeScanned),
            Figure::ReclaimStalls => n(Counter::Allocstall),
            Figure::Reclaimed => n(Counter::PgstealKswapd),
            Figure::DirectScanned => n(Counter::PgscanDirect),
            Figure::DirectReclaimed => n(Counter::PgstealDirect),
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
