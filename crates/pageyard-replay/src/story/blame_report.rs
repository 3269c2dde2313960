//! Blame of a recording, as text and as a document.

use super::blame::{Blame, Holder, LostPageblock, Share, Shares};
use super::class::{Class, LostBy};
use super::moments::Moments;
use super::owners::Owners;
use super::scene::{Lines, Scene};
use crate::error::ReplayError;
use crate::kept::Readings;
use crate::replay::{Progress, Stage, trust};
use crate::rows::each_row;
use crate::text::{count, shown};
use pageyard::MemoryMap;
use pageyard_trace::document::Document;
use pageyard_trace::text::Grid;
use pageyard_trace::{Trace, Trust};
use serde::Serialize;
use std::fmt;

/// Rows of a table for people.
const SHOWN: usize = 12;

/// Who keeps a host's pageblocks from becoming huge frames at the end of its recording.
#[derive(Clone, Debug)]
pub struct BlameReport {
    trust: Trust,
    trace: String,
    kernel: String,
    duration_ns: u64,
    /// The pageblocks that are lost, and the frames that hold them.
    pub blame: Blame,
    /// Whose those are.
    pub owners: Owners,
    shares: Shares,
}

/// Finds out who keeps a recorded host's pageblocks from becoming huge frames at the end of a recording. `progress` is
/// told what is being done, and how many of how many rows are done.
///
/// # Errors
/// [`ReplayError`].
pub fn blame(
    trace: &Trace,
    progress: &mut dyn FnMut(Progress<'_>, u64, u64),
) -> Result<BlameReport, ReplayError> {
    let stage = Stage::set(trace, None, Readings::One, progress)?;
    let regions = stage.machine.regions();
    let fail = |why| ReplayError::Map { trace: stage.machine.name().to_owned(), why };
    let map = MemoryMap::new(&regions).map_err(fail)?;
    let scene = Scene::new(trace, &stage, &regions, &map, Lines::End)?;
    let mut owners = Owners::of(&[(trace, &scene.gfp)])?;
    let duration_ns = stage.opening.duration_ns;
    let (mut line, mut recorded) = scene.recorded(&mut owners, Moments::of(duration_ns, 2));
    let mut at = |done, rows| progress(Progress::Recorded, done, rows);
    each_row(trace, &mut at, |row| recorded.row(&mut line, &mut owners, &row))?;
    line.end(recorded.counters(&line.frames), &mut ());
    let blame = Blame::of(&line);
    let shares = blame.shares(&owners);
    Ok(BlameReport {
        trust: trust::of_recording(trace, &stage.machine)?,
        trace: trace.name().to_owned(),
        kernel: trace.meta().kernel.clone(),
        duration_ns,
        blame,
        owners,
        shares,
    })
}

impl BlameReport {
    /// Returns it as a document.
    #[must_use]
    pub fn document(&self) -> BlameDocument<'_> {
        BlameDocument {
            trust: &self.trust,
            trace: &self.trace,
            kernel: &self.kernel,
            duration_ns: self.duration_ns,
            pageblocks: self.blame.pageblocks,
            free_pageblocks: self.blame.free,
            lost_pageblocks: self.blame.lost.len() as u64,
            lost_meanwhile_pageblocks: self.blame.lost_meanwhile(),
            lost: self.blame.lost.iter().map(|lost| self.lost(lost)).collect(),
            by: &self.shares,
        }
    }

    fn lost(&self, lost: &LostPageblock) -> LostPageblockDocument {
        LostPageblockDocument {
            pageblock: lost.first_pfn / super::class::BLOCK,
            since_ns: lost.since_ns,
            reason: lost.reason,
            holders: lost.holders.iter().map(|h| self.holder(h)).collect(),
        }
    }

    fn holder(&self, holder: &Holder) -> HolderDocument {
        let owner = self.owners.get(holder.owner);
        HolderDocument {
            what: owner.map_or_else(String::new, |o| self.owners.label(o)),
            class: owner.map_or(Class::Pinned, |o| o.class()),
            gfp: owner.and_then(|o| self.owners.gfp(o)),
            context: owner.and_then(|o| o.context()),
            thread: owner.and_then(|o| o.thread()),
            thread_name: owner.and_then(|o| self.owners.thread(o)),
            order: holder.order,
            blocks: holder.blocks,
            frames: holder.frames,
            first_pfn: holder.first_pfn,
            since_ns: holder.since_ns,
            age_ns: holder.since_ns.map(|since| self.duration_ns.saturating_sub(since)),
        }
    }
}

