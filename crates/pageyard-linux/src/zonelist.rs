//! Zonelists: in which order a CPU's requests try the zones, and the step from one zone to the next, called or inlined.
//! Layer: the allocator. It knows zones by index and span.

use crate::config::{Config, ZonelistIterator};
use crate::cpusets::{Bounds, Cpusets};
use crate::effort::Reach;
use pageyard_core::{CpuId, Cx, MemoryMap, NodeId, NodeMask, NodeSet, Request, RequestFlags, ZoneKind};
use std::sync::atomic::{AtomicBool, Ordering};

/// An entry of a zonelist: a zone, and what a walk asks of it.
#[derive(Clone, Copy, Debug)]
pub struct Zoneref {
    /// The zone's place in the allocator.
    pub zone: usize,
    kind: ZoneKind,
    node: NodeId,
}

/// For each node, the zones in the order that its CPUs try them: the node's own first, then those of other nodes by
/// distance, and of each node the highest kind first.
pub struct Zonelists {
    /// The node of each CPU, and the place of its list.
    of_cpu: Vec<(NodeId, usize)>,
    /// The nodes that have memory.
    nodes: Vec<NodeId>,
    /// By node of a CPU: every zone.
    all: Vec<Vec<Zoneref>>,
    /// Each node's zones without any other's: for requests that keep to one node.
    own: Vec<Vec<Zoneref>>,
    pub cpusets: Cpusets,
    inlined: AtomicBool,
}

impl Zonelists {
    /// Builds the lists.
    ///
    /// # Linux
    /// `build_zonelists`; [`Topology::by_distance`](pageyard_core::Topology::by_distance) says in which order nodes
    /// come.
    pub fn new(map: &MemoryMap<'_>, config: &Config) -> Zonelists {
        let (topology, set) = (map.topology(), map.nodes());
        let nodes: Vec<NodeId> = set.iter().collect();
        let of = |wanted: NodeId| {
            let mut list: Vec<Zoneref> = map
                .zones()
                .filter(|(_, z)| z.node == wanted && z.kind != ZoneKind::Device && z.managed.0 > 0)
                .map(|(zone, z)| Zoneref { zone: zone.index(), kind: z.kind, node: wanted })
                .collect();
            list.sort_by_key(|z| std::cmp::Reverse(z.kind));
            list
        };
        let own: Vec<Vec<Zoneref>> = nodes.iter().map(|n| of(*n)).collect();
        let home = |cpu| topology.home(CpuId(cpu), config.cpus, set);
        let homes: NodeSet = (0..config.cpus).map(home).collect();
        let from = |home| topology.by_distance(home, set).flat_map(|n| own[set.below(n)].iter().copied());
        let all = homes.iter().map(|home| from(home).collect()).collect();
        let of_cpu = (0..config.cpus).map(|cpu| (home(cpu), homes.below(home(cpu)))).collect();
        Zonelists { of_cpu, nodes, all, own, cpusets: Cpusets::default(), inlined: AtomicBool::new(false) }
            .with(config.zonelist_iterator)
    }

    fn with(self, iterator: ZonelistIterator) -> Zonelists {
        self.choose(iterator);
        self
    }

    /// Chooses the form of the walk.
    pub fn choose(&self, iterator: ZonelistIterator) {
        // ORDER: Relaxed: both forms walk the same lists, so it does not matter which one a request sees.
        self.inlined.store(iterator == ZonelistIterator::Inlined, Ordering::Relaxed);
    }

    /// Returns whether walks are inlined.
    #[inline]
    pub fn inlined(&self) -> bool {
        // ORDER: Relaxed: see `choose`.
        self.inlined.load(Ordering::Relaxed)
    }

    /// Returns the node that a CPU belongs to.
    pub fn home(&self, cpu: usize) -> NodeId {
        self.of_cpu[cpu].0
    }

    /// Returns the nodes that have memory.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Returns the list that a request walks, and the nodes that bound it.
    #[inline]
    pub fn for_request(&self, cx: &Cx, request: &Request, reach: Reach) -> (&[Zoneref], Bounds) {
        let (_, home) = self.of_cpu[cx.cpu.index()];
        let list = &self.all[home];
        let bounds = self.cpusets.bounds(cx, request, reach);
        if request.flags.contains(RequestFlags::THIS_NODE) {
            return (self.one_node(list, request.nodes), bounds);
        }
        (list, bounds)
    }

    /// Returns the zones of the first node of a list that a request asks for.
    #[cold]
    fn one_node(&self, list: &[Zoneref], nodes: NodeMask) -> &[Zoneref] {
        let first = list.iter().find(|z| nodes.allows(z.node));
        let place = first.and_then(|z| self.nodes.iter().position(|n| *n == z.node));
        place.map_or(&[], |p| &self.own[p])
    }

    /// Iterates over the places of the zones that an attempt may use, best first.
    pub fn walk(&self, cx: &Cx, request: &Request, reach: Reach) -> impl Iterator<Item = usize> + Clone + '_ {
        let (list, bounds) = self.for_request(cx, request, reach);
        let highest = request.highest_zone;
        list.iter().filter(move |z| z.fits(highest, bounds.allowed)).map(|z| z.zone)
    }
}

impl Zoneref {
    #[inline]
    fn fits(&self, highest: ZoneKind, nodes: Option<NodeMask>) -> bool {
        self.kind <= highest && nodes.is_none_or(|n| n.allows(self.node))
    }
}

/// The step of a walk: the next entry, from a place on, that a request may use.
pub trait Step {
    /// Whether requests without a mask use a mask that allows all nodes.
    const MASKS_ALL: bool;

    /// Finds the next entry.
    fn next(list: &[Zoneref], from: usize, highest: ZoneKind, nodes: Option<NodeMask>) -> Option<usize>;
}

/// Every step is a call, and even an unrestricted request has a mask.
///
/// # Linux
/// `next_zones_zonelist`, with `cpuset_current_mems_allowed` for the preferred zone.
pub struct Called;

impl Step for Called {
    const MASKS_ALL: bool = true;

    #[inline(always)]
    fn next(list: &[Zoneref], from: usize, highest: ZoneKind, nodes: Option<NodeMask>) -> Option<usize> {
        search(list, from, highest, nodes)
    }
}

/// Without a mask, an entry that fits is found on the spot; everything else is a call.
///
/// # Linux
/// `next_zones_zonelist`, inline, over `__next_zones_zonelist`.
pub struct Inlined;

impl Step for Inlined {
    const MASKS_ALL: bool = false;

    #[inline(always)]
    fn next(list: &[Zoneref], from: usize, highest: ZoneKind, nodes: Option<NodeMask>) -> Option<usize> {
        match list.get(from) {
            Some(z) if nodes.is_none() && z.kind <= highest => Some(from),
            _ => search(list, from, highest, nodes),
        }
    }
}

#[inline(never)]
fn search(list: &[Zoneref], from: usize, highest: ZoneKind, nodes: Option<NodeMask>) -> Option<usize> {
    let rest = list.get(from..)?;
    rest.iter().position(|z| z.fits(highest, nodes)).map(|i| from + i)
}
