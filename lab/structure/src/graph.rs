//! Circles in a directed graph.

use std::collections::{BTreeMap, BTreeSet};

/// A graph: the successors of each node.
pub(crate) type Graph<N> = BTreeMap<N, BTreeSet<N>>;

/// Returns the sets of nodes, two and more each, that reach each other (Tarjan's strongly connected components).
pub(crate) fn circles<N: Copy + Ord>(graph: &Graph<N>) -> Vec<Vec<N>> {
    let mut search =
        Search { graph, index: BTreeMap::new(), low: BTreeMap::new(), stack: Vec::new(), found: Vec::new() };
    for node in graph.keys() {
        if !search.index.contains_key(node) {
            search.visit(*node);
        }
    }
    search.found
}

struct Search<'g, N> {
    graph: &'g Graph<N>,
    index: BTreeMap<N, usize>,
    low: BTreeMap<N, usize>,
    stack: Vec<N>,
    found: Vec<Vec<N>>,
}

impl<N: Copy + Ord> Search<'_, N> {
    fn visit(&mut self, node: N) {
        let number = self.index.len();
        self.index.insert(node, number);
        let mut low = number;
        self.stack.push(node);
        for next in self.graph.get(&node).into_iter().flatten() {
            match self.index.get(next) {
                None => {
                    self.visit(*next);
                    low = low.min(self.low[next]);
                }
                Some(number) if self.stack.contains(next) => low = low.min(*number),
                Some(_) => {}
            }
        }
        self.low.insert(node, low);
        if low == number {
            let at = self.stack.iter().position(|other| *other == node).unwrap_or(0);
            let mut circle = self.stack.split_off(at);
            if circle.len() > 1 {
                circle.sort();
                self.found.push(circle);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(u32, u32)]) -> Graph<u32> {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry(*from).or_default().insert(*to);
            graph.entry(*to).or_default();
        }
        graph
    }

    #[test]
    fn nodes_that_reach_each_other_are_a_circle() {
        assert!(circles(&graph(&[(1, 2), (2, 3), (1, 3)])).is_empty());
        assert_eq!(
            circles(&graph(&[(1, 2), (2, 3), (3, 1), (3, 4), (4, 5), (5, 4)])),
            [vec![4, 5], vec![1, 2, 3]]
        );
        // Two circles that share a node are one.
        assert_eq!(circles(&graph(&[(1, 2), (2, 1), (2, 3), (3, 2)])), [vec![1, 2, 3]]);
    }
}