/// Who keeps pageblocks from becoming huge frames at the end of a recording.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlameDocument<'a> {
    /// How far this can be trusted.
    pub trust: &'a Trust,
    /// The trace's name.
    pub trace: &'a str,
    /// The kernel that was recorded.
    pub kernel: &'a str,
    /// Nanoseconds from the first row to the last.
    pub duration_ns: u64,
    /// Pageblocks with a frame for the allocator.
    pub pageblocks: u64,
    /// Those that are wholly free, frames in per-CPU lists counted as free.
    pub free_pageblocks: u64,
    /// Those with a frame that cannot be moved.
    pub lost_pageblocks: u64,
    /// Of those, the ones that became so during the recording.
    pub lost_meanwhile_pageblocks: u64,
    /// The lost ones, one by one.
    pub lost: Vec<LostPageblockDocument>,
    /// The same added up. A pageblock counts for each kind that holds a frame in it.
    pub by: &'a Shares,
}

impl Document for BlameDocument<'_> {
    const SCHEMA: &'static str = "pageyard.summary-blame/1";
}

/// A pageblock that is lost to huge frames.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LostPageblockDocument {
    /// Its number: that of its first frame, divided by 512.
    pub pageblock: u64,
    /// Since when, in nanoseconds from the start; left out where it was lost before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_ns: Option<u64>,
    /// Why.
    pub reason: LostBy,
    /// Who holds frames in it that cannot be moved, the oldest first.
    pub holders: Vec<HolderDocument>,
}

/// Frames in a pageblock that cannot be moved: those of one owner and order.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HolderDocument {
    /// Whose they are, for people.
    pub what: String,
    /// Their class, as compaction sees them.
    pub class: Class,
    /// The flags that were asked with; left out for frames from before the recording, as are the next four.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gfp: Option<String>,
    /// The context that the CPU was in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<&'static str>,
    /// The thread's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<u32>,
    /// The thread's name, where the recording kept it, or its number in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_name: Option<String>,
    /// The order that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<u8>,
    /// Blocks, or runs of frames where their blocks are not known.
    pub blocks: u32,
    /// Frames.
    pub frames: u32,
    /// The first frame of the oldest.
    pub first_pfn: u64,
    /// Since when the oldest is held, in nanoseconds from the start; left out for before the recording, as is the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_ns: Option<u64>,
    /// How old the oldest is at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ns: Option<u64>,
}

impl fmt::Display for BlameReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Blame { pageblocks, free, lost } = &self.blame;
        write!(f, "{}", self.trust)?;
        write!(
            f,
            "{}: {:.1} s of {}. ",
            shown(&self.trace),
            self.duration_ns as f64 / 1e9,
            shown(&self.kernel)
        )?;
        if self.trust.is_low() {
            writeln!(
                f,
                "Who keeps pageblocks cannot be told: what follows is of the events seen, as if those lost had changed nothing."
            )?;
        } else {
            writeln!(
                f,
                "Of {} pageblocks (2 MiB) {} are free at the end, and {} are lost to huge frames:\na frame in them cannot be moved. {} of those were lost during the recording.",
                count(*pageblocks),
                count(*free),
                count(lost.len() as u64),
                count(self.blame.lost_meanwhile())
            )?;
        }
        let tables: [(&str, &[Share]); 5] = [
            ("How they were lost", &self.shares.reason),
            ("What holds them", &self.shares.content),
            ("By gfp flags", &self.shares.gfp),
            ("By context", &self.shares.context),
            ("By thread", &self.shares.thread),
        ];
        for (title, shares) in tables {
            writeln!(f, "\n{title}:")?;
            let mut grid = Grid::new(["", "pageblocks", "alone", "frames"]);
            for share in shares.iter().take(SHOWN) {
                grid.row([
                    shown(&share.name),
                    count(share.pageblocks),
                    count(share.alone),
                    count(share.frames),
                ]);
            }
            write!(f, "{grid}")?;
            if shares.len() > SHOWN {
                writeln!(f, "  and {} more", count((shares.len() - SHOWN) as u64))?;
            }
        }
        writeln!(
            f,
            "\n\"Alone\" counts the pageblocks in which nothing else stands in the way; a pageblock with several kinds counts for each."
        )
    }
}
