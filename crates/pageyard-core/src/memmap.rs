//! The memory map: which frames exist, which of them are managed, and in which zone and node they lie.

use crate::error::MapError;
use crate::topology::{NodeSet, Topology};
use crate::units::{Frames, NodeId, Pfn, ZoneId};
use core::fmt;

/// Number of kinds of zone; a zone's reserve against each of them is one row of `protection`.
pub const NR_ZONE_KINDS: usize = 5;

/// The most zones one instance can have.
pub const MAX_ZONES: usize = 64;

/// The nodes that a memory map can have: those that a [`NodeMask`](crate::NodeMask) can name. Their numbers are below
/// it.
pub const MAX_NODES: usize = u64::BITS as usize;

/// The frame number that no region may reach: 2^40 frames are 4 PiB.
pub const PFN_LIMIT: Pfn = Pfn(1 << 40);

/// The kinds of zone, lowest first; a request names the highest it may use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum ZoneKind {
    /// Below 16 MiB.
    Dma = 0,
    /// Below 4 GiB.
    Dma32 = 1,
    /// The rest.
    #[default]
    Normal = 2,
    /// For movable contents only.
    Movable = 3,
    /// Memory on devices; never a fallback.
    Device = 4,
}

impl ZoneKind {
    /// Every kind, lowest first.
    pub const ALL: [ZoneKind; NR_ZONE_KINDS] =
        [ZoneKind::Dma, ZoneKind::Dma32, ZoneKind::Normal, ZoneKind::Movable, ZoneKind::Device];

    /// Returns the number as an index.
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the name that `/proc/zoneinfo` uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ZoneKind::Dma => "DMA",
            ZoneKind::Dma32 => "DMA32",
            ZoneKind::Normal => "Normal",
            ZoneKind::Movable => "Movable",
            ZoneKind::Device => "Device",
        }
    }

    /// Finds a kind by the name that `/proc/zoneinfo` uses.
    #[must_use]
    pub fn from_name(name: &str) -> Option<ZoneKind> {
        ZoneKind::ALL.into_iter().find(|k| k.name() == name)
    }
}

impl fmt::Display for ZoneKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A run of frames of one zone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Region {
    /// The first frame.
    pub start: Pfn,
    /// How many.
    pub frames: Frames,
    /// The node they belong to.
    pub node: NodeId,
    /// The kind of zone they belong to.
    pub zone: ZoneKind,
    /// Whether the allocator may hand them out. Frames that are present and not managed (firmware, the kernel's
    /// image, memory that a hypervisor took back) count towards `present` only.
    pub managed: bool,
    /// Whether every byte of it is zero when the allocator begins, as of a fresh mapping.
    pub zeroed: bool,
}

impl Region {
    /// Makes a managed region.
    #[must_use]
    pub const fn managed(start: Pfn, frames: Frames, node: NodeId, zone: ZoneKind) -> Region {
        Region { start, frames, node, zone, managed: true, zeroed: false }
    }

    /// Says that every byte of it is zero when the allocator begins, as of a fresh mapping: an allocator that keeps
    /// track of zeros then reports them for the blocks that it hands out for the first time.
    #[must_use]
    pub const fn zeroed(mut self) -> Region {
        self.zeroed = true;
        self
    }

    /// Returns the first frame after the region.
    #[must_use]
    #[inline]
    pub const fn end(&self) -> Pfn {
        Pfn(self.start.0 + self.frames.0)
    }
}

/// A zone as the memory map implies it: from its first region's start to its last one's end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ZoneSpan {
    /// The node it belongs to.
    pub node: NodeId,
    /// Its kind.
    pub kind: ZoneKind,
    /// The first frame.
    pub start: Pfn,
    /// Frames from the first to the last, holes included.
    pub spanned: Frames,
    /// Frames that exist.
    pub present: Frames,
    /// Frames that the allocator may hand out.
    pub managed: Frames,
}

impl ZoneSpan {
    /// Returns the first frame after the zone.
    #[must_use]
    #[inline]
    pub const fn end(&self) -> Pfn {
        Pfn(self.start.0 + self.spanned.0)
    }

    /// Returns whether `pfn` lies in the zone's span (it may still be a hole).
    #[must_use]
    #[inline]
    pub const fn spans(&self, pfn: Pfn) -> bool {
        pfn.0 >= self.start.0 && pfn.0 < self.end().0
    }
}

