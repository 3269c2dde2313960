//! The engine in a replay.
#![allow(unsafe_code, reason = "a caller promises that calls of one variant do not overlap")]

use crate::engine::{Fallbacks, ReplayEngine};
use pageyard::memmap::MAX_ZONES;
use pageyard::{
    Config, CpuId, Cx, Exclusive, MapError, MemoryMap, Migratetype, Order, OwnedPageyard, PAGEBLOCK_ORDER,
    PageblockId, Pageyard, PerCpu, Pfn, ZoneId,
};

/// Makes the exclusive variant for a replay on one thread.
///
/// # Errors
/// [`MapError`].
pub(crate) fn exclusive_on_one_thread(
    map: &MemoryMap<'_>,
    config: Config,
) -> Result<OwnedPageyard<Exclusive>, MapError> {
    // SAFETY: its caller is the replay, which makes all calls on one thread unless it was asked for threads, and then refuses
    // this engine.
    Pageyard::owned(map, config, unsafe { Exclusive::by_instance() })
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

    fn kswapd_tick(&self) {
        // Asking for the zones would count their free blocks, a thousand times in a second of the recording.
        (0..MAX_ZONES as u16).map(ZoneId).for_each(|zone| self.reclaimed(zone));
    }

    fn vmstat_tick(&self) {}

    fn fallbacks(&self) -> Option<Fallbacks> {
        None
    }
}
