//! Nodes: cpusets, interleaved requests, and the counters of where frames came from. Layer:
//! top.

use crate::allocator::LinuxAllocator;
use crate::config::ZonelistIterator;
use crate::cpusets::Cpusets;
use crate::events::Counts;
use crate::slowpath::Counted;
use pageyard_core::reclaim::NoHelp;
use pageyard_core::{AllocError, BadRequest, Cx, NodeId, NodeMask, Pfn, Request};
use std::sync::atomic::Ordering;

/// Where a node's frames went, and where requests meant for it went.
///
/// # Linux
/// `/sys/devices/system/node/node*/numastat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumaStats {
    /// Served here, as preferred.
    pub numa_hit: u64,
    /// Served here although another node was preferred.
    pub numa_miss: u64,
    /// Preferred here and served elsewhere.
    pub numa_foreign: u64,
    /// Served here to a CPU of this node.
    pub numa_local: u64,
    /// Served here to a CPU of another node.
    pub numa_other: u64,
    /// Served here because its turn had come.
    pub numa_interleave: u64,
}

impl LinuxAllocator {
    /// The cpusets: to which nodes the requests of a task keep. A request that fails while they change is tried again.
    #[must_use]
    pub fn cpusets(&self) -> &Cpusets {
        &self.zonelists.cpusets
    }

    /// Chooses the form of the zonelist walk from now on, so that both can be compared on the same memory.
    pub fn set_zonelist_iterator(&self, iterator: ZonelistIterator) {
        self.zonelists.choose(iterator);
    }

    /// Returns how many requests were tried again because cpusets changed meanwhile.
    #[must_use]
    pub fn retries(&self) -> u64 {
        // ORDER: Relaxed: a counter, which orders nothing.
        self.counts.retries.load(Ordering::Relaxed)
    }

    /// Returns a node's counters, all zones together.
    #[must_use]
    pub fn numa_stats(&self, node: NodeId) -> NumaStats {
        let mut sum = NumaStats::default();
        for zone in self.zones.iter().filter(|z| z.span.node == node) {
            let locked = zone.lock().inner.counts.taken;
            let listed = zone.pcps.iter().map(|p| p.lock().counts.taken);
            for c in std::iter::once(locked).chain(listed) {
                sum.numa_hit += c.numa_hit;
                sum.numa_miss += c.numa_miss;
                sum.numa_local += c.numa_local;
                sum.numa_other += c.numa_other;
            }
            // ORDER: Relaxed: counters, which order nothing.
            sum.numa_foreign += zone.foreign.load(Ordering::Relaxed);
            sum.numa_interleave += zone.interleaved.load(Ordering::Relaxed);
        }
        sum
    }

    /// Allocates from the allowed node whose turn it is, or else from another.
    ///
    /// # Errors
    /// As [`pageyard_core::PageAllocator::alloc`].
    ///
    /// # Linux
    /// `alloc_page_interleave`. The turn is the instance's, not the task's.
    pub fn alloc_interleaved(&self, cx: &Cx, request: &Request) -> Result<Pfn, AllocError> {
        let nodes = self.zonelists.nodes();
        let allowed = self.cpusets().mems(cx.cpuset);
        let may = |n: &NodeId| allowed.allows(*n) && request.nodes.allows(*n);
        // ORDER: Relaxed: two requests that draw the same number lose a turn, nothing else.
        let turn = self.counts.turn.fetch_add(1, Ordering::Relaxed) as usize;
        let of_turn: Vec<NodeId> = nodes.iter().copied().filter(may).collect();
        let Some(node) = of_turn.get(turn % of_turn.len().max(1)) else {
            return Err(BadRequest::NoZone.into());
        };
        let mut counted = Counted::default();
        let of_turn = Request { nodes: NodeMask::only(*node), ..*request };
        match self.serve(cx, &of_turn, None::<&NoHelp>, &mut counted) {
            Ok(pfn) => {
                if let Some(zone) = self.zone_of(pfn) {
                    Counts::add(&zone.interleaved);
                }
                Ok(pfn)
            }
            Err(_) => self
                .serve(cx, request, None::<&NoHelp>, &mut counted)
                .map_err(|failure| self.refused(failure).why),
        }
    }
}
