//! Which recorded threads are background reclaimers: they free page cache and do nothing else.

use super::{Machine, Start};
use crate::bitmap::FrameSet;
use crate::by_number::ByNumber;
use crate::memo::Memo;
use pageyard::{Context, Gfp, Order, Pfn};
use pageyard_trace::{Event, EventKind};

/// Frames that a reclaimer frees at a time, and so at least in all. `SWAP_CLUSTER_MAX`.
const LEAST: u64 = 32;

/// The share of what a thread frees, in percent, that must be page cache. Some of it has no row that says so.
const MOSTLY: u64 = 50;

/// A thread's allocations and frees.
#[derive(Clone, Copy, Default)]
struct Thread {
    allocates: bool,
    freed: u64,
    freed_cache: u64,
}

/// The allocations and frees of all threads, and the frames that are page cache.
pub(super) struct Reclaimers {
    threads: ByNumber<Thread>,
    cache: FrameSet,
    others: FrameSet,
    /// Whether an allocation is for page cache, by its gfp word.
    is_cache: Memo<bool>,
}

impl Reclaimers {
    pub fn new(end: Pfn) -> Reclaimers {
        Reclaimers {
            threads: ByNumber::default(),
            cache: FrameSet::new(end),
            others: FrameSet::new(end),
            is_cache: Memo::new(),
        }
    }

    /// Notes what a row's thread did. Its block, of this order, lies within the memory map.
    pub fn event(&mut self, machine: &Machine, event: &Event, order: Order) {
        let (pfn, frames) = (Pfn(event.pfn), order.frames());
        let thread = (event.context == Context::Task).then(|| self.threads.of(event.tid));
        match event.kind {
            EventKind::Alloc => {
                if let Some(thread) = thread {
                    thread.allocates = true;
                }
                let (to, from) =
                    match self.is_cache.of(event.gfp.into(), || is_cache(machine.gfp.decode(event.gfp))) {
                        true => (&mut self.cache, &mut self.others),
                        false => (&mut self.others, &mut self.cache),
                    };
                to.insert(pfn, frames);
                from.remove(pfn, frames);
            }
            EventKind::Free => {
                let Some(thread) = thread else { return };
                let is_cache = self.cache.contains(pfn)
                    || (!self.others.contains(pfn) && machine.at(pfn.0) == Start::HeldCache);
                thread.freed += frames.0;
                thread.freed_cache += if is_cache { frames.0 } else { 0 };
            }
            EventKind::AllocExtfrag | EventKind::PcpuDrain | EventKind::AllocZoneLocked => {}
        }
    }

    /// Returns the threads that free page cache and never allocate.
    pub fn found(&self) -> ByNumber<bool> {
        let is_one = |t: &Thread| !t.allocates && t.freed >= LEAST && t.freed_cache * 100 >= t.freed * MOSTLY;
        let mut found = ByNumber::default();
        for (tid, _) in self.threads.iter().filter(|(_, thread)| is_one(thread)) {
            *found.of(tid) = true;
        }
        found
    }
}

/// Returns whether an allocation is for page cache, by its gfp flags: read ahead (it may fail), written to, or of a
/// block device. The cache of some file systems is not movable.
fn is_cache(gfp: Gfp) -> bool {
    gfp.intersects(Gfp::NORETRY.union(Gfp::WRITE).union(Gfp::NOFAIL)) && !gfp.contains(Gfp::NOMEMALLOC)
}
