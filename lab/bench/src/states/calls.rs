//! Memory as a list of calls that brings any allocator of 4 KiB frames into the state, and an allocator that follows
//! one. `docs/design/states.md` describes the lines.
//!
//! Allocators place differently, so a list that only allocates and frees reaches a state on one of them alone. This one
//! holds all memory first. From then on the list decides which frames are free, and an allocation gets the only free
//! block there is.

use super::degree::Measured;
use super::memory::{BLOCK, Memory};
use crate::error::BenchError;
use pageyard::proctext::Buddyinfo;
use pageyard::{
    CpuId, CpuSet, Cx, Frames, Migratetype, Order, PageAllocator, Pfn, Request, RequestFlags, ZoneId, block,
};
use std::collections::BTreeSet;
use std::io::{self, Write};

/// The first line: the format and its version.
const HEAD: &str = "pageyard-calls 1";

/// The largest block in which unmovable memory is asked for: that of slabs and of network buffers.
const LARGEST: Order = Order::of(3);

/// Memory starts at a multiple of this many frames: the largest block of the buddy system.
const ALIGNED: u64 = 1024;

/// Writes memory as a list of calls.
///
/// # Errors
/// Those of `out`.
pub fn write_calls(memory: &Memory, title: &str, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{HEAD}\n# The state {title}: docs/design/states.md of Pageyard.")?;
    writeln!(out, "hold {}", memory.frames())?;
    for (at, frames, requested) in memory.runs(|content| content.requested_as()) {
        if requested == Some(Migratetype::Unmovable) {
            for b in block::blocks(Pfn(at), Frames(frames), LARGEST) {
                writeln!(out, "place {} {}", b.pfn, b.order)?;
            }
        }
    }
    for (at, frames, pinned) in memory.runs(|content| content.locked && !content.is_movable()) {
        if pinned {
            writeln!(out, "pin {at} {frames}")?;
        }
    }
    for (at, frames, requested) in memory.runs(|content| content.requested_as()) {
        if requested.is_none() {
            writeln!(out, "free {at} {frames}")?;
        }
    }
    writeln!(out, "drain")
}

/// An allocator that followed a list of calls.
#[derive(Debug)]
pub struct Followed {
    frames: u64,
    unmovable: BTreeSet<u64>,
}

impl Followed {
    /// Measures the allocator's free memory by its own text of `/proc/buddyinfo`.
    ///
    /// # Errors
    /// As [`Measured::of`].
    pub fn measure(&self, allocator: &dyn PageAllocator) -> Result<Measured, BenchError> {
        let pageblocks = self.frames / BLOCK;
        let spoiled: BTreeSet<u64> = self.unmovable.iter().map(|frame| frame / BLOCK).collect();
        let share = spoiled.len() as f64 / pageblocks as f64;
        let text = Buddyinfo(allocator).to_string();
        Measured::from_free_blocks(&text, self.frames, share, pageblocks, self.unmovable.len() as u64)
    }
}

/// Has an allocator follow a list of calls. All of its memory must be free.
///
/// # Errors
/// [`BenchError::State`] for a line that is none, memory that the list is not for, and a call that is not answered as
/// the format says. Only an allocator that the list is not for is left as it was.
pub fn follow(allocator: &dyn PageAllocator, calls: &str) -> Result<Followed, BenchError> {
    let mut lines = (1..).zip(calls.lines()).filter(|(_, line)| !line.starts_with('#'));
    if lines.next().is_none_or(|(_, line)| line != HEAD) {
        return Err(refused(0, format!("a list of calls begins with the line `{HEAD}`")));
    }
    let mut follower = None;
    for (number, line) in lines {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let numbers: Option<Vec<u64>> = rest.split_whitespace().map(|word| word.parse().ok()).collect();
        let done = match (verb, numbers.as_deref(), &mut follower) {
            ("hold", Some([frames]), None) => Follower::hold(allocator, *frames).map(|f| follower = Some(f)),
            ("place", Some([at, order]), Some(f)) => f.place(*at, *order),
            ("pin", Some([at, frames]), Some(f)) => {
                f.range(*at, *frames).map(|range| f.unmovable.extend(range))
            }
            ("free", Some([at, frames]), Some(f)) => {
                f.range(*at, *frames).and_then(|mut range| range.try_for_each(|at| f.free(at)))
            }
            ("drain", Some([]), Some(_)) => {
                allocator.drain(CpuSet::All);
                Ok(())
            }
            _ => Err("it is no call, or stands at the wrong place; `hold` comes first, and once".to_owned()),
        };
        done.map_err(|why| refused(number, why))?;
    }
    let Follower { held, unmovable, .. } =
        follower.ok_or_else(|| refused(0, "the list has no call".to_owned()))?;
    Ok(Followed { frames: held.len() as u64, unmovable })
}

