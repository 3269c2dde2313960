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

/// A machine whose pageblocks are to be numbered.
#[derive(Clone, Copy)]
pub struct Numbered<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// Its memory.
    pub regions: &'a [Region],
    /// Its zones.
    pub map: &'a MemoryMap<'a>,
}

/// A zone's name and its node.
type ZoneName = (&'static str, u8);

impl Numbered<'_> {
    /// Returns the zone of each pageblock that has at least one frame for an allocator.
    fn zones(&self) -> (Vec<ZoneName>, Vec<Option<ZoneName>>) {
        let end = self.machine.end().0;
        let mut managed = vec![false; end.div_ceil(BLOCK) as usize];
        for region in self.regions.iter().filter(|r| r.managed) {
            let blocks = region.start.0 / BLOCK..region.end().0.div_ceil(BLOCK);
            managed[blocks.start as usize..blocks.end as usize].fill(true);
        }
        let mut zones = Vec::new();
        let mut of = vec![None; managed.len()];
        for (_, span) in self.map.zones() {
            let zone = (span.kind.name(), span.node.0);
            zones.push(zone);
            let blocks = (span.start.0 / BLOCK) as usize..span.end().0.min(end).div_ceil(BLOCK) as usize;
            for (of, _) in
                of[blocks.clone()].iter_mut().zip(&managed[blocks]).filter(|(_, managed)| **managed)
            {
                of.get_or_insert(zone);
            }
        }
        (zones, of)
    }
}

/// Returns the zone of each pageblock that at least one of two machines has.
fn joined(
    mut of: Vec<Option<ZoneName>>,
    others: &[Option<ZoneName>],
) -> Result<Vec<Option<ZoneName>>, String> {
    of.resize(of.len().max(others.len()), None);
    for (block, (of, other)) in of.iter_mut().zip(others).enumerate() {
        match (*of, *other) {
            (Some(a), Some(b)) if a != b => {
                let name = |(zone, node): ZoneName| format!("zone {zone} of node {node}");
                return Err(format!("pageblock {block} is in {} there and in {} here", name(a), name(b)));
            }
            _ => *of = of.or(*other),
        }
    }
    Ok(of)
}

impl Layout {
    /// Numbers the pageblocks of a machine that have at least one frame for an allocator.
    pub fn new(machine: Numbered<'_>) -> Layout {
        let (zones, of) = machine.zones();
        Layout::numbered(&zones, &of, machine.machine.end().0)
    }

    /// Numbers the pageblocks that at least one of two machines has.
    ///
    /// # Errors
    /// A sentence, where a pageblock is in one zone on the first and in another on the second.
    pub fn of_both(first: Numbered<'_>, second: Numbered<'_>) -> Result<Layout, String> {
        let ((mut zones, of), (more, others)) = (first.zones(), second.zones());
        let more: Vec<ZoneName> = more.into_iter().filter(|zone| !zones.contains(zone)).collect();
        zones.extend(more);
        let of = joined(of, &others)?;
        Ok(Layout::numbered(&zones, &of, first.machine.end().0.max(second.machine.end().0)))
    }

    /// Numbers pageblocks, of each of which the zone is known.
    fn numbered(zones: &[ZoneName], of: &[Option<ZoneName>], end: u64) -> Layout {
        let mut layout = Layout {
            zones: Vec::new(),
            starts: Vec::new(),
            numbers: vec![NONE; of.len()],
            buddies: Vec::new(),
            end,
        };
        for &(name, node) in zones {
            let first = layout.starts.len() as u32;
            for (block, _) in of.iter().enumerate().filter(|(_, of)| **of == Some((name, node))) {
                layout.numbers[block] = layout.starts.len() as u32;
                layout.starts.push(block as u64 * BLOCK);
            }
            let pageblocks = layout.starts.len() as u32 - first;
            if pageblocks > 0 {
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

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: ZoneName = ("DMA32", 0);
    const HIGH: ZoneName = ("Normal", 0);

    #[test]
    fn pageblocks_are_numbered_zone_by_zone_and_holes_have_no_number() {
        let of = [Some(LOW), None, Some(LOW), Some(HIGH), Some(HIGH)];
        let layout = Layout::numbered(&[LOW, HIGH], &of, 5 * BLOCK);
        assert_eq!(layout.starts, [0, 2, 3, 4].map(|block| block * BLOCK));
        assert_eq!(layout.number(BLOCK), None);
        assert_eq!(
            layout.zones.iter().map(|z| (z.first, z.pageblocks)).collect::<Vec<_>>(),
            [(0, 2), (2, 2)]
        );
        // Numbers 1 and 2 are neighbours in memory, in two zones.
        assert_eq!([0, 1, 2, 3].map(|n| layout.buddy(n)), [None, None, None, None]);
    }

    #[test]
    fn two_machines_have_the_pageblocks_of_either_and_no_zone_twice() {
        let both = |first: &[Option<ZoneName>], second: &[Option<ZoneName>]| joined(first.to_vec(), second);
        assert_eq!(
            both(&[None, Some(LOW)], &[Some(LOW), Some(LOW), Some(HIGH)]),
            Ok(vec![Some(LOW), Some(LOW), Some(HIGH)])
        );
        assert_eq!(both(&[Some(LOW)], &[]), Ok(vec![Some(LOW)]));
        let error = both(&[Some(LOW), Some(HIGH)], &[Some(LOW), Some(LOW)]).unwrap_err();
        assert_eq!(error, "pageblock 1 is in zone Normal of node 0 there and in zone DMA32 of node 0 here");
    }
}
