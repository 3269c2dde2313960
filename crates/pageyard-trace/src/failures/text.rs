//! Failures as rows of tables for people.

use pageyard::GfpMap;

use super::{FailedRequest, FailureKind, GfpNames};
use crate::text::{grouped, size};

/// The columns of [`FailureKind::cells`].
pub const KIND_HEADINGS: [&str; 5] = ["gfp", "order", "type", "context", "thread"];

/// The columns of [`FailedRequest::cells`].
pub const FAILURE_HEADINGS: [&str; 10] =
    ["gfp", "order", "type", "context", "thread", "at (s)", "free", "blocks", "largest", "reason"];

impl FailureKind {
    /// Writes what tells failures apart.
    #[must_use]
    pub fn cells(&self, map: &GfpMap) -> [String; 5] {
        [
            GfpNames::new(self.gfp, map).to_string(),
            self.order.to_string(),
            self.migratetype().to_owned(),
            self.context().to_owned(),
            self.tid.to_string(),
        ]
    }
}

impl FailedRequest {
    /// Writes a failure.
    #[must_use]
    pub fn cells(&self, map: &GfpMap) -> [String; 10] {
        let [gfp, order, migratetype, context, thread] = self.kind.cells(map);
        let unknown = || "-".to_owned();
        [
            gfp,
            order,
            migratetype,
            context,
            thread,
            format!("{:.6}", self.time_ns as f64 / 1e9),
            self.free_frames().map_or_else(unknown, size),
            self.suitable_blocks().map_or_else(unknown, grouped),
            self.largest_free_order().map_or_else(unknown, |o| o.to_string()),
            self.reason.map_or_else(unknown, |r| r.words().to_owned()),
        ]
    }
}
