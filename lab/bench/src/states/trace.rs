//! Memory as a recording: every engine, and a kernel in a guest, opens in it. Nothing happens in it, unless it has the
//! load that followed on a recorded host.

use super::degree::Measured;
use super::load::Load;
use super::memory::{BLOCK, Content, FIRST, Memory};
use crate::error::BenchError;
use fastrand::Rng;
use pageyard::proctext::{Buddyinfo, Pagetypeinfo, Vmstat, Zoneinfo};
use pageyard::{
    CpuId, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, PageAllocator, PageblockId, Pfn, Region,
    ZoneKind, block,
};
use pageyard_linux::{Config, LinuxAllocator};
use pageyard_trace::{FrameKind, FreeBlock, Meta, ProcTexts, Snapshot, Trace, TraceWriter};
use std::path::Path;

/// CPUs of the host that the recording describes; their lists are empty.
const CPUS: u32 = 2;

/// The largest block of the buddy system, and the largest that is claimed at once: a whole pageblock would change type.
const LARGEST: Order = Order::of(10);
const CLAIMED: Order = Order::of(8);

/// A state as a recording.
#[derive(Debug)]
pub struct StateTrace {
    snapshot: Snapshot,
    texts: ProcTexts,
    free_lists: Vec<FreeBlock>,
}

impl StateTrace {
    /// Brings the reference into the state, for the texts of `/proc`, and puts free blocks onto their lists in an order
    /// that the seed decides.
    ///
    /// # Errors
    /// [`BenchError::State`] where the reference refuses a block.
    pub fn of(memory: &Memory, seed: u64) -> Result<StateTrace, BenchError> {
        let fail = |what: &dyn std::fmt::Display| BenchError::State {
            why: format!("the reference cannot be brought into the state: {what}"),
        };
        let snapshot = memory.snapshot();
        let regions = [Region::managed(FIRST, memory.frames(), NodeId(0), ZoneKind::Normal)];
        let map = MemoryMap::new(&regions).map_err(|why| fail(&why))?;
        let config = Config { cpus: CPUS, ..Config::linux_6_18() };
        let engine = LinuxAllocator::new(&map, &config).map_err(|why| fail(&why))?;
        let types: Vec<Migratetype> = memory.pageblocks().map(type_of).collect();
        let first = FIRST.pageblock().0;
        for (at, m) in (first..).zip(&types).filter(|(_, m)| **m != Migratetype::Movable) {
            engine.set_pageblock_migratetype(PageblockId(at), *m);
        }
        let mut free_lists = Vec::new();
        for (at, frames, requested) in memory.runs(Content::requested_as) {
            let start = Pfn(FIRST.0 + at);
            let limit = if requested.is_some() { CLAIMED } else { LARGEST };
            for b in block::blocks(start, Frames(frames), limit) {
                match requested {
                    Some(m) => {
                        engine.claim_exact(&Cx::on(CpuId(0)), b.pfn, b.order, m).map_err(|why| fail(&why))?
                    }
                    None => {
                        let m = types[((b.pfn.0 - FIRST.0) / BLOCK) as usize];
                        let (pfn, order, migratetype) = (b.pfn.0, b.order.get(), m.index() as i8);
                        free_lists.push(FreeBlock { pfn, order, migratetype, cpu: None });
                    }
                }
            }
        }
        Rng::with_seed(seed).shuffle(&mut free_lists);
        free_lists.sort_by_key(|block| (block.migratetype, block.order));
        let texts = ProcTexts {
            buddyinfo: Buddyinfo(&engine).to_string(),
            pagetypeinfo: Pagetypeinfo(&engine).to_string(),
            zoneinfo: Zoneinfo(&engine).to_string(),
            vmstat: Vmstat(&engine).to_string(),
        };
        Ok(StateTrace { snapshot, texts, free_lists })
    }

    /// Measures how fragmented it is: the reference's text and the snapshot, by what measures any recording.
    ///
    /// # Errors
    /// As [`Measured::of`].
    pub fn measure(&self) -> Result<Measured, BenchError> {
        Measured::of(&self.snapshot, &self.texts.buddyinfo)
    }

    /// Writes the recording, with the load that followed if there is one. `title` stands where others name a kernel.
    ///
    /// # Errors
    /// [`BenchError::Trace`].
    pub fn write(&self, path: &Path, title: &str, load: Option<&Load<'_>>) -> Result<Trace, BenchError> {
        let mut writer = TraceWriter::create(path)?;
        writer.free_lists(&self.free_lists)?;
        let kernel = format!("no kernel: the state {title}");
        let mut meta = Meta { kernel, before: Some(self.texts.clone()), ..Meta::new(CPUS) };
        if let Some(load) = load {
            load.write(&mut writer)?;
            meta = load.meta(meta);
        }
        Ok(writer.finish(meta, Some(&self.snapshot), None)?)
    }
}

/// Returns the type that a pageblock has once an unmovable request has fallen back to it.
///
/// # Linux
/// `try_to_claim_block`: the pageblock changes its type where at least half of it is free or unmovable.
fn type_of(pageblock: &[Content]) -> Migratetype {
    let unmovable = pageblock.iter().filter(|f| f.requested_as() == Some(Migratetype::Unmovable)).count();
    let free = pageblock.iter().filter(|f| f.kind == FrameKind::Free).count();
    let changes = unmovable > 0 && unmovable + free >= pageblock.len() / 2;
    if changes { Migratetype::Unmovable } else { Migratetype::Movable }
}
