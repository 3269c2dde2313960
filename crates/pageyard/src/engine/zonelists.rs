//! Nodes and zonelists: where the requests of a CPU begin, in which order they try the zones, and in which zone a frame
//! lies.

use super::geometry::FrameIdx;
use super::zone::Zone;
use pageyard_core::memmap::{MemoryMap, NR_ZONE_KINDS, ZoneKind};
use pageyard_core::topology::NodeSet;
use pageyard_core::units::{CpuId, Frames, NodeId, Pfn};
use pageyard_sync::Carver;

/// Stretches of memory that the directory tells apart.
const STRETCHES: usize = 64;

/// In which order CPUs try the zones of an instance, and which zone has a frame.
pub(crate) struct Zonelists<'m> {
    zones: &'m [Zone<'m>],
    /// By highest kind of zone: where the walk of every CPU begins. None where CPUs belong to several nodes.
    first: [Option<&'m Zone<'m>>; NR_ZONE_KINDS],
    /// Where the walks of each CPU begin.
    near: &'m [Near<'m>],
    /// The zones in the order of the walk, by home and by highest kind; none behind the last one.
    walks: &'m [Option<&'m Zone<'m>>],
    /// By stretch of memory: the zone that has most of it.
    directory: [&'m Zone<'m>; STRETCHES],
    /// The size of a stretch, as a shift.
    stretch: u32,
    several_nodes: bool,
}

/// Where the requests of a CPU begin.
#[repr(align(64))]
struct Near<'m> {
    /// The first zone, by highest kind of zone.
    first: [Option<&'m Zone<'m>>; NR_ZONE_KINDS],
    /// The node that it belongs to.
    home: NodeId,
    /// Which walks are that node's.
    walks: u8,
}

/// The zonelists' share of the metadata: it grows with each node and with each CPU.
pub(crate) struct Parts<'m> {
    walks: &'m [Option<&'m Zone<'m>>],
    near: &'m [Near<'m>],
}

impl<'m> Parts<'m> {
    /// Carves the walks. The number of bytes that grows with CPUs is added to `percpu_bytes`.
    pub(crate) fn carve(
        carver: &mut Carver<'m>,
        map: &MemoryMap<'_>,
        zones: &'m [Zone<'m>],
        cpus: u32,
        percpu_bytes: &mut usize,
    ) -> Parts<'m> {
        let (topology, nodes, count) = (map.topology(), map.nodes(), map.zone_count());
        let home = |cpu: usize| topology.home(CpuId(cpu as u32), cpus, nodes);
        let homes: NodeSet = (0..cpus as usize).map(home).collect();
        // The zones of one home and one kind after another.
        let walk_of = |i: usize| {
            let home = homes.nth(i / NR_ZONE_KINDS).unwrap_or_default();
            walk(zones, topology.by_distance(home, nodes), ZoneKind::ALL[i % NR_ZONE_KINDS])
        };
        let mut current = walk_of(0);
        let walks = carver.filled(homes.len() * NR_ZONE_KINDS * count, |i, _| {
            if i % count == 0 {
                current = walk_of(i / count);
            }
            current.next()
        });
        let before = carver.used();
        let near = carver.filled(cpus as usize, |cpu, _| {
            let place = homes.below(home(cpu));
            let first = core::array::from_fn(|kind| *walks.get((place * NR_ZONE_KINDS + kind) * count)?);
            Near { first, home: home(cpu), walks: place as u8 }
        });
        *percpu_bytes += carver.used() - before;
        Parts { walks, near }
    }
}

