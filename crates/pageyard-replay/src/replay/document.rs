//! A replay's report as a document.

use super::distance::ComparedWithHost;
use super::kernel_report::{COUNTED, InKernel};
use super::moved::MoveCounts;
use super::opening::{Opened, ShortZone};
use super::prediction::{ListPrediction, Prediction};
use super::refusals_report::RefusalsDocument;
use super::report::{EngineReport, ReplayReport, Seconds, TraceReport, Waiting};
use super::slow_path::{SlowPathTotals, reclaimed};
use super::timeline::Sample;
use crate::latency::{LatencySummary, SAMPLE};
use pageyard::Counter;
use pageyard::proctext::LINUX_ORDERS;
use pageyard_trace::Document;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A trace, re-executed on engines. What does not apply is left out.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReplayDocument<'a> {
    /// The trace, and how well it can be replayed.
    pub trace: TraceDocument<'a>,
    /// The engines, in the order asked for.
    pub engines: Vec<EngineDocument<'a>>,
}

impl Document for ReplayDocument<'_> {
    const SCHEMA: &'static str = "pageyard.replay/1";
}

/// A trace, and how well it can be replayed.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceDocument<'a> {
    /// Its name.
    pub name: &'a str,
    /// The kernel that it was recorded on.
    pub kernel: &'a str,
    /// The host's CPUs.
    pub cpus: u32,
    /// Rows of all kinds.
    pub events: u64,
    /// Allocations, failed ones included.
    pub allocs: u64,
    /// Frees.
    pub frees: u64,
    /// Allocations that failed on the host.
    pub failed: u64,
    /// Events lost while recording.
    pub lost: u64,
    /// Frees of blocks that no earlier row allocated as such: older than the trace, or parts of a larger block.
    pub unknown_frees: u64,
    /// The same as a percentage of all frees.
    pub unknown_frees_pct: f64,
    /// Frees of frames that neither a row nor the opening state holds: they were left out.
    pub unresolved_frees: u64,
    /// Allocations of blocks that an earlier row allocated and none freed.
    pub reallocations: u64,
    /// The same as a percentage of all allocations.
    pub reallocations_pct: f64,
    /// Blocks in use that the host moved and the replay followed.
    pub moves: u64,
    /// Frees of what had moved away.
    pub freed_after_moves: u64,
    /// Rows that name frames outside the memory map.
    pub outside_memory: u64,
    /// Seconds from the first row to the last.
    pub seconds: f64,
    /// Bytes managed in the replay.
    pub memory_bytes: u64,
    /// Bytes taken away by `--memory`.
    pub taken_away_bytes: u64,
    /// How the opening state was found.
    pub opening: OpeningDocument,
}

/// How the opening state was found.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OpeningDocument {
    /// Whether the trace has a picture of memory to open from.
    pub snapshot: bool,
    /// Frames by which that picture and the zones disagree.
    pub managed_mismatch_frames: u64,
    /// Frames opened in per-CPU lists, in all.
    pub cached_frames: u64,
    /// Of those, the ones that their first event takes out of a list.
    pub cached_by_event: u64,
    /// Of those, the ones that make up the recorded count.
    pub cached_by_count: u64,
    /// Frames freed unseen before their first event.
    pub freed_unseen: u64,
    /// Pageblocks whose type an event names.
    pub types_by_event: u64,
    /// Pageblocks whose type was guessed from their contents.
    pub types_by_contents: u64,
}

