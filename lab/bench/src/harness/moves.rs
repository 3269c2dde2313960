//! Blocks that go between per-CPU lists and their zone.

use serde::{Deserialize, Serialize};

/// Refills and spills in all samples of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Moves {
    /// Times a per-CPU list was filled from its zone, in all samples of the row; left out where that cannot be seen.
    pub refills: u64,
    /// Times one was spilled to its zone; left out where that cannot be seen.
    pub spills: u64,
}

impl Moves {
    /// Returns the moves between two readings of a subject's counters, where it has any.
    pub(crate) fn between(before: Option<(u64, u64)>, after: Option<(u64, u64)>) -> Option<Moves> {
        after.zip(before).map(|(b, a)| Moves { refills: b.0 - a.0, spills: b.1 - a.1 })
    }
}
