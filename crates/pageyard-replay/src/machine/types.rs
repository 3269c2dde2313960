//! Which type each pageblock had when the recording began, which no snapshot says.
//!
//! A free list tells the type of its blocks, where the recording has it. A drain names the type of the pageblock, and
//! so does an allocation under the zone lock. A fallback may have changed it before: then the fallback's own row names
//! the type that it took from. The others follow from the counts of `pagetypeinfo`.

use super::parts::{KernelFrames, OpeningCounts};
use super::{Machine, Start, ZoneRecord};
use crate::bitmap::FrameSet;
use crate::by_number::ByNumber;
use crate::error::ReplayError;
use pageyard::{Migratetype, Order, PAGEBLOCK_ORDER, PageblockId, Pfn, block};
use pageyard_trace::proctext::{Pagetypeinfo, PagetypeinfoZone};
use pageyard_trace::{Event, EventKind, FreeBlock};
use std::cmp::Reverse;
use std::ops::Range;

/// The largest blocks of the recorded kernels: two pageblocks.
const LARGEST: Order = Order::of(10);

/// The types that pageblocks are asked for, movable ones apart: those are the rest.
const SPECIAL: [Migratetype; 2] = [Migratetype::Reclaimable, Migratetype::Unmovable];

/// The types that rows and free lists name.
pub(super) struct NamedTypes {
    types: Vec<Option<Migratetype>>,
    /// For each CPU, the pageblock whose first name the last row was.
    just_named: ByNumber<Option<usize>>,
    /// How many CPUs have one: mostly none, and nothing needs to be looked up.
    have_just_named: usize,
    /// The first pageblocks of blocks of two that were free in the snapshot: both are on one list, so they have one
    /// type.
    pairs: Vec<bool>,
}

impl NamedTypes {
    pub fn new(machine: &Machine) -> NamedTypes {
        let all = (machine.end().0 as usize).div_ceil(512);
        let mut pairs = vec![false; all];
        for (pfn, order) in machine.zones.iter().flat_map(|zone| machine.free_pageblocks(zone)) {
            pairs[pfn.pageblock().index()] = order == LARGEST;
        }
        NamedTypes { types: vec![None; all], just_named: ByNumber::default(), have_just_named: 0, pairs }
    }

    /// Names the pageblocks of blocks by the free lists that they were on. Since 6.10 a list holds blocks of its own
    /// type alone, and before nearly so.
    pub fn listed<'b>(&mut self, blocks: impl Iterator<Item = &'b FreeBlock>) {
        for block in blocks {
            let (first, last) = (Pfn(block.pfn), Pfn(block.pfn + (1 << block.order) - 1));
            let m = u8::try_from(block.migratetype).ok().and_then(Migratetype::from_index);
            for at in first.pageblock().index()..=last.pageblock().index() {
                if self.types.get(at).is_some_and(Option::is_none) {
                    self.name(at, m.filter(|m| *m <= Migratetype::HighAtomic));
                }
            }
        }
    }

    /// Returns each pageblock's type, where a row or a free list named it.
    pub fn found(&self) -> &[Option<Migratetype>] {
        &self.types
    }

    /// Reads what a row says of the type `m`. Its block lies within the memory map.
    pub fn event(&mut self, event: &Event, m: Option<Migratetype>) {
        let at = Pfn(event.pfn).pageblock().index();
        let just_named = match self.have_just_named {
            0 => None,
            _ => self.just_named.of(event.cpu).take(),
        };
        self.have_just_named -= usize::from(just_named.is_some());
        match event.kind {
            EventKind::PcpuDrain | EventKind::AllocZoneLocked => {
                if self.types[at].is_none() {
                    *self.just_named.of(event.cpu) = Some(at);
                    self.have_just_named += 1;
                    self.name(at, m);
                }
            }
            EventKind::AllocExtfrag => self.fallback(event, just_named),
            EventKind::Alloc | EventKind::Free => {}
        }
    }

    /// # Linux
    /// `mm_page_alloc_extfrag`. From 6.12 on the row of the block that is taken can come first: it names the type that
    /// the pageblock has since.
    fn fallback(&mut self, event: &Event, just_named: Option<usize>) {
        let order = Order::new((event.gfp >> 8) as u8).unwrap_or_default();
        let Some(from) = Migratetype::from_index(event.gfp as u8) else { return };
        let start = Pfn(event.pfn & !(order.frames().0 - 1)).pageblock().index();
        let end = start + (order.frames().0 >> PAGEBLOCK_ORDER.get()).max(1) as usize;
        for at in start..end.min(self.types.len()) {
            if just_named.is_some_and(|named| self.pair_of(named) == self.pair_of(at)) {
                self.types[at] = None;
            }
            if self.types[at].is_none() {
                self.name(at, Some(from));
            }
        }
    }

    /// Returns the first of the pageblocks that have one type with this one.
    fn pair_of(&self, at: usize) -> usize {
        if self.pairs[at & !1] { at & !1 } else { at }
    }

    /// Names a pageblock, and the one that was one free block with it unless that has a name.
    fn name(&mut self, at: usize, m: Option<Migratetype>) {
        self.types[at] = m;
        let other = at ^ 1;
        if self.pairs[at & !1]
            && let Some(slot @ None) = self.types.get_mut(other)
        {
            *slot = m;
        }
    }
}

