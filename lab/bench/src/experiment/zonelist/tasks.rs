//! The reference as tasks use it: with cpusets or without, far from the watermarks or below one of them.

use crate::error::BenchError;
use crate::experiment::machines::single;
use crate::harness::allocator::Allocator;
use pageyard::{CpuId, CpusetId, Cx, Frames, NodeMask, Order, PageAllocator, Pfn, ZoneId};
use pageyard_linux::{LinuxAllocator, Wall};

/// The root, which every task is in that no other cpuset has.
const ROOT: CpusetId = CpusetId(0);

/// In which cpuset the tasks are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Confinement {
    /// There are no cpusets.
    None,
    /// One that allows every node: nothing is out of reach, but each request has a mask.
    All,
    /// One without the last node.
    Some,
    /// One that another thread changes all the time, between these two.
    Changing,
}

impl Confinement {
    pub const ALL: [Confinement; 4] =
        [Confinement::None, Confinement::All, Confinement::Some, Confinement::Changing];

    /// Returns the name that the rows use.
    pub fn name(self) -> &'static str {
        match self {
            Confinement::None => "no cpuset",
            Confinement::All => "cpuset of all nodes",
            Confinement::Some => "cpuset of some nodes",
            Confinement::Changing => "cpuset changed during walks",
        }
    }
}

/// Every one of so many nodes.
pub(super) fn every(nodes: u8) -> NodeMask {
    NodeMask((1 << nodes) - 1)
}

/// All but the last. Node 0 stays, so that the same frames are taken under each mask.
pub(super) fn all_but_one(nodes: u8) -> NodeMask {
    NodeMask((every(nodes).0 >> 1).max(1))
}

/// A reference whose tasks are all in one cpuset.
pub(super) struct Confined {
    pub reference: LinuxAllocator,
    pub cpuset: CpusetId,
}

impl Confined {
    /// Puts the tasks of a machine with so many nodes into a cpuset.
    pub fn new(reference: LinuxAllocator, nodes: u8, how: Confinement) -> Result<Confined, BenchError> {
        let of = |mems| reference.cpusets().create(ROOT, mems, Wall::Open);
        let cpuset = match how {
            Confinement::None => Ok(ROOT),
            Confinement::All => of(every(nodes)),
            Confinement::Some | Confinement::Changing => of(all_but_one(nodes)),
        };
        let cpuset = cpuset.map_err(|why| BenchError::Experiment { why: why.to_string() })?;
        Ok(Confined { reference, cpuset })
    }

    #[inline(always)]
    pub fn cx(&self, cpu: usize) -> Cx {
        Cx { cpuset: self.cpuset, ..Cx::on(CpuId(cpu as u32)) }
    }

    /// Takes so much that every zone is below its low watermark, and the first of node 0 still above its min: from
    /// there on a request is served on the slow path.
    pub fn fill(&self) {
        let cx = self.cx(0);
        let mut held: Vec<Pfn> = Vec::new();
        while let Ok(pfn) = self.reference.alloc(&cx, &single()) {
            held.push(pfn);
        }
        let first = held.first().copied();
        let zone = (0..)
            .map_while(|z| self.reference.zone_stats(ZoneId(z)))
            .find(|z| first.is_some_and(|p| z.span.spans(p)));
        let Some(zone) = zone else { return };
        let room = Frames((zone.watermarks.low - zone.watermarks.min).0 / 2);
        for pfn in held.into_iter().filter(|p| zone.span.spans(*p)).take(room.0 as usize) {
            let _ = self.reference.free(&cx, pfn, Order::ZERO);
        }
        self.reference.drain(pageyard::CpuSet::All);
    }
}

impl Allocator for Confined {
    #[inline(always)]
    fn take(&self, cpu: usize) -> Option<Pfn> {
        self.reference.alloc(&self.cx(cpu), &single()).ok()
    }

    #[inline(always)]
    fn give(&self, cpu: usize, block: Pfn) {
        // A refused free would show as a missing block in the audit.
        let _ = self.reference.free(&self.cx(cpu), block, Order::ZERO);
    }

    fn engine(&self) -> Option<&dyn PageAllocator> {
        Some(&self.reference)
    }
}
