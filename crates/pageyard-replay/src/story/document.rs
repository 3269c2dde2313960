//! The story as the page carries it, and what the command prints of it.

use super::chunk::ChunkEntry;
use pageyard_trace::Trust;
use pageyard_trace::document::{Document, Made};
use serde::Serialize;

/// The format's name and version.
pub const FORMAT: &str = "pageyard-story/1";

/// The story, but for the chunks' bytes.
#[derive(Clone, Debug, Serialize)]
pub struct StoryDocument {
    pub format: &'static str,
    pub trust: Trust,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made: Option<Made>,
    pub name: String,
    pub title: String,
    pub kernel: String,
    pub cpus: u32,
    pub duration_ns: u64,
    pub events: u64,
    pub frame_bytes: u64,
    pub pageblock_frames: u64,
    pub resolution_ns: u64,
    pub moments: u32,
    pub zones: Vec<ZoneDocument>,
    pub ranges: Vec<RangeDocument>,
    pub owners: Vec<OwnerDocument>,
    pub threads: Vec<String>,
    pub lines: Vec<LineDocument>,
    pub marker_kinds: Vec<&'static str>,
    pub reasons: Vec<&'static str>,
    pub left_out: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ZoneDocument {
    pub name: &'static str,
    pub node: u8,
    pub first_pageblock: u32,
    pub pageblocks: u32,
}

#[derive(Clone, Debug, Serialize)]
pub struct RangeDocument {
    pub first_pageblock: u32,
    pub pageblocks: u32,
    pub first_pfn: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct OwnerDocument {
    pub label: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gfp: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<&'static str>,
    pub class: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub struct LineDocument {
    pub id: String,
    pub label: String,
    pub kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ns: Option<u64>,
    pub segments: Vec<SegmentDocument>,
    pub frames: Vec<KeyframeDocument>,
    pub series: ChunkDocument,
    pub markers: ChunkDocument,
    pub lost: LostDocument,
}

#[derive(Clone, Debug, Serialize)]
pub struct SegmentDocument {
    pub from: u32,
    pub to: u32,
    pub base: ChunkEntry,
    pub changes: ChunkEntry,
}

#[derive(Clone, Debug, Serialize)]
pub struct KeyframeDocument {
    pub moment: u32,
    pub chunk: ChunkEntry,
}

#[derive(Clone, Debug, Serialize)]
pub struct ChunkDocument {
    pub chunk: ChunkEntry,
}

#[derive(Clone, Debug, Serialize)]
pub struct LostDocument {
    pub chunk: ChunkEntry,
    pub holders: ChunkEntry,
}

/// The figures of a map: those that the recording and the engines have themselves, a value a moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MapDocument {
    /// How far the map can be trusted.
    pub trust: Trust,
    /// The trace's name.
    pub name: String,
    /// Nanoseconds from one moment to the next.
    pub resolution_ns: u64,
    /// Moments, that of the opening included.
    pub moments: u32,
    /// Pageblocks.
    pub pageblocks: u64,
    /// Bytes of the file that was written.
    pub bytes: u64,
    /// Seconds that making the story took, and of those the ones after reading and replaying: packing and writing.
    pub seconds: f64,
    /// The second part of that.
    pub writing_seconds: f64,
    /// The recording and the engines.
    pub lines: Vec<LineFiguresDocument>,
    /// The facts that the map does not show, a sentence each.
    pub left_out: Vec<String>,
}

impl Document for MapDocument {
    const SCHEMA: &'static str = "pageyard.map/1";
}

/// A line of a map, a value a moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineFiguresDocument {
    /// `recorded`, or the engine as it was named.
    pub line: String,
    /// Frames that are not held, those in per-CPU lists among them.
    pub free_frames: Vec<u64>,
    /// Pageblocks that are wholly free.
    pub huge_free: Vec<u64>,
    /// Pageblocks in which a frame cannot be moved.
    pub lost: Vec<u32>,
}