impl Machine {
    /// Gives every pageblock a type: the one that a row names, or, to make up the counts of `pagetypeinfo`, the one
    /// that free blocks of its size have there, or that its contents suggest. `touched` are the frames of all rows.
    pub(super) fn pageblock_types(
        &self,
        named: &[Option<Migratetype>],
        touched: &FrameSet,
        counts: &mut OpeningCounts,
    ) -> Result<Vec<Option<Migratetype>>, ReplayError> {
        let mut types = named.to_vec();
        counts.types_by_event = named.iter().flatten().count() as u64;
        let texts = self.trace.meta().before.as_ref();
        let Some(info) = texts.map(|t| Pagetypeinfo::parse(&t.pagetypeinfo)).transpose()? else {
            return Ok(types);
        };
        for zone in &self.zones {
            let of_zone = |z: &&PagetypeinfoZone| z.node == zone.node.0 && z.name == zone.kind.name();
            let Some(recorded) = info.zones.iter().find(of_zone) else { continue };
            self.types_of_free(zone, recorded, &mut types, touched, counts);
            self.types_by_contents(zone, recorded, &mut types, counts);
        }
        Ok(types)
    }

    /// Returns how many pageblocks of a zone have a type beyond those that are known.
    fn missing(
        zone: &ZoneRecord,
        recorded: &PagetypeinfoZone,
        types: &[Option<Migratetype>],
        m: Migratetype,
    ) -> u64 {
        let known = pageblocks(zone).filter(|b| types[*b] == Some(m)).count() as u64;
        recorded.blocks.get(m.name()).copied().unwrap_or(0).saturating_sub(known)
    }

    /// Iterates over a zone's free blocks of whole pageblocks.
    fn free_pageblocks(&self, zone: &ZoneRecord) -> impl Iterator<Item = (Pfn, Order)> {
        let free = self.runs(zone.start, zone.end, |s| s == Start::Free).filter(|(_, _, is_free)| *is_free);
        free.flat_map(|(start, frames, _)| block::blocks(start, frames, LARGEST))
            .map(|b| (b.pfn, b.order))
            .filter(|(_, order)| *order >= PAGEBLOCK_ORDER)
    }

    /// Types whole free pageblocks: `pagetypeinfo` counts the free blocks of each type and order. Those come first that
    /// no row names: the others would have been named as what they are.
    fn types_of_free(
        &self,
        zone: &ZoneRecord,
        recorded: &PagetypeinfoZone,
        types: &mut [Option<Migratetype>],
        touched: &FrameSet,
        counts: &mut OpeningCounts,
    ) {
        let mut free: Vec<(Pfn, Order)> = self.free_pageblocks(zone).collect();
        free.sort_by_key(|(pfn, order)| (touched.count(*pfn, order.frames()) > 0, *pfn));
        for m in SPECIAL {
            let mut missing = Machine::missing(zone, recorded, types, m);
            for order in [LARGEST, PAGEBLOCK_ORDER] {
                let size = 1 << (order.get() - PAGEBLOCK_ORDER.get());
                let of_order =
                    || free.iter().filter(|(_, o)| *o == order).map(|(pfn, _)| pfn.pageblock().index());
                let known = of_order().filter(|at| types[*at] == Some(m)).count() as u64;
                let there = recorded.free.get(m.name()).and_then(|f| f.counts.get(order.index()).copied());
                let wanted = there.unwrap_or(0).saturating_sub(known).min(missing / size);
                let untyped: Vec<usize> = of_order()
                    .filter(|at| (*at..*at + size as usize).all(|b| types[b].is_none()))
                    .take(wanted as usize)
                    .collect();
                for at in untyped {
                    types[at..at + size as usize].fill(Some(m));
                    missing -= size;
                    counts.types_by_contents += size;
                }
            }
        }
    }

    /// Types pageblocks by what they hold, most slab first. Reclaimable memory is nearly all slab; what else the kernel
    /// holds is unmovable.
    fn types_by_contents(
        &self,
        zone: &ZoneRecord,
        recorded: &PagetypeinfoZone,
        types: &mut [Option<Migratetype>],
        counts: &mut OpeningCounts,
    ) {
        for m in SPECIAL {
            let frames = |k: &KernelFrames| match m {
                Migratetype::Reclaimable => k.slab,
                _ => k.slab + k.other,
            };
            let missing = Machine::missing(zone, recorded, types, m);
            let mut candidates: Vec<usize> = pageblocks(zone)
                .filter(|b| types[*b].is_none() && frames(&self.kernel_frames[*b]) > 0)
                .collect();
            candidates.sort_by_key(|b| (Reverse(frames(&self.kernel_frames[*b])), *b));
            for b in candidates.into_iter().take(missing as usize) {
                types[b] = Some(m);
                counts.types_by_contents += 1;
            }
        }
    }
}

/// Returns a zone's pageblocks.
fn pageblocks(zone: &ZoneRecord) -> Range<usize> {
    let after = Pfn(zone.end.0.next_multiple_of(PAGEBLOCK_ORDER.frames().0));
    PageblockId::index(zone.start.pageblock())..PageblockId::index(after.pageblock())
}
