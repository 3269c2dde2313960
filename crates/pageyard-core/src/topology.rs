//! Nodes: which of them each CPU belongs to, how far they are from one another, and so in which order a CPU's requests
//! try them.

use crate::units::{CpuId, NodeId};

/// The distance of a node to itself. Firmware gives others 20 where it knows nothing better.
///
/// # Linux
/// `LOCAL_DISTANCE`.
pub const LOCAL_DISTANCE: u8 = 10;

/// Which node each CPU belongs to, and how far nodes are from one another: what firmware says in its tables SRAT and
/// SLIT.
///
/// The default knows neither. CPUs are then dealt out to the nodes that have memory in equal shares, lowest first, and
/// the distance of two nodes grows with the difference of their numbers.
///
/// ```
/// use pageyard_core::{CpuId, NodeId, Topology};
///
/// let cpus = [NodeId(0), NodeId(0), NodeId(1), NodeId(1)];
/// let topology = Topology { cpus: &cpus, distances: &[&[10, 21], &[21, 10]] };
/// assert_eq!(topology.home(CpuId(2), 4, Default::default()), NodeId(1));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Topology<'a> {
    /// The node of each CPU, by the CPU's number. Without an entry a CPU belongs to the last node that is named.
    pub cpus: &'a [NodeId],
    /// The distance from one node to another, by both nodes' numbers. [`LOCAL_DISTANCE`] is the least.
    pub distances: &'a [&'a [u8]],
}

impl Topology<'_> {
    /// Returns the distance from one node to another, where that is known.
    #[must_use]
    pub fn distance(&self, from: NodeId, to: NodeId) -> Option<u8> {
        self.distances.get(usize::from(from.0))?.get(usize::from(to.0)).copied()
    }

    /// Returns the node of a CPU, of `cpus` CPUs and of the nodes that have memory.
    #[must_use]
    pub fn home(&self, cpu: CpuId, cpus: u32, nodes: NodeSet) -> NodeId {
        if let Some(node) = self.cpus.get(cpu.index()).or(self.cpus.last()) {
            return *node;
        }
        let count = nodes.len().max(1);
        let share = (cpus as usize).div_ceil(count).max(1);
        nodes.nth((cpu.index() / share).min(count - 1)).unwrap_or_default()
    }

    /// Returns how many CPUs share what a node's zones spare for per-CPU lists: those of the node, or all where it has
    /// none.
    ///
    /// # Linux
    /// `nr_split_cpus` in `zone_highsize`.
    #[must_use]
    pub fn sharers(&self, node: NodeId, cpus: u32, nodes: NodeSet) -> u64 {
        let own = (0..cpus).filter(|cpu| self.home(CpuId(*cpu), cpus, nodes) == node).count() as u64;
        if own > 0 { own } else { u64::from(cpus.max(1)) }
    }

    /// Iterates over nodes in the order in which requests of CPUs of `home` try them: by distance.
    ///
    /// # Linux
    /// `find_next_best_node`. Of nodes that are equally far, the first is the one whose number follows the home node's,
    /// going round, so that not all nodes fall back to node 0. Linux also prefers nodes without CPUs, which this does
    /// not.
    pub fn by_distance(&self, home: NodeId, nodes: NodeSet) -> impl Iterator<Item = NodeId> + '_ {
        let mut left = nodes;
        core::iter::from_fn(move || {
            let next = left.iter().min_by_key(|other| self.rank(home, *other, nodes))?;
            left.remove(next);
            Some(next)
        })
    }

    /// Returns what nodes are sorted by: distance, then the way round from the home node.
    fn rank(&self, home: NodeId, other: NodeId, nodes: NodeSet) -> (u8, usize) {
        if other == home {
            return (0, 0);
        }
        match self.distance(home, other) {
            Some(distance) => {
                let (from, to, all) = (nodes.below(home), nodes.below(other), nodes.len());
                (distance.max(LOCAL_DISTANCE), (to + all - from) % all)
            }
            None => (other.0.abs_diff(home.0), nodes.below(other)),
        }
    }
}

