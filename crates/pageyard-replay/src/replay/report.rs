//! What a replay found, as numbers.

use super::distance::ComparedWithHost;
use super::kernel_report::InKernel;
use super::moved::MoveCounts;
use super::opening::Opened;
use super::prediction::Prediction;
use super::refusals::Refusals;
use super::slow_path::SlowPathTotals;
use super::timeline::Sample;
use super::walk::EventCounts;
use crate::engine::Fallbacks;
use crate::latency::LatencySummary;
use crate::machine::{Machine, Opening, OpeningCounts};
use pageyard::proctext::LINUX_ORDERS;
use pageyard::watermark::Watermarks;
use pageyard::{AllocError, AuditError, Census, Frames, Migratetype, NR_ORDERS, Order, Stats, ZoneStats};
use pageyard_trace::Trace;
use serde::{Serialize, Serializer};
use std::time::Duration;

/// The trace, and how well it can be replayed.
#[derive(Clone, Debug)]
pub struct TraceReport {
    /// Its name.
    pub name: String,
    /// The kernel that it was recorded on.
    pub kernel: String,
    /// CPUs.
    pub cpus: u32,
    /// Frames managed in the replay.
    pub managed: Frames,
    /// Frames taken away by `--memory`.
    pub taken_away: Frames,
    /// Time from the first row to the last, in nanoseconds.
    pub duration_ns: u64,
    /// Events lost while recording.
    pub lost: u64,
    /// Whether there is a snapshot to open from.
    pub has_snapshot: bool,
    /// Frames by which the snapshot and the zones disagree.
    pub managed_mismatch: u64,
    /// How the opening state was found.
    pub opening: OpeningCounts,
    /// Its rows.
    pub counts: EventCounts,
}

impl TraceReport {
    pub(super) fn new(
        trace: &Trace,
        machine: &Machine,
        opening: &Opening,
        taken_away: Frames,
    ) -> TraceReport {
        TraceReport {
            name: trace.name().to_owned(),
            kernel: trace.meta().kernel.clone(),
            cpus: machine.cpus,
            managed: machine.managed(),
            taken_away,
            duration_ns: opening.duration_ns,
            lost: trace.meta().lost,
            has_snapshot: machine.has_snapshot,
            managed_mismatch: machine.managed_mismatch,
            opening: opening.counts,
            counts: EventCounts::default(),
        }
    }

    /// Returns the seconds from the first row to the last.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.duration_ns as f64 / 1e9
    }

    /// Returns the frees of what no row allocated, as a percentage of all frees.
    #[must_use]
    pub fn unknown_frees_pct(&self) -> f64 {
        percentage(self.counts.unknown_frees, self.counts.frees)
    }

    /// Returns the allocations of a frame that is still held, as a percentage of all allocations.
    #[must_use]
    pub fn reallocations_pct(&self) -> f64 {
        percentage(self.counts.reallocations, self.counts.allocs)
    }
}

fn percentage(n: u64, of: u64) -> f64 {
    100.0 * n as f64 / of.max(1) as f64
}

/// Where a replay's time went, in seconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Seconds {
    /// Waiting for rows.
    #[serde(serialize_with = "in_seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub read: Duration,
    /// Finding and building the opening state.
    #[serde(serialize_with = "in_seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub open: Duration,
    /// Re-executing rows.
    #[serde(serialize_with = "in_seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub replay: Duration,
}

fn in_seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

/// What the engine refused, or should have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// Requests refused.
    pub allocs: u64,
    /// Of those, bad requests.
    pub bad_request: u64,
    /// Of those, refused to keep a reserve.
    pub below_watermark: u64,
    /// Of those, refused for fragmentation.
    pub fragmented: u64,
    /// Of those, refused for lack of memory.
    pub out_of_memory: u64,
    /// The same by order.
    pub by_order: [u64; NR_ORDERS],
    /// Requests refused here that the host served.
    pub refused_where_host_served: u64,
    /// Requests served here that the host refused.
    pub served_where_host_failed: u64,
    /// Blocks handed out while the replay held a part of them.
    pub double_allocations: u64,
    /// Frames of which that is true.
    pub double_frames: u64,
    /// Frees that the engine refused.
    pub refused_frees: u64,
}

impl Failures {
    /// Counts a refusal.
    pub(super) fn count(&mut self, order: Order, why: &AllocError) {
        self.allocs += 1;
        self.by_order[order.index()] += 1;
        *match why {
            AllocError::BadRequest(_) => &mut self.bad_request,
            AllocError::BelowWatermark { .. } => &mut self.below_watermark,
            AllocError::Fragmented { .. } => &mut self.fragmented,
            AllocError::OutOfMemory => &mut self.out_of_memory,
        } += 1;
    }

    /// Adds what another thread counted.
    pub(super) fn add(&mut self, other: &Failures) {
        for (mine, theirs) in [
            (&mut self.allocs, other.allocs),
            (&mut self.bad_request, other.bad_request),
            (&mut self.below_watermark, other.below_watermark),
            (&mut self.fragmented, other.fragmented),
            (&mut self.out_of_memory, other.out_of_memory),
            (&mut self.refused_where_host_served, other.refused_where_host_served),
            (&mut self.served_where_host_failed, other.served_where_host_failed),
            (&mut self.double_allocations, other.double_allocations),
            (&mut self.double_frames, other.double_frames),
            (&mut self.refused_frees, other.refused_frees),
        ] {
            *mine += theirs;
        }
        self.by_order.iter_mut().zip(other.by_order).for_each(|(mine, theirs)| *mine += theirs);
    }
}