fn refused(line: usize, why: String) -> BenchError {
    let at = if line == 0 { String::new() } else { format!(" in line {line}") };
    BenchError::State { why: format!("the list of calls cannot be followed{at}: {why}") }
}

struct Follower<'a> {
    allocator: &'a dyn PageAllocator,
    cx: Cx,
    first: Pfn,
    /// Whether each frame is held on its own.
    held: Vec<bool>,
    unmovable: BTreeSet<u64>,
}

impl<'a> Follower<'a> {
    /// Holds all memory in single frames.
    fn hold(allocator: &'a dyn PageAllocator, frames: u64) -> Result<Follower<'a>, String> {
        let zones: Vec<_> = (0..).map(ZoneId).map_while(|zone| allocator.zone_stats(zone)).collect();
        let zones: Vec<_> = zones.iter().filter(|zone| zone.span.managed > Frames::ZERO).collect();
        let [zone] = zones[..] else {
            return Err(format!(
                "the allocator has {} zones with memory, and the list is for one",
                zones.len()
            ));
        };
        let (span, first) = (zone.span, zone.span.start);
        if span.managed != Frames(frames) || span.spanned != span.managed || !first.0.is_multiple_of(ALIGNED)
        {
            return Err(format!(
                "it is for {frames} frames without a gap from a multiple of {ALIGNED} on, and the allocator has {} of \
                 {} from {first}; make the state with another --memory",
                span.managed, span.spanned
            ));
        }
        if zone.free != span.managed {
            return Err(format!(
                "{} of the allocator's {frames} frames are free, and all must be",
                zone.free
            ));
        }
        let cx = Cx::on(CpuId(0));
        // Watermarks would keep the last frames back.
        let request = Request::new(Order::ZERO, Migratetype::Movable).with(RequestFlags::MEMALLOC);
        let mut got = vec![Pfn(0); frames as usize];
        let count = allocator.alloc_bulk(&cx, &request, &mut got);
        if count < got.len() {
            allocator.free_bulk(&cx, &got[..count], Order::ZERO, &mut |_, _| ());
            allocator.drain(CpuSet::All);
            return Err(format!("the allocator gave only {count} of its {frames} frames"));
        }
        Ok(Follower { allocator, cx, first, held: vec![true; frames as usize], unmovable: BTreeSet::new() })
    }

    /// Returns the frames of a range, if all of them are held on their own.
    fn range(&self, at: u64, frames: u64) -> Result<std::ops::Range<u64>, String> {
        let end = at.checked_add(frames).filter(|end| *end <= self.held.len() as u64);
        let end = end.ok_or_else(|| format!("there are no {frames} frames from {at}"))?;
        match (at..end).find(|at| !self.held[*at as usize]) {
            Some(at) => Err(format!("frame {at} is not held any more")),
            None => Ok(at..end),
        }
    }

    fn free(&mut self, at: u64) -> Result<(), String> {
        let freed = self.allocator.free(&self.cx, Pfn(self.first.0 + at), Order::ZERO);
        freed.map_err(|why| format!("frame {at}: {why}"))?;
        self.held[at as usize] = false;
        Ok(())
    }

    /// Frees the frames of a block and has an unmovable request take them: nothing else is free.
    fn place(&mut self, at: u64, order: u64) -> Result<(), String> {
        let order = u8::try_from(order).ok().and_then(Order::new).filter(|order| *order <= LARGEST);
        let order = order.ok_or_else(|| format!("blocks are placed up to order {LARGEST}"))?;
        if !Pfn(at).is_aligned(order) {
            return Err(format!("no block of order {order} begins at frame {at}"));
        }
        let block = self.range(at, order.frames().0)?;
        block.clone().try_for_each(|at| self.free(at))?;
        let request = Request::new(order, Migratetype::Unmovable).with(RequestFlags::MEMALLOC);
        let ask = || self.allocator.alloc(&self.cx, &request);
        // The frames may still lie in a CPU's list of the other type.
        let got = ask().or_else(|_| {
            self.allocator.drain(CpuSet::All);
            ask()
        });
        let got = got.map_err(|why| format!("no block of order {order} at frame {at}: {why}"))?;
        if got != Pfn(self.first.0 + at) {
            return Err(format!("the allocator gave frame {got} where only frame {at} of the list was free"));
        }
        self.unmovable.extend(block);
        Ok(())
    }
}
