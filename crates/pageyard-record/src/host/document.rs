//! A host's summary as a document.

use std::collections::BTreeMap;

use pageyard_trace::contents::frames_by_name;
use pageyard_trace::{Document, Pageblocks, ZonePageblocks};
use serde::Serialize;
use serde_json::Value;

use super::allocinfo::AllocationSite;
use super::answer::Answer;
use super::collect::{HostSummary, HostTotals, HostZone};
use super::compactable::{ASSUMPTIONS, Compactable};
use super::counted::NOT_COUNTED;
use super::culprits::Culprits;
use super::kpageflags::BuddyMarks;
use super::largest::Largest;
use super::slabinfo::SlabCache;
use super::text::COUNTERS;
use super::vmallocinfo::VmallocCaller;

/// Counts by name.
type Counts = BTreeMap<&'static str, u64>;

/// The state of this host's memory. Values that could not be read are omitted and named in `not_read`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostDocument<'a> {
    /// The zones that have memory.
    pub zones: &'a [HostZone],
    /// The sums of all zones; omitted if free memory by order is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub totals: Option<HostTotals>,
    /// The answer of the best zone to a request, by order; omitted if unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<Answer>,
    /// Frames by what they hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames: Option<Counts>,
    /// The kind of request that `orders` is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orders_are_for: Option<&'static str>,
    /// The content of frames of kind `other`, as far as the kernel counts it, and how many frames nothing in `/proc`
    /// accounts for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_frames: Option<Counts>,
    /// Whether the kernel marks every frame of a free block; if not, the counts of `free` and `other` are estimates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_frames_exact: Option<bool>,
    /// Pageblocks by the content that is hardest to move away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pageblocks: Option<Counts>,
    /// The same in percent of all pageblocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pageblocks_pct: Option<BTreeMap<&'static str, f64>>,
    /// The possible gain of compaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compactable: Option<CompactableDocument<'a>>,
    /// The largest object caches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slab_caches: Option<&'a Largest<SlabCache>>,
    /// The largest callers of `vmalloc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vmalloc_callers: Option<&'a Largest<VmallocCaller>>,
    /// The places in the kernel's source that hold most; omitted without allocation profiling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation_sites: Option<&'a Largest<AllocationSite>>,
    /// Frames that the kernel counts by use, whatever marks they have: `shmem`, `mlocked`, `hugetlb` and so on.
    pub counted_frames: Counts,
    /// Memory that no counter shows.
    pub not_counted: &'static str,
    /// Pageblocks by migratetype, zone by zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pageblocks_by_migratetype: Option<Vec<ZonePageblocks<'a>>>,
    /// Counters of `/proc/vmstat` since the host started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<Counts>,
    /// Sources that could not be read, and why: a sentence each.
    pub not_read: &'a [String],
}

impl Document for HostDocument<'_> {
    const SCHEMA: &'static str = "pageyard.summary-host/2";
}

/// The possible gain of compaction.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CompactableDocument<'a> {
    /// Zone by zone.
    pub zones: &'a [Compactable],
    /// The sums.
    pub total: Compactable,
    /// The assumptions behind these counts.
    pub assumptions: &'static str,
}

impl HostSummary {
    /// Returns the summary as a document.
    #[must_use]
    pub fn document(&self) -> HostDocument<'_> {
        let orders = self.answers();
        HostDocument {
            zones: &self.zones,
            totals: self.totals(),
            orders_are_for: (!orders.is_empty()).then_some(self.asked.meaning()),
            orders,
            frames: self.frames.as_ref().map(frames_by_name),
            other_frames: self.culprits.as_ref().map(other_frames),
            free_frames_exact: self.marks.map(|marks| marks == BuddyMarks::EveryFrame),
            pageblocks: self.pageblocks.as_ref().map(Pageblocks::by_name),
            pageblocks_pct: self.pageblocks.as_ref().map(Pageblocks::pct_by_name),
            compactable: self.compactable.as_deref().map(|zones| CompactableDocument {
                zones,
                total: Compactable::total(zones),
                assumptions: ASSUMPTIONS,
            }),
            slab_caches: self.slab.as_ref(),
            vmalloc_callers: self.vmalloc.as_ref(),
            allocation_sites: self.sites.as_ref(),
            counted_frames: self.counted.iter().map(|counted| (counted.name, counted.frames)).collect(),
            not_counted: NOT_COUNTED,
            pageblocks_by_migratetype: self.pagetypes.as_ref().map(ZonePageblocks::all),
            counters: self.vmstat.as_ref().map(|vmstat| {
                COUNTERS.iter().filter_map(|(name, _)| Some((*name, vmstat.get(name)?))).collect()
            }),
            not_read: &self.not_read,
        }
    }

    /// Returns the document as a JSON value.
    #[must_use]
    pub fn json(&self) -> Value {
        self.document().json()
    }
}

fn other_frames(culprits: &Culprits) -> Counts {
    let known = culprits.known.iter().map(|culprit| (culprit.name, culprit.frames));
    known.chain([("unaccounted", culprits.unaccounted)]).collect()
}
