//! Per-CPU lists, where the recording has them in their order.
//!
//! They were read just before the first row. A block that left its list in between has a row that frees it before any
//! other names it, or is not held in the snapshot; one that came to a list meanwhile is known by its first row alone.

use super::parts::Cached;
use super::{Machine, Start};
use crate::bitmap::FrameSet;
use pageyard::{CpuId, Frames, Migratetype, Order, Pfn};
use pageyard_trace::FreeBlock;
use std::collections::{HashMap, HashSet};

/// The recorded blocks of per-CPU lists.
pub(super) struct Listed {
    /// The first ones of all lists, then the second ones, and so on.
    blocks: Vec<Cached>,
    cpus: HashMap<(Pfn, Order), CpuId>,
    /// Frames whose first row frees them.
    freed: FrameSet,
}

impl Listed {
    /// Takes in the blocks of a recording that were on a CPU's list; `end` is that of the memory map.
    pub fn new(blocks: &[FreeBlock], end: Pfn) -> Listed {
        let mut lengths = HashMap::new();
        let mut placed: Vec<(u32, Cached)> = Vec::new();
        for block in blocks.iter().filter(|block| block.pfn + (1 << block.order) <= end.0) {
            let (Some(cpu), Some(order)) = (block.cpu, Order::new(block.order)) else { continue };
            let m = u8::try_from(block.migratetype).ok().and_then(Migratetype::from_index);
            let Some(migratetype) = m.filter(|m| m.is_requested()) else { continue };
            let length = lengths.entry((cpu, order, migratetype)).or_insert(0);
            placed.push((*length, Cached { cpu: CpuId(cpu), pfn: Pfn(block.pfn), order, migratetype }));
            *length += 1;
        }
        placed.sort_by_key(|(place, _)| *place);
        let blocks: Vec<Cached> = placed.into_iter().map(|(_, block)| block).collect();
        let cpus = blocks.iter().map(|c| ((c.pfn, c.order), c.cpu)).collect();
        // Without lists, it costs nothing.
        let freed = FrameSet::new(if blocks.is_empty() { Pfn(0) } else { end });
        Listed { blocks, cpus, freed }
    }

    /// Notes that the first row of a block frees it.
    pub fn freed(&mut self, pfn: Pfn, frames: Frames) {
        if !self.blocks.is_empty() {
            self.freed.insert(pfn, frames);
        }
    }

    /// Returns the CPU on whose list a block was.
    pub fn cpu_of(&self, block: &Cached) -> Option<CpuId> {
        self.cpus.get(&(block.pfn, block.order)).copied()
    }

    /// Returns the blocks that were still on their lists when the recording began: those that rows take out,
    /// `by_row`, and those that no row names and that nobody uses in the snapshot.
    pub fn found(&self, machine: &mut Machine, by_row: &HashSet<(Pfn, Order)>) -> Vec<Cached> {
        let mut found = Vec::new();
        for block in &self.blocks {
            let (pfn, frames) = (block.pfn, block.order.frames());
            let is_quiet = || {
                (pfn.0..pfn.0 + frames.0).all(|f| machine.at(f) == Start::Held)
                    && machine.all_unknown(pfn, frames)
                    && self.freed.count(pfn, frames) == 0
            };
            if by_row.contains(&(pfn, block.order)) {
                found.push(*block);
            } else if is_quiet() {
                machine.set(pfn, frames, Start::Cached);
                found.push(*block);
            }
        }
        found
    }
}
