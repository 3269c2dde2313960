//! The try-lock variant with a count of how often a list was in use.

use pageyard::engine::{CpuLists, DescriptorWatch, ListIdx, Pushed, Unchanged};
use pageyard::{CpuId, PerCpu, TryLock};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Calls that found the list of their CPU in use, and went to the zone.
pub static IN_USE: AtomicU64 = AtomicU64::new(0);

/// [`TryLock`], counted.
pub struct Counting;

fn count(failed: bool, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx) {
    // A list that cannot be locked is in use; one that can, was empty or full.
    let Some(list) = lists.get(cpu, list).filter(|_| failed) else { return };
    if list.try_lock() {
        list.unlock();
    } else {
        IN_USE.fetch_add(1, Relaxed);
    }
}

// SAFETY: as `TryLock`, which does the work; what is locked to be counted is not touched.
unsafe impl PerCpu for Counting {
    const NAME: &'static str = "pageyard-trylock, counted";

    fn pop(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx) -> Option<u32> {
        let item = TryLock.pop(lists, cpu, list);
        count(item.is_none(), lists, cpu, list);
        item
    }

    fn push(
        &self,
        lists: CpuLists<'_>,
        cpu: CpuId,
        list: ListIdx,
        item: u32,
        watch: DescriptorWatch<'_>,
        win: impl FnOnce() -> bool,
    ) -> Pushed {
        let pushed = TryLock.push(lists, cpu, list, item, watch, win);
        count(pushed == Pushed::NoRoom, lists, cpu, list);
        pushed
    }

    fn pop_many(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx, out: &mut [u32]) -> usize {
        TryLock.pop_many(lists, cpu, list, out)
    }

    fn push_many(
        &self,
        lists: CpuLists<'_>,
        cpu: CpuId,
        list: ListIdx,
        items: &[u32],
        watch: Unchanged<'_>,
    ) -> usize {
        TryLock.push_many(lists, cpu, list, items, watch)
    }

    fn refill(
        &self,
        lists: CpuLists<'_>,
        cpu: CpuId,
        list: ListIdx,
        items: &[u32],
        watch: Unchanged<'_>,
    ) -> usize {
        TryLock.refill(lists, cpu, list, items, watch)
    }

    fn spill(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx, out: &mut [u32]) -> usize {
        TryLock.spill(lists, cpu, list, out)
    }

    fn reaches_others(&self) -> bool {
        true
    }
}
