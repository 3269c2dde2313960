//! Counts by kind of failure.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::FailureKind;

/// Kinds that are distinguished; if a file invents more, the rest are counted only in the totals.
const MAX_KINDS: usize = 10_000;

/// Counts by kind of failure.
#[derive(Clone, Debug, PartialEq)]
pub struct ByKind<N>(BTreeMap<FailureKind, N>);

impl<N> Default for ByKind<N> {
    fn default() -> Self {
        ByKind(BTreeMap::new())
    }
}

impl<N: Copy + Default + Ord> ByKind<N> {
    /// Returns the counts of a kind, to be raised; `None` for a new kind where there are too many.
    pub fn of(&mut self, kind: FailureKind) -> Option<&mut N> {
        if self.0.len() >= MAX_KINDS && !self.0.contains_key(&kind) {
            return None;
        }
        Some(self.0.entry(kind).or_default())
    }

    /// Returns whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns how many kinds there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Iterates over the kinds.
    pub fn iter(&self) -> impl Iterator<Item = (&FailureKind, &N)> {
        self.0.iter()
    }

    /// Returns the most frequent kinds, at most `most` of them.
    #[must_use]
    pub fn most_frequent(&self, most: usize) -> Vec<(FailureKind, N)> {
        let mut kinds: Vec<_> = self.0.iter().map(|(kind, n)| (*kind, *n)).collect();
        kinds.sort_by_key(|(kind, n)| (Reverse(*n), *kind));
        kinds.truncate(most);
        kinds
    }
}
