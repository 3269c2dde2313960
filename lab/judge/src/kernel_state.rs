//! The state of a kernel's page allocator, as the guest writes it down: words of 64 bits, zone after zone.

use pageyard_core::memmap::NR_ZONE_KINDS;
use pageyard_core::{BlockId, Frames, Migratetype, NodeId, Order, Pfn, Region, ZoneKind};
use pageyard_linux::{CpuOpening, FreeList, MAX_PAGE_ORDER, Opening, ZoneOpening};
use std::fmt;

/// The state of all zones, in the order of nodes and kinds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelState {
    /// The bytes it was read from.
    pub bytes: Vec<u8>,
    /// The zones.
    pub zones: Vec<KernelZone>,
    /// `pgfree`.
    pub pgfree: u64,
    /// `pgalloc`, all zones together.
    pub pgalloc: u64,
}

/// One zone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelZone {
    /// The node it belongs to.
    pub node: NodeId,
    /// Its kind.
    pub kind: ZoneKind,
    /// Its first frame.
    pub start: Pfn,
    /// How many frames it spans.
    pub spanned: Frames,
    /// The values that the kernel computed from its settings.
    pub computed: Computed,
    /// The state in which the reference can be opened.
    pub state: ZoneOpening,
    /// Free frames.
    pub free: u64,
    /// Frames that reclaim could free.
    pub reclaimable: u64,
    /// `numa_hit`, `numa_miss`, `numa_foreign`, `numa_local`, `numa_other`.
    pub numa: [u64; 5],
    /// Runs of frames that are the zone's, and whether the allocator may hand them out.
    pub runs: Vec<(Pfn, Frames, bool)>,
}

/// The values that a kernel computes from the size of a zone and its settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Computed {
    /// Managed frames.
    pub managed: u64,
    /// The watermarks min, low and high, without a boost.
    pub marks: [u64; 3],
    /// `lowmem_reserve`.
    pub protection: [u64; 4],
    /// Of each CPU's lists: batch, `high_min` and `high_max`.
    pub lists: Vec<[u64; 3]>,
}

/// The fault in a state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StateError {
    /// It ends too early.
    Short,
    /// A word has no meaning: where, and what it should say.
    Word(usize, &'static str),
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateError::Short => f.write_str("it ends too early"),
            StateError::Word(at, what) => write!(f, "word {at} is no {what}"),
        }
    }
}

impl std::error::Error for StateError {}

/// Reads words one after another.
struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Words<'_> {
    fn next(&mut self) -> Result<u64, StateError> {
        let word = self.bytes.get(self.at * 8..self.at * 8 + 8).ok_or(StateError::Short)?;
        self.at += 1;
        Ok(u64::from_le_bytes(std::array::from_fn(|i| word[i])))
    }

    /// Reads a number that cannot be larger than `most`.
    fn below(&mut self, most: u64, what: &'static str) -> Result<u64, StateError> {
        let at = self.at;
        self.next().and_then(|n| if n <= most { Ok(n) } else { Err(StateError::Word(at, what)) })
    }

    fn flag(&mut self) -> Result<bool, StateError> {
        Ok(self.below(1, "flag")? == 1)
    }

    /// Reads bytes, eight to a word.
    fn octets(&mut self, count: usize) -> Result<Vec<u8>, StateError> {
        let mut out = Vec::with_capacity(count);
        while out.len() < count {
            out.extend(self.next()?.to_le_bytes());
        }
        out.truncate(count);
        Ok(out)
    }

    fn list(&mut self) -> Result<Vec<u64>, StateError> {
        let count = self.below(1 << 32, "length of a list")?;
        (0..count).map(|_| self.next()).collect()
    }
}

/// No kernel here has more pages than these in a zone.
const MOST_FRAMES: u64 = 1 << 32;

