//! The state of an allocator in every detail: lists in their order, and what each policy has seen. It is taken from one
//! allocator, or from a kernel, and given to another, which then does the same with the same requests. Layer: top.

use crate::allocator::LinuxAllocator;
use crate::config::Config;
use crate::freelist::End;
use crate::pcp::{Listed, Seen};
use crate::tag::{Holding, MAX_PAGE_ORDER, Tag};
use crate::zone::Zone;
use pageyard_core::{BlockId, Frames, Migratetype, Order, Pfn, ZoneId};
use std::fmt;

/// The state of all zones, in the order of their numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Opening {
    /// The zones.
    pub zones: Vec<ZoneOpening>,
}

/// The state of one zone. A managed frame that no list holds belongs to somebody.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ZoneOpening {
    /// The type of each pageblock, from the zone's first on.
    pub types: Vec<Migratetype>,
    /// The free lists that hold something, by order and then by type.
    pub free: Vec<FreeList>,
    /// Runs of frames that belong to somebody who can move them, in order: `PageLRU` and `__PageMovable` in Linux.
    pub movable: Vec<(Pfn, Frames)>,
    /// Blocks of several frames that belong to somebody as a whole: compound pages. Compaction passes over one at once.
    pub whole: Vec<BlockId>,
    /// The boost that fragmentation has added to the watermarks.
    pub boost: Frames,
    /// Frames of pageblocks set aside for high-order requests that cannot wait.
    pub reserved_highatomic: Frames,
    /// Whether the background reclaimer is at work: `ZONE_RECLAIM_ACTIVE`.
    pub reclaiming: bool,
    /// Whether the watermarks were raised since it was woken last: `ZONE_BOOSTED_WATERMARK`.
    pub boosted: bool,
    /// Whether the zone was last seen below its high watermark: `ZONE_BELOW_HIGH`.
    pub below_high: bool,
    /// Each CPU's pages.
    pub cpus: Vec<CpuOpening>,
}

/// A free list, head first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FreeList {
    /// The order of its blocks.
    pub order: Order,
    /// The list's type. Until 6.10 the types of its blocks' pageblocks may differ.
    pub migratetype: Migratetype,
    /// The first frame of each block.
    pub blocks: Vec<Pfn>,
}

/// One CPU's pages of one zone.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CpuOpening {
    /// The lists, next to be taken first: each block, and the type it was cached with.
    pub lists: Vec<Vec<(Pfn, Migratetype)>>,
    /// Above it they spill.
    pub high: u64,
    /// `free_factor` until 6.6, `alloc_factor` later.
    pub factor: u32,
    /// `free_count`.
    pub free_count: u64,
    /// `PCPF_PREV_FREE_HIGH_ORDER`.
    pub freed_high_order: bool,
}

/// Why a state is not one that this allocator can be in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OpeningError {
    /// Another number of zones, pageblocks, CPUs or lists.
    Shape {
        /// The zone.
        zone: ZoneId,
    },
    /// A block is not aligned to its order, or larger than blocks get.
    Misaligned {
        /// The zone.
        zone: ZoneId,
        /// The block.
        pfn: Pfn,
    },
    /// A frame of the block is not managed here.
    NotManaged {
        /// The zone.
        zone: ZoneId,
        /// The frame.
        pfn: Pfn,
    },
    /// A frame of the block is in two places.
    Twice {
        /// The zone.
        zone: ZoneId,
        /// The frame.
        pfn: Pfn,
    },
}

impl fmt::Display for OpeningError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpeningError::Shape { zone } => {
                write!(f, "zone {} has another number of pageblocks, CPUs or lists than the opening", zone.0)
            }
            OpeningError::Misaligned { zone, pfn } => {
                write!(
                    f,
                    "frame {} of zone {} begins no block of the order that the opening gives it",
                    pfn.0, zone.0
                )
            }
            OpeningError::NotManaged { zone, pfn } => {
                write!(f, "frame {} is in a list of zone {} and not managed there", pfn.0, zone.0)
            }
            OpeningError::Twice { zone, pfn } => {
                write!(f, "frame {} of zone {} is in two places", pfn.0, zone.0)
            }
        }
    }
}

impl std::error::Error for OpeningError {}

impl LinuxAllocator {
    /// Returns the state as it is. The allocator must not be in use meanwhile, or it is a state that never was.
    #[must_use]
    pub fn opening(&self) -> Opening {
        Opening { zones: self.zones.iter().map(|z| z.opening(&self.config)).collect() }
    }