/// One engine's replay.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EngineDocument<'a> {
    /// How the engine was named, with the settings that were given there.
    pub name: &'a str,
    /// The engine's own name.
    pub engine: &'static str,
    /// What it leaves out of what it is named after.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub left_out: &'static str,
    /// The knobs that were set on it, by name.
    pub settings: BTreeMap<&'a str, &'a str>,
    /// Allocations and frees re-executed.
    pub rows: u64,
    /// The same by second of reading and replay together.
    pub events_per_s: f64,
    /// Where the time went.
    pub seconds: Seconds,
    /// One call in so many is timed.
    pub one_call_timed_in: u64,
    /// Latencies of allocating, in nanoseconds.
    pub alloc_ns: LatencySummary,
    /// Latencies of freeing, in nanoseconds.
    pub free_ns: LatencySummary,
    /// Requests refused.
    pub failed_allocs: u64,
    /// The same by reason.
    pub failed_by_reason: FailedByReason,
    /// The same by order.
    pub failed_by_order: &'a [u64],
    /// Requests refused, here or on the host: which, and the first in full.
    pub failures: RefusalsDocument<'a>,
    /// Requests refused here that the host served.
    pub refused_where_host_served: u64,
    /// Requests served here that the host refused.
    pub served_where_host_failed: u64,
    /// Blocks handed out while the replay held a part of them.
    pub double_allocations: u64,
    /// Frames that the engine says are allocated, less those that the replay holds.
    pub leaked_frames: i64,
    /// Frees that the engine refused.
    pub refused_frees: u64,
    /// `clean`, or what the engine's audit found.
    pub audit: String,
    /// Frames that a clean audit accounted for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audited_frames: Option<u64>,
    /// Requests that took from a block of another migratetype.
    pub fallbacks: u64,
    /// The same by the type asked for and the type taken from: `Unmovable->Movable`. Empty where the engine does not
    /// count them so.
    pub fallbacks_by_kind: BTreeMap<String, u64>,
    /// Requests that found no zone above its low watermark.
    pub low_watermark_hits: u64,
    /// The low watermarks of all zones together, in frames.
    pub low_watermark_frames: u64,
    /// The fewest free frames of any sample.
    pub least_free_frames: u64,
    /// How far those are above all low watermarks together; 0 where they are below.
    pub least_spare_frames: u64,
    /// What the engine opened with.
    pub opening: EngineOpeningDocument<'a>,
    /// Free huge frames at the end as a share of what the frames that nothing holds could make.
    pub free_huge_frames_pct_of_optimum: f64,
    /// Bytes of metadata for each frame spanned.
    pub metadata_bytes_per_frame: f64,
    /// Blocks on the zones' free lists at the end, by order.
    pub buddyinfo: BTreeMap<&'a str, &'a [u64; LINUX_ORDERS]>,
    /// The engine's counters, by `/proc/vmstat`'s names where it has one. Of a kernel's replay only those that it
    /// counts.
    pub counters: BTreeMap<&'static str, u64>,
    /// Fragmentation over time.
    pub timeline: Vec<SampleDocument>,
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
    /// What the slow path came to; left out where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_path: Option<SlowPathDocument>,
    /// The threads; left out where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<Waiting>,
    /// How far the engine was from the host, over time and at the end, and what other predictions come to; left out
    /// where the trace has neither samples nor an end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distance: Option<&'a ComparedWithHost>,
    /// Frames that the host moved, by what the replay knows of them; left out where the trace does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moves: Option<MoveCounts>,
    /// What a kernel's replay adds; left out for other engines. A kernel's calls are not timed, and its `seconds` are
    /// those of the guest and of what makes it ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<&'a InKernel>,
    /// The comparison with the host's end; left out where the trace has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<PredictionDocument<'a>>,
}

/// Requests refused, by reason.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailedByReason {
    /// Bad requests.
    pub bad_request: u64,
    /// Refused to keep a reserve.
    pub below_watermark: u64,
    /// Refused for fragmentation.
    pub fragmented: u64,
    /// Refused for lack of memory.
    pub out_of_memory: u64,
}

/// What an engine opened with.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EngineOpeningDocument<'a> {
    /// Frames on the zones' free lists.
    pub free_frames: u64,
    /// Frames in per-CPU lists.
    pub cached_frames: u64,
    /// Frames that the recorded per-CPU lists held and that lie in the zones here, because the lists may not hold them.
    pub left_in_zones_frames: u64,
    /// Zones that open below their low watermark.
    pub below_low_watermark: &'a [ShortZone],
}

/// Free memory at one moment, all zones together.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampleDocument {
    /// Seconds from the start of the trace.
    pub seconds: f64,
    /// Frames on the zones' free lists: `nr_free_pages`.
    pub free_frames: u64,
    /// The other frames that nothing holds: in per-CPU lists, or set aside for one CPU.
    pub cached_frames: u64,
    /// Both.
    pub unheld_frames: u64,
    /// Free huge frames as a share of what those could make; 0 where they make none.
    pub free_huge_frames_pct_of_optimum: f64,
    /// The share of free memory too scattered for a huge frame; 1 where nothing is free.
    pub unusable_index: f64,
    /// For a huge frame, 0 for lack of memory to 1 because of fragmentation; -1 where a request would succeed.
    pub extfrag_index: f64,
}

