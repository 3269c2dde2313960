//! The summary of a trace, counted in one pass.

mod document;
mod failures;
mod free;
mod held;
mod moved;
mod sampled;
mod samples_report;
mod several;
mod text;

use std::collections::BTreeMap;

use pageyard::{Context, GfpMap, Migratetype};
use serde::{Serialize, Serializer};

use crate::contents::Contents;
use crate::error::TraceError;
use crate::event::{Columns, Event, EventKind};
use crate::failures::ORDERS;
use crate::fragmentation::ZoneFragmentation;
use crate::meta::ProcTexts;
use crate::proctext::{Buddyinfo, Pagetypeinfo};
use crate::snapshot::Snapshot;
use crate::trace::Trace;
use crate::trust::Trust;

use failures::gfp_map;
use held::{Freed, LiveBlocks};

pub use document::{
    ContentsOverTimeDocument, FailuresDocument, FailuresOfKindDocument, FallbackDocument,
    FragmentationDocument, HugeFramesDocument, PerfKmemDocument, SummaryDocument,
};
pub use failures::Failures;
pub use moved::Moved;
pub use sampled::{Sampled, Span};
pub use samples_report::{SampledZoneDocument, SamplesDocument};
pub use several::{OneOfSeveral, SeveralDocument, TotalsOfOne};

/// Slots for migratetypes: one each, and the last for unknown ones.
pub const TYPES: usize = Migratetype::COUNT + 1;

/// A number of requests, and the bytes that they were for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Requests {
    /// How many there were.
    #[serde(rename = "requests")]
    pub count: u64,
    /// The bytes that they were for; the document has KiB.
    #[serde(rename = "kb", serialize_with = "in_kib")]
    pub bytes: u64,
}

fn in_kib<S: Serializer>(bytes: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(bytes / 1024)
}

impl Requests {
    fn add(&mut self, event: &Event) {
        self.count += 1;
        self.bytes += pageyard::PAGE_SIZE << event.order;
    }

