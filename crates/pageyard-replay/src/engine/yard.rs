//! The lock-free engine in a replay.

use crate::engine::{Fallbacks, ReplayEngine};
use pageyard::engine::Internals;
use pageyard::memmap::MAX_ZONES;
use pageyard::{
    CpuId, Cx, Frames, Migratetype, NodeId, Order, OwnedPageyard, PAGEBLOCK_ORDER, PageAllocator,
    PageblockId, Pageyard, PerCpu, Pfn, ZoneId,
};

/// An engine whose zones are told that background reclaim has ended.
trait Background: PageAllocator {
    /// Ends a zone's boost, if there is such a zone.
    fn reclaimed(&self, zone: ZoneId);
}

impl<P: PerCpu> Background for OwnedPageyard<P> {
    fn reclaimed(&self, zone: ZoneId) {
        Pageyard::reclaimed(self, zone);
    }
}

/// Lets the background reclaimer run; generic, so that a test counts what it asks of the engine.
fn kswapd_tick<E: Background>(engine: &E) {
    // Asking for the zones would count their free blocks, a thousand times in a second of the recording.
    (0..MAX_ZONES as u16).map(ZoneId).for_each(|zone| engine.reclaimed(zone));
}

impl<P: PerCpu> ReplayEngine for OwnedPageyard<P> {
    /// A claim of the whole pageblock gives it the type; it is freed in halves, which no per-CPU list takes.
    fn set_pageblock_migratetype(&self, block: PageblockId, m: Migratetype) {
        let (pfn, half) = (block.start(), Order::of(PAGEBLOCK_ORDER.get() - 1));
        if self.claim_exact(&Cx::on(CpuId(0)), pfn, PAGEBLOCK_ORDER, m).is_ok() {
            let freed = self.split(&Cx::on(CpuId(0)), pfn, PAGEBLOCK_ORDER, half).and_then(|()| {
                self.free(&Cx::on(CpuId(0)), pfn, half)?;
                self.free(&Cx::on(CpuId(0)), pfn + half.frames(), half)
            });
            debug_assert!(freed.is_ok(), "a block that was just claimed can be freed");
        }
    }

    /// Freeing on the CPU puts a block into its list, as far as that has room.
    fn restore_cached(&self, _: CpuId, _: Pfn, _: Order, _: Migratetype) -> bool {
        false
    }

    fn restore_pcp_high(&self, _: ZoneId, _: CpuId, _: u64) {}

    fn kswapd_tick(&self, _: &dyn Fn(NodeId) -> bool) {
        kswapd_tick(self);
    }

    fn vmstat_tick(&self) {}

    fn fallbacks(&self) -> Option<Fallbacks> {
        None
    }

    fn pageblock_migratetype(&self, block: PageblockId) -> Option<Migratetype> {
        Pageyard::pageblock_migratetype(self, block)
    }

    fn free_and_cached(&self) -> Option<(Frames, Frames)> {
        Some(Pageyard::free_and_cached(self))
    }

    fn is_biased_here(&self, pfn: Pfn) -> Option<bool> {
        P::BIASES.then(|| Pageyard::is_biased_here(self, pfn))
    }

    fn revocations(&self) -> Option<u64> {
        P::BIASES.then(|| self.bias_stats().revoked)
    }
}

/// An engine that counts what a replay asks of it.
#[cfg(test)]
pub(crate) mod counting {
    use super::*;
    use pageyard::{Config, MemoryMap, Region, TryLock, ZoneKind};
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// The lock-free engine over one zone.
    pub(crate) struct Counting {
        engine: OwnedPageyard<TryLock>,
        /// Calls of the interface that all engines share: each of those that report looks at every pageblock.
        pub(crate) asked: AtomicU64,
        /// Zones that were told that background reclaim has ended.
        pub(crate) told: AtomicU64,
    }

    impl Counting {
        /// Makes an engine over 64 MiB.
        pub(crate) fn new() -> Counting {
            let regions = [Region::managed(Pfn(0), Frames(1 << 14), NodeId(0), ZoneKind::Normal)];
            let map = MemoryMap::new(&regions).unwrap();
            let engine = Pageyard::owned(&map, Config::new(1), TryLock).unwrap();
            Counting { engine, asked: AtomicU64::new(0), told: AtomicU64::new(0) }
        }

        fn counted(&self) -> &OwnedPageyard<TryLock> {
            self.asked.fetch_add(1, Relaxed);
            &self.engine
        }
    }

    // SAFETY: every call is forwarded to one engine.
    pageyard::forward_page_allocator! { unsafe [] Counting, this => (*this.counted()) }

    impl Background for Counting {
        fn reclaimed(&self, zone: ZoneId) {
            self.told.fetch_add(1, Relaxed);
            Background::reclaimed(&self.engine, zone);
        }
    }

    impl ReplayEngine for Counting {
        fn set_pageblock_migratetype(&self, block: PageblockId, m: Migratetype) {
            self.counted().set_pageblock_migratetype(block, m);
        }

        fn restore_cached(&self, cpu: CpuId, pfn: Pfn, order: Order, m: Migratetype) -> bool {
            self.counted().restore_cached(cpu, pfn, order, m)
        }

        fn restore_pcp_high(&self, zone: ZoneId, cpu: CpuId, high: u64) {
            self.counted().restore_pcp_high(zone, cpu, high);
        }

        fn kswapd_tick(&self, _: &dyn Fn(NodeId) -> bool) {
            kswapd_tick(self);
        }

        fn vmstat_tick(&self) {
            self.engine.vmstat_tick();
        }

        fn fallbacks(&self) -> Option<Fallbacks> {
            self.counted().fallbacks()
        }
    }
}
