//! The naive model: one state a frame, and nothing else.

use crate::engine::Verdict;
use pageyard::block;
use pageyard::{
    CpuId, Frames, MemoryMap, NR_ORDERS, NodeId, Order, Pfn, Request, ZoneId, ZoneKind, ZoneSpan,
};

/// The state of one frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame {
    /// Not the allocator's.
    Hole,
    /// Free in its zone, or in some CPU's list: the model does not distinguish.
    Free,
    /// The first frame of a block that a caller holds.
    Head(Order),
    /// Another frame of such a block.
    Tail,
}

/// One zone: its frames, and how many of them are not held.
#[derive(Clone, Debug)]
pub struct Zone {
    /// Its number.
    pub id: ZoneId,
    /// Where it lies.
    pub span: ZoneSpan,
    /// Frames that no caller holds.
    pub unallocated: Frames,
    frames: Vec<Frame>,
    runs: Vec<(Pfn, Frames)>,
}

impl Zone {
    fn new(map: &MemoryMap<'_>, id: ZoneId, span: ZoneSpan) -> Zone {
        let mut frames = vec![Frame::Hole; span.spanned.0 as usize];
        let mut runs: Vec<(Pfn, Frames)> = Vec::new();
        for r in map.regions().filter(|r| r.managed && span.spans(r.start)) {
            let at = (r.start - span.start).0 as usize;
            frames[at..at + r.frames.0 as usize].fill(Frame::Free);
            match runs.last_mut() {
                Some((start, length)) if *start + *length == r.start => *length += r.frames,
                _ => runs.push((r.start, r.frames)),
            }
        }
        Zone { id, span, unallocated: span.managed, frames, runs }
    }

    /// Returns a frame's state; beyond the zone everything is a hole.
    #[must_use]
    pub fn frame(&self, pfn: Pfn) -> Frame {
        if self.span.spans(pfn) { self.frames[(pfn - self.span.start).0 as usize] } else { Frame::Hole }
    }

    fn block(&self, pfn: Pfn, order: Order) -> &[Frame] {
        let at = (pfn - self.span.start).0 as usize;
        &self.frames[at..at + order.frames().0 as usize]
    }

    fn block_mut(&mut self, pfn: Pfn, order: Order) -> &mut [Frame] {
        let at = (pfn - self.span.start).0 as usize;
        &mut self.frames[at..at + order.frames().0 as usize]
    }

    /// Returns whether the zone's span has room for a whole block at `pfn`.
    fn spans_block(&self, pfn: Pfn, order: Order) -> bool {
        self.span.spans(pfn) && order.frames().0 <= (self.span.end() - pfn).0
    }

    /// Iterates over the aligned blocks of `order` of which no frame is held.
    pub fn fitting(&self, order: Order) -> impl Iterator<Item = Pfn> + '_ {
        let free = |block: &&[Frame]| block.iter().all(|f| *f == Frame::Free);
        self.blocks(order).filter(move |(_, block)| free(block)).map(|(pfn, _)| pfn)
    }

    /// Iterates over the aligned blocks of `order` that the zone's managed frames contain, held or not.
    pub fn aligned(&self, order: Order) -> impl Iterator<Item = Pfn> + '_ {
        self.blocks(order).map(|(pfn, _)| pfn)
    }

    fn blocks(&self, order: Order) -> impl Iterator<Item = (Pfn, &[Frame])> {
        let size = order.frames().0;
        self.runs.iter().flat_map(move |(start, length)| {
            let first = start.align_up(order).0;
            let at = |pfn: u64| (pfn - self.span.start.0) as usize;
            let frames = self.frames.get(at(first)..at(start.0 + length.0)).unwrap_or_default();
            (first..).step_by(size as usize).map(Pfn).zip(frames.chunks_exact(size as usize))
        })
    }

    /// Returns how many blocks of each order the zone's frames make when all are free and merged.
    #[must_use]
    pub fn merged(&self, largest: Order) -> [u64; NR_ORDERS] {
        let mut count = [0; NR_ORDERS];
        for (start, length) in &self.runs {
            for b in block::blocks(*start, *length, largest) {
                count[b.order.index()] += 1;
            }
        }
        count
    }

    /// Returns how many pageblocks hold managed frames, and how many the span touches.
    #[must_use]
    pub fn pageblocks(&self) -> (u64, u64) {
        let last = |end: Pfn| Pfn(end.0 - 1).pageblock().0;
        let mut managed = 0;
        let mut next = 0;
        for (start, length) in &self.runs {
            let first = start.pageblock().0.max(next);
            next = last(*start + *length) + 1;
            managed += next - first;
        }
        (managed, last(self.span.end()) + 1 - self.span.start.pageblock().0)
    }
}

/// A machine as the caller sees it: who holds what.
#[derive(Clone, Debug)]
pub struct Naive {
    zones: Vec<Zone>,
    /// The engine's CPUs.
    pub cpus: u32,
    /// The largest order it serves.
    pub largest: Order,
    /// As [`Build::strands_reserved_blocks`](crate::Build::strands_reserved_blocks) says.
    pub strands: bool,
    /// Frames that it manages.
    pub managed: Frames,
    /// Frames that callers hold.
    pub allocated: Frames,
}

