//! A replay's report: the numbers that it found, and the document of them.

use super::distance::ComparedWithHost;
use super::early::EarlyFrees;
use super::event_counts::EventCounts;
use super::failures::Failures;
use super::kernel_report::{COUNTED, InKernel};
use super::moved::MoveCounts;
use super::opening::Opened;
use super::prediction::Prediction;
use super::refusals::Refusals;
#[cfg(feature = "schema")]
use super::refusals_report::RefusalsDocument;
use super::slow_path::SlowPathTotals;
use super::timeline::Sample;
use crate::engine::Fallbacks;
use crate::latency::LatencySummary;
use crate::machine::{Machine, Opening, OpeningCounts};
use pageyard::proctext::LINUX_ORDERS;
use pageyard::watermark::Watermarks;
use pageyard::{AuditError, Census, Counter, Frames, Migratetype, Stats, ZoneStats};
use pageyard_linux::ListedBlocks;
use pageyard_trace::document::as_map;
use pageyard_trace::{Document, Trace, Trust};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::time::Duration;

/// A trace, and how well it can be replayed.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceReport {
    /// Its name.
    pub name: String,
    /// The kernel that it was recorded on.
    pub kernel: String,
    /// The host's CPUs.
    pub cpus: u32,
    /// Events lost while recording.
    pub lost: u64,
    /// Seconds from the first row to the last.
    pub seconds: f64,
    /// Bytes managed in the replay.
    #[serde(rename = "memory_bytes", serialize_with = "in_bytes")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub managed: Frames,
    /// Bytes taken away by `--memory`.
    #[serde(rename = "taken_away_bytes", serialize_with = "in_bytes")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub taken_away: Frames,
    /// How the opening state was found.
    pub opening: OpeningReport,
    /// Its rows.
    #[serde(flatten)]
    pub counts: EventCounts,
    /// Frees of what no row allocated, as a percentage of all frees; left out where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_frees_pct: Option<f64>,
    /// Allocations of a frame that is still held, as a percentage of all allocations; left out where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reallocations_pct: Option<f64>,
}

/// How the opening state was found.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OpeningReport {
    /// Whether the trace has a picture of memory to open from.
    pub snapshot: bool,
    /// Frames by which that picture and the zones disagree; left out where there is no picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_mismatch_frames: Option<u64>,
    /// Frames opened in per-CPU lists, in all.
    pub cached_frames: u64,
    /// Where these and the pageblocks' types come from.
    #[serde(flatten)]
    pub counts: OpeningCounts,
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
            lost: trace.meta().lost,
            seconds: opening.duration_ns as f64 / 1e9,
            managed: machine.managed(),
            taken_away,
            opening: OpeningReport {
                snapshot: machine.has_snapshot,
                managed_mismatch_frames: machine.has_snapshot.then_some(machine.managed_mismatch),
                cached_frames: opening.counts.cached(),
                counts: opening.counts,
            },
            counts: EventCounts::default(),
            unknown_frees_pct: None,
            reallocations_pct: None,
        }
    }

    /// Enters the rows that a replay counted.
    pub(super) fn count(&mut self, rows: EventCounts) {
        self.counts = rows;
        self.unknown_frees_pct = percentage(rows.unknown_frees, rows.frees);
        self.reallocations_pct = percentage(rows.reallocations, rows.allocs);
    }
}

fn percentage(n: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| 100.0 * n as f64 / of as f64)
}

fn in_bytes<S: Serializer>(frames: &Frames, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(frames.as_bytes())
}

/// Where a replay's time went, in seconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Seconds {
    /// Waiting for rows.
    #[serde(serialize_with = "in_seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub read: Duration,
    /// Everything before the rows: reading the recording for its opening state, and bringing the engine into it.
    #[serde(serialize_with = "in_seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub open: Duration,
    /// Re-executing rows.
    #[serde(serialize_with = "in_seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub replay: Duration,
}

impl Seconds {
    /// Returns rows by second, from the first byte of the recording to its last row; `None` where that took no time.
    pub(super) fn events_per_s(&self, rows: u64) -> Option<f64> {
        let seconds = (self.open + self.read + self.replay).as_secs_f64();
        (seconds > 0.0).then(|| rows as f64 / seconds)
    }
}