/// What the slow path came to.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowPathDocument {
    /// What was allowed: `reclaim`, `compaction`, `reclaim,compaction` or `none`.
    pub allowed: String,
    /// The share of movable frames that are pinned.
    pub pinned_pct: f64,
    /// Frames pinned at the end.
    pub pinned_frames: u64,
    /// Refusals of the host after which the thread took smaller blocks in place of what it had asked for.
    pub replaced_on_host: u64,
    /// Of those, the ones granted here; the block was kept as long as those others.
    pub granted_and_kept: u64,
    /// Frames that were therefore not taken.
    pub frames_not_taken: u64,
    /// Recorded frees, in frames, of what reclaim had freed here before.
    pub freed_after_reclaim: u64,
}

/// Free blocks at the end by zone and order: predicted, and as the host had them.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PredictionDocument<'a> {
    /// What the engine ended with.
    pub predicted: BTreeMap<&'a str, &'a [u64; LINUX_ORDERS]>,
    /// What the host ended with.
    pub recorded: BTreeMap<&'a str, &'a [u64; LINUX_ORDERS]>,
    /// How far the two are apart by free blocks: 0 alike, 100 nothing in common.
    pub distance_pct: f64,
    /// The same by the frames in the blocks.
    pub distance_frames_pct: f64,
    /// The same by free blocks, for each order alone.
    pub distance_by_order_pct: Vec<f64>,
    /// Free huge frames.
    pub free_huge_frames: PredictedAndRecorded,
    /// Per-CPU lists that held anything, here or there.
    pub per_cpu_lists: &'a [ListPrediction],
    /// How far the host's end is from its beginning; left out where its beginning is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unchanged: Option<UnchangedDocument>,
}

/// A count, predicted and recorded.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PredictedAndRecorded {
    /// Of the engine.
    pub predicted: u64,
    /// Of the host.
    pub recorded: u64,
}

/// What a prediction that nothing changes is worth.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnchangedDocument {
    /// By free blocks: 0 alike, 100 nothing in common.
    pub distance_pct: f64,
    /// By the frames in the blocks.
    pub distance_frames_pct: f64,
}

impl ReplayReport {
    /// Returns the report as a document.
    #[must_use]
    pub fn document(&self) -> ReplayDocument<'_> {
        ReplayDocument {
            trace: self.trace.document(),
            engines: self.engines.iter().map(EngineReport::document).collect(),
        }
    }

    /// Returns the document as a JSON value.
    #[must_use]
    pub fn json(&self) -> Value {
        self.document().json()
    }
}

impl TraceReport {
    fn document(&self) -> TraceDocument<'_> {
        let (c, o) = (&self.counts, &self.opening);
        TraceDocument {
            name: &self.name,
            kernel: &self.kernel,
            cpus: self.cpus,
            events: c.events,
            allocs: c.allocs,
            frees: c.frees,
            failed: c.failed,
            lost: self.lost,
            unknown_frees: c.unknown_frees,
            unknown_frees_pct: self.unknown_frees_pct(),
            unresolved_frees: c.unresolved_frees,
            reallocations: c.reallocations,
            reallocations_pct: self.reallocations_pct(),
            moves: c.moves,
            freed_after_moves: c.freed_after_moves,
            outside_memory: c.outside,
            seconds: self.seconds(),
            memory_bytes: self.managed.as_bytes(),
            taken_away_bytes: self.taken_away.as_bytes(),
            opening: OpeningDocument {
                snapshot: self.has_snapshot,
                managed_mismatch_frames: self.managed_mismatch,
                cached_frames: o.cached_by_event + o.cached_by_count,
                cached_by_event: o.cached_by_event,
                cached_by_count: o.cached_by_count,
                freed_unseen: o.freed_unseen,
                types_by_event: o.types_by_event,
                types_by_contents: o.types_by_contents,
            },
        }
    }
}