    fn less(self, other: Requests) -> Requests {
        Requests {
            count: self.count.saturating_sub(other.count),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

/// A kind of fallback: what was asked for, and what it was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fallback {
    /// The order of the request.
    pub order: u8,
    /// The migratetype of the request, or -1.
    pub migratetype: i8,
    /// The order of the block that it took from.
    pub fallback_order: u32,
    /// The migratetype of that block, as the kernel numbers them.
    pub fallback_migratetype: u8,
}

/// The summary of a trace.
///
/// An allocation and a free belong together when they name the same first frame. So:
///
/// * a free *without allocation* names a frame that no recorded allocation, still held, starts at: the block was
///   allocated before the recording, was a later part of a larger one, or its frame was moved without an event;
/// * a *reallocation* is an allocation of such a frame while it is still held: its free was not recorded;
/// * a free ends the holding whatever its order; one of another order than its allocation is counted as partial.
///
/// `perf kmem stat --page` pairs them in the same way.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// How far the counts can be trusted.
    pub trust: Trust,
    /// The trace's name.
    pub name: String,
    /// The kernel that was recorded.
    pub kernel: String,
    /// The host's CPUs.
    pub cpus: u32,
    /// Events by [`EventKind`].
    pub by_kind: [u64; EventKind::ALL.len()],
    /// Events that the recorder missed.
    pub lost: u64,
    /// Why the recording ended early, where it did.
    pub partial: Option<String>,
    /// How long the recording took, in nanoseconds.
    pub duration_ns: u64,
    /// Allocations, those that failed included.
    pub allocs: Requests,
    /// Frees.
    pub frees: Requests,
    /// Allocations that failed.
    pub failed: Requests,
    /// Allocations by order, those that failed included.
    pub allocs_by_order: [u64; ORDERS],
    /// Frees by order.
    pub frees_by_order: [u64; ORDERS],
    /// Allocations by migratetype, those that failed included.
    pub allocs_by_migratetype: [u64; TYPES],
    /// Allocations by context, those that failed included.
    pub allocs_by_context: [u64; Context::ALL.len()],
    /// Frees by context.
    pub frees_by_context: [u64; Context::ALL.len()],
    /// Allocations that succeeded, by order and migratetype: the table of `perf kmem stat --page`.
    pub granted: [[u64; TYPES]; ORDERS],
    /// Frees of blocks that no recorded allocation holds.
    pub frees_without_allocation: Requests,
    /// Allocations of a frame that an earlier one still holds.
    pub reallocations: u64,
    /// Frees of another order than their allocation's.
    pub partial_frees: u64,
    /// Recorded allocations that nothing freed by the end.
    pub held_at_end: u64,
    /// Allocations that took from another migratetype, by kind.
    pub fallbacks: BTreeMap<Fallback, u64>,
    /// The requests that got nothing.
    pub failures: Failures,
    /// Where the kernel keeps its gfp flags.
    pub gfp_map: GfpMap,
    /// The work of compaction and migration, if the trace records it.
    pub moved: Option<Moved>,
    /// Samples of the host's own texts, if the trace has any.
    pub sampled: Option<Sampled>,
    /// Free memory when the recording started; empty where it was not recorded.
    pub before: Vec<ZoneFragmentation>,
    /// Free memory when it ended; empty where it was not recorded.
    pub after: Vec<ZoneFragmentation>,
    /// The content of memory when the recording started, if that was recorded.
    pub held_before: Option<Contents>,
    /// The content of memory when the recording ended, if that was recorded.
    pub held_after: Option<Contents>,
}

impl Summary {
    /// Counts what `trace` holds. `progress` is called now and then with the rows done.
    ///
    /// # Errors
    /// As [`crate::EventReader::next_batch`], or when the recorded `buddyinfo` cannot be read.
    pub fn of(trace: &Trace, mut progress: impl FnMut(u64)) -> Result<Summary, TraceError> {
        let meta = trace.meta();
        let mut summary = Summary {
            trust: Trust::of(meta, 0),
            name: trace.name().to_owned(),
            kernel: meta.kernel.clone(),
            cpus: meta.cpus,
            by_kind: [0; EventKind::ALL.len()],
            lost: meta.lost,
            partial: meta.partial.clone(),
            duration_ns: meta.duration_ns,
            allocs: Requests::default(),
            frees: Requests::default(),
            failed: Requests::default(),
            allocs_by_order: [0; ORDERS],
            frees_by_order: [0; ORDERS],
            allocs_by_migratetype: [0; TYPES],
            allocs_by_context: [0; Context::ALL.len()],
            frees_by_context: [0; Context::ALL.len()],
            granted: [[0; TYPES]; ORDERS],
            frees_without_allocation: Requests::default(),
            reallocations: 0,
            partial_frees: 0,
            held_at_end: 0,
            fallbacks: BTreeMap::new(),
            failures: Failures::default(),
            gfp_map: gfp_map(meta),
            moved: trace.moves()?.map(Moved::of).transpose()?,
            sampled: trace.samples()?.map(Sampled::of).transpose()?,
            before: fragmentation(trace, "before", meta.before.as_ref())?,
            after: fragmentation(trace, "after", meta.after.as_ref())?,
            held_before: contents(trace, "before", trace.before()?, meta.before.as_ref())?,
            held_after: contents(trace, "after", trace.after()?, meta.after.as_ref())?,
        };
        let mut reader = trace.events(Columns::All)?;
        let mut held = LiveBlocks::default();
        let mut batch = Vec::new();
        while reader.next_batch(&mut batch)? {
            for event in &batch {
                summary.count(event, &mut held);
            }
            progress(reader.rows_read());
        }
        summary.held_at_end = held.len();
        summary.trust = Trust::of(meta, summary.events());
        summary.failures.describe(trace)?;
        Ok(summary)
    }