impl KernelState {
    /// Reads a state.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn read(bytes: &[u8]) -> Result<KernelState, StateError> {
        let mut words = Words { bytes, at: 0 };
        let zones = words.below(64, "number of zones")?;
        words.below(64, "number of nodes")?;
        let types = words.below(8, "number of types")?;
        let kinds = words.below(NR_ZONE_KINDS as u64, "number of kinds of zones")?;
        let remembers = words.flag()?;
        let pgfree = words.next()?;
        let mut pgalloc = 0;
        for _ in 0..kinds {
            pgalloc += words.next()?;
        }
        let zones = (0..zones)
            .map(|_| KernelZone::read(&mut words, types, kinds, remembers))
            .collect::<Result<_, _>>()?;
        Ok(KernelState { bytes: bytes.to_vec(), zones, pgfree, pgalloc })
    }

    /// Returns what the reference can be opened with.
    #[must_use]
    pub fn opening(&self) -> Opening {
        Opening { zones: self.zones.iter().map(|z| z.state.clone()).collect() }
    }

    /// Returns the memory map.
    #[must_use]
    pub fn regions(&self) -> Vec<Region> {
        self.zones
            .iter()
            .flat_map(|z| {
                z.runs.iter().map(|(start, frames, managed)| Region {
                    managed: *managed,
                    ..Region::managed(*start, *frames, z.node, z.kind)
                })
            })
            .collect()
    }
}

/// The bits of a frame's state.
const OF_ZONE: u8 = 1;
const MOVABLE: u8 = 2;
const RESERVED: u8 = 4;
/// It belongs to a compound page that begins before it.
const LATER: u8 = 8;

impl KernelZone {
    /// Reads a zone; `remembers`: whether cached blocks have types of their own.
    fn read(
        words: &mut Words<'_>,
        types: u64,
        kinds: u64,
        remembers: bool,
    ) -> Result<KernelZone, StateError> {
        let node = NodeId(words.below(63, "node")? as _);
        let kind = words.below(NR_ZONE_KINDS as u64 - 1, "kind of zone")?;
        let kind = [ZoneKind::Dma, ZoneKind::Dma32, ZoneKind::Normal, ZoneKind::Movable, ZoneKind::Device]
            [kind as usize];
        let start = Pfn(words.below(MOST_FRAMES, "frame")?);
        let spanned = words.below(MOST_FRAMES, "number of frames")?;
        let managed = words.below(spanned, "number of managed frames")?;
        let marks = [words.next()?, words.next()?, words.next()?];
        let boost = words.next()?;
        let mut protection = [0; 4];
        for k in 0..kinds as usize {
            let reserve = words.next()?;
            if let Some(p) = protection.get_mut(k) {
                *p = reserve;
            }
        }
        let (reclaiming, boosted, below_high) = (words.flag()?, words.flag()?, words.flag()?);
        let reserved_highatomic = Frames(words.next()?);
        let _free_highatomic = words.next()?;
        let (free, reclaimable) = (words.next()?, words.next()?);
        let numa = [words.next()?, words.next()?, words.next()?, words.next()?, words.next()?];
        let _interleave = words.next()?;

        let first = start.align_down(pageyard_core::PAGEBLOCK_ORDER).0;
        let blocks = (start.0 + spanned - first).div_ceil(512) as usize;
        let block_types = words.octets(blocks)?;
        let frames = words.octets(spanned as usize)?;
        let type_of = |raw: u8| kernel_type(u64::from(raw), types);
        let pageblocks: Vec<Migratetype> = block_types
            .iter()
            .map(|t| type_of(*t).ok_or(StateError::Word(words.at, "type")))
            .collect::<Result<_, _>>()?;

        let mut free_lists = Vec::new();
        for order in Order::ZERO.up_to(Order::of(10)) {
            for raw in 0..types {
                let blocks: Vec<Pfn> = words.list()?.into_iter().map(Pfn).collect();
                let migratetype = kernel_type(raw, types).ok_or(StateError::Word(words.at, "type"))?;
                if !blocks.is_empty() {
                    free_lists.push(FreeList { order, migratetype, blocks });
                }
            }
        }
        let mut cpus = Vec::new();
        let mut lists = Vec::new();
        for _ in 0..2 {
            let _count = words.next()?;
            let batch = words.next()?;
            let (high, high_min, high_max) = (words.next()?, words.next()?, words.next()?);
            let factor = words.below(31, "factor")? as u32;
            let free_count = words.next()?;
            let flags = words.next()?;
            let _expire = words.next()?;
            let count = words.below(64, "number of lists")?;
            let mut held = Vec::new();
            for _ in 0..count {
                let blocks = words.list()?.into_iter().map(|word| {
                    let pfn = Pfn(word & ((1 << 56) - 1));
                    let of = pageblocks.get(((pfn.0 - first) / 512) as usize).copied();
                    let with = if remembers { kernel_type(word >> 56, types) } else { of };
                    with.map(|m| (pfn, m)).ok_or(StateError::Word(words.at, "cached block"))
                });
                held.push(blocks.collect::<Result<Vec<_>, _>>()?);
            }
            cpus.push(CpuOpening { lists: held, high, factor, free_count, freed_high_order: flags & 1 != 0 });
            lists.push([batch, high_min, high_max]);
        }
        Ok(KernelZone {
            node,
            kind,
            start,
            spanned: Frames(spanned),
            computed: Computed { managed, marks, protection, lists },
            state: ZoneOpening {
                types: pageblocks,
                free: free_lists,
                movable: runs(start, &frames, |f| (f & MOVABLE != 0).then_some(()))
                    .into_iter()
                    .map(|(pfn, frames, ())| (pfn, frames))
                    .collect(),
                whole: whole(start, &frames),
                boost: Frames(boost),
                reserved_highatomic,
                reclaiming,
                boosted,
                below_high,
                cpus,
            },
            free,
            reclaimable,
            numa,
            runs: {
                let mut frames = frames;
                // Where a zone ends matters, even where it ends with a hole.
                for end in [0, frames.len().saturating_sub(1)] {
                    if let Some(frame) = frames.get_mut(end).filter(|f| **f & OF_ZONE == 0) {
                        *frame = OF_ZONE | RESERVED;
                    }
                }
                runs(start, &frames, |f| (f & OF_ZONE != 0).then_some(f & RESERVED == 0))
            },
        })
    }
}