    /// Tells `each` what every zone and every list counts, in the order in which the judge in a kernel does: of each
    /// zone its free frames, boost and reserve, whether the background reclaimer is at work, whether the watermarks
    /// were raised, and whether it was last seen below the high one; then of each CPU's lists the frames, `high`,
    /// `factor` and `free_count`; and of each node what its background reclaimer is to do next and what its compactor
    /// is to do: an order, and the highest kind of zone.
    pub fn counts(&self, mut each: impl FnMut(u64)) {
        for zone in &self.zones {
            let gauges = [zone.free.get(), zone.boost.get(), zone.reserved_highatomic.get()];
            let flags = [zone.reclaiming.get(), zone.boosted.get(), zone.below_high.get()];
            gauges.into_iter().chain(flags.map(u64::from)).for_each(&mut each);
            for slot in &zone.pcps {
                let pages = slot.lock();
                let seen = pages.policy.seen();
                [pages.lists.held(), seen.high, u64::from(seen.factor), seen.free_count]
                    .into_iter()
                    .for_each(&mut each);
            }
        }
        self.nodes.iter().for_each(|node| node.counts(&mut each));
    }

    /// Puts the allocator into a state. A block that was held is held no longer: each frame that no list has is one
    /// block of order 0 from now on. The allocator must not be in use meanwhile.
    ///
    /// # Errors
    /// [`OpeningError`]; the allocator is then in no useful state.
    pub fn open(&self, opening: &Opening) -> Result<(), OpeningError> {
        if opening.zones.len() != self.zones.len() {
            return Err(OpeningError::Shape { zone: ZoneId(opening.zones.len().min(self.zones.len()) as _) });
        }
        self.zones.iter().zip(&opening.zones).try_for_each(|(zone, state)| zone.open(state, &self.config))?;
        for node in &self.nodes {
            node.reset(node.zones().any(|place| self.zones[place].reclaiming.get()));
            self.spare(node);
        }
        Ok(())
    }
}

impl Zone {
    fn opening(&self, config: &Config) -> ZoneOpening {
        let locked = self.lock();
        let free = Order::ZERO.up_to(MAX_PAGE_ORDER).flat_map(|o| Migratetype::ALL.map(|m| (o, m)));
        let free = free
            .map(|(order, migratetype)| {
                let blocks = locked.inner.lists.iter(order, migratetype);
                let blocks = blocks.map(|frame| self.span.start + Frames(frame)).collect();
                FreeList { order, migratetype, blocks }
            })
            .filter(|list: &FreeList| !list.blocks.is_empty())
            .collect();
        let cpus = self.pcps.iter().map(|slot| {
            let pages = slot.lock();
            let block = |pfn| match self.tag(pfn) {
                Tag::Cached(_, with) if !config.keeps_lists_pure() => (pfn, with),
                _ => (pfn, self.pageblocks.type_of(pfn)),
            };
            let lists = (0..config.pcp_lists()).map(|l| pages.lists.list(l).map(block).collect()).collect();
            let Seen { high, factor, free_count, freed_high_order } = pages.policy.seen();
            CpuOpening { lists, high, factor, free_count, freed_high_order }
        });
        ZoneOpening {
            types: self.pageblocks.types().collect(),
            free,
            movable: self.movable_runs(),
            whole: self.whole_blocks(),
            boost: Frames(self.boost.get()),
            reserved_highatomic: Frames(self.reserved_highatomic.get()),
            reclaiming: self.reclaiming.get(),
            boosted: self.boosted.get(),
            below_high: self.below_high.get(),
            cpus: cpus.collect(),
        }
    }

    /// Returns the blocks of several frames that somebody holds as a whole.
    fn whole_blocks(&self) -> Vec<BlockId> {
        let mut blocks = Vec::new();
        let mut at = self.span.start;
        while at < self.span.end() {
            let tag = self.tag(at);
            if let Tag::Allocated(order, held) = tag
                && order > Order::ZERO
                && !held.loose
            {
                blocks.push(BlockId { pfn: at, order });
            }
            at = at + tag.frames();
        }
        blocks
    }