impl<'m> Zonelists<'m> {
    /// Makes the zonelists of `zones`; the walks begin with `largest` where nothing says otherwise.
    pub(crate) fn new(zones: &'m [Zone<'m>], largest: &'m Zone<'m>, parts: Parts<'m>) -> Zonelists<'m> {
        let near = parts.near;
        let alike = near.iter().all(|cpu| cpu.home == near[0].home);
        let first = if alike {
            near.first().map_or([None; NR_ZONE_KINDS], |cpu| cpu.first)
        } else {
            [None; NR_ZONE_KINDS]
        };
        let spans = || zones.iter().map(|zone| &zone.pageblocks.span);
        let start = spans().map(|span| span.start.0).min().unwrap_or(0);
        let last = spans().map(|span| span.end().0 - 1).max().unwrap_or(0);
        let fits = |shift: &u32| (last >> shift) - (start >> shift) < STRETCHES as u64;
        let stretch = (0..u64::BITS).find(fits).unwrap_or(0);
        let mut directory = [largest; STRETCHES];
        for at in start >> stretch..=last >> stretch {
            let (begin, end) = (at << stretch, (at + 1) << stretch);
            let has = |zone: &&Zone<'_>| {
                let span = &zone.pageblocks.span;
                span.end().0.min(end).saturating_sub(span.start.0.max(begin))
            };
            if let Some(zone) = zones.iter().max_by_key(has).filter(|zone| has(zone) > 0) {
                directory[at as usize % STRETCHES] = zone;
            }
        }
        let several_nodes = spans().any(|span| span.node != zones[0].pageblocks.span.node);
        Zonelists { zones, first, near, walks: parts.walks, directory, stretch, several_nodes }
    }

    /// Returns the zone where an unrestricted request begins.
    #[inline(always)]
    pub(crate) fn first_zone(&self, cpu: CpuId, highest: ZoneKind) -> Option<&'m Zone<'m>> {
        match self.first[highest.index()] {
            None => self.near.get(cpu.index())?.first[highest.index()],
            first => first,
        }
    }

    /// Returns the node of a CPU.
    pub(crate) fn home(&self, cpu: CpuId) -> NodeId {
        self.near.get(cpu.index()).map_or_else(NodeId::default, |near| near.home)
    }

    /// Returns whether there is more than one node, so that it matters where a frame comes from.
    pub(crate) fn several_nodes(&self) -> bool {
        self.several_nodes
    }

    /// Iterates over the zones that a CPU's requests may use up to the highest kind, best first: node by node, the
    /// highest kind first.
    pub(crate) fn walk(&self, cpu: CpuId, highest: ZoneKind) -> impl Iterator<Item = &'m Zone<'m>> + use<'m> {
        let count = self.zones.len();
        // A CPU that the instance does not have walks like the first one, and is refused.
        let home = self.near.get(cpu.index()).map_or(0, |near| usize::from(near.walks));
        let begin = (home * NR_ZONE_KINDS + highest.index()) * count;
        self.walks[begin..begin + count].iter().map_while(|zone| *zone)
    }

    /// Returns the zone that a frame most likely lies in.
    #[inline(always)]
    pub(crate) fn likely_zone(&self, pfn: Pfn) -> &'m Zone<'m> {
        self.directory[(pfn.0 >> self.stretch) as usize % STRETCHES]
    }

    /// Returns the zone that spans a frame, and the frame's number in it.
    ///
    /// # Complexity
    /// One step, or, where zones share a stretch and the frame is not of the one that has most of it, a binary search.
    pub(crate) fn zone_of(&self, pfn: Pfn) -> Option<(&'m Zone<'m>, FrameIdx)> {
        let likely = self.likely_zone(pfn);
        if let Some(frame) = likely.pageblocks.frame_of(pfn) {
            return Some((likely, frame));
        }
        let after = self.zones.partition_point(|zone| zone.pageblocks.span.start <= pfn);
        let zone = self.zones.get(after.checked_sub(1)?)?;
        Some((zone, zone.pageblocks.frame_of(pfn)?))
    }
}

/// Iterates over the zones in the order of a walk over nodes that begins at `highest`.
///
/// # Linux
/// `build_zonelists`. Devices only serve requests that ask for them.
fn walk<'m>(
    zones: &'m [Zone<'m>],
    nodes: impl Iterator<Item = NodeId>,
    highest: ZoneKind,
) -> impl Iterator<Item = &'m Zone<'m>> {
    let allowed = move |kind: &ZoneKind| *kind <= highest && (*kind != ZoneKind::Device || highest == *kind);
    let kinds = move || ZoneKind::ALL.into_iter().rev().filter(allowed);
    nodes.flat_map(move |node| kinds().map(move |kind| (node, kind))).filter_map(move |(node, kind)| {
        let of = |zone: &&Zone<'_>| {
            let span = &zone.pageblocks.span;
            span.node == node && span.kind == kind && span.managed > Frames::ZERO
        };
        zones.iter().find(of)
    })
}

#[cfg(all(test, not(any(pageyard_loom, pageyard_shuttle))))]
mod tests {
    use super::super::config::Config;
    use super::super::pcp::percpu::TryLock;
    use super::super::yard::Pageyard;
    use super::*;
    use pageyard_core::memmap::Region;
    use pageyard_sync::Metadata;

    #[test]
    fn the_directory_names_the_zone_of_a_stretch_that_has_one() {
        // Two zones of 32 stretches each, behind 4 GiB.
        let (start, frames) = (Pfn(1 << 20), Frames(1 << 14));
        let regions = [(0, ZoneKind::Dma32), (1, ZoneKind::Normal)]
            .map(|(nth, kind)| Region::managed(start + Frames(nth << 14), frames, NodeId(0), kind));
        let map = MemoryMap::new(&regions).unwrap();
        let mut memory = [0u8; 1 << 18];
        let yard = Pageyard::new(&map, Config::new(1), TryLock, Metadata::zeroed(&mut memory)).unwrap();
        for frame in 0..1 << 15 {
            let likely = yard.zonelists.likely_zone(start + Frames(frame));
            assert_eq!(likely.pageblocks.span.start, start + Frames(frame >> 14 << 14), "of frame {frame}");
        }
    }
}
