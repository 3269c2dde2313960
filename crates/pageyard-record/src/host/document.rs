//! A host's summary as a document.

use std::collections::BTreeMap;

use pageyard_trace::{Document, FrameKind};
use serde::Serialize;
use serde_json::Value;

use super::answer::Answer;
use super::collect::{HostSummary, HostZone};
use super::culprits::Culprits;
use super::kpageflags::BuddyMarks;
use super::pageblocks::{Pageblocks, Spoiler};
use super::text::COUNTERS;

/// Counts by name.
type Counts = BTreeMap<&'static str, u64>;

/// What this host's memory is like now. What could not be read is left out and named in `not_read`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostDocument<'a> {
    /// The zones that have memory.
    pub zones: &'a [HostZone],
    /// What the best zone would answer to a request, by order; empty where it is not known.
    pub orders: Vec<Answer>,
    /// Frames by what they hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames: Option<Counts>,
    /// The kind of request that `orders` is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orders_are_for: Option<&'static str>,
    /// What the frames of kind `other` hold, as far as the kernel counts, and how many nothing in `/proc` accounts for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_frames: Option<Counts>,
    /// Whether the kernel marks every frame of a free block; if not, the counts of `free` and `other` are estimates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_frames_exact: Option<bool>,
    /// Pageblocks by the content that is hardest to move away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pageblocks: Option<Counts>,
    /// Pageblocks by migratetype, zone by zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pageblocks_by_migratetype: Option<Vec<ZonePageblocks<'a>>>,
    /// Counters of `/proc/vmstat` since the host started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<Counts>,
    /// What could not be read, and why: a sentence each.
    pub not_read: &'a [String],
}

impl Document for HostDocument<'_> {
    const SCHEMA: &'static str = "pageyard.summary-host/1";
}

/// A zone's pageblocks by migratetype.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ZonePageblocks<'a> {
    /// The NUMA node.
    pub node: u8,
    /// The zone's name.
    pub zone: &'a str,
    /// Its pageblocks.
    pub pageblocks: &'a BTreeMap<String, u64>,
}

impl HostSummary {
    /// Returns the summary as a document.
    #[must_use]
    pub fn document(&self) -> HostDocument<'_> {
        let orders = self.answers();
        HostDocument {
            zones: &self.zones,
            orders_are_for: (!orders.is_empty()).then_some(Answer::REQUEST),
            orders,
            frames: self.frames.map(|frames| FrameKind::ALL.iter().map(|k| k.name()).zip(frames).collect()),
            other_frames: self.culprits.as_ref().map(other_frames),
            free_frames_exact: self.marks.map(|marks| marks == BuddyMarks::EveryFrame),
            pageblocks: self.pageblocks.as_ref().map(by_spoiler),
            pageblocks_by_migratetype: self.pagetypes.as_ref().map(|types| {
                let zones = types.zones.iter();
                zones.map(|z| ZonePageblocks { node: z.node, zone: &z.name, pageblocks: &z.blocks }).collect()
            }),
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

fn by_spoiler(blocks: &Pageblocks) -> Counts {
    Spoiler::ALL.iter().map(|spoiler| (spoiler.name(), blocks.count(*spoiler))).collect()
}
