//! A memory map from what firmware says: ranges of bytes, in any order, overlapping, and not aligned to anything.

use crate::error::MapError;
use crate::memmap::{MemoryMap, PFN_LIMIT, Region, ZoneKind};
use crate::units::{Frames, NodeId, PAGE_SIZE, Pfn};
use core::fmt;
use core::ops::{Deref, Range};

/// The first byte that no usable range may contain: 4 PiB.
const BYTE_LIMIT: u64 = PFN_LIMIT.0 * PAGE_SIZE;

/// Where the zones for devices that reach only low addresses end. What lies above both is [`ZoneKind::Normal`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneLimits {
    /// The first byte above [`ZoneKind::Dma`]; zero where there is no such zone.
    pub dma: u64,
    /// The first byte above [`ZoneKind::Dma32`]; zero where there is no such zone.
    pub dma32: u64,
}

impl ZoneLimits {
    /// One zone, Normal.
    pub const NONE: ZoneLimits = ZoneLimits { dma: 0, dma32: 0 };
    /// DMA below 16 MiB, DMA32 below 4 GiB.
    pub const X86_64: ZoneLimits = ZoneLimits { dma: 16 << 20, dma32: 4 << 30 };

    /// The limits as frame numbers. A device cannot reach the end of a frame that a limit cuts, so that frame lies
    /// above.
    const fn frames(self) -> [u64; 2] {
        [self.dma / PAGE_SIZE, self.dma32 / PAGE_SIZE]
    }

    fn zone_of(self, frame: u64) -> ZoneKind {
        match self.frames() {
            [dma, _] if frame < dma => ZoneKind::Dma,
            [_, dma32] if frame < dma32 => ZoneKind::Dma32,
            _ => ZoneKind::Normal,
        }
    }
}

/// The kind that a range of bytes is declared as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Said {
    Usable,
    Reserved,
    Zeroed,
    Node(NodeId),
}

/// A declared range of bytes.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    end: u64,
    said: Said,
}

impl Entry {
    /// The frames it is about: memory and zeros must fill a frame, a reservation only has to touch it, and a frame
    /// belongs to the node of its first byte.
    fn frames(&self) -> Range<u64> {
        let (inner, outer) = (self.start.div_ceil(PAGE_SIZE), self.end.div_ceil(PAGE_SIZE));
        match self.said {
            Said::Usable | Said::Zeroed => inner..self.end / PAGE_SIZE,
            Said::Reserved => self.start / PAGE_SIZE..outer,
            Said::Node(_) => inner..outer,
        }
    }
}

/// Returns the bytes of frames.
fn bytes_of(frames: Range<Pfn>) -> Range<u64> {
    let byte = |pfn: Pfn| pfn.0.saturating_mul(PAGE_SIZE);
    byte(frames.start)..byte(frames.end)
}

/// Why a firmware's map was refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum FirmwareError {
    /// A range has no bytes.
    EmptyRange {
        /// Its first byte.
        start: u64,
        /// The first byte after it, as it was given.
        end: u64,
    },
    /// A usable range reaches past the largest address that is supported.
    BeyondLimit {
        /// The first byte after it.
        end: u64,
    },
    /// There are more ranges, or regions made from them, than there is room for.
    TooMany {
        /// How many there is room for.
        room: usize,
    },
    /// Two nodes are declared to hold the same memory.
    TwoNodes {
        /// The first byte that both are declared to hold.
        at: u64,
        /// The two.
        nodes: [NodeId; 2],
    },
    /// No usable frame is left that is not reserved.
    NothingUsable,
    /// No usable range has room for the metadata.
    NoRoom {
        /// Bytes needed.
        needed: u64,
    },
    /// The regions are not a memory map that an instance can have.
    Map(MapError),
    /// The instance was set up before, or setting it up has failed.
    SetUpTwice,
}

impl fmt::Display for FirmwareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FirmwareError::EmptyRange { start, end } => {
                write!(f, "the range {start:#x}..{end:#x} has no bytes: leave it out")
            }
            FirmwareError::BeyondLimit { end } => {
                write!(
                    f,
                    "a usable range ends at {end:#x}, above the largest address supported, {BYTE_LIMIT:#x}"
                )
            }
            FirmwareError::TooMany { room } => {
                write!(
                    f,
                    "the map has room for {room} ranges and regions, and needs more: give it a larger size"
                )
            }
            FirmwareError::TwoNodes { at, nodes: [a, b] } => {
                write!(f, "the byte at {at:#x} is said to be of node {a} and of node {b}")
            }
            FirmwareError::NothingUsable => f.write_str("no usable frame is left that is not reserved"),
            FirmwareError::NoRoom { needed } => {
                write!(f, "no usable range has room for {needed} bytes of metadata")
            }
            FirmwareError::Map(why) => why.fmt(f),
            FirmwareError::SetUpTwice => f.write_str("it is set up already, or setting it up has failed"),
        }
    }
}

