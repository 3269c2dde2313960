//! What an owner's table says, with names.

use pageyard_core::migratetype::Migratetype;
use pageyard_core::units::{CpuId, Frames, Order, Pfn};
use std::fmt;
use std::time::Duration;

/// When and by whom a block was allocated or freed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The functions of the caller, the innermost first, without the allocator's. Empty where none were captured.
    pub stack: Vec<String>,
    /// The caller's [tag](super::tagged).
    pub tag: Option<&'static str>,
    /// The CPU it ran on.
    pub cpu: Option<CpuId>,
    /// The time since the owner's table was made.
    pub at: Duration,
}

/// A live block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveBlock {
    /// Its first frame.
    pub first: Pfn,
    /// Its order.
    pub order: Order,
    /// The migratetype of the request.
    pub migratetype: Migratetype,
    /// Who has it.
    pub allocated: Moment,
}

/// A block that was freed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreedBlock {
    /// The block, and who had it; none where compaction had just moved it.
    pub block: Option<LiveBlock>,
    /// Who freed it.
    pub freed: Moment,
}

/// The history of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameHistory {
    /// The frame.
    pub pfn: Pfn,
    /// The live block that it is of.
    pub live: Option<LiveBlock>,
    /// The block that it was freed with, where it was not allocated since.
    pub freed: Option<FreedBlock>,
}

/// Blocks with one stack and one tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The caller's tag.
    pub tag: Option<&'static str>,
    /// The functions of the caller, the innermost first.
    pub stack: Vec<String>,
    /// How many blocks.
    pub blocks: u64,
    /// How many frames they have.
    pub frames: Frames,
    /// When the oldest of them was allocated, since the owner's table was made.
    pub oldest: Duration,
    /// The lowest of their frames.
    pub first: Pfn,
}

/// Who has what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// By stack and tag, those with the most frames first.
    pub holders: Vec<Holder>,
    /// How many blocks are held.
    pub blocks: u64,
    /// How many frames they have.
    pub frames: Frames,
    /// When this was written, since the owner's table was made.
    pub at: Duration,
}

/// A stack, indented.
struct Indented<'a>(&'a [String]);

impl fmt::Display for Indented<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|function| write!(f, "\n    {function}"))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:.6} s", self.at.as_secs_f64())?;
        if let Some(cpu) = self.cpu {
            write!(f, " on CPU {cpu}")?;
        }
        if let Some(tag) = self.tag {
            write!(f, " by {tag:?}")?;
        }
        write!(f, "{}", Indented(&self.stack))
    }
}

impl fmt::Display for LiveBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LiveBlock { first, order, migratetype, allocated, .. } = self;
        write!(f, "block {:#x} of order {order}, {}, allocated {allocated}", first.0, migratetype.name())
    }
}

impl fmt::Display for FrameHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "frame {:#x}", self.pfn.0)?;
        match (&self.live, &self.freed) {
            (Some(live), _) => write!(f, " is of {live}"),
            (None, Some(FreedBlock { block: Some(block), freed })) => {
                write!(f, " was freed {freed}\nand was of {block}")
            }
            (None, Some(FreedBlock { block: None, freed })) => write!(f, " was freed {freed}"),
            (None, None) => f.write_str(" was never allocated"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "held: {}, {}", counted(self.blocks, "block"), counted(self.frames.0, "frame"))?;
        for holder in &self.holders {
            let age = self.at.saturating_sub(holder.oldest).as_secs_f64();
            let (blocks, frames) = (counted(holder.blocks, "block"), counted(holder.frames.0, "frame"));
            write!(f, "\n  {blocks}, {frames}, from {:#x} on, up to {age:.3} s old", holder.first.0)?;
            if let Some(tag) = holder.tag {
                write!(f, ", {tag:?}")?;
            }
            write!(f, "{}", Indented(&holder.stack))?;
        }
        Ok(())
    }
}

fn counted(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
