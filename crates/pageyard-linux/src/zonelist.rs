//! Zonelists: in which order a CPU's requests try the zones.

use crate::zone::Zone;
use pageyard::{NodeId, Request, RequestFlags, ZoneKind};

/// For each node, the zones in the order that its CPUs try them: the node's own first, and of each node the highest
/// kind first.
pub struct Zonelists {
    /// Which list a CPU uses.
    of_cpu: Vec<usize>,
    lists: Vec<Vec<usize>>,
}

impl Zonelists {
    /// Builds the lists. CPUs are dealt out to the nodes in equal shares, lowest first.
    ///
    /// # Linux
    /// `build_zonelists`. Other nodes follow in the order of their numbers, nearest number first, as if distance grew
    /// with the difference.
    pub fn new(zones: &[Zone], cpus: u32) -> Zonelists {
        let mut nodes: Vec<NodeId> = zones.iter().map(|z| z.span.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let lists = nodes.iter().map(|home| zonelist(zones, *home)).collect();
        let share = (cpus as usize).div_ceil(nodes.len().max(1)).max(1);
        let of_cpu = (0..cpus as usize).map(|cpu| (cpu / share).min(nodes.len() - 1)).collect();
        Zonelists { of_cpu, lists }
    }

    /// Returns the zone that a CPU's unrestricted requests try first.
    pub fn first(&self, cpu: usize) -> usize {
        self.lists[self.of_cpu[cpu]][0]
    }

    /// Iterates over the zones that may serve a request, best first.
    pub fn walk<'a>(
        &'a self,
        zones: &'a [Zone],
        cpu: usize,
        request: &'a Request,
    ) -> impl Iterator<Item = &'a Zone> + Clone {
        let list = &self.lists[self.of_cpu[cpu]];
        let this_node = request.flags.contains(RequestFlags::THIS_NODE);
        let node =
            list.iter().map(|i| zones[*i].span.node).find(|node| this_node && request.nodes.allows(*node));
        list.iter().map(|i| &zones[*i]).filter(move |z| {
            z.span.kind <= request.highest_zone
                && request.nodes.allows(z.span.node)
                && (!this_node || node == Some(z.span.node))
        })
    }
}

fn zonelist(zones: &[Zone], home: NodeId) -> Vec<usize> {
    let mut list: Vec<usize> = (0..zones.len())
        .filter(|i| zones[*i].span.kind != ZoneKind::Device && zones[*i].span.managed.0 > 0)
        .collect();
    list.sort_by_key(|i| {
        let span = &zones[*i].span;
        (span.node.0.abs_diff(home.0), span.node, std::cmp::Reverse(span.kind))
    });
    list
}
