//! How much is cleared, and what the columns are called.

use crate::clear::{Mode, Way};
use pageyard_arena::clear::Primitive;
use pageyard_replay::text::bytes;

/// The primitive with which the document's kernel clears on its processors.
pub(super) const DOCUMENTS: Primitive = Primitive::RepStosb;

pub(super) const CONTIGUOUS: &str = "published:contiguous-pages";
pub(super) const BATCHED: &str = "published:batched-pages";
pub(super) const PUBLISHED: &str = "Demand faults, as published";
pub(super) const COUNTERS: &str = "Counters, as published";

/// Returns the column of a way of clearing: `rep-stosb:batch`.
pub(super) fn column(way: Way) -> String {
    let mode = if way.mode == Mode::Extent { "whole" } else { way.mode.name() };
    format!("{}:{mode}", way.name())
}

/// Extents, and the memory that they lie in.
pub(super) struct Extent {
    /// Sizes of extents, the largest last.
    pub(super) sizes: Vec<usize>,
    /// Bytes of memory for each thread.
    pub(super) memory: usize,
}

impl Extent {
    pub(super) fn new(quick: bool) -> Extent {
        match quick {
            false => Extent { sizes: (12..=30).map(|log| 1 << log).collect(), memory: 1 << 30 },
            true => Extent { sizes: vec![1 << 12, 1 << 21, 1 << 26], memory: 256 << 20 },
        }
    }

    /// The extent that stands for a page of 1 GiB.
    pub(super) fn largest(&self) -> usize {
        self.sizes.last().copied().unwrap_or(self.memory)
    }
}

/// Names a size as reports do.
pub(super) fn size(extent: usize) -> String {
    bytes(extent as u64)
}