    fn count(&mut self, event: &Event, held: &mut LiveBlocks) {
        self.by_kind[event.kind.index()] += 1;
        let order = usize::from(event.order);
        let kind = type_index(event.migratetype);
        match event.kind {
            EventKind::Alloc => {
                self.allocs.add(event);
                self.allocs_by_order[order] += 1;
                self.allocs_by_migratetype[kind] += 1;
                self.allocs_by_context[event.context as usize] += 1;
                if event.failed() {
                    self.failed.add(event);
                    self.failures.count(event);
                } else {
                    self.granted[order][kind] += 1;
                    self.reallocations += u64::from(held.allocate(event.pfn, event.order));
                }
            }
            EventKind::Free => {
                self.frees.add(event);
                self.frees_by_order[order] += 1;
                self.frees_by_context[event.context as usize] += 1;
                match held.free(event.pfn, event.order) {
                    Freed::Whole => {}
                    Freed::OtherOrder => self.partial_frees += 1,
                    Freed::Unknown => self.frees_without_allocation.add(event),
                }
            }
            EventKind::AllocExtfrag => {
                let (fallback_order, fallback_migratetype) = event.fallback();
                let Event { order, migratetype, .. } = *event;
                let fallback = Fallback { order, migratetype, fallback_order, fallback_migratetype };
                // Kinds are few; if a file invents millions of them, the rest are counted by event only.
                if self.fallbacks.len() < MAX_FALLBACKS || self.fallbacks.contains_key(&fallback) {
                    *self.fallbacks.entry(fallback).or_default() += 1;
                }
            }
            EventKind::PcpuDrain | EventKind::AllocZoneLocked => {}
        }
    }

    /// Returns how many events the trace has.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.by_kind.iter().sum()
    }

    /// Returns the requests that were both allocated and freed while recording, by the bytes of their frees.
    #[must_use]
    pub fn allocated_and_freed(&self) -> Requests {
        self.frees.less(self.frees_without_allocation)
    }

    /// Returns the requests, failed ones included, whose free was not recorded.
    #[must_use]
    pub fn allocated_only(&self) -> Requests {
        self.allocs.less(self.allocated_and_freed())
    }

    /// Returns the share of allocations and frees that happened in softirq context, where there are any.
    #[must_use]
    pub fn softirq_share(&self) -> Option<f64> {
        let softirq = Context::Softirq as usize;
        let all = self.allocs.count + self.frees.count;
        let some = self.allocs_by_context[softirq] + self.frees_by_context[softirq];
        (all > 0).then(|| some as f64 / all as f64)
    }
}

/// Kinds of fallbacks that are distinguished. Eleven orders and six types, twice each, make 4,356.
const MAX_FALLBACKS: usize = 10_000;

/// Returns the place of a migratetype in the tables.
fn type_index(migratetype: i8) -> usize {
    usize::try_from(migratetype).map_or(TYPES - 1, |m| m.min(TYPES - 1))
}

/// Returns the name of a place in the tables.
fn type_name(index: usize) -> &'static str {
    Migratetype::ALL.get(index).map_or("Unknown", |m| m.name())
}

fn fragmentation(
    trace: &Trace,
    when: &str,
    texts: Option<&ProcTexts>,
) -> Result<Vec<ZoneFragmentation>, TraceError> {
    let Some(texts) = texts else { return Ok(Vec::new()) };
    let info = Buddyinfo::parse(&texts.buddyinfo).map_err(|e| inconsistent(trace, when, &e))?;
    Ok(ZoneFragmentation::all(&info))
}

/// Counts what memory held, where a snapshot of it was recorded.
fn contents(
    trace: &Trace,
    when: &str,
    snapshot: Option<Snapshot>,
    texts: Option<&ProcTexts>,
) -> Result<Option<Contents>, TraceError> {
    let Some(snapshot) = snapshot else { return Ok(None) };
    let text = texts.map(|texts| &texts.pagetypeinfo).filter(|text| !text.is_empty());
    let types = text.map(|text| Pagetypeinfo::parse(text)).transpose();
    Ok(Some(Contents::of(&snapshot, types.map_err(|e| inconsistent(trace, when, &e))?)))
}

fn inconsistent(trace: &Trace, when: &str, why: &TraceError) -> TraceError {
    TraceError::Inconsistent {
        file: trace.meta_label(),
        row: None,
        what: format!("among the texts from {when} the recording, {why}"),
    }
}
