//! The summary as a document.

use std::collections::BTreeMap;

use pageyard::Context;
use serde::Serialize;
use serde_json::Value;

use crate::contents::{Contents, ContentsDocument};
use crate::document::Document;
use crate::event::EventKind;
use crate::failures::{FailureDocument, FailureKindDocument, KINDS_SHOWN};
use crate::fragmentation::{HugeFrames, ZoneFragmentation};
use crate::trust::{Trust, lost_pct};

use super::samples_report::SamplesDocument;
use super::{Fallback, Moved, Requests, Summary, type_index, type_name};

/// Counts by name.
type Counts = BTreeMap<&'static str, u64>;

/// The summary of a trace. Unknown values are omitted.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SummaryDocument<'a> {
    /// How far the counts can be trusted. Where events were lost, counts are of those that were seen.
    pub trust: &'a Trust,
    /// The trace's name.
    pub trace: &'a str,
    /// The kernel that was recorded.
    pub kernel: &'a str,
    /// The host's CPUs.
    pub cpus: u32,
    /// Events of all kinds.
    pub events: u64,
    /// Events by kind.
    pub by_event: Counts,
    /// Events that the recorder missed.
    pub lost: u64,
    /// The same as a percentage of all that happened.
    pub lost_pct: f64,
    /// Nanoseconds that were recorded.
    pub duration_ns: u64,
    /// Allocations, those that failed included.
    pub allocs: u64,
    /// Bytes that they were for.
    pub alloc_bytes: u64,
    /// Frees.
    pub frees: u64,
    /// Bytes that they gave back.
    pub free_bytes: u64,
    /// Allocations that failed.
    pub failed: u64,
    /// Bytes that those were for.
    pub failed_bytes: u64,
    /// Allocations by order, those that failed included.
    pub by_order: &'a [u64],
    /// Allocations by migratetype, those that failed included.
    pub by_migratetype: Counts,
    /// Allocations by what the CPU was doing, those that failed included.
    pub by_context: Counts,
    /// Frees by order.
    pub frees_by_order: &'a [u64],
    /// Frees by what the CPU was doing.
    pub frees_by_context: Counts,
    /// Frees of blocks that no recorded allocation holds.
    pub frees_without_allocation: u64,
    /// Allocations of a frame that an earlier one still holds.
    pub reallocations: u64,
    /// Frees of another order than their allocation's.
    pub partial_frees: u64,
    /// Recorded allocations that nothing freed by the end.
    pub held_at_end: u64,
    /// The counts of `perf kmem stat --page`.
    pub perf_kmem: PerfKmemDocument,
    /// Requests that took from a block of another migratetype, by kind.
    pub fallbacks: Vec<FallbackDocument>,
    /// Free memory before and after the recording.
    pub fragmentation: FragmentationDocument<'a>,
    /// The content of memory before and after the recording.
    pub contents: ContentsOverTimeDocument<'a>,
    /// The share of allocations and frees in softirq context; omitted if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub softirq_share: Option<f64>,
    /// The requests that got nothing.
    pub failures: FailuresDocument<'a>,
    /// The work of compaction and migration; omitted if it was not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moves: Option<&'a Moved>,
    /// Samples of the host's own texts; omitted if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<SamplesDocument>,
    /// Why the recording ended early; omitted if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<&'a str>,
}

impl Document for SummaryDocument<'_> {
    const SCHEMA: &'static str = "pageyard.summary/2";
}

/// The totals that `perf kmem stat --page` prints.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PerfKmemDocument {
    /// Allocations, those that failed included.
    pub allocations: Requests,
    /// Frees.
    pub frees: Requests,
    /// Memory both allocated and freed.
    pub allocated_and_freed: Requests,
    /// Memory allocated and not freed, or requests that failed.
    pub allocated_only: Requests,
    /// Memory freed that was allocated before the recording.
    pub freed_only: Requests,
    /// Allocations that failed.
    pub failed: Requests,
    /// Allocations that succeeded: a row for each order, by migratetype.
    pub by_order_and_migratetype: Vec<Counts>,
}

/// A kind of fallback.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FallbackDocument {
    /// The order of the request.
    pub order: u8,
    /// Its migratetype.
    pub migratetype: &'static str,
    /// The order of the block that it took from.
    pub fallback_order: u32,
    /// That block's migratetype.
    pub fallback_migratetype: &'static str,
    /// How often it happened.
    pub events: u64,
}

/// Free memory at the two ends of a recording, zone by zone; omitted where it was not recorded.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FragmentationDocument<'a> {
    /// When it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<&'a [ZoneFragmentation]>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<&'a [ZoneFragmentation]>,
    /// Free huge frames of all zones together.
    pub free_huge_frames: HugeFramesDocument,
}

/// Free huge frames at the two ends of a recording; what was not recorded is left out.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HugeFramesDocument {
    /// When it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<HugeFrames>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<HugeFrames>,
}