/// A checked list of regions, sorted by frame number, the regions of one zone next to each other.
#[derive(Clone, Copy, Debug)]
pub struct MemoryMap<'a> {
    regions: &'a [Region],
    zones: usize,
    topology: Topology<'a>,
}

impl<'a> MemoryMap<'a> {
    /// Checks regions and takes them as a memory map.
    ///
    /// Regions without frames are allowed and ignored. Anything may be a hole.
    ///
    /// # Errors
    /// [`MapError`] names the first region at fault: out of order or overlapping, above [`PFN_LIMIT`], of a node
    /// at or above [`MAX_NODES`], a zone that appears again after another one began, more than [`MAX_ZONES`] zones, or
    /// no managed frame at all.
    pub fn new(regions: &'a [Region]) -> Result<MemoryMap<'a>, MapError> {
        let mut end = Pfn(0);
        let mut managed = false;
        let mut zones = 0;
        let mut last: Option<&Region> = None;
        for (index, region) in regions.iter().enumerate().filter(|(_, r)| r.frames.0 > 0) {
            if region.start >= PFN_LIMIT || region.frames.0 > PFN_LIMIT.0 - region.start.0 {
                return Err(MapError::BeyondLimit { region: index });
            }
            if usize::from(region.node.0) >= MAX_NODES {
                return Err(MapError::NodeBeyondLimit { region: index, node: region.node });
            }
            if region.start < end {
                return Err(MapError::OutOfOrder { region: index });
            }
            if last.is_none_or(|l| (l.node, l.zone) != (region.node, region.zone)) {
                let seen = regions[..index]
                    .iter()
                    .any(|r| r.frames.0 > 0 && (r.node, r.zone) == (region.node, region.zone));
                if seen {
                    return Err(MapError::SplitZone { region: index });
                }
                zones += 1;
                if zones > MAX_ZONES {
                    return Err(MapError::TooManyZones);
                }
            }
            managed |= region.managed;
            end = region.end();
            last = Some(region);
        }
        if managed {
            Ok(MemoryMap { regions, zones, topology: Topology::default() })
        } else {
            Err(MapError::NoFrames)
        }
    }

    /// Says which node each CPU belongs to, and how far nodes are from one another.
    #[must_use]
    pub const fn with_topology(self, topology: Topology<'a>) -> MemoryMap<'a> {
        MemoryMap { topology, ..self }
    }

    /// Returns which node each CPU belongs to, and how far nodes are from one another.
    #[must_use]
    pub const fn topology(&self) -> Topology<'a> {
        self.topology
    }

    /// Returns the nodes that have memory.
    #[must_use]
    pub fn nodes(&self) -> NodeSet {
        self.regions().map(|region| region.node).collect()
    }

    /// Iterates over the regions that have frames, lowest first.
    pub fn regions(&self) -> impl Iterator<Item = Region> + use<'a> {
        self.regions.iter().copied().filter(|r| r.frames.0 > 0)
    }

    /// Returns how many zones there are.
    #[must_use]
    pub fn zone_count(&self) -> usize {
        self.zones
    }