/// Threads of a replay, and how they got in each other's way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waiting {
    /// Threads, one a CPU.
    pub threads: u32,
    /// Frees that waited for their allocation on another CPU.
    pub waits: u64,
    /// Nanoseconds they waited; not in the latencies.
    pub wait_ns: u64,
    /// The share of the frees whose pageblock was biased to the CPU that freed, asked just before each; left out for
    /// engines that bias nothing to a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub biased_share: Option<f64>,
    /// How often a pageblock's bias was taken back while the threads ran, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revocations: Option<u64>,
}

/// One engine's replay.
#[derive(Clone, Debug)]
pub struct EngineReport {
    /// How the engine was named, with the settings that were given there.
    pub name: String,
    /// The engine's own name.
    pub engine: &'static str,
    /// What it leaves out of what it is named after.
    pub leaves_out: &'static str,
    /// The knobs that were set on it, in order.
    pub settings: Vec<(String, String)>,
    /// Where the time went.
    pub seconds: Seconds,
    /// Rows re-executed: allocations and frees.
    pub rows: u64,
    /// Latencies of allocating.
    pub alloc: LatencySummary,
    /// Latencies of freeing.
    pub free: LatencySummary,
    /// What went wrong.
    pub failures: Failures,
    /// Which requests were refused, here and on the host.
    pub refusals: Refusals,
    /// Frames that the engine says are allocated, less those that the replay holds.
    pub leaked_frames: i64,
    /// What it opened with.
    pub opened: Opened,
    /// Blocks split because they were freed in parts.
    pub splits: u64,
    /// The engine's audit at the end.
    pub audit: Result<Census, AuditError>,
    /// Fallbacks by requested type and type taken from, where the engine counts them so.
    pub fallbacks: Option<Fallbacks>,
    /// Blocks on the zones' free lists at the end, in the columns of `/proc/buddyinfo`.
    pub buddyinfo: Vec<(String, [u64; LINUX_ORDERS])>,
    /// The comparison with the host's end, if the trace has one.
    pub prediction: Option<Prediction>,
    /// How far it was from the host over time, beside what other predictions come to, if the trace says what the host
    /// was like.
    pub distance: Option<ComparedWithHost>,
    /// Frames that the host moved by its own count, if the trace says.
    pub migrated: Option<u64>,
    /// The same by what a replay knows of them.
    pub moves: Option<MoveCounts>,
    /// Each zone's watermarks and managed frames.
    pub marks: Vec<(String, Watermarks, Frames)>,
    /// Fragmentation over time.
    pub samples: Vec<Sample>,
    /// The zones at each of those; empty unless series were asked for.
    pub zones: Vec<Vec<ZoneStats>>,
    /// The engine's counters.
    pub stats: Stats,
    /// The threads, where there were several.
    pub waiting: Option<Waiting>,
    /// What helpers came to, where there were any.
    pub slow_path: Option<SlowPathTotals>,
    /// What a kernel's replay adds, where the engine is one.
    pub kernel: Option<InKernel>,
}

impl EngineReport {
    /// Returns rows re-executed by wall time of reading and replay together.
    #[must_use]
    pub fn events_per_s(&self) -> f64 {
        let seconds = (self.seconds.read + self.seconds.replay).as_secs_f64();
        if seconds > 0.0 { self.rows as f64 / seconds } else { 0.0 }
    }

    /// Returns the free huge frames at the end as a share of what the frames that no one holds could make, in percent.
    #[must_use]
    pub fn free_huge_pct(&self) -> f64 {
        self.samples.last().map_or(0.0, |s| s.free_huge_pct)
    }

    /// Returns the bytes of metadata for each frame spanned.
    #[must_use]
    pub fn metadata_bytes_per_frame(&self) -> f64 {
        self.stats.metadata_bytes as f64 / self.stats.spanned.0.max(1) as f64
    }

    /// Returns whether the engine kept its promises: nothing handed out twice, nothing lost, nothing refused wrongly,
    /// and a clean audit.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let f = &self.failures;
        f.double_allocations == 0 && f.refused_frees == 0 && self.leaked_frames == 0 && self.audit.is_ok()
    }

    /// Returns the fewest free frames of any sample.
    #[must_use]
    pub fn least_free(&self) -> u64 {
        self.samples.iter().map(|s| s.free).min().unwrap_or(0)
    }

    /// Returns the low watermarks of all zones together, in frames.
    #[must_use]
    pub fn low_watermark(&self) -> u64 {
        self.marks.iter().map(|(_, marks, _)| marks.low.0).sum()
    }

    /// Returns how far the fewest free frames are above all low watermarks together; 0 where they are below.
    #[must_use]
    pub fn least_spare(&self) -> u64 {
        self.least_free().saturating_sub(self.low_watermark())
    }

    /// Iterates over the fallbacks that happened: requested type, type taken from, how often.
    pub fn fallback_kinds(&self) -> impl Iterator<Item = (Migratetype, Migratetype, u64)> + '_ {
        let pairs = Migratetype::ALL.into_iter().flat_map(|a| Migratetype::ALL.map(|b| (a, b)));
        let counts = self.fallbacks.unwrap_or_default();
        pairs.map(move |(a, b)| (a, b, counts[a.index()][b.index()])).filter(|(.., n)| *n > 0)
    }
}

/// A whole replay.
#[derive(Clone, Debug)]
pub struct ReplayReport {
    /// The trace.
    pub trace: TraceReport,
    /// The engines, in the order asked for.
    pub engines: Vec<EngineReport>,
}
