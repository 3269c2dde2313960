//! The content of physical memory: frames by kind, and pageblocks by type and by the content that is hardest to move.

mod chunks;
pub mod pageblocks;
mod snapshot_cost;
mod text;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::proctext::Pagetypeinfo;
use crate::snapshot::{FrameKind, Snapshot};

pub use chunks::Chunks;
pub use pageblocks::{Pageblocks, Spoiler};
pub use snapshot_cost::{CHUNKS, ChunksDocument, DirtiedDocument, Reporting, SnapshotCost};
pub use text::{frames_table, pageblocks_table, types_table};

/// Frames by [`FrameKind`].
pub type FramesByKind = [u64; FrameKind::ALL.len()];

/// The content of physical memory at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Frames by kind.
    pub frames: FramesByKind,
    /// Pageblocks by the content that is hardest to move.
    pub pageblocks: Pageblocks,
    /// Pageblocks by migratetype, where that is known.
    pub types: Option<Pagetypeinfo>,
}

impl Contents {
    /// Counts what a snapshot holds; `types` is what the kernel says of its pageblocks.
    #[must_use]
    pub fn of(snapshot: &Snapshot, types: Option<Pagetypeinfo>) -> Contents {
        Contents { frames: frames(snapshot), pageblocks: Pageblocks::of(snapshot), types }
    }

    /// Returns it as a part of a document.
    #[must_use]
    pub fn document(&self) -> ContentsDocument<'_> {
        ContentsDocument {
            frames: frames_by_name(&self.frames),
            pageblocks: self.pageblocks.by_name(),
            pageblocks_pct: self.pageblocks.pct_by_name(),
            pageblocks_by_migratetype: self.types.as_ref().map(ZonePageblocks::all),
        }
    }
}

/// Counts a snapshot's frames by kind.
#[must_use]
pub fn frames(snapshot: &Snapshot) -> FramesByKind {
    FrameKind::ALL.map(|kind| snapshot.frames(kind))
}

/// Returns frames by the name of their kind.
#[must_use]
pub fn frames_by_name(frames: &FramesByKind) -> BTreeMap<&'static str, u64> {
    FrameKind::ALL.iter().map(|kind| kind.name()).zip(*frames).collect()
}

/// The content of physical memory at one moment.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContentsDocument<'a> {
    /// Frames by what they hold.
    pub frames: BTreeMap<&'static str, u64>,
    /// Pageblocks by the content that is hardest to move away.
    pub pageblocks: BTreeMap<&'static str, u64>,
    /// The same in percent of all pageblocks.
    pub pageblocks_pct: BTreeMap<&'static str, f64>,
    /// Pageblocks by migratetype, zone by zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pageblocks_by_migratetype: Option<Vec<ZonePageblocks<'a>>>,
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

impl<'a> ZonePageblocks<'a> {
    /// Returns those of every zone.
    #[must_use]
    pub fn all(types: &'a Pagetypeinfo) -> Vec<ZonePageblocks<'a>> {
        let zones = types.zones.iter();
        zones.map(|z| ZonePageblocks { node: z.node, zone: &z.name, pageblocks: &z.blocks }).collect()
    }
}