/// The content of memory at the two ends of a recording; omitted where it was not recorded.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContentsOverTimeDocument<'a> {
    /// When it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<ContentsDocument<'a>>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<ContentsDocument<'a>>,
}

/// A kind of failure, and how often it happened.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailuresOfKindDocument {
    /// The request and the thread that made it.
    #[serde(flatten)]
    pub kind: FailureKindDocument,
    /// How often.
    pub count: u64,
}

/// The requests that got nothing.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailuresDocument<'a> {
    /// How many there were.
    pub count: u64,
    /// Of those, how many are not in `first`.
    pub left_out: u64,
    /// The first of them, in order of time.
    pub first: Vec<FailureDocument<'a>>,
    /// How many kinds are not in `by_kind`.
    pub kinds_left_out: usize,
    /// The kinds, the most frequent first.
    pub by_kind: Vec<FailuresOfKindDocument>,
}

impl Summary {
    /// Returns the summary as a document.
    #[must_use]
    pub fn document(&self) -> SummaryDocument<'_> {
        let events = EventKind::ALL.iter().map(|k| (k.name(), self.by_kind[k.index()]));
        SummaryDocument {
            trust: &self.trust,
            trace: &self.name,
            kernel: &self.kernel,
            cpus: self.cpus,
            events: self.events(),
            by_event: events.collect(),
            lost: self.lost,
            lost_pct: lost_pct(self.lost, self.events()),
            duration_ns: self.duration_ns,
            allocs: self.allocs.count,
            alloc_bytes: self.allocs.bytes,
            frees: self.frees.count,
            free_bytes: self.frees.bytes,
            failed: self.failed.count,
            failed_bytes: self.failed.bytes,
            by_order: &self.allocs_by_order,
            by_migratetype: by_type(&self.allocs_by_migratetype),
            by_context: by_context(&self.allocs_by_context),
            frees_by_order: &self.frees_by_order,
            frees_by_context: by_context(&self.frees_by_context),
            frees_without_allocation: self.frees_without_allocation.count,
            reallocations: self.reallocations,
            partial_frees: self.partial_frees,
            held_at_end: self.held_at_end,
            perf_kmem: self.perf_kmem(),
            fallbacks: self.fallbacks.iter().map(FallbackDocument::of).collect(),
            fragmentation: self.fragmentation(),
            contents: ContentsOverTimeDocument {
                before: self.held_before.as_ref().map(Contents::document),
                after: self.held_after.as_ref().map(Contents::document),
            },
            softirq_share: self.softirq_share(),
            failures: self.failures_document(),
            moves: self.moved.as_ref(),
            samples: self.sampled.as_ref().filter(|sampled| sampled.samples > 0).map(SamplesDocument::of),
            partial: self.partial.as_deref(),
        }
    }

    /// Returns the document as a JSON value.
    #[must_use]
    pub fn json(&self) -> Value {
        self.document().json()
    }

    fn perf_kmem(&self) -> PerfKmemDocument {
        PerfKmemDocument {
            allocations: self.allocs,
            frees: self.frees,
            allocated_and_freed: self.allocated_and_freed(),
            allocated_only: self.allocated_only(),
            freed_only: self.frees_without_allocation,
            failed: self.failed,
            by_order_and_migratetype: self.granted.iter().map(|row| by_type(row)).collect(),
        }
    }

    fn fragmentation(&self) -> FragmentationDocument<'_> {
        let [before, after] =
            [&self.before, &self.after].map(|zones| Some(&zones[..]).filter(|z| !z.is_empty()));
        FragmentationDocument {
            before,
            after,
            free_huge_frames: HugeFramesDocument {
                before: before.map(HugeFrames::of),
                after: after.map(HugeFrames::of),
            },
        }
    }

    fn failures_document(&self) -> FailuresDocument<'_> {
        let first = &self.failures.first;
        let kinds = self.failures.kinds.most_frequent(KINDS_SHOWN);
        FailuresDocument {
            count: self.failed.count,
            left_out: self.failed.count - first.len() as u64,
            first: first.iter().map(|failure| failure.document(&self.gfp_map)).collect(),
            kinds_left_out: self.failures.kinds.len().saturating_sub(kinds.len()),
            by_kind: kinds
                .iter()
                .map(|(kind, count)| FailuresOfKindDocument {
                    kind: kind.document(&self.gfp_map),
                    count: *count,
                })
                .collect(),
        }
    }
}

impl FallbackDocument {
    fn of((kind, events): (&Fallback, &u64)) -> FallbackDocument {
        FallbackDocument {
            order: kind.order,
            migratetype: type_name(type_index(kind.migratetype)),
            fallback_order: kind.fallback_order,
            fallback_migratetype: type_name(usize::from(kind.fallback_migratetype)),
            events: *events,
        }
    }
}

fn by_context(counts: &[u64]) -> Counts {
    Context::ALL.iter().zip(counts).map(|(c, &n)| (c.name(), n)).collect()
}

fn by_type(counts: &[u64]) -> Counts {
    counts.iter().enumerate().map(|(i, &n)| (type_name(i), n)).collect()
}