impl core::error::Error for FirmwareError {}

impl From<MapError> for FirmwareError {
    fn from(why: MapError) -> Self {
        match why {
            MapError::NoFrames => FirmwareError::NothingUsable,
            why => FirmwareError::Map(why),
        }
    }
}

/// The firmware's memory map, in bytes: room for `N` ranges, and for `N` regions made from them.
///
/// Ranges come in any order and may overlap or repeat. Reserved wins over usable. A frame is usable if usable ranges,
/// one or several, fill it, and reserved if one reserved byte lies in it. A frame that is neither is a hole; one that
/// is both is [present and not managed](field@Region::managed).
///
/// # Examples
/// ```
/// use pageyard_core::{FirmwareMap, ZoneLimits};
///
/// let mut firmware = FirmwareMap::<16>::new(ZoneLimits::X86_64);
/// firmware.usable(0..0x9_fc00)?.usable(0x10_0000..0xc000_0000)?.usable(0x1_0000_0000..0x2_4000_0000)?;
/// firmware.reserved(0..0x1000)?.reserved(0x100_0000..0x2c0_0000)?; // the first page, and the kernel's image
/// let regions = firmware.regions()?;
/// assert_eq!(regions.map().zone_count(), 3);
/// # Ok::<(), pageyard_core::FirmwareError>(())
/// ```
#[derive(Clone, Debug)]
pub struct FirmwareMap<const N: usize> {
    entries: [Entry; N],
    len: usize,
    limits: ZoneLimits,
}

impl<const N: usize> FirmwareMap<N> {
    /// Makes a map without memory.
    #[must_use]
    pub const fn new(limits: ZoneLimits) -> FirmwareMap<N> {
        FirmwareMap { entries: [Entry { start: 0, end: 0, said: Said::Usable }; N], len: 0, limits }
    }

    /// Says that a range of bytes is memory.
    ///
    /// # Errors
    /// [`FirmwareError::EmptyRange`], [`FirmwareError::BeyondLimit`], [`FirmwareError::TooMany`]; nothing changed.
    pub fn usable(&mut self, bytes: Range<u64>) -> Result<&mut Self, FirmwareError> {
        if bytes.start < bytes.end && bytes.end > BYTE_LIMIT {
            return Err(FirmwareError::BeyondLimit { end: bytes.end });
        }
        self.add(bytes, Said::Usable)
    }

    /// Says that a range of bytes is not the allocator's, whatever else is said of it.
    ///
    /// # Errors
    /// [`FirmwareError::EmptyRange`], [`FirmwareError::TooMany`]; nothing changed.
    pub fn reserved(&mut self, bytes: Range<u64>) -> Result<&mut Self, FirmwareError> {
        self.add(bytes, Said::Reserved)
    }

    /// Says that a range of bytes, as far as it is usable, holds zeros when the allocator begins.
    ///
    /// # Errors
    /// As [`FirmwareMap::reserved`].
    pub fn zeroed(&mut self, bytes: Range<u64>) -> Result<&mut Self, FirmwareError> {
        self.add(bytes, Said::Zeroed)
    }

    /// Says which node a range of bytes belongs to, as far as it is usable. Memory without a named node belongs to node
    /// 0.
    ///
    /// # Errors
    /// As [`FirmwareMap::reserved`], and [`FirmwareError::TwoNodes`].
    pub fn node(&mut self, bytes: Range<u64>, node: NodeId) -> Result<&mut Self, FirmwareError> {
        for e in self.entries() {
            if let Said::Node(other) = e.said
                && other != node
                && e.start.max(bytes.start) < e.end.min(bytes.end)
            {
                let at = e.start.max(bytes.start);
                return Err(FirmwareError::TwoNodes { at, nodes: [other, node] });
            }
        }
        self.add(bytes, Said::Node(node))
    }

    /// Says that frames are not the allocator's.
    ///
    /// # Errors
    /// As [`FirmwareMap::reserved`].
    pub fn reserve_frames(&mut self, frames: Range<Pfn>) -> Result<&mut Self, FirmwareError> {
        self.reserved(bytes_of(frames))
    }

    /// Makes the regions: split where the zone, the node or the knowledge of zeros changes, joined elsewhere.
    ///
    /// # Errors
    /// [`FirmwareError::NothingUsable`]; [`FirmwareError::TooMany`] where there are more than `N`;
    /// [`FirmwareError::Map`] where two nodes interleave.
    ///
    /// # Complexity
    /// Quadratic in the number of ranges.
    pub fn regions(&self) -> Result<Regions<N>, FirmwareError> {
        let mut made = Regions::none();
        self.regions_without(Pfn(0)..Pfn(0), &mut made)?;
        Ok(made)
    }