    /// Iterates over the zones with their numbers, lowest frames first.
    pub fn zones(&self) -> impl Iterator<Item = (ZoneId, ZoneSpan)> + use<'a> {
        let mut regions = self.regions().peekable();
        let mut id = 0;
        core::iter::from_fn(move || {
            let first = regions.next()?;
            let count = |r: &Region| (r.frames, if r.managed { r.frames } else { Frames::ZERO });
            let (mut present, mut managed) = count(&first);
            let mut end = first.end();
            while let Some(r) = regions.next_if(|r| (r.node, r.zone) == (first.node, first.zone)) {
                let (p, m) = count(&r);
                present += p;
                managed += m;
                end = r.end();
            }
            let span = ZoneSpan {
                node: first.node,
                kind: first.zone,
                start: first.start,
                spanned: end - first.start,
                present,
                managed,
            };
            id += 1;
            Some((ZoneId(id - 1), span))
        })
    }

    /// Returns the first frame after the last region.
    #[must_use]
    #[inline]
    pub fn end(&self) -> Pfn {
        self.regions().last().map_or(Pfn(0), |r| r.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const N0: NodeId = NodeId(0);

    fn normal(start: u64, frames: u64) -> Region {
        Region::managed(Pfn(start), Frames(frames), N0, ZoneKind::Normal)
    }

    #[test]
    fn no_frames_is_refused_and_one_is_enough() {
        assert_eq!(MemoryMap::new(&[]).unwrap_err(), MapError::NoFrames);
        assert_eq!(MemoryMap::new(&[normal(0, 0)]).unwrap_err(), MapError::NoFrames);
        let unmanaged = Region { managed: false, ..normal(0, 5) };
        assert_eq!(MemoryMap::new(&[unmanaged]).unwrap_err(), MapError::NoFrames);
        let one = [normal(0, 1)];
        let (_, zone) = MemoryMap::new(&one).unwrap().zones().next().unwrap();
        assert_eq!((zone.start, zone.spanned, zone.managed), (Pfn(0), Frames(1), Frames(1)));
    }

    #[test]
    fn holes_count_as_spanned_only() {
        let regions = [normal(3, 10), Region { managed: false, ..normal(20, 4) }, normal(100, 1)];
        let map = MemoryMap::new(&regions).unwrap();
        let (_, z) = map.zones().next().unwrap();
        assert_eq!((z.spanned, z.present, z.managed), (Frames(98), Frames(15), Frames(11)));
        assert_eq!(map.end(), Pfn(101));
    }

    #[test]
    fn faults_are_named() {
        let err = |r: &[Region]| MemoryMap::new(r).unwrap_err();
        assert_eq!(err(&[normal(0, 10), normal(9, 1)]), MapError::OutOfOrder { region: 1 });
        assert_eq!(err(&[normal(u64::MAX, 2)]), MapError::BeyondLimit { region: 0 });
        assert_eq!(err(&[normal(1, u64::MAX)]), MapError::BeyondLimit { region: 0 });
        let dma = Region { zone: ZoneKind::Dma, ..normal(10, 1) };
        assert_eq!(err(&[normal(0, 1), dma, normal(20, 1)]), MapError::SplitZone { region: 2 });
    }

    /// Frames of a node that no mask can name would be handed out by list hits only: no walk would allow them.
    #[test]
    fn a_node_that_no_mask_can_name_is_refused() {
        use crate::NodeMask;
        let of = |node| Region { node: NodeId(node), ..normal(16, 16) };
        let last = [normal(0, 16), of(63)];
        assert_eq!(MemoryMap::new(&last).unwrap().nodes().len(), 2);
        assert!(NodeMask::ALL.allows(NodeId(63)) && NodeMask::only(NodeId(63)).allows(NodeId(63)));
        for node in [64, u8::MAX] {
            let error = MemoryMap::new(&[normal(0, 16), of(node)]).unwrap_err();
            assert_eq!(error, MapError::NodeBeyondLimit { region: 1, node: NodeId(node) });
            // Present is enough; without frames there is nothing that could lie on the node.
            let unmanaged = Region { managed: false, ..of(node) };
            assert_eq!(MemoryMap::new(&[normal(0, 16), unmanaged]).unwrap_err(), error);
            let empty = Region { frames: Frames(0), ..of(node) };
            assert!(MemoryMap::new(&[normal(0, 16), empty]).is_ok());
            assert!(!NodeMask::ALL.allows(NodeId(node)));
        }
    }

    #[test]
    fn zones_are_numbered_in_order() {
        let dma = Region { zone: ZoneKind::Dma, ..normal(0, 16) };
        let regions = [dma, normal(16, 16), Region { node: NodeId(1), ..normal(32, 8) }];
        let map = MemoryMap::new(&regions).unwrap();
        assert_eq!(map.zone_count(), 3);
        let kinds: [_; 3] = core::array::from_fn(|i| map.zones().nth(i).unwrap());
        assert_eq!(kinds[0].1.kind, ZoneKind::Dma);
        assert_eq!(
            kinds[2],
            (
                ZoneId(2),
                ZoneSpan {
                    node: NodeId(1),
                    kind: ZoneKind::Normal,
                    start: Pfn(32),
                    spanned: Frames(8),
                    present: Frames(8),
                    managed: Frames(8),
                }
            )
        );
    }
}