fn in_seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
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
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EngineReport {
    /// How the engine was named, with the settings that were given there.
    pub name: String,
    /// The engine's own name.
    pub engine: &'static str,
    /// The features of its namesake that it leaves out.
    #[serde(rename = "left_out", skip_serializing_if = "str::is_empty")]
    pub leaves_out: &'static str,
    /// The knobs that were set on it, by name.
    #[serde(serialize_with = "as_map")]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, String>"))]
    pub settings: Vec<(String, String)>,
    /// Allocations and frees re-executed.
    pub rows: u64,
    /// The same by second, from the first byte of the recording to its last row: all three of `seconds` together. Left
    /// out where that took no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events_per_s: Option<f64>,
    /// Where the time went.
    pub seconds: Seconds,
    /// One call in so many is timed; left out where none is, as of a kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_call_timed_in: Option<u64>,
    /// Latencies of allocating, in nanoseconds; left out where no such call was timed.
    #[serde(rename = "alloc_ns", skip_serializing_if = "Option::is_none")]
    pub alloc: Option<LatencySummary>,
    /// Latencies of freeing, in nanoseconds; left out where no such call was timed.
    #[serde(rename = "free_ns", skip_serializing_if = "Option::is_none")]
    pub free: Option<LatencySummary>,
    /// The failures.
    #[serde(flatten)]
    pub failures: Failures,
    /// Requests refused, here or on the host: which, and the first in full.
    #[serde(rename = "failures")]
    #[cfg_attr(feature = "schema", schemars(with = "RefusalsDocument<'static>"))]
    pub refusals: Refusals,
    /// Requests that it served in another zone than the host; left out where they were not counted: on several threads,
    /// with a slow path and in a kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served_elsewhere: Option<u64>,
    /// Frames that the engine says are allocated, less those that the replay holds; left out where the audit failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaked_frames: Option<i64>,
    /// The state it opened with.
    #[serde(rename = "opening")]
    pub opened: Opened,
    /// Blocks split because they were freed in parts.
    #[serde(skip)]
    pub splits: u64,
    /// The engine's audit at the end.
    #[serde(flatten, serialize_with = "audited")]
    #[cfg_attr(feature = "schema", schemars(with = "Audited"))]
    pub audit: Result<Census, AuditError>,
    /// Requests that took from a block of another migratetype, by the type asked for and the type taken from:
    /// `Unmovable->Movable`. Left out where the engine does not count them so.
    #[serde(
        rename = "fallbacks_by_kind",
        serialize_with = "by_kind",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<BTreeMap<String, u64>>"))]
    pub fallbacks: Option<Fallbacks>,
    /// Blocks that went between zones and per-CPU lists; `None` where the engine counts frames alone.
    #[serde(skip)]
    pub listed_blocks: Option<ListedBlocks>,
    /// The low watermarks of all zones together, in frames.
    pub low_watermark_frames: u64,
    /// The fewest free frames of any sample.
    pub least_free_frames: u64,
    /// How far those are above all low watermarks together; 0 where they are below.
    pub least_spare_frames: u64,
    /// Free huge frames at the end as a share of what the frames that nothing holds could make; left out where they
    /// could make none.
    #[serde(rename = "free_huge_frames_pct_of_optimum", skip_serializing_if = "Option::is_none")]
    pub free_huge_pct: Option<f64>,
    /// The score of LLFree's replay: the mean of that share at the start, before each 100,000th allocation or free, and
    /// at the end. Left out on several threads, and where there never was such a share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llfree_score: Option<f64>,
    /// Bytes of metadata for each frame spanned.
    pub metadata_bytes_per_frame: f64,
    /// Blocks on the zones' free lists at the end, by order: the columns of `/proc/buddyinfo`.
    #[serde(serialize_with = "as_map")]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, [u64; LINUX_ORDERS]>"))]
    pub buddyinfo: Vec<(String, [u64; LINUX_ORDERS])>,
    /// The comparison with the host's end; left out where the trace has none.
    #[serde(rename = "after", skip_serializing_if = "Option::is_none")]
    pub prediction: Option<Prediction>,
    /// How far the engine was from the host, over time and at the end, and what other predictions come to; left out
    /// where the trace has neither samples nor an end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distance: Option<ComparedWithHost>,
    /// Frames that the host moved by its own count, if the trace says.
    #[serde(skip)]
    pub migrated: Option<u64>,
    /// Frames that the host moved, by what the replay knows of them; left out where the trace does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moves: Option<MoveCounts>,
    /// Each zone's watermarks and managed frames.
    #[serde(skip)]
    pub marks: Vec<(String, Watermarks, Frames)>,
    /// Fragmentation over time.
    #[serde(rename = "timeline")]
    pub samples: Vec<Sample>,
    /// The zones at each of those; empty unless series were asked for.
    #[serde(skip)]
    pub zones: Vec<Vec<ZoneStats>>,
    /// The engine's counters.
    #[serde(skip)]
    pub stats: Stats,
    /// The engine's counters, by `/proc/vmstat`'s names where it has one. Of a kernel's replay only those that it
    /// counts.
    pub counters: BTreeMap<&'static str, u64>,
    /// The counters that tell most.
    #[serde(flatten)]
    pub work: WorkCounters,
    /// The counters of compaction and reclaim; left out of a kernel's replay, which does not count them.
    #[serde(flatten)]
    pub compaction: Option<CompactionCounters>,
    /// The threads; left out where there was one.
    #[serde(rename = "threads", skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// The totals of the slow path; left out where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_path: Option<SlowPathTotals>,
    /// The frees that came earlier than on the host; left out where none could.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early: Option<EarlyFrees>,
    /// Requests that failed on purpose; left out where none was asked to. They count among the failures, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_on_purpose: Option<u64>,
    /// The figures added by a replay in a kernel; left out for other engines. A kernel's calls are not timed, and its
    /// `seconds` are those of the guest and of what makes it ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<InKernel>,
}