    /// Makes the regions as they would be if these frames were reserved, too, in memory that there is.
    ///
    /// # Errors
    /// As [`FirmwareMap::regions`].
    pub fn regions_without(&self, frames: Range<Pfn>, made: &mut Regions<N>) -> Result<(), FirmwareError> {
        let Range { start, end } = bytes_of(frames);
        let more = Some(Entry { start, end, said: Said::Reserved });
        made.len = 0;
        let mut at = 0;
        while at < PFN_LIMIT.0 {
            let end = self.next_edge(at, &more);
            if let Some(region) = self.describe(at..end, &more) {
                made.push(region)?;
            }
            at = end;
        }
        MemoryMap::new(made)?;
        Ok(())
    }

    fn entries(&self) -> &[Entry] {
        &self.entries[..self.len]
    }

    /// Adds a range, joined with those that it touches and that say the same, so a frame that two ranges fill together
    /// counts.
    fn add(&mut self, bytes: Range<u64>, said: Said) -> Result<&mut Self, FirmwareError> {
        let Range { mut start, mut end } = bytes;
        if start >= end {
            return Err(FirmwareError::EmptyRange { start, end });
        }
        let touches = |e: &Entry, start, end| e.said == said && e.start <= end && start <= e.end;
        if self.len == N && !self.entries().iter().any(|e| touches(e, start, end)) {
            return Err(FirmwareError::TooMany { room: N });
        }
        // The present ranges do not touch each other, so joining with one brings no other near.
        let mut i = 0;
        while i < self.len {
            let e = self.entries[i];
            if touches(&e, start, end) {
                (start, end) = (start.min(e.start), end.max(e.end));
                self.len -= 1;
                self.entries[i] = self.entries[self.len];
            } else {
                i += 1;
            }
        }
        self.entries[self.len] = Entry { start, end, said };
        self.len += 1;
        Ok(self)
    }

    /// Returns the first frame after `at` where anything may change.
    fn next_edge(&self, at: u64, more: &Option<Entry>) -> u64 {
        let of_ranges = self.entries().iter().chain(more).map(Entry::frames).flat_map(|f| [f.start, f.end]);
        of_ranges.chain(self.limits.frames()).filter(|edge| *edge > at).fold(PFN_LIMIT.0, u64::min)
    }

    /// Returns the region of frames without an edge between them, unless they are a hole.
    fn describe(&self, frames: Range<u64>, more: &Option<Entry>) -> Option<Region> {
        let first = frames.start;
        let entries = || self.entries().iter().chain(more);
        let is = |said| entries().any(|e| e.said == said && e.frames().contains(&first));
        let node = entries().find_map(|e| match e.said {
            Said::Node(node) if e.frames().contains(&first) => Some(node),
            _ => None,
        });
        let managed = !is(Said::Reserved);
        is(Said::Usable).then(|| Region {
            start: Pfn(first),
            frames: Frames(frames.end - first),
            node: node.unwrap_or_default(),
            zone: self.limits.zone_of(first),
            managed,
            zeroed: managed && is(Said::Zeroed),
        })
    }
}

/// The regions of a [`FirmwareMap`], lowest first.
#[derive(Clone, Debug)]
pub struct Regions<const N: usize> {
    regions: [Region; N],
    len: usize,
}

impl<const N: usize> Regions<N> {
    /// Makes a list without regions.
    #[must_use]
    pub const fn none() -> Regions<N> {
        let empty = Region::managed(Pfn(0), Frames::ZERO, NodeId(0), ZoneKind::Normal);
        Regions { regions: [empty; N], len: 0 }
    }

    /// Returns the memory map that they are.
    ///
    /// # Panics
    /// Where they are none.
    #[must_use]
    pub fn map(&self) -> MemoryMap<'_> {
        MemoryMap::new(self).expect("checked when they were made")
    }

    /// Adds a region, or lengthens the last one where only the length differs.
    fn push(&mut self, region: Region) -> Result<(), FirmwareError> {
        if let Some(last) = self.regions[..self.len].last_mut() {
            let longer = Region { frames: last.frames + region.frames, ..*last };
            if last.end() == region.start
                && longer == (Region { start: last.start, frames: longer.frames, ..region })
            {
                *last = longer;
                return Ok(());
            }
        }
        *self.regions.get_mut(self.len).ok_or(FirmwareError::TooMany { room: N })? = region;
        self.len += 1;
        Ok(())
    }
}

impl<const N: usize> Deref for Regions<N> {
    type Target = [Region];

    fn deref(&self) -> &[Region] {
        &self.regions[..self.len]
    }
}

#[cfg(any(test, kani))]
mod properties;
#[cfg(test)]
mod tests;