impl EngineReport {
    fn document(&self) -> EngineDocument<'_> {
        let f = &self.failures;
        let n = |counter| self.stats[counter];
        EngineDocument {
            name: &self.name,
            engine: self.engine,
            left_out: self.leaves_out,
            settings: self.settings.iter().map(|(knob, value)| (knob.as_str(), value.as_str())).collect(),
            rows: self.rows,
            events_per_s: self.events_per_s(),
            seconds: self.seconds,
            one_call_timed_in: SAMPLE,
            alloc_ns: self.alloc,
            free_ns: self.free,
            failed_allocs: f.allocs,
            failed_by_reason: FailedByReason {
                bad_request: f.bad_request,
                below_watermark: f.below_watermark,
                fragmented: f.fragmented,
                out_of_memory: f.out_of_memory,
            },
            failed_by_order: &f.by_order[..LINUX_ORDERS],
            failures: self.refusals.document(f),
            refused_where_host_served: f.refused_where_host_served,
            served_where_host_failed: f.served_where_host_failed,
            double_allocations: f.double_allocations,
            leaked_frames: self.leaked_frames,
            refused_frees: f.refused_frees,
            audit: self.audit.as_ref().map_or_else(ToString::to_string, |_| "clean".to_owned()),
            audited_frames: self.audit.as_ref().ok().map(|census| census.managed.0),
            fallbacks: n(Counter::Extfrag),
            fallbacks_by_kind: self
                .fallback_kinds()
                .map(|(from, to, times)| (format!("{from}->{to}"), times))
                .collect(),
            low_watermark_hits: n(Counter::AllocSlow),
            low_watermark_frames: self.low_watermark(),
            least_free_frames: self.least_free(),
            least_spare_frames: self.least_spare(),
            opening: self.opened.document(self.samples.first()),
            free_huge_frames_pct_of_optimum: self.free_huge_pct(),
            metadata_bytes_per_frame: self.metadata_bytes_per_frame(),
            buddyinfo: self.buddyinfo.iter().map(|(zone, row)| (zone.as_str(), row)).collect(),
            counters: self
                .stats
                .iter()
                .filter(|(counter, _)| self.kernel.is_none() || COUNTED.contains(counter))
                .map(|(counter, n)| (counter.name(), n))
                .collect(),
            timeline: self.samples.iter().map(SampleDocument::of).collect(),
            compact_stall: n(Counter::CompactStall),
            compact_success: n(Counter::CompactSuccess),
            compact_fail: n(Counter::CompactFail),
            compact_migrate_scanned: n(Counter::CompactMigrateScanned),
            compact_free_scanned: n(Counter::CompactFreeScanned),
            allocstall: n(Counter::Allocstall),
            pgsteal: reclaimed(&self.stats),
            slow_path: self.slow_path.as_ref().map(SlowPathDocument::of),
            threads: self.waiting,
            distance: self.distance.as_ref(),
            moves: self.moves,
            kernel: self.kernel.as_ref(),
            after: self.prediction.as_ref().map(Prediction::document),
        }
    }
}

impl Opened {
    /// Returns it as a document; `first` is the sample that was taken then.
    fn document(&self, first: Option<&Sample>) -> EngineOpeningDocument<'_> {
        EngineOpeningDocument {
            free_frames: first.map_or(0, |s| s.free),
            cached_frames: first.map_or(0, |s| s.cached),
            left_in_zones_frames: self.left_in_zones,
            below_low_watermark: &self.short,
        }
    }
}

impl SampleDocument {
    fn of(sample: &Sample) -> SampleDocument {
        SampleDocument {
            seconds: sample.seconds,
            free_frames: sample.free,
            cached_frames: sample.cached,
            unheld_frames: sample.unheld(),
            free_huge_frames_pct_of_optimum: sample.free_huge_pct,
            unusable_index: sample.unusable_index,
            extfrag_index: sample.extfrag_index,
        }
    }
}

impl SlowPathDocument {
    fn of(totals: &SlowPathTotals) -> SlowPathDocument {
        SlowPathDocument {
            allowed: totals.allowed.to_string(),
            pinned_pct: totals.allowed.pinned * 100.0,
            pinned_frames: totals.pinned_frames,
            replaced_on_host: totals.replaced,
            granted_and_kept: totals.kept,
            frames_not_taken: totals.not_taken,
            freed_after_reclaim: totals.reclaimed_before,
        }
    }
}

impl Prediction {
    fn document(&self) -> PredictionDocument<'_> {
        let (predicted, recorded) = self.free_huge_frames();
        PredictionDocument {
            predicted: self.zones.iter().map(|z| (z.zone.as_str(), &z.predicted)).collect(),
            recorded: self.zones.iter().map(|z| (z.zone.as_str(), &z.recorded)).collect(),
            distance_pct: self.distance_pct(),
            distance_frames_pct: self.distance_frames_pct(),
            distance_by_order_pct: (0..LINUX_ORDERS).map(|order| self.distance_of_order_pct(order)).collect(),
            free_huge_frames: PredictedAndRecorded { predicted, recorded },
            per_cpu_lists: &self.lists,
            unchanged: self.unchanged_distance_pct().map(|(distance_pct, distance_frames_pct)| {
                UnchangedDocument { distance_pct, distance_frames_pct }
            }),
        }
    }
}
