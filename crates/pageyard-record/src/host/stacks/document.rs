//! Stacks as a document and as text.

use super::{StackShare, Stacks};
use pageyard_trace::grouped;
use pageyard_trace::text::Grid;
use serde::Serialize;
use std::fmt;

/// Callers in the document.
const MOST: usize = 100;

/// Callers in the text, and those of them whose stack is written out.
const SHOWN: usize = 20;
const WRITTEN_OUT: usize = 5;

/// The stacks that keep pageblocks from becoming huge frames, by Linux's `page_owner`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StacksDocument<'a> {
    /// Allocations that are not freed yet.
    pub allocations: u64,
    /// Pageblocks with a frame that cannot be moved.
    pub lost_pageblocks: u64,
    /// Callers, that of the most pageblocks first; at most 100. A pageblock counts for each caller that has a frame in
    /// it.
    pub callers: Vec<StackDocument<'a>>,
    /// How many callers there are.
    pub all_callers: u64,
    /// Allocations that could not be read.
    pub unreadable: u64,
}

/// The allocations of one caller that cannot be moved.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StackDocument<'a> {
    /// The first function of the stack that is not the allocator's.
    pub caller: &'a str,
    /// Pageblocks in which it has a frame.
    pub pageblocks: u64,
    /// Of those, the ones in which nothing else stands in the way.
    pub alone: u64,
    /// Frames.
    pub frames: u64,
    /// The stack of its first allocation, innermost function first.
    pub stack: &'a [String],
}

impl Stacks {
    /// Returns them as a document.
    #[must_use]
    pub fn document(&self) -> StacksDocument<'_> {
        let callers = self.callers.iter().take(MOST).map(|share| StackDocument {
            caller: &share.caller,
            pageblocks: share.pageblocks,
            alone: share.alone,
            frames: share.frames,
            stack: &share.stack,
        });
        StacksDocument {
            allocations: self.allocations,
            lost_pageblocks: self.lost_pageblocks,
            callers: callers.collect(),
            all_callers: self.callers.len() as u64,
            unreadable: self.unreadable,
        }
    }
}

impl fmt::Display for Stacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Allocations that are not freed yet: {}. Pageblocks (2 MiB) with a frame that cannot be moved: {}.\n",
            grouped(self.allocations),
            grouped(self.lost_pageblocks)
        )?;
        let mut grid = Grid::new(["asked for by", "pageblocks", "alone", "frames"]);
        for StackShare { caller, pageblocks, alone, frames, .. } in self.callers.iter().take(SHOWN) {
            grid.row([caller.clone(), grouped(*pageblocks), grouped(*alone), grouped(*frames)]);
        }
        write!(f, "{grid}")?;
        if self.callers.len() > SHOWN {
            writeln!(f, "  and {} more", grouped((self.callers.len() - SHOWN) as u64))?;
        }
        for share in self.callers.iter().take(WRITTEN_OUT) {
            writeln!(f, "\n{}, its first allocation:", share.caller)?;
            for function in &share.stack {
                writeln!(f, "  {function}")?;
            }
        }
        if self.unreadable > 0 {
            writeln!(
                f,
                "\nAllocations that could not be read, and are left out: {}.",
                grouped(self.unreadable)
            )?;
        }
        writeln!(
            f,
            "\n\"Alone\" counts the pageblocks in which nothing else stands in the way; a pageblock with several callers\ncounts for each. What the kernel took before page_owner was on, and frames from before its start, are not listed."
        )
    }
}
