//! Failures as parts of documents.

use pageyard::GfpMap;
use serde::Serialize;

use super::{FailedRequest, FailureKind, FailureReason, GfpNames};

/// The key by which failures are grouped.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureKindDocument {
    /// The order.
    pub order: u8,
    /// The gfp flags by name, as kernel code has them.
    pub gfp: String,
    /// The same as the kernel's bits.
    pub gfp_bits: u32,
    /// The migratetype.
    pub migratetype: &'static str,
    /// The context that the CPU was in.
    pub context: &'static str,
    /// The thread.
    pub thread: u32,
}

/// One request that got nothing.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureDocument<'a> {
    /// The request and the thread that made it.
    #[serde(flatten)]
    pub kind: FailureKindDocument,
    /// Nanoseconds since the recording started.
    pub time_ns: u64,
    /// The CPU.
    pub cpu: u32,
    /// Free blocks by order in the zones that the request could use; omitted if the trace has no picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_blocks: Option<&'a [u64]>,
    /// The frames in those blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_frames: Option<u64>,
    /// How many blocks of the request's order they make.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suitable_blocks: Option<u64>,
    /// The order of the largest of them; omitted if nothing was free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_free_order: Option<usize>,
    /// Why, by what was free then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<FailureReason>,
}

impl FailureKind {
    /// Returns the kind as a document; `map` is where the kernel keeps its gfp flags.
    #[must_use]
    pub fn document(&self, map: &GfpMap) -> FailureKindDocument {
        FailureKindDocument {
            order: self.order,
            gfp: GfpNames::new(self.gfp, map).to_string(),
            gfp_bits: self.gfp,
            migratetype: self.migratetype(),
            context: self.context(),
            thread: self.tid,
        }
    }
}

impl FailedRequest {
    /// Returns the failure as a document; `map` is where the kernel keeps its gfp flags.
    #[must_use]
    pub fn document(&self, map: &GfpMap) -> FailureDocument<'_> {
        FailureDocument {
            kind: self.kind.document(map),
            time_ns: self.time_ns,
            cpu: self.cpu,
            free_blocks: self.free_blocks.as_ref().map(|b| &b[..]),
            free_frames: self.free_frames(),
            suitable_blocks: self.suitable_blocks(),
            largest_free_order: self.largest_free_order(),
            reason: self.reason,
        }
    }
}