/// The counters of an engine that tell most of what its requests cost.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkCounters {
    /// Requests that took from a block of another migratetype.
    pub fallbacks: u64,
    /// Requests that found no zone above its low watermark.
    pub low_watermark_hits: u64,
}

/// The counters of an engine's compaction and of its reclaim.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CompactionCounters {
    /// Requests that compacted.
    pub compact_stall: u64,
    /// Of those, successful ones.
    pub compact_success: u64,
    /// Of those, the ones in vain.
    pub compact_fail: u64,
    /// Frames that compaction looked at for something to move.
    pub compact_migrate_scanned: u64,
    /// Frames that compaction looked at for room to move to.
    pub compact_free_scanned: u64,
    /// Requests that waited for reclaim.
    pub allocstall: u64,
    /// Frames that reclaim gave up.
    pub pgsteal: u64,
}

impl WorkCounters {
    pub(super) fn of(stats: &Stats) -> WorkCounters {
        WorkCounters { fallbacks: stats[Counter::Extfrag], low_watermark_hits: stats[Counter::AllocSlow] }
    }
}

impl CompactionCounters {
    pub(super) fn of(stats: &Stats) -> CompactionCounters {
        CompactionCounters {
            compact_stall: stats[Counter::CompactStall],
            compact_success: stats[Counter::CompactSuccess],
            compact_fail: stats[Counter::CompactFail],
            compact_migrate_scanned: stats[Counter::CompactMigrateScanned],
            compact_free_scanned: stats[Counter::CompactFreeScanned],
            allocstall: stats[Counter::Allocstall],
            pgsteal: stats[Counter::PgstealDirect] + stats[Counter::PgstealKswapd],
        }
    }
}

/// An audit in a document.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Audited {
    /// `clean`, or what the engine's audit found.
    audit: String,
    /// Frames that a clean audit accounted for.
    #[serde(skip_serializing_if = "Option::is_none")]
    audited_frames: Option<u64>,
}

fn audited<S: Serializer>(audit: &Result<Census, AuditError>, serializer: S) -> Result<S::Ok, S::Error> {
    let (audit, audited_frames) = match audit {
        Ok(census) => ("clean".to_owned(), Some(census.managed.0)),
        Err(why) => (why.to_string(), None),
    };
    Audited { audit, audited_frames }.serialize(serializer)
}

fn by_kind<S: Serializer>(fallbacks: &Option<Fallbacks>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(kinds(fallbacks).map(|(from, to, times)| (format!("{from}->{to}"), times)))
}

/// Iterates over the fallbacks that were counted: requested type, type taken from, how often.
fn kinds(fallbacks: &Option<Fallbacks>) -> impl Iterator<Item = (Migratetype, Migratetype, u64)> + '_ {
    let of = |counts: &'_ Fallbacks, a: Migratetype| {
        Migratetype::ALL.map(|b| (a, b, counts[a.index()][b.index()]))
    };
    let all = fallbacks
        .iter()
        .flat_map(move |counts| Migratetype::ALL.into_iter().flat_map(move |a| of(counts, a)));
    all.filter(|(.., n)| *n > 0)
}

impl EngineReport {
    /// Enters how long a kernel's replay took, and what it adds.
    pub(super) fn in_kernel(&mut self, seconds: Seconds, kernel: InKernel) {
        self.seconds = seconds;
        self.events_per_s = seconds.events_per_s(self.rows);
        self.counters.retain(|name, _| COUNTED.iter().any(|counter| counter.name() == *name));
        self.compaction = None;
        self.one_call_timed_in = None;
        self.kernel = Some(kernel);
    }

    /// Returns whether the engine kept its promises: nothing handed out twice, nothing lost, nothing refused wrongly,
    /// and a clean audit.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let f = &self.failures;
        f.double_allocations == 0
            && f.refused_frees == 0
            && self.leaked_frames == Some(0)
            && self.audit.is_ok()
    }

    /// Iterates over the fallbacks that were counted: requested type, type taken from, how often.
    pub fn fallback_kinds(&self) -> impl Iterator<Item = (Migratetype, Migratetype, u64)> + '_ {
        kinds(&self.fallbacks)
    }
}

/// A trace, re-executed on engines. What is not known or does not apply is left out of its document.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReplayReport {
    /// How far the replays can be trusted.
    pub trust: Trust,
    /// The trace, and how well it can be replayed.
    pub trace: TraceReport,
    /// The engines, in the order asked for.
    pub engines: Vec<EngineReport>,
}

impl Document for ReplayReport {
    const SCHEMA: &'static str = "pageyard.replay/2";
}