/// A set of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeSet([u64; 4]);

impl NodeSet {
    /// Adds a node.
    pub fn insert(&mut self, node: NodeId) {
        self.0[usize::from(node.0) / 64] |= 1 << (node.0 % 64);
    }

    /// Takes a node out.
    pub fn remove(&mut self, node: NodeId) {
        self.0[usize::from(node.0) / 64] &= !(1 << (node.0 % 64));
    }

    /// Returns whether a node is in the set.
    #[must_use]
    pub fn contains(&self, node: NodeId) -> bool {
        self.0[usize::from(node.0) / 64] & 1 << (node.0 % 64) != 0
    }

    /// Returns how many nodes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the nodes, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + use<> {
        let mut left = *self;
        core::iter::from_fn(move || {
            let word = left.0.iter().position(|word| *word != 0)?;
            let next = NodeId((word * 64) as u8 + left.0[word].trailing_zeros() as u8);
            left.remove(next);
            Some(next)
        })
    }

    /// Returns the node that `n` others precede.
    #[must_use]
    pub fn nth(&self, n: usize) -> Option<NodeId> {
        self.iter().nth(n)
    }

    /// Returns how many nodes have a lower number.
    #[must_use]
    pub fn below(&self, node: NodeId) -> usize {
        let (word, bit) = (usize::from(node.0) / 64, node.0 % 64);
        let lower: u32 = self.0[..word].iter().map(|word| word.count_ones()).sum();
        (lower + (self.0[word] & ((1 << bit) - 1)).count_ones()) as usize
    }
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> NodeSet {
        let mut set = NodeSet::default();
        nodes.into_iter().for_each(|node| set.insert(node));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(of: &[u8]) -> NodeSet {
        of.iter().map(|n| NodeId(*n)).collect()
    }

    fn order(topology: &Topology<'_>, home: u8, of: &[u8]) -> [Option<u8>; 5] {
        let mut order = topology.by_distance(NodeId(home), nodes(of)).map(|n| n.0);
        core::array::from_fn(|_| order.next())
    }

    #[test]
    fn nodes_are_tried_by_distance_and_then_going_round() {
        let topology = Topology { cpus: &[], distances: &[&[10, 31, 21], &[31, 10, 21], &[21, 21, 10]] };
        assert_eq!(order(&topology, 0, &[0, 1, 2]), [Some(0), Some(2), Some(1), None, None]);
        assert_eq!(order(&topology, 2, &[0, 1, 2]), [Some(2), Some(0), Some(1), None, None]);
        // Without memory of its own, a home begins with what is nearest.
        assert_eq!(order(&topology, 0, &[1, 2]), [Some(2), Some(1), None, None, None]);
        assert_eq!(
            order(&Topology::default(), 1, &[0, 1, 2, 200]),
            [Some(1), Some(0), Some(2), Some(200), None]
        );
    }

    #[test]
    fn a_set_is_empty_until_a_node_is_in_it() {
        assert_eq!((nodes(&[]).is_empty(), nodes(&[]).len()), (true, 0));
        assert_eq!((nodes(&[200, 3, 3]).is_empty(), nodes(&[200, 3, 3]).len()), (false, 2));
    }

    #[test]
    fn cpus_without_a_table_are_dealt_out_in_equal_shares() {
        let home = |cpu, cpus, of: &[u8]| Topology::default().home(CpuId(cpu), cpus, nodes(of)).0;
        assert_eq!([0, 1, 2, 3].map(|cpu| home(cpu, 4, &[3, 7])), [3, 3, 7, 7]);
        assert_eq!([0, 1, 2].map(|cpu| home(cpu, 3, &[0, 1])), [0, 0, 1]);
        assert_eq!(home(0, 1, &[0, 1]), 0);
        let named = Topology { cpus: &[NodeId(5), NodeId(6)], distances: &[] };
        assert_eq!([0, 1, 2].map(|cpu| named.home(CpuId(cpu), 3, nodes(&[0])).0), [5, 6, 6]);
    }
}
