//! Dirty limits: frames that will be written to are taken from nodes that do not hold too many such frames yet. Layer:
//! the allocator.

use crate::allocator::LinuxAllocator;
use crate::effort::Mark;
use crate::zone::Zone;
use pageyard_core::memmap::MAX_NODES;
use pageyard_core::{Frames, NodeId, NodeMask};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A node's file pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FilePages {
    /// Frames with contents of files, on reclaim's lists.
    pub resident: Frames,
    /// Those of them that are dirty or being written back.
    pub dirty: Frames,
}

/// Each node's file pages, as callers reported them.
pub struct Dirty {
    /// Whether anything was said.
    told: AtomicBool,
    nodes: Box<[(AtomicU64, AtomicU64)]>,
}

impl Default for Dirty {
    fn default() -> Self {
        Dirty { told: AtomicBool::new(false), nodes: (0..MAX_NODES).map(|_| Default::default()).collect() }
    }
}

impl LinuxAllocator {
    /// Says what a node holds of files: the caller keeps files, the allocator does not know of them. A node that does
    /// not exist is left out.
    pub fn set_file_pages(&self, node: NodeId, pages: FilePages) {
        let Some((resident, dirty)) = self.dirty.nodes.get(usize::from(node.0)) else { return };
        // ORDER: Relaxed, all of it: figures that are out of date when they are read, as Linux's are.
        resident.store(pages.resident.0, Ordering::Relaxed);
        dirty.store(pages.dirty.0, Ordering::Relaxed);
        self.dirty.told.store(true, Ordering::Relaxed);
    }

    /// Takes the nodes away that hold too much that is dirty.
    ///
    /// # Linux
    /// `spread_dirty_pages` and `node_dirty_ok`, with `vm.dirty_ratio`. Left out: `vm.dirty_bytes`, and the quarter
    /// more for real-time tasks. Until 4.7 the limit is a zone's.
    #[cold]
    pub(crate) fn not_too_dirty(&self, nodes: Option<NodeMask>) -> Option<NodeMask> {
        // ORDER: Relaxed: see `set_file_pages`.
        if !self.dirty.told.load(Ordering::Relaxed) {
            return nodes;
        }
        let all = nodes.unwrap_or(NodeMask::ALL);
        let full = self.zonelists.nodes().iter().filter(|n| self.is_too_dirty(**n));
        let full = full.fold(0, |mask, n| mask | NodeMask::only(*n).0);
        if full == 0 { nodes } else { Some(NodeMask(all.0 & !full)) }
    }

    fn is_too_dirty(&self, node: NodeId) -> bool {
        let Some((resident, dirty)) = self.dirty.nodes.get(usize::from(node.0)) else { return false };
        let zones = || self.zones.iter().filter(|z| z.span.node == node);
        let free: u64 = zones().map(|z| z.free.get()).sum();
        let kept: u64 = zones().map(reserve).sum();
        // ORDER: Relaxed: see `set_file_pages`.
        let dirtyable = free.saturating_sub(kept) + resident.load(Ordering::Relaxed);
        dirty.load(Ordering::Relaxed) > dirtyable * self.config.dirty_ratio / 100
    }
}

/// Returns what a zone keeps from those who could use it all.
///
/// # Linux
/// `calculate_totalreserve_pages`.
fn reserve(zone: &Zone) -> u64 {
    let most = zone.protection.get().into_iter().max().unwrap_or_default();
    (most.0 + zone.marks.of(Mark::High)).min(zone.span.managed.0)
}