/// Finds compound pages, of which all frames can be moved or none.
fn whole(start: Pfn, frames: &[u8]) -> Vec<BlockId> {
    let later = runs(start, frames, |f| (f & LATER != 0).then_some(f & MOVABLE));
    let pages = later.into_iter().filter_map(|(second, rest, movable)| {
        let first = (second.0 - start.0).checked_sub(1)? as usize;
        let order = Order::of((rest.0 + 1).ilog2().min(u32::from(MAX_PAGE_ORDER.get())) as u8);
        let pfn = start + Frames(first as u64);
        let is_one = order.frames() == rest + Frames(1) && pfn.is_aligned(order);
        (is_one && frames[first] & (OF_ZONE | RESERVED | LATER | MOVABLE) == OF_ZONE | movable)
            .then_some(BlockId { pfn, order })
    });
    pages.collect()
}

/// Finds runs of frames of which `what` says the same.
fn runs<T: Copy + PartialEq>(
    start: Pfn,
    frames: &[u8],
    what: impl Fn(u8) -> Option<T>,
) -> Vec<(Pfn, Frames, T)> {
    let mut out: Vec<(Pfn, Frames, T)> = Vec::new();
    for (n, frame) in frames.iter().enumerate() {
        let at = start + Frames(n as u64);
        let Some(is) = what(*frame) else { continue };
        match out.last_mut() {
            Some((first, len, was)) if *was == is && *first + *len == at => *len += Frames(1),
            _ => out.push((at, Frames(1), is)),
        }
    }
    out
}

/// Reads a kernel's number of a type. One with CMA has a type more.
fn kernel_type(raw: u64, types: u64) -> Option<Migratetype> {
    match raw {
        0 => Some(Migratetype::Unmovable),
        1 => Some(Migratetype::Movable),
        2 => Some(Migratetype::Reclaimable),
        3 => Some(Migratetype::HighAtomic),
        4 if types == 6 => Some(Migratetype::Cma),
        4 | 5 if raw + 1 == types => Some(Migratetype::Isolate),
        _ => None,
    }
}
