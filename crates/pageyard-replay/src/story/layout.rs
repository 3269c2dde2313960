//! How a story numbers pageblocks: from 0 through all zones, those without a frame left out.

use super::class::BLOCK;
use crate::machine::Machine;
use pageyard::{MemoryMap, PageblockId, Region};

/// The number of a pageblock that has none.
const NONE: u32 = u32::MAX;

/// A zone's pageblocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZonePart {
    /// The zone's name.
    pub name: &'static str,
    /// The NUMA node.
    pub node: u8,
    /// The number of its first pageblock.
    pub first: u32,
    /// How many it has. A pageblock that two zones share is the lower one's.
    pub pageblocks: u32,
}

/// Numbered pageblocks, and the frames that they begin at.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The zones, lowest first.
    pub zones: Vec<ZonePart>,
    /// The first frame of each pageblock.
    pub starts: Vec<u64>,
    /// By pageblock of physical memory: its number, or [`NONE`].
    numbers: Vec<u32>,
    /// By number: the pageblock with which it makes a block of the largest order, or [`NONE`].
    buddies: Vec<u32>,
    /// The frame after the last one.
    pub end: u64,
}

impl Layout {
    /// Numbers the pageblocks of a machine that have at least one frame for an allocator.
    pub fn new(machine: &Machine, regions: &[Region], map: &MemoryMap<'_>) -> Layout {
        let end = machine.end().0;
        let mut managed = vec![false; end.div_ceil(BLOCK) as usize];
        for region in regions.iter().filter(|r| r.managed) {
            let blocks = region.start.0 / BLOCK..region.end().0.div_ceil(BLOCK);
            managed[blocks.start as usize..blocks.end as usize].fill(true);
        }
        let mut layout = Layout {
            zones: Vec::new(),
            starts: Vec::new(),
            numbers: vec![NONE; managed.len()],
            buddies: Vec::new(),
            end,
        };
        for (_, span) in map.zones() {
            let first = layout.starts.len() as u32;
            for block in span.start.0 / BLOCK..span.end().0.min(end).div_ceil(BLOCK) {
                let number = &mut layout.numbers[block as usize];
                if managed[block as usize] && *number == NONE {
                    *number = layout.starts.len() as u32;
                    layout.starts.push(block * BLOCK);
                }
            }
            let pageblocks = layout.starts.len() as u32 - first;
            if pageblocks > 0 {
                let (name, node) = (span.kind.name(), span.node.0);
                layout.zones.push(ZonePart { name, node, first, pageblocks });
            }
        }
        // A block does not cross a zone.
        let zone = |n: u32| layout.zones.iter().position(|z| (z.first..z.first + z.pageblocks).contains(&n));
        let buddies = (0..).zip(&layout.starts).map(|(n, start)| {
            let buddy = layout.numbers.get((start / BLOCK) as usize ^ 1).copied().unwrap_or(NONE);
            if buddy != NONE && zone(buddy) == zone(n) { buddy } else { NONE }
        });
        layout.buddies = buddies.collect();
        layout
    }

    /// Returns the pageblock with which one makes a block of the largest order.
    #[inline]
    pub fn buddy(&self, number: usize) -> Option<usize> {
        let buddy = self.buddies[number];
        (buddy != NONE).then_some(buddy as usize)
    }

    /// Returns how many pageblocks are numbered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Returns the number of the pageblock that a frame is in.
    #[inline]
    pub fn number(&self, pfn: u64) -> Option<usize> {
        let number = *self.numbers.get((pfn / BLOCK) as usize)?;
        (number != NONE).then_some(number as usize)
    }

    /// Returns which pageblock of physical memory has a number.
    pub fn id(&self, number: usize) -> PageblockId {
        PageblockId(self.starts[number] / BLOCK)
    }

    /// Iterates over runs of pageblocks that are neighbours in memory: the first number, how many, and the first frame.
    pub fn ranges(&self) -> impl Iterator<Item = (u32, u32, u64)> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let first = at;
            let start = *self.starts.get(first)?;
            while self.starts.get(at) == Some(&(start + (at - first) as u64 * BLOCK)) {
                at += 1;
            }
            Some((first as u32, (at - first) as u32, start))
        })
    }
}