impl Naive {
    /// Makes a machine in which every managed frame is free.
    #[must_use]
    pub fn new(map: &MemoryMap<'_>, cpus: u32, largest: Order) -> Naive {
        let zones: Vec<Zone> = map.zones().map(|(id, span)| Zone::new(map, id, span)).collect();
        let managed = zones.iter().map(|z| z.span.managed).sum();
        Naive { zones, cpus, largest, strands: false, managed, allocated: Frames::ZERO }
    }

    /// Returns the zones, lowest frames first.
    #[must_use]
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// Returns the zone whose span holds `pfn`.
    #[must_use]
    pub fn zone(&self, pfn: Pfn) -> Option<&Zone> {
        self.zones.iter().find(|z| z.span.spans(pfn))
    }

    fn zone_mut(&mut self, pfn: Pfn) -> Option<&mut Zone> {
        self.zones.iter_mut().find(|z| z.span.spans(pfn))
    }

    /// Returns a frame's state; what is outside every zone is a hole.
    #[must_use]
    pub fn frame(&self, pfn: Pfn) -> Frame {
        self.zone(pfn).map_or(Frame::Hole, |z| z.frame(pfn))
    }

    /// Returns the first frame after the last zone.
    #[must_use]
    pub fn end(&self) -> Pfn {
        self.zones.last().map_or(Pfn(0), |z| z.span.end())
    }

    /// Returns whether the instance has this CPU.
    #[must_use]
    pub fn has_cpu(&self, cpu: CpuId) -> bool {
        cpu.0 < self.cpus
    }

    /// Returns whether `zone` may serve `request`.
    ///
    /// `THIS_NODE` does not count here: only the engine knows which node of several is the first.
    #[must_use]
    pub fn allows(&self, request: &Request, zone: &Zone) -> bool {
        let kind = zone.span.kind;
        let device_meant = kind != ZoneKind::Device || request.highest_zone == ZoneKind::Device;
        kind <= request.highest_zone && device_meant && request.nodes.allows(zone.span.node)
    }

    /// Returns the nodes of the machine that `request` allows, in the order of their zones.
    #[must_use]
    pub fn nodes(&self, request: &Request) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.zones.iter().map(|z| z.span.node).collect();
        nodes.dedup();
        nodes.retain(|n| request.nodes.allows(*n));
        nodes
    }

    /// Iterates over the zones that may serve `request`.
    pub fn allowed<'a>(&'a self, request: &'a Request) -> impl Iterator<Item = &'a Zone> {
        self.zones.iter().filter(move |z| self.allows(request, z))
    }

    /// Returns the block that holds the frame, if a caller holds it.
    #[must_use]
    pub fn holder(&self, pfn: Pfn) -> Option<pageyard::BlockId> {
        block::holders(pfn, Order::MAX).find(|b| self.frame(b.pfn) == Frame::Head(b.order))
    }

    /// Returns whether the block lies within the managed frames of one zone.
    #[must_use]
    pub fn contains(&self, pfn: Pfn, order: Order) -> bool {
        self.zone(pfn)
            .is_some_and(|z| z.spans_block(pfn, order) && !z.block(pfn, order).contains(&Frame::Hole))
    }

    /// Returns whether the block lies within one zone and no frame of it is held.
    #[must_use]
    pub fn is_free(&self, pfn: Pfn, order: Order) -> bool {
        self.zone(pfn).is_some_and(|z| {
            z.spans_block(pfn, order) && z.block(pfn, order).iter().all(|f| *f == Frame::Free)
        })
    }

    /// Gives a block to the caller.
    ///
    /// # Errors
    /// Says why it is not a free block: misaligned, outside a zone's managed frames, or already held.
    pub fn take(&mut self, pfn: Pfn, order: Order) -> Verdict {
        if !pfn.is_aligned(order) {
            return Err(format!("frame {pfn} is not aligned to order {order}"));
        }
        if !self.is_free(pfn, order) {
            let held = (0..order.frames().0)
                .map_while(|n| pfn.0.checked_add(n).map(Pfn))
                .find(|p| self.frame(*p) != Frame::Free)
                .map(|p| (p, self.frame(p), self.holder(p)));
            return Err(format!("the block of order {order} at frame {pfn} is not free: {held:?}"));
        }
        let zone = self.zone_mut(pfn).expect("checked above");
        let block = zone.block_mut(pfn, order);
        block[0] = Frame::Head(order);
        block[1..].fill(Frame::Tail);
        zone.unallocated -= order.frames();
        self.allocated += order.frames();
        Ok(())
    }

    /// Takes a block of exactly this order back.
    ///
    /// # Panics
    /// When no caller holds it: the engine's answer must have been judged before.
    pub fn give(&mut self, pfn: Pfn, order: Order) {
        let zone = self.zone_mut(pfn).expect("a held block lies in a zone");
        let block = zone.block_mut(pfn, order);
        assert_eq!(block[0], Frame::Head(order), "the model holds no such block at {pfn}");
        block.fill(Frame::Free);
        zone.unallocated += order.frames();
        self.allocated -= order.frames();
    }

    /// Cuts a held block into held blocks of order `to`.
    ///
    /// # Panics
    /// When no caller holds it.
    pub fn split(&mut self, pfn: Pfn, from: Order, to: Order) {
        let zone = self.zone_mut(pfn).expect("a held block lies in a zone");
        let block = zone.block_mut(pfn, from);
        assert_eq!(block[0], Frame::Head(from), "the model holds no such block at {pfn}");
        for head in block.iter_mut().step_by(to.frames().0 as usize) {
            *head = Frame::Head(to);
        }
    }
}