    /// Returns the runs of frames whose holders can move them.
    fn movable_runs(&self) -> Vec<(Pfn, Frames)> {
        let mut runs: Vec<(Pfn, Frames)> = Vec::new();
        let mut at = self.span.start;
        while at < self.span.end() {
            let tag = self.tag(at);
            if let Tag::Allocated(order, held) = tag
                && held.movable
            {
                match runs.last_mut() {
                    Some((start, frames)) if *start + *frames == at => *frames += order.frames(),
                    _ => runs.push((at, order.frames())),
                }
            }
            at = at + tag.frames();
        }
        runs
    }

    fn open(&self, state: &ZoneOpening, config: &Config) -> Result<(), OpeningError> {
        let shape = OpeningError::Shape { zone: self.id };
        if state.types.len() != self.pageblocks.types().count() || state.cpus.len() != self.pcps.len() {
            return Err(shape);
        }
        let mut locked = self.lock();
        locked.inner.lists.clear();
        self.owners.end_all();
        for frame in self.span.start.0..self.span.end().0 {
            if self.tag(Pfn(frame)) != Tag::Hole {
                self.set_tag(Pfn(frame), Tag::Allocated(Order::ZERO, Holding::FIXED));
            }
        }
        locked.forget_counts();
        for (n, m) in state.types.iter().enumerate() {
            self.pageblocks.set_nth_type(n, *m);
        }
        for list in &state.free {
            for pfn in &list.blocks {
                self.take_over_frames(*pfn, list.order)?;
                locked.insert(*pfn, list.order, list.migratetype, End::Tail);
            }
        }
        for (slot, cpu) in self.pcps.iter().zip(&state.cpus) {
            let mut pages = slot.lock();
            pages.lists.clear();
            pages.returned.clear();
            if cpu.lists.len() != config.pcp_lists() {
                return Err(shape);
            }
            for (list, blocks) in cpu.lists.iter().enumerate() {
                let order = config.pcp_order(list);
                for (pfn, m) in blocks {
                    self.take_over_frames(*pfn, order)?;
                    self.set_tag(*pfn, Tag::Cached(order, *m));
                    pages.lists.put(Listed { list, order }, *pfn, End::Tail);
                }
            }
            let CpuOpening { high, factor, free_count, freed_high_order, .. } = *cpu;
            pages.policy.set_seen(Seen { high, factor, free_count, freed_high_order });
        }
        for (start, frames) in &state.movable {
            for frame in start.0..start.0 + frames.0 {
                match self.tag(Pfn(frame)) {
                    Tag::Hole => return Err(OpeningError::NotManaged { zone: self.id, pfn: Pfn(frame) }),
                    Tag::Allocated(order, Holding::FIXED) => {
                        self.set_tag(Pfn(frame), Tag::Allocated(order, Holding::MOVABLE));
                    }
                    _ => return Err(OpeningError::Twice { zone: self.id, pfn: Pfn(frame) }),
                }
            }
        }
        for block in &state.whole {
            let first = self.tag(block.pfn);
            let Tag::Allocated(Order::ZERO, held) = first else {
                return Err(OpeningError::Twice { zone: self.id, pfn: block.pfn });
            };
            for frame in block.pfn.0..block.pfn.0 + block.order.frames().0 {
                if self.tag(Pfn(frame)) != first {
                    return Err(OpeningError::Twice { zone: self.id, pfn: Pfn(frame) });
                }
                self.set_tag(Pfn(frame), Tag::Inside);
            }
            self.set_tag(block.pfn, Tag::Allocated(block.order, held));
        }
        self.boost.set(state.boost.0);
        self.reserved_highatomic.set(state.reserved_highatomic.0);
        self.reclaiming.set(state.reclaiming);
        self.boosted.set(state.boosted);
        self.boosted_for_atomic.set(false);
        self.below_high.set(state.below_high);
        Ok(())
    }

    /// Marks the frames of a block as part of it, if no list has them yet.
    fn take_over_frames(&self, pfn: Pfn, order: Order) -> Result<(), OpeningError> {
        let zone = self.id;
        if order > MAX_PAGE_ORDER || !pfn.is_aligned(order) {
            return Err(OpeningError::Misaligned { zone, pfn });
        }
        for frame in pfn.0..pfn.0 + order.frames().0 {
            match self.tag(Pfn(frame)) {
                Tag::Allocated(Order::ZERO, Holding::FIXED) => self.set_tag(Pfn(frame), Tag::Inside),
                Tag::Hole => return Err(OpeningError::NotManaged { zone, pfn: Pfn(frame) }),
                _ => return Err(OpeningError::Twice { zone, pfn: Pfn(frame) }),
            }
        }
        Ok(())
    }
}
